//! SQLite's functions, reached through the table that SQLite hands to every extension.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use litepack_io::printable::harmless;
use litepack_store::{JOURNAL_SUFFIX, WAL_SUFFIX};

use super::bindings::{sqlite3, sqlite3_api_routines, sqlite3_context, sqlite3_value, sqlite3_vfs};
use crate::c::codes::Code;

/// Oldest SQLite whose table has everything used here: that of the bindings.
pub(crate) const VERSION_MIN: c_int = 3_034_000;
/// Oldest SQLite that tells whether a connection was interrupted, and where in its table the function is.
const VERSION_OF_IS_INTERRUPTED: c_int = 3_041_000;
const IS_INTERRUPTED: usize = 266;
/// Oldest SQLite whose table has what a message needs.
const VERSION_OF_MALLOC64: c_int = 3_008_007;

pub(crate) type Destructor = unsafe extern "C" fn(*mut c_void);
pub(crate) type SqlFn = unsafe extern "C" fn(*mut sqlite3_context, c_int, *mut *mut sqlite3_value);
pub(crate) type FinalFn = unsafe extern "C" fn(*mut sqlite3_context);
/// An extension's entry point.
pub type EntryPoint = unsafe extern "C" fn(*mut sqlite3, *mut *mut c_char, *const c_void) -> c_int;

/// A SQLite library of the process, by its table. There may be several: whatever is called belongs to one of them, and
/// uses that one's functions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Api {
    pub(crate) table: *const sqlite3_api_routines,
}

// SAFETY: the table is constant data of the SQLite library, which outlives every extension in it.
unsafe impl Send for Api {}
// SAFETY: nothing is ever written through the pointer, so threads that share it only read.
unsafe impl Sync for Api {}

/// Calls a function by its name in a struct of function pointers: SQLite's table, a VFS, the methods of a file.
macro_rules! call {
    ($table:expr, $function:ident($($value:expr),* $(,)?)) => {
        match $table.$function {
            Some(function) => function($($value),*),
            None => $crate::c::api::missing(stringify!($function)),
        }
    };
}

pub(crate) use call;

/// A build of SQLite that leaves a function out has no pointer to it.
#[cold]
pub(crate) fn missing(function: &str) -> ! {
    panic!("this SQLite, or a VFS in it, lacks {function}")
}

/// `SQLITE_TRANSIENT`: SQLite copies the bytes that it is given.
pub(crate) fn transient() -> Option<Destructor> {
    // SAFETY: any address but null is a function pointer. SQLite compares this one, and never calls it.
    Some(unsafe { std::mem::transmute::<isize, Destructor>(-1) })
}

/// Who has named the files beside a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// This VFS, in SQLite's memory.
    Ours,
    /// It is not known: a VFS above ours may make SQLite's usual names by itself.
    Unknown,
}

