//! SQLite's functions, reached through the table that the host hands to every extension.
//!
//! The table (`struct sqlite3_api_routines` in `sqlite3ext.h`) only ever grows at its end, so a position
//! in it is a stable name.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_uint, c_void};

use super::types::{sqlite3, sqlite3_context, sqlite3_value, sqlite3_vfs};
use crate::codes::Code;

/// Oldest SQLite whose table has everything used here.
pub(crate) const VERSION_MIN: c_int = 3_034_000;
/// Oldest SQLite whose table has what a message needs.
const VERSION_OF_MALLOC64: c_int = 3_008_007;

type Destructor = Option<unsafe extern "C" fn(*mut c_void)>;
pub(crate) type SqlFn = unsafe extern "C" fn(*mut sqlite3_context, c_int, *mut *mut sqlite3_value);
pub(crate) type FinalFn = unsafe extern "C" fn(*mut sqlite3_context);
/// An extension's entry point.
pub type EntryPoint = unsafe extern "C" fn(*mut sqlite3, *mut *mut c_char, *const c_void) -> c_int;

/// Positions in the table.
pub(crate) mod slot {
    pub(crate) const AGGREGATE_CONTEXT: usize = 0;
    pub(crate) const BIND_DOUBLE: usize = 3;
    pub(crate) const BIND_INT64: usize = 5;
    pub(crate) const BIND_NULL: usize = 6;
    pub(crate) const COLUMN_BLOB: usize = 19;
    pub(crate) const COLUMN_BYTES: usize = 20;
    pub(crate) const COLUMN_DOUBLE: usize = 27;
    pub(crate) const COLUMN_INT64: usize = 29;
    pub(crate) const COLUMN_TEXT: usize = 36;
    pub(crate) const COLUMN_TYPE: usize = 38;
    pub(crate) const ERRMSG: usize = 53;
    pub(crate) const FINALIZE: usize = 57;
    pub(crate) const FREE: usize = 58;
    pub(crate) const GET_AUTOCOMMIT: usize = 60;
    pub(crate) const GET_AUXDATA: usize = 61;
    pub(crate) const LIBVERSION_NUMBER: usize = 67;
    pub(crate) const RESET: usize = 77;
    pub(crate) const RESULT_DOUBLE: usize = 79;
    pub(crate) const RESULT_ERROR: usize = 80;
    pub(crate) const RESULT_INT64: usize = 83;
    pub(crate) const RESULT_NULL: usize = 84;
    pub(crate) const RESULT_TEXT: usize = 85;
    pub(crate) const RESULT_VALUE: usize = 89;
    pub(crate) const SET_AUXDATA: usize = 92;
    pub(crate) const STEP: usize = 94;
    pub(crate) const TOTAL_CHANGES: usize = 97;
    pub(crate) const USER_DATA: usize = 101;
    pub(crate) const VALUE_BLOB: usize = 102;
    pub(crate) const VALUE_BYTES: usize = 103;
    pub(crate) const VALUE_DOUBLE: usize = 105;
    pub(crate) const VALUE_INT64: usize = 107;
    pub(crate) const VALUE_TEXT: usize = 109;
    pub(crate) const VALUE_TYPE: usize = 113;
    pub(crate) const PREPARE_V2: usize = 116;
    pub(crate) const FILE_CONTROL: usize = 127;
    pub(crate) const VFS_FIND: usize = 141;
    pub(crate) const VFS_REGISTER: usize = 142;
    pub(crate) const RESULT_ERROR_CODE: usize = 146;
    pub(crate) const CONTEXT_DB_HANDLE: usize = 149;
    pub(crate) const LIMIT: usize = 151;
    pub(crate) const COMPILEOPTION_USED: usize = 161;
    pub(crate) const CREATE_FUNCTION_V2: usize = 162;
    pub(crate) const DB_CONFIG: usize = 163;
    pub(crate) const EXTENDED_ERRCODE: usize = 166;
    pub(crate) const LOG: usize = 167;
    pub(crate) const URI_PARAMETER: usize = 189;
    pub(crate) const AUTO_EXTENSION: usize = 192;
    pub(crate) const BIND_BLOB64: usize = 193;
    pub(crate) const BIND_TEXT64: usize = 194;
    pub(crate) const MALLOC64: usize = 197;
    pub(crate) const RESULT_BLOB64: usize = 201;
    pub(crate) const RESULT_TEXT64: usize = 202;
    pub(crate) const URI_KEY: usize = 245;
    pub(crate) const TXN_STATE: usize = 252;
}

