//! The file object of a main database that is only read: SQLite's calls, handed to a [`ReadOnly`].
//!
//! The file is immutable to SQLite: it takes no locks, keeps what it has read, and looks for no journal and no WAL, so that a
//! database whose header says WAL mode is read like any other.

use std::ffi::{c_int, c_void};

use super::api::{Api, len};
use super::controls;
use super::file::HOST_OFFSET;
use super::guard::guard;
use super::maintenance_step::Request;
use super::types::{sqlite3_file, sqlite3_io_methods};
use crate::codes::{
    Code, INTERNAL, IOCAP_IMMUTABLE, IOERR_NOMEM, IOERR_READ, IOERR_SHORT_READ, NOTFOUND, OK,
    READONLY, fcntl,
};
use crate::read_only::{Failure, NOT_WRITTEN, ReadOnly, pragma};
use crate::relief::relieve;

/// What SQLite sees: its own field, then ours.
#[repr(C)]
pub(crate) struct ReadOnlyFile {
    base: sqlite3_file,
    state: *mut State,
    /// A panic has left the state in no known condition.
    poisoned: bool,
}

const _: () = assert!(size_of::<ReadOnlyFile>() <= HOST_OFFSET);

pub(super) struct State {
    /// The SQLite library that has the file open.
    api: Api,
    /// The name of the VFS that opened it.
    vfs_name: &'static str,
    content: Box<dyn ReadOnly>,
    /// What `PRAGMA mmap_size` was set to.
    mmap_size: i64,
}

/// Makes `file` a database with this content.
///
/// # Safety
/// `file` is memory that SQLite gave to `xOpen` of our VFS, and nothing is open in it.
pub(super) unsafe fn open(
    file: *mut sqlite3_file,
    api: Api,
    vfs_name: &'static str,
    content: Box<dyn ReadOnly>,
) {
    let state = State {
        api,
        vfs_name,
        content,
        mmap_size: 0,
    };
    let object = ReadOnlyFile {
        base: sqlite3_file {
            methods: &raw const METHODS,
        },
        state: Box::into_raw(Box::new(state)),
        poisoned: false,
    };
    // SAFETY: the memory has the size our VFS asks for, which is enough.
    unsafe { file.cast::<ReadOnlyFile>().write(object) };
}

/// Runs `body` on the file's state. A panic poisons the file.
///
/// # Safety
/// `file` was made by [`open`] and is not closed, and no one else is using it: SQLite calls a file's methods from one
/// thread at a time.
pub(super) unsafe fn with(file: *mut sqlite3_file, body: impl FnOnce(&mut State) -> Code) -> Code {
    let object = file.cast::<ReadOnlyFile>();
    // SAFETY: as for this function; the flag is not part of the state, which lives until the file is closed.
    unsafe {
        if (*object).poisoned {
            return INTERNAL;
        }
        let (api, state) = ((*(*object).state).api, (*object).state);
        guard(api, || (*object).poisoned = true, || body(&mut *state))
    }
}

/// The result code of a failure, which is told to SQLite's error log.
pub(super) fn report(api: Api, failure: &Failure) -> Code {
    api.log(failure.code, &failure.why);
    failure.code
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    // The third, for `fetch`; without shared memory, which only a WAL needs.
    version: 3,
    close,
    read,
    write,
    truncate,
    sync,
    file_size,
    lock,
    unlock: lock,
    check_reserved_lock,
    file_control,
    sector_size,
    device_characteristics,
    shm_map: None,
    shm_lock: None,
    shm_barrier: None,
    shm_unmap: None,
    fetch: Some(controls::fetch),
    unfetch: Some(controls::unfetch),
};

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    let object = file.cast::<ReadOnlyFile>();
    // SAFETY: the state was boxed by `open` and is taken once, because SQLite closes a file once.
    unsafe {
        let state = (*object).state;
        let api = (*state).api;
        (*object).state = std::ptr::null_mut();
        (*object).base.methods = std::ptr::null();
        let let_go = || {
            drop(Box::from_raw(state));
            OK
        };
        guard(api, || (), let_go)
    }
}

