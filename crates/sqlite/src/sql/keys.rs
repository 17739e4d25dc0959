//! Keys in SQL: the pragmas that SQLCipher, SQLite3 Multiple Ciphers and SQLite's own extension for encryption have, and
//! `litepack_attach`.

use std::borrow::Cow;
use std::sync::Arc;

use litepack_cipher::Key;
use litepack_columns::sql::{Error, Result, Sql, Value};

use crate::c::codes::{CANTOPEN, Code, ERROR, NOTADB, OK};
use crate::failure::Failure;
use crate::files::Database;
use crate::offered_key::with_key;
use crate::sql::call::Call;

/// What a pragma asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Key(Written),
    Rekey(Written),
    Cipher,
    CipherVersion,
}

/// How a key is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    AsText,
    AsDigits,
}

impl Asked {
    fn named(name: &str) -> Option<Asked> {
        let names = [
            ("key", Asked::Key(Written::AsText)),
            ("hexkey", Asked::Key(Written::AsDigits)),
            ("rekey", Asked::Rekey(Written::AsText)),
            ("hexrekey", Asked::Rekey(Written::AsDigits)),
            ("cipher", Asked::Cipher),
            ("cipher_version", Asked::CipherVersion),
        ];
        let found = |(known, _): &(&str, Asked)| name.eq_ignore_ascii_case(known);
        names.into_iter().find(found).map(|(_, asked)| asked)
    }
}

/// How the only cipher is called.
const CIPHER: &str = "aes256gcm";

/// Answers a pragma about keys; `None` if it is none of them, or has no answer, as in a SQLite that cannot encrypt. The
/// value is never shown.
pub(super) fn pragma(
    database: &mut dyn Database,
    name: &str,
    value: Option<&[u8]>,
    log: &dyn Fn(&Failure),
) -> Option<(Code, String)> {
    let done = match (Asked::named(name)?, value) {
        (Asked::Cipher, None) if database.is_encrypted() => return Some((OK, CIPHER.into())),
        (Asked::CipherVersion, None) if database.is_encrypted() => {
            return Some((OK, format!("litepack {}", super::VERSION)));
        }
        (Asked::Cipher, Some(value)) if !value.eq_ignore_ascii_case(CIPHER.as_bytes()) => {
            Err(told(format!("the only cipher is {CIPHER}")))
        }
        (Asked::Cipher, Some(_)) if database.is_encrypted() => return Some((OK, CIPHER.into())),
        (Asked::Cipher | Asked::CipherVersion, _) => return None,
        (Asked::Key(_) | Asked::Rekey(_), None) => {
            Err(told(format!("{} takes a value", name.to_ascii_lowercase())))
        }
        (Asked::Key(written), Some(value)) => {
            read_key(written, value).and_then(|key| database.give_key(key))
        }
        (Asked::Rekey(_), Some(b"")) => database.change_key(None),
        (Asked::Rekey(written), Some(value)) => {
            read_key(written, value).and_then(|key| database.change_key(Some(key)))
        }
    };
    Some(match done {
        Ok(()) => (OK, "ok".into()),
        Err(failure) => {
            if !failure.told {
                log(&failure);
            }
            (failure.code, failure.why.into_owned())
        }
    })
}

fn told(why: String) -> Failure {
    Failure::told(ERROR, why)
}

fn read_key(written: Written, value: &[u8]) -> std::result::Result<Arc<Key>, Failure> {
    let key = match written {
        Written::AsText => Key::written(value),
        Written::AsDigits => Key::hexadecimal(value),
    };
    key.map(Arc::new).map_err(|why| told(why.to_string()))
}