/// A SQLite library of the process, by its table. There may be several: whatever is called belongs to one of them, and
/// uses that one's functions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Api {
    pub(super) table: *const *const c_void,
}

// SAFETY: the table is constant data of the SQLite library, which outlives every extension in it.
unsafe impl Send for Api {}
// SAFETY: as above; nothing is ever written through the pointer.
unsafe impl Sync for Api {}

/// Calls the function at a position of the table with a signature.
macro_rules! call {
    ($api:expr, $slot:expr, fn($($arg:ty),* $(,)?) $(-> $ret:ty)?, $($value:expr),*) => {{
        let function = $api.table.add($slot).read();
        let function: unsafe extern "C" fn($($arg),*) $(-> $ret)? = std::mem::transmute(function);
        function($($value),*)
    }};
}

pub(crate) use call;

impl Api {
    /// The library whose table this is.
    ///
    /// # Errors
    /// When that SQLite is too old; the text says so.
    ///
    /// # Safety
    /// `table` is what SQLite handed to an extension's entry point.
    pub(crate) unsafe fn new(table: *const c_void) -> Result<Api, String> {
        if table.is_null() {
            return Err("this SQLite was built without support for extensions".into());
        }
        let api = Api {
            table: table.cast(),
        };
        let version = api.version();
        if version < VERSION_MIN {
            return Err(format!(
                "litepack needs SQLite 3.34 or newer, this is {}.{}",
                version / 1_000_000,
                version / 1000 % 1000
            ));
        }
        Ok(api)
    }

    fn version(self) -> c_int {
        // SAFETY: this position is in the table of every SQLite 3.
        unsafe { call!(self, slot::LIBVERSION_NUMBER, fn() -> c_int,) }
    }

    /// Hands an entry point's message to SQLite, also one that is too old for anything else.
    ///
    /// # Safety
    /// `table` is as for [`Api::new`], and `to` null or where the message goes.
    pub(crate) unsafe fn refuse(table: *const c_void, to: *mut *mut c_char, why: &str) {
        let api = Api {
            table: table.cast(),
        };
        // Without a table there is no memory to be had.
        if !table.is_null() && !to.is_null() && api.version() >= VERSION_OF_MALLOC64 {
            // SAFETY: as for this function.
            unsafe { to.write(api.text(&format!("litepack: {why}"))) };
        }
    }

    /// Writes to SQLite's error log, if the host has one: as several messages what is too long for one.
    pub(crate) fn log(&self, code: Code, message: &str) {
        for part in parts(message, LOG_MAX) {
            let Ok(part) = CString::new(part) else {
                return;
            };
            // SAFETY: the signature is sqlite3_log's; the format takes the one string that is given.
            unsafe {
                let function = self.table.add(slot::LOG).read();
                let log: unsafe extern "C" fn(c_int, *const c_char, ...) =
                    std::mem::transmute(function);
                log(code, c"litepack: %s".as_ptr(), part.as_ptr());
            }
        }
    }

    /// Whether SQLite was compiled with this option. One without such diagnostics does not say.
    pub(crate) fn compiled_with(&self, option: &CStr) -> bool {
        // SAFETY: the position is in the table of every SQLite that is new enough; the signature is
        // sqlite3_compileoption_used's, and a build without it has null there.
        unsafe {
            !self.table.add(slot::COMPILEOPTION_USED).read().is_null()
                && call!(
                    self,
                    slot::COMPILEOPTION_USED,
                    fn(*const c_char) -> c_int,
                    option.as_ptr()
                ) != 0
        }
    }

    /// A copy of `text` in SQLite's memory; null when there is none left.
    pub(crate) fn text(&self, text: &str) -> *mut c_char {
        let len = text.len();
        // SAFETY: the signature is sqlite3_malloc64's, and the block holds the text and a NUL.
        unsafe {
            let block: *mut u8 = call!(self, slot::MALLOC64, fn(u64) -> *mut u8, len as u64 + 1);
            if !block.is_null() {
                block.copy_from_nonoverlapping(text.as_ptr(), len);
                block.add(len).write(0);
            }
            block.cast()
        }
    }