unsafe extern "C" fn read(file: *mut sqlite3_file, to: *mut c_void, n: c_int, at: i64) -> c_int {
    let Some(offset) = controls::place(n, at) else {
        return IOERR_READ;
    };
    // SAFETY: SQLite gives a buffer of `n` bytes.
    let buf = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), len(n)) };
    let mut read = |state: &mut State| match state.content.read_at(buf, offset) {
        Ok(done) if done == buf.len() => OK,
        Ok(done) => {
            buf[done..].fill(0);
            IOERR_SHORT_READ
        }
        Err(failure) => report(state.api, &failure),
    };
    let read = |state: &mut State| match relieve() {
        Ok(()) => read(state),
        Err(_) => IOERR_NOMEM,
    };
    // SAFETY: SQLite calls this on an open file.
    unsafe { with(file, read) }
}

unsafe extern "C" fn write(_: *mut sqlite3_file, _: *const c_void, _: c_int, _: i64) -> c_int {
    READONLY
}

unsafe extern "C" fn truncate(_: *mut sqlite3_file, _: i64) -> c_int {
    READONLY
}

unsafe extern "C" fn sync(_: *mut sqlite3_file, _: c_int) -> c_int {
    OK
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, size: *mut i64) -> c_int {
    let measure = |state: &mut State| {
        // SAFETY: SQLite gives a place for the result.
        unsafe { size.write(state.content.size() as i64) };
        OK
    };
    // SAFETY: SQLite calls this on an open file.
    unsafe { with(file, measure) }
}

/// Nobody changes the file, so everyone may have any lock.
unsafe extern "C" fn lock(_: *mut sqlite3_file, _: c_int) -> c_int {
    OK
}

unsafe extern "C" fn check_reserved_lock(_: *mut sqlite3_file, held: *mut c_int) -> c_int {
    // SAFETY: SQLite gives a place for the result.
    unsafe { held.write(0) };
    OK
}

unsafe extern "C" fn sector_size(_: *mut sqlite3_file) -> c_int {
    // Asked only where something is written.
    4096
}

unsafe extern "C" fn device_characteristics(_: *mut sqlite3_file) -> c_int {
    IOCAP_IMMUTABLE
}

unsafe extern "C" fn file_control(file: *mut sqlite3_file, op: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: SQLite calls this on an open file, with the argument that the operation asks for.
    unsafe { with(file, |state| control(state, op, arg)) }
}

/// # Safety
/// `arg` is what SQLite documents for `op`.
unsafe fn control(state: &mut State, op: c_int, arg: *mut c_void) -> Code {
    match op {
        fcntl::PRAGMA => {
            let content = &mut *state.content;
            // SAFETY: the argument is this operation's.
            unsafe { controls::pragma(state.api, arg, |name, value| pragma(content, name, value)) }
        }
        fcntl::LITEPACK_INFO | fcntl::LITEPACK_CHECK => {
            let answer = if op == fcntl::LITEPACK_INFO {
                state.content.info()
            } else {
                state.content.check()
            };
            let (code, text) = match answer {
                Ok(text) => (OK, text),
                Err(failure) => (failure.code, failure.why),
            };
            // SAFETY: the argument is where a string in SQLite's memory goes.
            unsafe { controls::put_text(state.api, arg, &text) };
            code
        }
        fcntl::LITEPACK_REFUSED => match state.content.refused() {
            Some(why) => {
                // SAFETY: the argument is where a string in SQLite's memory goes.
                unsafe { controls::put_text(state.api, arg, why) };
                OK
            }
            None => NOTFOUND,
        },
        fcntl::LITEPACK_MAINTAIN => {
            // SAFETY: the argument is a request.
            if let Some(request) = unsafe { Request::at(arg) } {
                request.refuse(NOT_WRITTEN);
            }
            READONLY
        }
        fcntl::MMAP_SIZE => {
            // SAFETY: the argument is this operation's.
            unsafe { controls::mmap_size(arg, &mut state.mmap_size) }
        }
        fcntl::VFSNAME => {
            // SAFETY: the argument is where a string in SQLite's memory goes.
            unsafe { controls::put_text(state.api, arg, state.vfs_name) };
            OK
        }
        _ => NOTFOUND,
    }
}