/// `litepack_attach(file, schema, key)`.
pub(super) fn attach(call: &Call<'_>) -> Result<()> {
    let text = |at: usize, what: &str| {
        let value = call.argument(at).text().filter(|text| !text.is_empty());
        value.ok_or_else(|| call.error(format_args!("{what} is text")))
    };
    let (file, schema) = (text(0, "the file's name")?, text(1, "a schema")?);
    let key = match call.argument(2) {
        Value::Text(text) => Key::written(text),
        Value::Blob(bytes) => match bytes.try_into() {
            Ok(bytes) => Key::raw(bytes),
            Err(_) => return Err(call.error("a key that is a blob has 32 bytes")),
        },
        _ => return Err(call.error("a key is text, or a blob of 32 bytes")),
    };
    let key = key.map_err(|why| call.error(why))?;
    let uri = uri_of(&file, cfg!(windows));
    let values = [Value::Text(uri.as_bytes()), Value::Text(schema.as_bytes())];
    let (done, is_taken) = with_key(Arc::new(key), || call.db().run("attach ?1 as ?2", &values));
    match done {
        Ok(_) if is_taken => {
            call.answer(Value::Text(b"ok"));
            Ok(())
        }
        Ok(_) => {
            let sql = format!("detach {}", litepack_btree::quote(&schema));
            call.db().run(&sql, &[])?;
            Err(call.error("the VFS that the file was opened by does not take keys"))
        }
        // A name with a colon is that of no file: its directory does not exist.
        Err(error) if error.code & 0xff == CANTOPEN && !is_taken => {
            let why = "the file cannot be opened, or this connection does not take URIs: open it with SQLITE_OPEN_URI";
            Err(Error {
                code: error.code,
                ..call.error(why)
            })
        }
        Err(error) if error.code & 0xff == NOTADB && is_taken => Err(Error {
            code: error.code,
            ..call.error("the key is wrong, or the file is not an encrypted database")
        }),
        Err(error) => Err(error),
    }
}

/// The URI of a file that our VFS is to open. There is a slash in it, so that a connection that takes it for a name finds
/// no directory for that, and makes no file.
///
/// On Windows a name may have backslashes and begin with a drive: <https://sqlite.org/uri.html#the_uri_path>.
fn uri_of(file: &str, of_windows: bool) -> String {
    if let Some(rest) = file.strip_prefix("file:") {
        let (path, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let here = if path.contains('/') { "" } else { "./" };
        let names_vfs = parameters
            .split('&')
            .any(|parameter| parameter.starts_with("vfs="));
        let vfs = if names_vfs { "" } else { "&vfs=litepack" };
        return format!("file:{here}{path}?{parameters}{vfs}");
    }
    let file = match of_windows {
        true => Cow::Owned(file.replace('\\', "/")),
        false => Cow::Borrowed(file),
    };
    let here = match (file.get(1..2), file.contains('/')) {
        (Some(":"), _) if of_windows => "/",
        (_, true) => "",
        (_, false) => "./",
    };
    let mut uri = format!("file:{here}");
    for char in file.chars() {
        match char {
            '%' => uri.push_str("%25"),
            '?' => uri.push_str("%3f"),
            '#' => uri.push_str("%23"),
            char => uri.push(char),
        }
    }
    uri.push_str("?vfs=litepack");
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_uris_of_our_vfs() {
        for (file, uri) in [
            ("a.db", "file:./a.db?vfs=litepack"),
            ("/a/b?c#d%.db", "file:/a/b%3fc%23d%25.db?vfs=litepack"),
            ("a/b", "file:a/b?vfs=litepack"),
            ("file:a.db", "file:./a.db?&vfs=litepack"),
            ("file:/a.db?level=7", "file:/a.db?level=7&vfs=litepack"),
            ("file:a.db?vfs=other", "file:./a.db?vfs=other"),
        ] {
            assert_eq!(uri_of(file, false), uri);
        }
        for (file, uri) in [
            ("a.db", "file:./a.db?vfs=litepack"),
            (r"a\b", "file:a/b?vfs=litepack"),
            (r"C:\a b\c.db", "file:/C:/a b/c.db?vfs=litepack"),
            ("C:/c.db", "file:/C:/c.db?vfs=litepack"),
            ("file:/C:/a.db", "file:/C:/a.db?&vfs=litepack"),
        ] {
            assert_eq!(uri_of(file, true), uri);
        }
    }
}
