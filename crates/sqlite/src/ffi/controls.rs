//! File controls: what SQLite, pragmas and the SQL functions ask an open file. Their arguments are bare memory, which
//! is read and written here alone.

use std::ffi::{CStr, c_char, c_int, c_void};

use litepack_btree::PageNumber;
use litepack_columns::sql::Sql;
use litepack_io::interrupt::listen;

use crate::c::api::Api;
use crate::c::around::KeyQuestion;
use crate::c::bindings::sqlite3;
use crate::c::codes::{Code, ERROR, MISUSE, NOMEM, NOTFOUND, OK, READONLY, fcntl};
use crate::c::connection::Connection;
use crate::c::guard::guard;
use crate::c::interrupts::Interrupts;
use crate::failure::{Failure, report};
use crate::files::{Database, Event, File};
use crate::host::file::{BusyHandler, HostFile};
use crate::options::is_long;
use crate::relief::relieve;
use crate::sql::maintain::QUERY_ONLY;
use crate::sql::pragma::pragma;
use crate::sql::step::Request;

/// The state for the file controls that are the same for all files.
pub(crate) struct State<F> {
    /// The SQLite library that has the file open.
    pub(crate) api: Api,
    /// The name of the VFS that opened it.
    pub(crate) vfs_name: &'static str,
    /// Where SQLite has the connection that uses the file; null if it has not said.
    pub(crate) connection: *const *mut sqlite3,
    /// The limit that `PRAGMA mmap_size` was set to.
    pub(crate) mmap_size: i64,
    pub(crate) file: F,
}

/// Whether this file control is a request that may take long: it listens for interrupts of the connection. SQLite's own
/// ask for little, or for what is not to be left half done.
pub(crate) fn may_take_long(op: c_int) -> bool {
    matches!(
        op,
        fcntl::PRAGMA | fcntl::LITEPACK_INFO | fcntl::LITEPACK_CHECK | fcntl::LITEPACK_MAINTAIN
    )
}

/// Answers a file control.
///
/// # Safety
/// `arg` is what SQLite documents for `op`, or what is documented at ours.
pub(crate) unsafe fn control<F: File>(
    state: &mut State<F>,
    op: c_int,
    arg: *mut c_void,
) -> Result<(), Failure> {
    let (api, vfs_name) = (state.api, state.vfs_name);
    if op == fcntl::PDB {
        // SQLite says this once, when it has opened the file, of a place that stays as long as the file is open.
        state.connection = arg.cast();
        // SAFETY: the argument is where the connection's address is, or null if it was not SQLite that asked.
        let connection = unsafe { arg.cast::<*const c_void>().as_ref() };
        if let (Some(connection), Some(database)) = (connection, state.file.database()) {
            database.joined_by(connection.addr());
        }
    }
    if F::PASSES_ON {
        // SAFETY: the argument is the operation's.
        let forward = |host: &HostFile| unsafe { host.control(op, arg) };
        return answered(state.file.host().map_or(NOTFOUND, forward));
    }
    if op == fcntl::MMAP_SIZE && state.file.database().is_some() {
        // SAFETY: the argument is an i64 to read and write.
        unsafe { mmap_size(arg, &mut state.mmap_size) };
        return Ok(());
    }
    let below = match op {
        fcntl::VFSNAME => state.file.host().and_then(|host| host.vfs_name(api)),
        _ => None,
    };
    if op == fcntl::LITEPACK_SEALED && F::IS_SEALED {
        return Ok(());
    }
    let Some(database) = state.file.database() else {
        return Err(NOTFOUND.into());
    };
    if may_take_long(op) && relieve().is_err() {
        return Err(NOMEM.into());
    }
    match op {
        // SAFETY: the argument is this operation's.
        fcntl::PRAGMA => unsafe { answer_pragma(api, arg, database) },
        fcntl::VFSNAME => {
            // As shims do: the name of our VFS, a slash, the host's.
            let name = match below {
                Some(below) => format!("{vfs_name}/{below}"),
                None => vfs_name.into(),
            };
            // SAFETY: the argument is where a string goes.
            unsafe { put_text(api, arg, &name) }
        }
        fcntl::LITEPACK_INFO | fcntl::LITEPACK_CHECK => {
            let answer = if op == fcntl::LITEPACK_INFO {
                database.info()
            } else {
                database.check()
            };
            let (code, text) = match answer {
                Ok(text) => (OK, text.into()),
                Err(failure) => (report(api, &failure), failure.why),
            };
            // SAFETY: the argument is where a string goes.
            unsafe { put_text(api, arg, &text) }?;
            answered(code)
        }
        fcntl::LITEPACK_REFUSED => {
            let (code, why) = database.turn_away().ok_or(NOTFOUND)?;
            // SAFETY: the argument is where a string goes.
            unsafe { put_text(api, arg, &why) }?;
            Err(code.into())
        }
        fcntl::LITEPACK_KEY => {
            // SAFETY: the argument is a question.
            let question = unsafe { KeyQuestion::at(arg) }.ok_or(NOTFOUND)?;
            question.answer(database.is_encrypted(), database.key());
            Ok(())
        }
        fcntl::LITEPACK_MAINTAIN => {
            // SAFETY: the argument is a request.
            let Some(request) = (unsafe { Request::at(arg) }) else {
                let why =
                    "another version of litepack, loaded beside this one, asked for maintenance";
                return Err(Failure::new(ERROR, why));
            };
            request.answer(database)
        }
        // SAFETY: the argument is the operation's.
        _ => unsafe { control_with_host(&mut state.file, op, arg) },
    }
}

