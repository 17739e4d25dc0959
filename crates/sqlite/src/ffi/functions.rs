//! The SQL functions, registered with every connection.

use std::ffi::{CStr, CString, c_int};
use std::sync::atomic::Ordering;

use litepack_archive::begins_like_zstd;
use litepack_store::{FileKind, HEADER_LEN, kind_of};

use super::api::{Api, api, function};
use super::guard::guard;
use super::types::{sqlite3, sqlite3_context, sqlite3_file, sqlite3_value};
use super::vfs::NEW_ARE_PACKED;
use crate::codes::{Code, ERROR, NOTADB, NOTFOUND, OK, fcntl};

/// Registers all functions with a connection.
///
/// # Safety
/// `db` is an open connection.
pub(crate) unsafe fn register(api: &Api, db: *mut sqlite3) -> Code {
    use function::{DETERMINISTIC, DIRECTONLY, INNOCUOUS, UTF8};
    // SAFETY: as for this function; each function below keeps to the rules.
    unsafe {
        let pure = UTF8 | DETERMINISTIC | INNOCUOUS;
        // Those that read the file or change the process must not run from a schema someone else made.
        let direct = UTF8 | DIRECTONLY;
        let codes = [
            api.create_function(db, c"litepack_version", 0, pure, version),
            api.create_function(db, c"litepack_info", 0, direct, info),
            api.create_function(db, c"litepack_info", 1, direct, info),
            api.create_function(db, c"litepack_check", 0, direct, check),
            api.create_function(db, c"litepack_check", 1, direct, check),
            api.create_function(db, c"litepack_new_databases", 0, direct, new_databases),
            api.create_function(db, c"litepack_new_databases", 1, direct, new_databases),
            super::columns::register(api, db),
        ];
        codes.into_iter().find(|code| *code != OK).unwrap_or(OK)
    }
}

/// The first argument as text.
///
/// # Safety
/// The arguments are those of a running SQL function.
unsafe fn first(count: c_int, values: *mut *mut sqlite3_value) -> Option<String> {
    if count == 0 {
        return None;
    }
    // SAFETY: as for this function.
    unsafe { api().value_text(values.read()) }
}

/// `litepack_version()`: the version of this extension.
unsafe extern "C" fn version(context: *mut sqlite3_context, _: c_int, _: *mut *mut sqlite3_value) {
    // SAFETY: SQLite calls this as a function.
    unsafe { api().result_text(context, crate::VERSION) };
}

/// `litepack_info([schema])`: a JSON report on a packed database; NULL for any other, and an error for a packed one that was opened
/// as a plain one.
unsafe extern "C" fn info(
    context: *mut sqlite3_context,
    count: c_int,
    values: *mut *mut sqlite3_value,
) {
    // SAFETY: SQLite calls this as a function.
    guard(
        || (),
        || unsafe { ask(context, first(count, values), fcntl::LITEPACK_INFO) },
    );
}

/// `litepack_check([schema])`: 'ok', or a line for each piece of damage; NULL if not packed.
unsafe extern "C" fn check(
    context: *mut sqlite3_context,
    count: c_int,
    values: *mut *mut sqlite3_value,
) {
    // SAFETY: SQLite calls this as a function.
    guard(
        || (),
        || unsafe { ask(context, first(count, values), fcntl::LITEPACK_CHECK) },
    );
}

/// # Safety
/// `context` is a running function's.
unsafe fn ask(context: *mut sqlite3_context, schema: Option<String>, op: c_int) -> Code {
    let schema = schema.unwrap_or_else(|| "main".into());
    let Ok(name) = CString::new(schema.as_str()) else {
        return ERROR;
    };
    // SAFETY: as for this function.
    unsafe {
        let db = api().connection_of(context);
        match api().ask_file(db, &name, op) {
            (OK, Some(text)) => api().result_text(context, &text),
            (OK | NOTFOUND, _) => match stranger(db, &name) {
                Some(why) => api().result_error(context, NOTADB, why),
                None => api().result_null(context),
            },
            // SQLite's answer when there is no database of that name.
            (ERROR, _) => {
                api().result_error(context, ERROR, &format!("unknown database {schema}"));
            }
            (code, text) => {
                let text = text.filter(|text| !text.is_empty());
                let text = text.unwrap_or_else(|| format!("cannot read database {schema}"));
                api().result_error(context, code, &text);
            }
        }
    }
    OK
}

/// What to say of a file of ours that was opened without Litepack; `None` for any other.
///
/// # Safety
/// `db` is an open connection.
unsafe fn stranger(db: *mut sqlite3, schema: &CStr) -> Option<&'static str> {
    let mut file: *mut sqlite3_file = std::ptr::null_mut();
    let mut head = [0; HEADER_LEN];
    // SAFETY: the argument is where the file goes, which is open if it has methods; the buffer holds its length. Who reads
    // without a lock may read anything, and only what is right at all times is told.
    let len = unsafe {
        let pointer = (&raw mut file).cast();
        let code = api().file_control_on(db, schema, fcntl::FILE_POINTER, pointer);
        if code != OK || file.is_null() || (*file).methods.is_null() {
            return None;
        }
        let methods = &*(*file).methods;
        let mut len = 0;
        let code = (methods.read)(file, head.as_mut_ptr().cast(), head.len() as c_int, 0);
        if code != OK || (methods.file_size)(file, &raw mut len) != OK {
            return None;
        }
        u64::try_from(len).ok()?
    };
    if kind_of(&head, len) == FileKind::Packed {
        Some("this is a packed file, opened without Litepack: open it with vfs=litepack")
    } else if begins_like_zstd(&head) {
        Some("this may be an archive, opened without Litepack: open it with vfs=litepack")
    } else {
        None
    }
}

/// Why the main database of a connection was only opened to say that it cannot be.
///
/// # Safety
/// `db` is an open connection.
pub(super) unsafe fn refused(api: &Api, db: *mut sqlite3) -> Option<String> {
    // SAFETY: as for this function.
    match unsafe { api.ask_file(db, c"main", fcntl::LITEPACK_REFUSED) } {
        (OK, why) => why,
        _ => None,
    }
}

/// `litepack_new_databases(['packed' | 'plain'])`: what the default VFS makes of new databases in
/// this process, after setting it.
unsafe extern "C" fn new_databases(
    context: *mut sqlite3_context,
    count: c_int,
    values: *mut *mut sqlite3_value,
) {
    // SAFETY: SQLite calls this as a function.
    guard(
        || (),
        || unsafe {
            match first(count, values).as_deref() {
                Some("packed") => NEW_ARE_PACKED.store(true, Ordering::Relaxed),
                Some("plain") => NEW_ARE_PACKED.store(false, Ordering::Relaxed),
                None if count == 0 => {}
                _ => {
                    let text = "litepack_new_databases takes 'packed' or 'plain'";
                    api().result_error(context, ERROR, text);
                    return OK;
                }
            }
            let packed = NEW_ARE_PACKED.load(Ordering::Relaxed);
            api().result_text(context, if packed { "packed" } else { "plain" });
            OK
        },
    );
}