    /// Frees what SQLite allocated.
    ///
    /// # Safety
    /// `block` is null or from SQLite's allocator, and is not used again.
    pub(crate) unsafe fn free(&self, block: *mut c_void) {
        // SAFETY: the signature is sqlite3_free's.
        unsafe { call!(self, slot::FREE, fn(*mut c_void), block) }
    }

    /// The VFS with this name, or the default one.
    pub(crate) fn vfs_find(&self, name: Option<&CStr>) -> *mut sqlite3_vfs {
        let name = name.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: the signature is sqlite3_vfs_find's.
        unsafe {
            call!(
                self,
                slot::VFS_FIND,
                fn(*const c_char) -> *mut sqlite3_vfs,
                name
            )
        }
    }

    /// # Safety
    /// `vfs` stays valid for ever.
    pub(crate) unsafe fn vfs_register(&self, vfs: *mut sqlite3_vfs, default: bool) -> Code {
        // SAFETY: the signature is sqlite3_vfs_register's; the caller vouches for `vfs`.
        unsafe {
            call!(
                self,
                slot::VFS_REGISTER,
                fn(*mut sqlite3_vfs, c_int) -> c_int,
                vfs,
                default.into()
            )
        }
    }

    /// Has `entry` called for every connection opened from now on.
    pub(crate) fn auto_extension(&self, entry: EntryPoint) -> Code {
        // SAFETY: the signature is sqlite3_auto_extension's, which calls it as an entry point.
        unsafe { call!(self, slot::AUTO_EXTENSION, fn(EntryPoint) -> c_int, entry) }
    }

    /// # Safety
    /// `name` is a file name that SQLite passed to `xOpen` for a main database.
    pub(crate) unsafe fn uri_parameter(&self, name: *const c_char, key: &CStr) -> Option<String> {
        type Fn = *const c_char;
        // SAFETY: the signature is sqlite3_uri_parameter's; the caller vouches for `name`.
        let value = unsafe {
            call!(
                self,
                slot::URI_PARAMETER,
                fn(Fn, Fn) -> *const c_char,
                name,
                key.as_ptr()
            )
        };
        (!value.is_null()).then(|| {
            // SAFETY: the result is a string that lives as long as the name.
            let value = unsafe { CStr::from_ptr(value) };
            value.to_string_lossy().into_owned()
        })
    }

