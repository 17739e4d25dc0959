//! The SQL functions about the file of a database.

use std::ffi::{CString, c_int};

use litepack_columns::sql::{Error, Result, Value};
use litepack_engine::FileKind;
use litepack_store::HEADER_LEN;

use crate::c::codes::{ERROR, NOTADB, NOTFOUND, OK, fcntl};
use crate::sql::call::Call;

pub(crate) fn version(call: &Call<'_>) -> Result<()> {
    call.answer(Value::Text(super::VERSION.as_bytes()));
    Ok(())
}

pub(crate) fn info(call: &Call<'_>) -> Result<()> {
    report(call, fcntl::LITEPACK_INFO)
}

pub(crate) fn check(call: &Call<'_>) -> Result<()> {
    report(call, fcntl::LITEPACK_CHECK)
}

/// The schema that an argument names: any value by its text, as in SQLite's own functions, and NULL is `main`.
pub(crate) fn schema_name(value: Value<'_>) -> String {
    match value {
        Value::Null => "main".into(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => format!("{number:?}"),
        Value::Text(bytes) | Value::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// Answers with what the file of a database says; NULL if it is none of ours.
fn report(call: &Call<'_>, op: c_int) -> Result<()> {
    let schema = schema_name(call.argument(0));
    let unknown = || Error::new(format!("unknown database {schema}"));
    let name = CString::new(schema.as_str()).map_err(|_| unknown())?;
    match call.ask_file(&name, op) {
        (OK, Some(text)) => {
            call.answer(Value::Text(text.as_bytes()));
            Ok(())
        }
        // Answers of ours have a text.
        (OK, None) => Err(Error::no_memory()),
        (NOTFOUND, _) => match opened_without_us(call, &name) {
            Some(why) => Err(Error {
                code: NOTADB,
                message: why.into(),
            }),
            None => {
                call.answer(Value::Null);
                Ok(())
            }
        },
        // SQLite's answer when there is no database of that name.
        (ERROR, _) => Err(unknown()),
        (code, text) => {
            let text = text.filter(|text| !text.is_empty());
            Err(Error {
                code,
                message: text.unwrap_or_else(|| format!("cannot read database {schema}")),
            })
        }
    }
}

/// The words for a file of ours that was opened without Litepack; `None` for any other. It is read without a lock, so
/// only facts that hold at all times are told.
fn opened_without_us(call: &Call<'_>, schema: &std::ffi::CStr) -> Option<&'static str> {
    let (head, len) = call.file_head::<HEADER_LEN>(schema)?;
    match FileKind::of(&head, len) {
        FileKind::Packed => {
            Some("this is a packed file, opened without Litepack: open it with vfs=litepack")
        }
        FileKind::Zstd => {
            Some("this may be an archive, opened without Litepack: open it with vfs=litepack")
        }
        FileKind::Empty | FileKind::Plain | FileKind::Other => None,
    }
}

/// Sets what the default VFS makes of new databases, and answers with it.
pub(crate) fn new_databases(call: &Call<'_>) -> Result<()> {
    let library = call.library();
    match call.argument(0) {
        Value::Text(b"packed") | Value::Blob(b"packed") => library.pack_new(true),
        Value::Text(b"plain") | Value::Blob(b"plain") => library.pack_new(false),
        Value::Null if call.count() == 0 => {}
        _ => {
            let text = "litepack_new_databases takes 'packed' or 'plain'";
            return Err(Error::new(text));
        }
    }
    let kind = if library.new_are_packed() {
        "packed"
    } else {
        "plain"
    };
    call.answer(Value::Text(kind.as_bytes()));
    Ok(())
}