/// # Safety
/// `data` is a boxed `T` that is not used again.
pub(crate) unsafe extern "C" fn free<T>(data: *mut c_void) {
    // SAFETY: the caller gives up its only pointer to a box of a `T`.
    let drop_it = || drop(unsafe { Box::from_raw(data.cast::<T>()) });
    // Which library calls is not to be known here, so a panic goes unlogged.
    let _ = catch_unwind(AssertUnwindSafe(drop_it));
}

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

    /// The table. Its last functions are there only if the version says so: [`Api::new`] has seen to that.
    pub(crate) fn table(&self) -> &sqlite3_api_routines {
        // SAFETY: it is the table of a SQLite that is new enough, and constant as long as that is loaded.
        unsafe { &*self.table }
    }

    fn version(self) -> c_int {
        // SAFETY: the function is in the table of every SQLite 3, and takes nothing. The table of an old one is shorter
        // than the struct, so only this field is looked at.
        unsafe { call!((*self.table), libversion_number()) }
    }

    /// Whether the connection was interrupted; `None` from a SQLite that does not tell.
    ///
    /// # Safety
    /// `db` is an open connection.
    pub(crate) unsafe fn is_interrupted(self, db: *mut sqlite3) -> Option<bool> {
        type IsInterrupted = unsafe extern "C" fn(*mut sqlite3) -> c_int;
        if self.version() < VERSION_OF_IS_INTERRUPTED {
            return None;
        }
        // SAFETY: the table of a SQLite of this version is longer than that of the bindings, and has this function at
        // this place. The connection is open, as the caller says.
        unsafe {
            let places = self.table.cast::<Option<IsInterrupted>>();
            places.add(IS_INTERRUPTED).read().map(|ask| ask(db) != 0)
        }
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
            // SAFETY: the caller says that `to` is where the message goes. SQLite frees a text from its own allocator.
            unsafe { to.write(api.text(&format!("litepack: {why}"))) };
        }
    }

    /// Writes to SQLite's error log, if the host has one: as several messages what is too long for one.
    pub(crate) fn log(&self, code: Code, message: &str) {
        // Some hosts print it.
        let message = harmless(message);
        for part in parts(&message, LOG_MAX) {
            let Ok(part) = CString::new(part) else {
                return;
            };
            // SAFETY: the format takes the one string that is given. An old SQLite has the function, too, but its table
            // is shorter than the struct.
            unsafe {
                call!(
                    (*self.table),
                    log(code, c"litepack: %s".as_ptr(), part.as_ptr())
                );
            }
        }
    }

    /// Whether SQLite was compiled with this option. One without such diagnostics does not say.
    pub(crate) fn compiled_with(&self, option: &CStr) -> bool {
        // A build without such diagnostics has no function.
        let asked = self.table().compileoption_used;
        // SAFETY: the option is a string.
        asked.is_some_and(|used| unsafe { used(option.as_ptr()) != 0 })
    }

    /// A copy of `text` in SQLite's memory; null when there is none left.
    pub(crate) fn text(&self, text: &str) -> *mut c_char {
        let len = text.len();
        // SAFETY: the block holds the text and a NUL. SQLite may be as old as `refuse` says, and its table shorter than
        // the struct.
        unsafe {
            let block: *mut u8 = call!((*self.table), malloc64(len as u64 + 1)).cast();
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
        // SAFETY: the caller says that the block is null or SQLite's own, and gives up its pointer.
        unsafe { call!(self.table(), free(block)) }
    }

    /// The VFS with this name, or the default one.
    pub(crate) fn vfs_find(&self, name: Option<&CStr>) -> *mut sqlite3_vfs {
        let name = name.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: the name is a string, or null for the default.
        unsafe { call!(self.table(), vfs_find(name)) }
    }

    /// # Safety
    /// `vfs` stays valid for ever.
    pub(crate) unsafe fn vfs_register(&self, vfs: *mut sqlite3_vfs, default: bool) -> Code {
        // SAFETY: the caller says that the VFS stays valid, which is what SQLite asks of a registered one.
        unsafe { call!(self.table(), vfs_register(vfs, default.into())) }
    }

    /// Has `entry` called for every connection opened from now on.
    pub(crate) fn auto_extension(&self, entry: EntryPoint) -> Code {
        // SAFETY: SQLite's declaration leaves the arguments out, and calls it with those of an entry point.
        unsafe {
            let entry = std::mem::transmute::<EntryPoint, unsafe extern "C" fn()>(entry);
            call!(self.table(), auto_extension(Some(entry)))
        }
    }

    /// # Safety
    /// `name` is a file name that SQLite passed to `xOpen` for a main database.
    pub(crate) unsafe fn uri_parameter(&self, name: *const c_char, key: &CStr) -> Option<String> {
        // SAFETY: `name` is one that SQLite gave to a VFS, as the caller says, so parameters stand behind it.
        let value = unsafe { call!(self.table(), uri_parameter(name, key.as_ptr())) };
        (!value.is_null()).then(|| {
            // SAFETY: the result is a string that lives as long as the name.
            let value = unsafe { CStr::from_ptr(value) };
            value.to_string_lossy().into_owned()
        })
    }

    /// Whether a URI parameter is on, by SQLite's words for that.
    ///
    /// # Safety
    /// As [`Api::uri_parameter`].
    pub(crate) unsafe fn uri_is_on(&self, name: *const c_char, key: &CStr) -> bool {
        // SAFETY: `name` is one that SQLite gave to a VFS, as the caller says, and the key ends with a zero byte.
        unsafe { call!(self.table(), uri_boolean(name, key.as_ptr(), 0)) != 0 }
    }

    /// Where SQLite has the name of the journal of a database. It is behind the name and the parameters; that of the WAL
    /// follows (<https://sqlite.org/c3ref/filename_database.html>).
    ///
    /// # Safety
    /// As [`Api::uri_parameter`].
    pub(crate) unsafe fn journal_of(&self, name: *const c_char) -> usize {
        // SAFETY: `name` is one that SQLite gave to a VFS, as the caller says, so parameters stand behind it.
        unsafe { call!(self.table(), filename_journal(name)) }.addr()
    }

    /// Gives the journal and the WAL of a packed database names of their own, in SQLite's memory, from where it takes them
    /// for all it does with these files. Their letters are changed in place, as SQLite's own RBU extension does.
    ///
    /// Where SQLite's names are not, the file is opened without its pager, or through a VFS that makes its own; what is
    /// there instead may be anything.
    ///
    /// # Errors
    /// If SQLite may have given short names, with three letters behind a dot.
    ///
    /// # Safety
    /// As [`Api::uri_parameter`], and SQLite is opening a database by this name at the moment.
    pub(crate) unsafe fn rename_beside(&self, name: *const c_char) -> Result<Names, &'static str> {
        // SAFETY: `name` is one that SQLite gave to a VFS, as the caller says, so parameters stand behind it, and behind
        // these at least one more byte.
        let (path, journal) = unsafe {
            let journal = call!(self.table(), filename_journal(name)).cast_mut();
            (CStr::from_ptr(name).to_bytes(), journal)
        };
        // SAFETY: bytes are read from there on as long as they are those of a name, which begins there and ends with a
        // zero byte.
        let is = |at: *mut c_char, suffix: &str| unsafe {
            let mut name = path.iter().chain(suffix.as_bytes()).chain(&[0]);
            let mut bytes = (0..).map(|n| at.add(n).cast::<u8>().read());
            name.all(|byte| bytes.next() == Some(*byte))
        };
        // SAFETY: a name was found there; its suffix is as long as ours. It is in memory that SQLite has allocated for
        // these names, and no other thread reads them while the database is being opened.
        let rename = |at: *mut c_char, suffix: &str| unsafe {
            let to = at.add(path.len()).cast::<u8>();
            to.copy_from_nonoverlapping(suffix.as_ptr(), suffix.len());
        };
        const { assert!(JOURNAL_SUFFIX.len() == "-journal".len() && WAL_SUFFIX.len() == "-wal".len()) };
        if is(journal, "-journal") {
            rename(journal, JOURNAL_SUFFIX);
        } else if !is(journal, JOURNAL_SUFFIX) {
            return match self.compiled_with(c"ENABLE_8_3_NAMES") {
                true => Err(
                    "this SQLite can give the journal and the WAL short names, and a packed database has none",
                ),
                false => Ok(Names::Unknown),
            };
        }
        // SAFETY: a SQLite that has WALs has the name of this one behind that of the journal. One without has zeros there.
        let wal = unsafe { journal.add(path.len() + JOURNAL_SUFFIX.len() + 1) };
        if is(wal, "-wal") {
            rename(wal, WAL_SUFFIX);
        }
        Ok(Names::Ours)
    }

    /// The URI parameters of a database, in order.
    ///
    /// # Safety
    /// As [`Api::uri_parameter`].
    pub(crate) unsafe fn uri_parameters(&self, name: *const c_char) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for index in 0.. {
            // SAFETY: `name` is one that SQLite gave to a VFS, as the caller says, so keys stand behind it. An index
            // too large gives null.
            let key = unsafe { call!(self.table(), uri_key(name, index)) };
            if key.is_null() {
                break;
            }
            // SAFETY: a key is a string that lives as long as the name.
            let key = unsafe { CStr::from_ptr(key) };
            // SAFETY: the same name, and a key that was found there.
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
        (data, free): (*mut c_void, Option<Destructor>),
    ) -> Code {
        let (scalar, step, last) = match body {
            Body::Scalar(function) => (Some(function), None, None),
            Body::Aggregate(step, last) => (None, Some(step), Some(last)),
        };
        let name = name.as_ptr();
        // SAFETY: the caller says that the connection is open and that the functions expect `data`. SQLite copies the
        // name, and calls `free` also when it fails.
        unsafe {
            call!(
                self.table(),
                create_function_v2(db, name, args, flags, data, scalar, step, last, free)
            )
        }
    }

    /// # Safety
    /// `context` is the running function's.
    pub(crate) unsafe fn result_null(&self, context: *mut sqlite3_context) {
        // SAFETY: the caller says that the function of this context is running, so SQLite keeps the context.
        unsafe { call!(self.table(), result_null(context)) }
    }

    /// # Safety
    /// `context` is the running function's.
    pub(crate) unsafe fn result_error(
        &self,
        context: *mut sqlite3_context,
        code: Code,
        text: &str,
    ) {
        let len = c_int::try_from(text.len()).unwrap_or(c_int::MAX);
        let text = text.as_ptr().cast();
        // SAFETY: the caller says that the function of this context is running, so SQLite keeps the context. The text
        // is as long as said, and SQLite copies it.
        unsafe {
            call!(self.table(), result_error(context, text, len));
            call!(self.table(), result_error_code(context, code));
        }
    }

    /// The pointer that a running function was registered with.
    ///
    /// # Safety
    /// `context` is the running function's.
    pub(crate) unsafe fn user_data(&self, context: *mut sqlite3_context) -> *mut c_void {
        // SAFETY: the caller says that the function of this context is running, so SQLite keeps the context.
        unsafe { call!(self.table(), user_data(context)) }
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
        // SAFETY: the connection of a running function is open, and the caller says what `argument` is.
        unsafe { self.file_control_on(self.connection_of(context), schema, op, argument) }
    }

    /// The connection that a function runs on.
    ///
    /// # Safety
    /// `context` is the running function's.
    pub(crate) unsafe fn connection_of(&self, context: *mut sqlite3_context) -> *mut sqlite3 {
        // SAFETY: the caller says that the function of this context is running, so SQLite keeps the context.
        unsafe { call!(self.table(), context_db_handle(context)) }
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
        // SAFETY: the caller says that the connection is open and what `argument` is; the schema's name ends with a
        // zero byte.
        unsafe {
            call!(
                self.table(),
                file_control(db, schema.as_ptr(), op, argument)
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
        // SAFETY: the connection is open, as the caller says. The operation writes the address of a string from
        // SQLite's allocator, or nothing. It is copied before it is freed.
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

/// The functions that SQLite calls for a SQL function.
pub(crate) enum Body {
    Scalar(SqlFn),
    /// For each row, and at the end, which comes in any case.
    Aggregate(SqlFn, FinalFn),
}

/// SQLite passes lengths as `int`; none of those met here is ever negative.
pub(crate) fn len(n: c_int) -> usize {
    c_uint::try_from(n).unwrap_or(0) as usize
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A SQLite that has no functions.
    fn empty() -> sqlite3_api_routines {
        // SAFETY: the table is made of optional functions, and zeros are none.
        unsafe { std::mem::zeroed() }
    }

    /// A SQLite that only logs, to nowhere: for files that are called without one.
    pub(crate) fn silent() -> Api {
        unsafe extern "C" fn log(_: c_int, _: *const c_char, _: *const c_char) {}
        type Log = unsafe extern "C" fn(c_int, *const c_char, *const c_char);
        type Variadic = unsafe extern "C" fn(c_int, *const c_char, ...);
        let table = sqlite3_api_routines {
            // SAFETY: only called with one string behind the format, which it does not look at.
            log: Some(unsafe { std::mem::transmute::<Log, Variadic>(log) }),
            ..empty()
        };
        Api {
            table: Box::leak(Box::new(table)),
        }
    }

    /// As SQLite lays them out; `a.db` takes five bytes, and there are no parameters.
    #[test]
    fn names_beside_are_changed_in_place() {
        unsafe extern "C" fn journal(name: *const c_char) -> *const c_char {
            // SAFETY: the memory below is longer.
            unsafe { name.add(6) }
        }
        unsafe extern "C" fn yes(_: *const c_char) -> c_int {
            1
        }
        unsafe extern "C" fn no(_: *const c_char) -> c_int {
            0
        }
        let rename = |memory: &str, has_short: bool| {
            let table = sqlite3_api_routines {
                filename_journal: Some(journal),
                compileoption_used: Some(if has_short { yes } else { no }),
                ..empty()
            };
            let table: *const _ = &raw const table;
            let mut bytes = memory.as_bytes().to_vec();
            // SAFETY: the memory is laid out as SQLite's, and belongs to this test.
            let result = unsafe { Api { table }.rename_beside(bytes.as_mut_ptr().cast()) };
            (result.ok(), String::from_utf8(bytes).unwrap())
        };
        let usual = "a.db\0\0a.db-journal\0a.db-wal\0\0\0";
        let ours = "a.db\0\0a.db-lpjourn\0a.db-lpw\0\0\0";
        for has_short in [false, true] {
            for before in [usual, ours] {
                assert_eq!(rename(before, has_short), (Some(Names::Ours), ours.into()));
            }
        }
        let without_wal = rename("a.db\0\0a.db-journal\0\0\0", false);
        assert_eq!(without_wal.1, "a.db\0\0a.db-lpjourn\0\0\0");
        // Without SQLite's pager, also with the bytes of something else behind; the last ones end where the memory does.
        for other in [
            "a.db\0\0\0",
            "a.db\0\0?",
            "a.db\0\0a.db-jour?",
            "a.db\0\0a.db-journal?",
        ] {
            assert_eq!(rename(other, false), (Some(Names::Unknown), other.into()));
        }
        let short = "a.db\0\0a.nal\0a.wal\0\0\0";
        assert_eq!(rename(short, true), (None, short.into()));
    }

    /// As [`silent`], and there is no memory to be had.
    pub(crate) fn without_memory() -> Api {
        unsafe extern "C" fn malloc(_: u64) -> *mut c_void {
            std::ptr::null_mut()
        }
        let table = sqlite3_api_routines {
            malloc64: Some(malloc),
            // SAFETY: the table is leaked.
            ..unsafe { *silent().table }
        };
        Api {
            table: Box::leak(Box::new(table)),
        }
    }

    /// SQLite's documentation of the table is its order, which no later version changes.
    #[test]
    fn the_bindings_have_the_table_of_3_34() {
        macro_rules! are_at {
            ($($name:ident: $number:literal),* $(,)?) => {
                [$((stringify!($name), std::mem::offset_of!(sqlite3_api_routines, $name), $number)),*]
            };
        }
        let word = size_of::<usize>();
        assert_eq!(size_of::<sqlite3_api_routines>(), 253 * word);
        let used = are_at!(
            aggregate_context: 0,
            bind_double: 3,
            bind_int64: 5,
            bind_null: 6,
            column_blob: 19,
            column_bytes: 20,
            column_double: 27,
            column_int64: 29,
            column_text: 36,
            column_type: 38,
            errmsg: 53,
            finalize: 57,
            free: 58,
            get_autocommit: 60,
            get_auxdata: 61,
            libversion_number: 67,
            reset: 77,
            result_double: 79,
            result_error: 80,
            result_int64: 83,
            result_null: 84,
            result_text: 85,
            result_value: 89,
            set_auxdata: 92,
            step: 94,
            total_changes: 97,
            user_data: 101,
            value_blob: 102,
            value_bytes: 103,
            value_double: 105,
            value_int64: 107,
            value_text: 109,
            value_type: 113,
            prepare_v2: 116,
            file_control: 127,
            vfs_find: 141,
            vfs_register: 142,
            result_error_code: 146,
            context_db_handle: 149,
            limit: 151,
            compileoption_used: 161,
            create_function_v2: 162,
            db_config: 163,
            extended_errcode: 166,
            log: 167,
            uri_parameter: 189,
            auto_extension: 192,
            bind_blob64: 193,
            bind_text64: 194,
            malloc64: 197,
            result_blob64: 201,
            result_text64: 202,
            uri_key: 245,
            txn_state: 252,
            uri_boolean: 187,
        );
        for (name, offset, number) in used {
            assert_eq!(offset, number * word, "{name}");
        }
    }

    /// As `sqlite3.h` lays them out where pointers have 64 bits.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn the_bindings_have_files_and_vfses_as_c_has_them() {
        use super::super::bindings::sqlite3_io_methods;
        use std::mem::offset_of;
        assert_eq!(size_of::<sqlite3_io_methods>(), 152);
        assert_eq!(offset_of!(sqlite3_io_methods, xShmMap), 104);
        assert_eq!(offset_of!(sqlite3_io_methods, xUnfetch), 144);
        assert_eq!(size_of::<sqlite3_vfs>(), 168);
        assert_eq!(offset_of!(sqlite3_vfs, xOpen), 40);
    }

    #[test]
    fn a_sqlite_that_is_too_old_is_told_so_in_its_own_memory() {
        unsafe extern "C" fn version() -> c_int {
            3_008_010
        }
        unsafe extern "C" fn malloc(n: u64) -> *mut c_void {
            vec![0u8; n as usize].leak().as_mut_ptr().cast()
        }
        let table = sqlite3_api_routines {
            libversion_number: Some(version),
            malloc64: Some(malloc),
            ..empty()
        };
        let mut message = std::ptr::null_mut();
        // SAFETY: the table has what SQLite 3.8.10 has of what is used.
        let said = unsafe {
            let to = &raw mut message;
            let code = crate::ffi::init(std::ptr::null_mut(), to, (&raw const table).cast());
            assert_eq!(code, crate::c::codes::ERROR);
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