    /// The URI parameters of a database, in order.
    ///
    /// # Safety
    /// As [`Api::uri_parameter`].
    pub(crate) unsafe fn uri_parameters(&self, name: *const c_char) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for index in 0.. {
            type Fn = *const c_char;
            // SAFETY: the signature is sqlite3_uri_key's; the caller vouches for `name`.
            let key = unsafe { call!(self, slot::URI_KEY, fn(Fn, c_int) -> Fn, name, index) };
            if key.is_null() {
                break;
            }
            // SAFETY: a key is a string that lives as long as the name.
            let key = unsafe { CStr::from_ptr(key) };
            // SAFETY: as for this function.
            let value = unsafe { self.uri_parameter(name, key) }.unwrap_or_default();
            found.push((key.to_string_lossy().into_owned(), value));
        }
        found
    }

    /// Registers a function with data of its own, which is freed even if this fails.
    ///
    /// # Safety
    /// `db` is an open connection, the body keeps to the rules for SQL functions, and the data is
    /// what body and destructor expect.
    pub(crate) unsafe fn create_function(
        &self,
        db: *mut sqlite3,
        name: &CStr,
        args: c_int,
        flags: c_int,
        body: Body,
        (data, free): (*mut c_void, Destructor),
    ) -> Code {
        let (scalar, step, last) = match body {
            Body::Scalar(function) => (Some(function), None, None),
            Body::Aggregate(step, last) => (None, Some(step), Some(last)),
        };
        // SAFETY: the signature is sqlite3_create_function_v2's.
        unsafe {
            call!(
                self,
                slot::CREATE_FUNCTION_V2,
                fn(
                    *mut sqlite3,
                    *const c_char,
                    c_int,
                    c_int,
                    *mut c_void,
                    Option<SqlFn>,
                    Option<SqlFn>,
                    Option<FinalFn>,
                    Destructor,
                ) -> c_int,
                db,
                name.as_ptr(),
                args,
                flags,
                data,
                scalar,
                step,
                last,
                free
            )
        }
    }

    /// # Safety
    /// `context` is the running function's.
    pub(crate) unsafe fn result_text(&self, context: *mut sqlite3_context, text: &str) {
        type Ctx = *mut sqlite3_context;
        let len = c_int::try_from(text.len()).unwrap_or(c_int::MAX);
        // SAFETY: the signature is sqlite3_result_text's; -1 (SQLITE_TRANSIENT) has SQLite copy.
        unsafe {
            call!(
                self,
                slot::RESULT_TEXT,
                fn(Ctx, *const c_char, c_int, isize),
                context,
                text.as_ptr().cast(),
                len,
                -1
            );
        }
    }

    /// # Safety
    /// `context` is the running function's.
    pub(crate) unsafe fn result_null(&self, context: *mut sqlite3_context) {
        // SAFETY: the signature is sqlite3_result_null's.
        unsafe { call!(self, slot::RESULT_NULL, fn(*mut sqlite3_context), context) }
    }

    /// # Safety
    /// `context` is the running function's.
    pub(crate) unsafe fn result_error(
        &self,
        context: *mut sqlite3_context,
        code: Code,
        text: &str,
    ) {
        type Ctx = *mut sqlite3_context;
        let len = c_int::try_from(text.len()).unwrap_or(c_int::MAX);
        // SAFETY: the signatures are sqlite3_result_error's, which copies, and _error_code's.
        unsafe {
            call!(
                self,
                slot::RESULT_ERROR,
                fn(Ctx, *const c_char, c_int),
                context,
                text.as_ptr().cast(),
                len
            );
            call!(self, slot::RESULT_ERROR_CODE, fn(Ctx, c_int), context, code);
        }
    }

    /// What a running function was registered with.
    ///
    /// # Safety
    /// `context` is the running function's.
    pub(crate) unsafe fn user_data(&self, context: *mut sqlite3_context) -> *mut c_void {
        type Ctx = *mut sqlite3_context;
        // SAFETY: the signature is sqlite3_user_data's.
        unsafe { call!(self, slot::USER_DATA, fn(Ctx) -> *mut c_void, context) }
    }

    /// # Safety
    /// `value` is an argument of the running function.
    pub(crate) unsafe fn value_text(&self, value: *mut sqlite3_value) -> Option<String> {
        // SAFETY: the signature is sqlite3_value_text's.
        let text: *const c_uchar = unsafe {
            call!(
                self,
                slot::VALUE_TEXT,
                fn(*mut sqlite3_value) -> *const c_uchar,
                value
            )
        };
        (!text.is_null()).then(|| {
            // SAFETY: the result is a string that lives for the call.
            let text = unsafe { CStr::from_ptr(text.cast()) };
            text.to_string_lossy().into_owned()
        })
    }

    /// Sends a file control to the database `schema` of the running function's connection.
    ///
    /// # Safety
    /// `context` is the running function's, and `argument` what the operation asks for.
    pub(crate) unsafe fn file_control(
        &self,
        context: *mut sqlite3_context,
        schema: &CStr,
        op: c_int,
        argument: *mut c_void,
    ) -> Code {
        // SAFETY: as for this function.
        unsafe { self.file_control_on(self.connection_of(context), schema, op, argument) }
    }

    /// The connection that a function runs on.
    ///
    /// # Safety
    /// `context` is the running function's.
    pub(crate) unsafe fn connection_of(&self, context: *mut sqlite3_context) -> *mut sqlite3 {
        type Ctx = *mut sqlite3_context;
        // SAFETY: the signature is sqlite3_context_db_handle's.
        unsafe {
            call!(
                self,
                slot::CONTEXT_DB_HANDLE,
                fn(Ctx) -> *mut sqlite3,
                context
            )
        }
    }

    /// Sends a file control to the database `schema` of a connection.
    ///
    /// # Safety
    /// `db` is an open connection, and `argument` what the operation asks for.
    pub(crate) unsafe fn file_control_on(
        &self,
        db: *mut sqlite3,
        schema: &CStr,
        op: c_int,
        argument: *mut c_void,
    ) -> Code {
        // SAFETY: the signature is sqlite3_file_control's.
        unsafe {
            call!(
                self,
                slot::FILE_CONTROL,
                fn(*mut sqlite3, *const c_char, c_int, *mut c_void) -> c_int,
                db,
                schema.as_ptr(),
                op,
                argument
            )
        }
    }

    /// Sends a file control that answers with a string to the database `schema` of a connection.
    ///
    /// # Safety
    /// `db` is an open connection.
    pub(crate) unsafe fn ask_file(
        &self,
        db: *mut sqlite3,
        schema: &CStr,
        op: c_int,
    ) -> (Code, Option<String>) {
        let mut answer: *mut c_char = std::ptr::null_mut();
        // SAFETY: as for this function; the answer, if any, is a string from SQLite's allocator.
        unsafe {
            let code = self.file_control_on(db, schema, op, (&raw mut answer).cast());
            let text =
                (!answer.is_null()).then(|| CStr::from_ptr(answer).to_string_lossy().into_owned());
            self.free(answer.cast());
            (code, text)
        }
    }
}