/// The operations that only a file over one of the host's answers, and those that are the host's to answer.
///
/// # Safety
/// As [`control`].
unsafe fn control_with_host<F: File>(
    file: &mut F,
    op: c_int,
    arg: *mut c_void,
) -> Result<(), Failure> {
    let event = match op {
        fcntl::SYNC => Some(Event::Sync),
        fcntl::COMMIT_PHASETWO => Some(Event::CommitPhaseTwo),
        fcntl::OVERWRITE => Some(Event::Overwrite),
        fcntl::CKPT_START => Some(Event::CheckpointStart),
        fcntl::CKPT_DONE => Some(Event::CheckpointDone),
        _ => None,
    };
    let has_host = file.host().is_some();
    let Some(database) = file.database().filter(|_| has_host) else {
        return Err(NOTFOUND.into());
    };
    if let Some(event) = event {
        return database.event(event);
    }
    match op {
        // SAFETY: the argument is an i64.
        fcntl::SIZE_HINT if unsafe { arg.cast::<i64>().read() } < 0 => return Err(MISUSE.into()),
        // Advice on how the file should grow, which is not for the database's pages to say.
        fcntl::SIZE_HINT | fcntl::CHUNK_SIZE => return Ok(()),
        fcntl::DBSTAT => {
            let pair = arg.cast::<i64>();
            // SAFETY: the argument is two i64: in page number, out offset and stored size.
            unsafe {
                let page = u32::try_from(pair.read()).ok().and_then(PageNumber::new);
                let place = page.map(|page| database.place_of_page(page));
                let (offset, size) = place.transpose()?.flatten().unwrap_or_default();
                pair.write(offset.0 as i64);
                pair.add(1).write(size as i64);
            }
            return Ok(());
        }
        // About a file laid out like the database, which the host's file is not.
        fcntl::ZIPVFS
        | fcntl::FILESTAT
        | fcntl::BEGIN_ATOMIC_WRITE
        | fcntl::COMMIT_ATOMIC_WRITE
        | fcntl::ROLLBACK_ATOMIC_WRITE => return Err(NOTFOUND.into()),
        // SAFETY: the argument is a handler, good for as long as the file is open.
        fcntl::BUSYHANDLER => database.waits_by(unsafe { arg.cast::<BusyHandler>().read() }),
        _ => {}
    }
    // SAFETY: the argument is the operation's.
    let forward = |host: &HostFile| unsafe { host.control(op, arg) };
    answered(file.host().map_or(NOTFOUND, forward))
}

