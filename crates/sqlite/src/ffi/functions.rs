//! The SQL functions, registered with every connection.

use std::ffi::{CStr, CString, c_int, c_void};

use litepack_archive::begins_like_zstd;
use litepack_columns::sql::Sql;
use litepack_store::{FileKind, HEADER_LEN, kind_of};

use super::api::{Api, Body, SqlFn, call};
use super::bindings::{
    SQLITE_DETERMINISTIC, SQLITE_DIRECTONLY, SQLITE_INNOCUOUS, SQLITE_UTF8, sqlite3,
    sqlite3_context, sqlite3_file, sqlite3_value,
};
use super::connection::Connection;
use super::guard::guard;
use super::library::{LIBRARIES, Library, for_each_library};
use crate::codes::{BUSY, Code, ERROR, INTERNAL, NOTADB, NOTFOUND, OK, fcntl};

/// A function of this file: sets the result, given the library it runs in and its arguments.
type Plain = unsafe fn(Library, *mut sqlite3_context, c_int, *mut *mut sqlite3_value);

/// Registers all functions with a connection, if it does not have them.
///
/// # Safety
/// `db` is an open connection of this library.
pub(crate) unsafe fn register(library: Library, db: *mut sqlite3) -> Code {
    // SAFETY: as for this function.
    let code = unsafe { register_all(library, db) };
    // SAFETY: as above.
    let has_them = || unsafe { has_them(library.api(), db) };
    // SQLite replaces no function of a connection that runs a statement, such as `select load_extension(...)`. On
    // all but the first connection of the process they are there already.
    if code == BUSY && has_them() { OK } else { code }
}

/// Whether a connection has all functions, ours or those of another copy of this library.
///
/// # Safety
/// As [`register`].
unsafe fn has_them(api: Api, db: *mut sqlite3) -> bool {
    // SAFETY: as for this function. The last one to be registered is asked for.
    let connection = unsafe { Connection::new(api, db) };
    connection.prepare("select litepack_version()").is_ok()
}

/// # Safety
/// As [`register`].
unsafe fn register_all(library: Library, db: *mut sqlite3) -> Code {
    let pure = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
    // Those that read the file or change the process must not run from a schema someone else made.
    let direct = SQLITE_UTF8 | SQLITE_DIRECTONLY;
    let functions = [
        (c"litepack_info", 0, direct, info as Plain),
        (c"litepack_info", 1, direct, info),
        (c"litepack_check", 0, direct, check),
        (c"litepack_check", 1, direct, check),
        (c"litepack_new_databases", 0, direct, new_databases),
        (c"litepack_new_databases", 1, direct, new_databases),
        // The last: who has it has all of them.
        (c"litepack_version", 0, pure, version),
    ];
    // SAFETY: as for this function.
    let mut code = unsafe { super::columns::register(library, db) };
    for (name, args, flags, function) in functions {
        if code != OK {
            break;
        }
        let body = Body::Scalar(PLAIN[library.0]);
        let data = (function as *mut c_void, None);
        // SAFETY: as for this function; the body expects a function of this file as its data.
        code = unsafe {
            let api = library.api();
            api.create_function(db, name, args, flags, body, data)
        };
    }
    code
}

const fn plain_of<const LIBRARY: usize>() -> SqlFn {
    plain::<LIBRARY>
}

static PLAIN: [SqlFn; LIBRARIES] = for_each_library!(plain_of);

/// What SQLite calls for all functions of this file.
unsafe extern "C" fn plain<const LIBRARY: usize>(
    context: *mut sqlite3_context,
    count: c_int,
    values: *mut *mut sqlite3_value,
) {
    let library = Library(LIBRARY);
    let api = library.api();
    // SAFETY: SQLite calls this as a function.
    let fail = || unsafe {
        api.result_error(context, INTERNAL, "internal error, please report it");
    };
    // SAFETY: as above; the data is a function of this file.
    guard(api, fail, || unsafe {
        let function: Plain = std::mem::transmute(api.user_data(context));
        function(library, context, count, values);
        OK
    });
}

/// The first argument as text.
///
/// # Safety
/// The arguments are those of a running SQL function.
unsafe fn first(api: Api, count: c_int, values: *mut *mut sqlite3_value) -> Option<String> {
    if count == 0 {
        return None;
    }
    // SAFETY: as for this function.
    unsafe { api.value_text(values.read()) }
}

