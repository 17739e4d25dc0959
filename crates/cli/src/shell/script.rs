//! The first commands to the shell: load the extension, and open the database.
//!
//! A command of the shell and a statement of SQL are made of names here, which may come from anyone. Each is written so
//! that no byte of it can be anything but a part of the name: percent-encoded in a URI, in octal in a command, in
//! hexadecimal in SQL.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::{Context, Result};
use litepack::Access;

/// With this one, packed files open by their name also in a later `.open`.
const ENTRY_POINT: &str = "sqlite3_litepackdefault_init";

/// So long is waited for others when the database is opened.
const BUSY_MS: u32 = 5000;

/// Fails if the shell could not open the database: it then goes on with one in memory. Reads the schema, so that a
/// file that is none is told at once. Has no rows, so that nothing is printed.
const EXPECT_OPEN: &str = "select 1 from pragma_database_list where name = 'main' \
     and case when file = '' then litepack_info('main: it could not be opened') end;";

/// Commands and statements, in order.
pub struct Script(Vec<String>);

impl Script {
    /// Loads the extension. An error ends the shell, until [`Script::go_on_after_errors`].
    pub fn new(extension: &Path) -> Script {
        let load = format!(".load {} {ENTRY_POINT}", quoted(extension.as_os_str()));
        Script(vec![".bail on".into(), load])
    }

    /// Opens a file; `key` is what to read for its key, and how it is padded, as a parameter of its URI.
    pub fn local(&mut self, file: &Path, mode: &str, key: (Option<&str>, &str)) -> Result<()> {
        let uri = litepack::uri(file).with_context(|| format!("cannot open {}", file.display()))?;
        self.open(&format!("{uri}&mode={mode}{}", key.1), key.0);
        Ok(())
    }

    /// Opens a database on a web server; `key` is what to read for its key. The headers, which may be secret, are read by the shell: the commands can be
    /// seen in a list of processes.
    pub fn remote(&mut self, url: &str, access: &Access, key: Option<&str>) -> Result<()> {
        if let Some(file) = &access.headers_file {
            let text = format!("cast(readfile({}) as text)", sql_text(&absolute(file)?));
            let origin = sql_text(origin(url).as_ref());
            self.call(&format!("litepack_remote_headers({origin}, {text})"));
        }
        if let Some(file) = &access.ca_file {
            let file = sql_text(&absolute(file)?);
            self.call(&format!("litepack_remote_config('ca_file', {file})"));
        }
        self.open(&litepack::remote_uri(url)?, key);
        Ok(())
    }

    /// Calls a function and prints nothing.
    fn call(&mut self, function: &str) {
        let sql = format!("select 1 from (select {function} as done) where done = 'never';");
        self.0.push(sql);
    }

    /// The reasons why it fails are in SQLite's log.
    fn open(&mut self, uri: &str, key: Option<&str>) {
        self.0.extend([
            ".log stderr".into(),
            format!(".open \"{uri}\""),
            ".log off".into(),
            format!(".timeout {BUSY_MS}"),
        ]);
        // Nothing is logged meanwhile: SQLite's log can have statements.
        self.0.extend(key.map(|file| format!(".read {file}")));
        self.0.extend([EXPECT_OPEN.into(), ".timeout 0".into()]);
    }

    /// As the shell does without options.
    pub fn go_on_after_errors(&mut self) {
        self.0.push(".bail off".into());
    }

    /// Reads a file of commands. A name that begins with `|` would be a program to run, so it begins with a directory.
    pub fn read(&mut self, file: &Path) -> Result<()> {
        self.0.push(format!(".read {}", quoted(&absolute(file)?)));
        Ok(())
    }

    /// As arguments of the shell, the database in memory included.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut all = Vec::new();
        for command in &self.0 {
            all.extend(["-cmd".into(), command.into()]);
        }
        all.push(":memory:".into());
        all
    }
}

fn absolute(file: &Path) -> Result<OsString> {
    let path = std::path::absolute(file);
    Ok(path
        .with_context(|| format!("cannot open {}", file.display()))?
        .into())
}

/// Scheme, host and port of a URL.
fn origin(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}")
}

/// An argument of a command of the shell, which reads `\ooo` in double quotes.
fn quoted(text: &OsStr) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._ ".contains(&byte);
    let escaped = text.as_encoded_bytes().iter().map(|&byte| match byte {
        _ if plain(byte) => char::from(byte).to_string(),
        _ => format!("\\{byte:03o}"),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// A text of SQL.
fn sql_text(text: &OsStr) -> String {
    let digits = text.as_encoded_bytes().iter();
    let digits: String = digits.map(|byte| format!("{byte:02x}")).collect();
    format!("cast(x'{digits}' as text)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_names() {
        assert_eq!(
            quoted("/a b/x\".load\n".as_ref()),
            r#""/a b/x\042.load\012""#
        );
        assert_eq!(sql_text("'".as_ref()), "cast(x'27' as text)");
    }

    #[test]
    fn origins() {
        for (url, wanted) in [
            ("https://a.example/x?y", "https://a.example"),
            ("http://u:p@a.example:8080/@x", "http://a.example:8080"),
            ("http://a.example?x=@b", "http://a.example"),
        ] {
            assert_eq!(origin(url), wanted);
        }
    }
}