fn answered(code: Code) -> Result<(), Failure> {
    if code == OK { Ok(()) } else { Err(code.into()) }
}

/// Answers `SQLITE_FCNTL_PRAGMA`; a pragma that is none of ours is `NOTFOUND`.
///
/// # Safety
/// `arg` is the argument of that file control.
unsafe fn answer_pragma(
    api: Api,
    arg: *mut c_void,
    database: &mut dyn Database,
) -> Result<(), Failure> {
    let words = arg.cast::<*mut c_char>();
    // SAFETY: the argument is an array of three strings: answer, name, value or null.
    let (name, value) = unsafe { (*words.add(1), *words.add(2)) };
    // SAFETY: name and value end with a zero byte and live as long as this call; a null value is not asked for.
    let bytes = |word| unsafe { CStr::from_ptr(word) }.to_bytes();
    let value = (!value.is_null()).then(|| bytes(value));
    let log = |failure: &Failure| {
        report(api, failure);
    };
    match pragma(database, &String::from_utf8_lossy(bytes(name)), value, &log) {
        Some((code, answer)) => {
            // Without words SQLite has some of its own for the code.
            if code == OK || !answer.is_empty() {
                // SAFETY: the first word is where the answer goes.
                unsafe { put_text(api, arg, &answer) }?;
            }
            answered(code)
        }
        None => Err(NOTFOUND.into()),
    }
}

/// Whether `SQLITE_FCNTL_PRAGMA` brings a request that may take long.
///
/// # Safety
/// `arg` is the argument of that file control.
pub(crate) unsafe fn is_long_pragma(arg: *mut c_void) -> bool {
    // SAFETY: what the caller promises.
    is_long(&unsafe { name_of_pragma(arg) }.to_string_lossy())
}

/// Whether it brings the pragma that writes without a statement of SQLite's.
///
/// # Safety
/// `arg` is the argument of that file control.
pub(crate) unsafe fn is_maintenance(arg: *mut c_void) -> bool {
    // SAFETY: what the caller promises.
    unsafe { name_of_pragma(arg) }
        .to_bytes()
        .eq_ignore_ascii_case(MAINTAIN)
}

/// Whether it brings another key.
///
/// # Safety
/// `arg` is the argument of that file control.
pub(crate) unsafe fn is_rekey(arg: *mut c_void) -> bool {
    // SAFETY: what the caller promises.
    let name = unsafe { name_of_pragma(arg) }.to_bytes();
    name.eq_ignore_ascii_case(b"rekey") || name.eq_ignore_ascii_case(b"hexrekey")
}

/// Whether it brings the question for the size of pages.
///
/// # Safety
/// `arg` is the argument of that file control.
pub(crate) unsafe fn asks_page_size(arg: *mut c_void) -> bool {
    // SAFETY: what the caller promises: the third of the strings is the value, or null.
    unsafe {
        let value = *arg.cast::<*const c_char>().add(2);
        value.is_null()
            && name_of_pragma(arg)
                .to_bytes()
                .eq_ignore_ascii_case(b"page_size")
    }
}

/// Has SQLite read the database, which tells it the size of pages. If it cannot, it answers what it knows.
///
/// # Safety
/// `db` is the connection, which runs a pragma, and no method of the file is running.
pub(crate) unsafe fn have_read(api: Api, db: *mut sqlite3) {
    let body = || {
        // SAFETY: the connection is open: it runs a pragma. Preparing this loads the schema.
        let connection = unsafe { Connection::new(api, db) };
        drop(connection.prepare("select 1 from sqlite_master"));
        OK
    };
    guard(api, || (), body);
}