/// `litepack_version()`: the version of this extension.
unsafe fn version(
    library: Library,
    context: *mut sqlite3_context,
    _: c_int,
    _: *mut *mut sqlite3_value,
) {
    // SAFETY: SQLite calls this as a function.
    unsafe { library.api().result_text(context, crate::VERSION) };
}

/// `litepack_info([schema])`: a JSON report on a packed database; NULL for any other, and an error for a packed one that was opened
/// as a plain one.
unsafe fn info(
    library: Library,
    context: *mut sqlite3_context,
    count: c_int,
    values: *mut *mut sqlite3_value,
) {
    let api = library.api();
    // SAFETY: SQLite calls this as a function.
    unsafe {
        ask(
            api,
            context,
            first(api, count, values),
            fcntl::LITEPACK_INFO,
        )
    };
}

/// `litepack_check([schema])`: 'ok', or a line for each piece of damage; NULL if not packed.
unsafe fn check(
    library: Library,
    context: *mut sqlite3_context,
    count: c_int,
    values: *mut *mut sqlite3_value,
) {
    let api = library.api();
    // SAFETY: SQLite calls this as a function.
    unsafe {
        ask(
            api,
            context,
            first(api, count, values),
            fcntl::LITEPACK_CHECK,
        )
    };
}

/// # Safety
/// `context` is a running function's.
unsafe fn ask(api: Api, context: *mut sqlite3_context, schema: Option<String>, op: c_int) {
    let schema = schema.unwrap_or_else(|| "main".into());
    let Ok(name) = CString::new(schema.as_str()) else {
        return;
    };
    // SAFETY: as for this function.
    unsafe {
        let db = api.connection_of(context);
        match api.ask_file(db, &name, op) {
            (OK, Some(text)) => api.result_text(context, &text),
            (OK | NOTFOUND, _) => match stranger(api, db, &name) {
                Some(why) => api.result_error(context, NOTADB, why),
                None => api.result_null(context),
            },
            // SQLite's answer when there is no database of that name.
            (ERROR, _) => {
                api.result_error(context, ERROR, &format!("unknown database {schema}"));
            }
            (code, text) => {
                let text = text.filter(|text| !text.is_empty());
                let text = text.unwrap_or_else(|| format!("cannot read database {schema}"));
                api.result_error(context, code, &text);
            }
        }
    }
}

/// What to say of a file of ours that was opened without Litepack; `None` for any other.
///
/// # Safety
/// `db` is an open connection.
unsafe fn stranger(api: Api, db: *mut sqlite3, schema: &CStr) -> Option<&'static str> {
    let mut file: *mut sqlite3_file = std::ptr::null_mut();
    let mut head = [0; HEADER_LEN];
    // SAFETY: the argument is where the file goes, which is open if it has methods; the buffer holds its length. Who reads
    // without a lock may read anything, and only what is right at all times is told.
    let len = unsafe {
        let pointer = (&raw mut file).cast();
        let code = api.file_control_on(db, schema, fcntl::FILE_POINTER, pointer);
        if code != OK || file.is_null() || (*file).pMethods.is_null() {
            return None;
        }
        let methods = &*(*file).pMethods;
        let mut len = 0;
        let (to, n) = (head.as_mut_ptr().cast(), head.len() as c_int);
        let code = call!(methods, xRead(file, to, n, 0));
        if code != OK || call!(methods, xFileSize(file, &raw mut len)) != OK {
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
pub(super) unsafe fn refused(api: Api, db: *mut sqlite3) -> Option<String> {
    // SAFETY: as for this function.
    match unsafe { api.ask_file(db, c"main", fcntl::LITEPACK_REFUSED) } {
        (OK, why) => why,
        _ => None,
    }
}

/// `litepack_new_databases(['packed' | 'plain'])`: what the default VFS makes of new databases, after setting it.
unsafe fn new_databases(
    library: Library,
    context: *mut sqlite3_context,
    count: c_int,
    values: *mut *mut sqlite3_value,
) {
    let api = library.api();
    // SAFETY: SQLite calls this as a function.
    unsafe {
        match first(api, count, values).as_deref() {
            Some("packed") => library.pack_new(true),
            Some("plain") => library.pack_new(false),
            None if count == 0 => {}
            _ => {
                let text = "litepack_new_databases takes 'packed' or 'plain'";
                api.result_error(context, ERROR, text);
                return;
            }
        }
        let packed = library.new_are_packed();
        api.result_text(context, if packed { "packed" } else { "plain" });
    }
}