/// SQLite cuts a message in its log off behind 209 bytes, the format's own included.
const LOG_MAX: usize = 190;

/// A text in parts of at most `max` bytes, broken at spaces where that is possible.
fn parts(text: &str, max: usize) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while rest.len() > max {
        let end = rest.floor_char_boundary(max);
        let at = rest[..end].rfind(' ').filter(|at| *at > 0);
        let (part, behind) = rest.split_at(at.unwrap_or(end));
        parts.push(part);
        rest = behind.trim_start_matches(' ');
    }
    parts.push(rest);
    parts
}

/// What SQLite calls for a SQL function.
pub(crate) enum Body {
    Scalar(SqlFn),
    /// For each row, and at the end, which comes in any case.
    Aggregate(SqlFn, FinalFn),
}

/// Flags of [`Api::create_function`].
pub(crate) mod function {
    use std::ffi::c_int;
    pub(crate) const UTF8: c_int = 1;
    pub(crate) const DETERMINISTIC: c_int = 0x800;
    pub(crate) const DIRECTONLY: c_int = 0x8_0000;
    pub(crate) const INNOCUOUS: c_int = 0x20_0000;
}

/// SQLite passes lengths as `int`; none of those met here is ever negative.
pub(crate) fn len(n: c_int) -> usize {
    c_uint::try_from(n).unwrap_or(0) as usize
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const SLOTS: usize = 300;

    /// A SQLite that only logs, which nobody reads: for files that are called without one.
    pub(in super::super) fn silent() -> Api {
        unsafe extern "C" fn log(_: c_int, _: *const c_char, _: *const c_char) {}
        let mut table = vec![std::ptr::null::<c_void>(); SLOTS];
        table[slot::LOG] = log as *const c_void;
        Api {
            table: table.leak().as_ptr(),
        }
    }

    #[test]
    fn a_sqlite_that_is_too_old_is_told_so_in_its_own_memory() {
        unsafe extern "C" fn version() -> c_int {
            3_008_010
        }
        unsafe extern "C" fn malloc(n: u64) -> *mut u8 {
            vec![0u8; n as usize].leak().as_mut_ptr()
        }
        let mut table = vec![std::ptr::null::<c_void>(); SLOTS];
        table[slot::LIBVERSION_NUMBER] = version as *const c_void;
        table[slot::MALLOC64] = malloc as *const c_void;
        let mut message = std::ptr::null_mut();
        // SAFETY: the table has what SQLite 3.8.10 has of what is used.
        let said = unsafe {
            let to = &raw mut message;
            let code = super::super::init(std::ptr::null_mut(), to, table.as_ptr().cast());
            assert_eq!(code, crate::codes::ERROR);
            CStr::from_ptr(message).to_str().unwrap()
        };
        assert_eq!(
            said,
            "litepack: litepack needs SQLite 3.34 or newer, this is 3.8"
        );
    }

    #[test]
    fn long_messages_are_broken_at_spaces() {
        assert_eq!(parts("", 10), [""]);
        assert_eq!(parts("ten bytes!", 10), ["ten bytes!"]);
        assert_eq!(parts("one two three four", 10), ["one two", "three four"]);
        assert_eq!(
            parts("/a/very/long/path: why", 10),
            ["/a/very/lo", "ng/path:", "why"]
        );
        assert_eq!(parts(" xxxxxxxxxxxx", 5), [" xxxx", "xxxxx", "xxx"]);
        // Not within a character.
        assert_eq!(parts("üüüüüü", 5), ["üü", "üü", "üü"]);
        let text = "damaged: ".repeat(100);
        let whole: String = parts(&text, LOG_MAX).join(" ");
        assert_eq!(whole.trim(), text.trim());
    }
}