/// # Safety
/// `arg` is the argument of `SQLITE_FCNTL_PRAGMA`, and lives as long as the name is used.
unsafe fn name_of_pragma<'a>(arg: *mut c_void) -> &'a CStr {
    // SAFETY: the argument is an array of three strings, the second of which is the name.
    unsafe { CStr::from_ptr(*arg.cast::<*const c_char>().add(1)) }
}

/// Runs `answer`, which answers a pragma, so that it hears when the connection is interrupted.
///
/// # Safety
/// `db` is the connection, which runs the pragma, and no method of the file is running: listening takes statements, and
/// the first of them loads the schema from this very file.
pub(crate) unsafe fn heard(api: Api, db: *mut sqlite3, answer: impl FnOnce() -> Code) -> Code {
    let body = || {
        // SAFETY: what the caller promises; the pragma is answered before this returns.
        let interrupts = unsafe { Interrupts::of_pragma(api, db) };
        listen(move || interrupts.ask(), answer)
    };
    guard(api, || (), body)
}

/// Why a key is not changed then.
const REKEY_QUERY_ONLY: &str = "PRAGMA query_only is on, and another key writes to the file";

/// The pragma that writes without a statement of SQLite's.
const MAINTAIN: &[u8] = b"litepack_maintain";

/// Why maintenance is refused to a connection that is not known.
const WHO_ASKS: &str = "litepack_maintain: the VFS above this one does not tell which connection asks, and that may \
     have PRAGMA query_only on: call the function litepack_maintain()";

/// Answers `SQLITE_FCNTL_PRAGMA` with an error if the connection may not write, or is not known: a VFS above ours has
/// kept for itself what SQLite said of it. Otherwise the answer is `OK`, and nothing is done.
///
/// # Safety
/// `arg` is the argument of that file control, which runs on this connection, and no method of the file is running.
pub(crate) unsafe fn refuse_if_query_only(
    api: Api,
    db: Option<*mut sqlite3>,
    arg: *mut c_void,
) -> Code {
    guard(
        api,
        || (),
        || {
            // SAFETY: the connection is open: it runs a pragma.
            let connection = db.map(|db| unsafe { Connection::new(api, db) });
            let (code, why) = match connection.map(|connection| connection.is_query_only()) {
                Some(Ok(false)) => return OK,
                // SAFETY: as this function asks for.
                Some(Ok(true)) if unsafe { is_rekey(arg) } => (READONLY, REKEY_QUERY_ONLY.into()),
                Some(Ok(true)) => (READONLY, QUERY_ONLY.into()),
                Some(Err(error)) => (error.code, error.message),
                None => (READONLY, WHO_ASKS.into()),
            };
            // SAFETY: the first word is where the answer goes.
            match unsafe { put_text(api, arg, &why) } {
                Ok(()) => code,
                Err(failure) => failure.code,
            }
        },
    )
}

/// Answers with a string in SQLite's memory.
///
/// # Errors
/// When SQLite has no memory for it.
///
/// # Safety
/// `arg` is where a string goes.
unsafe fn put_text(api: Api, arg: *mut c_void, text: &str) -> Result<(), Failure> {
    let text = api.text(text);
    if text.is_null() {
        return Err(NOMEM.into());
    }
    // SAFETY: `arg` points to a string pointer that SQLite waits for, as the caller says; it frees the text.
    unsafe { arg.cast::<*mut c_char>().write(text) };
    Ok(())
}

/// Answers `SQLITE_FCNTL_MMAP_SIZE`: sets the limit if it is not negative and gives the former one back, as SQLite's
/// VFSes do. Nothing is ever mapped.
///
/// # Safety
/// `arg` points to an i64.
unsafe fn mmap_size(arg: *mut c_void, limit: &mut i64) {
    let arg = arg.cast::<i64>();
    // SAFETY: `arg` points to an i64 that is not used otherwise during the call, as the caller says.
    unsafe {
        let asked = arg.read();
        arg.write(*limit);
        if asked >= 0 {
            *limit = asked;
        }
    }
}
