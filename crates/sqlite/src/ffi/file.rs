//! The file object of a packed main database: SQLite's calls, handed to [`Packed`] or to the host's
//! file. Locks, shared memory and the like are the host's own; content is ours.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use litepack_engine::report::{check_text, info_json};
use litepack_store::{Error, Result};

use super::api::{Api, len};
use super::bindings::{SQLITE_SHM_SHARED, SQLITE_SHM_UNLOCK};
use super::controls;
use super::guard::guard;
use super::host::HostFile;
use super::types::{sqlite3_file, sqlite3_io_methods};
use crate::codes::{
    BUSY, CORRUPT, Code, ERROR, INTERNAL, IOCAP_KEPT, IOERR_NOMEM, IOERR_READ, IOERR_SHORT_READ,
    IOERR_TRUNCATE, IOERR_WRITE, LOCK_NONE, LOCK_SHARED, MISUSE, NOMEM, NOTFOUND, OK, READONLY,
    While, code_of, fcntl,
};
use crate::file::packed::Packed;
use crate::file::wal_index::{self, Checkpoints};
use crate::identity::Identity;
use crate::options::{Pragma, from_pragma};
use crate::read_only::NOT_REMOTE;
use crate::relief::relieve;

/// What SQLite sees: its own field, then ours. The host's file follows in the same memory.
#[repr(C)]
pub(crate) struct PackedFile {
    base: sqlite3_file,
    state: *mut State,
    /// A panic has left the state in no known condition.
    poisoned: bool,
}

/// Where the host's file begins behind a [`PackedFile`].
pub(crate) const HOST_OFFSET: usize = size_of::<PackedFile>().next_multiple_of(16);

/// As `SQLITE_FCNTL_BUSYHANDLER` brings it: a function, and what to call it with.
#[repr(C)]
#[derive(Clone, Copy)]
struct Busy {
    handler: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    argument: *mut c_void,
}

impl Busy {
    /// Waits as the connection was told to; false if it was told to give up by now.
    fn wait(self) -> bool {
        // SAFETY: SQLite gave both for that, and the file that they came for is open.
        self.handler
            .is_some_and(|handler| unsafe { handler(self.argument) } != 0)
    }
}

pub(crate) struct State {
    /// The SQLite library that has the file open.
    pub(super) api: Api,
    /// The name of the VFS that opened it.
    vfs_name: &'static str,
    pub(super) packed: Packed<HostFile>,
    /// The first region of the WAL index, while it is mapped.
    wal_index: *mut c_void,
    /// `nBackfill` when the running checkpoint began.
    backfill: u32,
    /// What `PRAGMA mmap_size` was set to.
    mmap_size: i64,
    /// What SQLite has the connection do while others are in the way.
    busy: Option<Busy>,
    /// Gives up its places in the process-wide tables when the file is closed.
    identity: Option<Identity>,
}

/// Makes `file` a packed database.
///
/// # Safety
/// `file` is memory that SQLite gave to `xOpen` of our VFS, and the medium of `packed` is the host's
/// file in that memory.
pub(crate) unsafe fn open(
    file: *mut sqlite3_file,
    api: Api,
    vfs_name: &'static str,
    packed: Packed<HostFile>,
    identity: Option<Identity>,
) {
    let shared_memory = packed.disk().methods().version >= 2;
    let methods = if shared_memory {
        &raw const METHODS_3
    } else {
        &raw const METHODS_1
    };
    let state = State {
        api,
        vfs_name,
        packed,
        wal_index: std::ptr::null_mut(),
        backfill: 0,
        mmap_size: 0,
        busy: None,
        identity,
    };
    let object = PackedFile {
        base: sqlite3_file { methods },
        state: Box::into_raw(Box::new(state)),
        poisoned: false,
    };
    // SAFETY: the memory has the size our VFS asks for.
    unsafe { file.cast::<PackedFile>().write(object) };
}

/// The file's state.
///
/// # Safety
/// `file` is an open packed file that no one else is using: SQLite calls a file's methods from one
/// thread at a time.
unsafe fn state<'a>(file: *mut sqlite3_file) -> &'a mut State {
    // SAFETY: as for this function; the state lives until the file is closed.
    unsafe { &mut *(*file.cast::<PackedFile>()).state }
}

/// Runs `body` on the file's state. A panic poisons the file.
///
/// # Safety
/// As [`state`].
pub(crate) unsafe fn with(file: *mut sqlite3_file, body: impl FnOnce(&mut State) -> Code) -> Code {
    let object = file.cast::<PackedFile>();
    // SAFETY: as for this function; the flag is not part of the state.
    unsafe {
        if (*object).poisoned {
            return INTERNAL;
        }
        let api = state(file).api;
        guard(api, || (*object).poisoned = true, || body(state(file)))
    }
}

/// The result code for a result; what is worth telling goes to SQLite's error log.
pub(super) fn report(api: Api, result: Result<()>, doing: While) -> Code {
    match result {
        Ok(()) => OK,
        Err(error) => {
            let code = code_of(&error, doing);
            if !matches!(error, Error::Io(_)) {
                api.log(code, &error.to_string());
            }
            code
        }
    }
}

/// As [`relieve`], as a result of the store's.
fn relieved() -> Result<()> {
    Ok(relieve()?)
}

impl State {
    pub(super) fn host(&self) -> (*mut sqlite3_file, &sqlite3_io_methods) {
        (self.packed.disk().file(), self.packed.disk().methods())
    }

    /// The words of `body`, or of what went wrong, with at least a shared lock, as a statement that touched a table would have; it
    /// waits for it as one, too.
    fn locked(
        &mut self,
        body: impl FnOnce(&mut Packed<HostFile>) -> Result<String>,
    ) -> (Code, String) {
        let api = self.api;
        let in_words = |result: Result<String>| match result {
            Ok(text) => (OK, text),
            Err(error) => {
                let text = error.to_string();
                (report(api, Err(error), While::Reading), text)
            }
        };
        if self.packed.lock_level() != LOCK_NONE {
            return in_words(body(&mut self.packed));
        }
        let (file, methods) = self.host();
        let (lock, unlock) = (methods.lock, methods.unlock);
        loop {
            // SAFETY: the host's file is open.
            match unsafe { lock(file, LOCK_SHARED) } {
                OK => break,
                BUSY if self.busy.is_some_and(Busy::wait) => {}
                BUSY => return (BUSY, "database is locked".into()),
                code => return (code, format!("cannot lock the database (code {code})")),
            }
        }
        let refreshed = self.packed.locked(LOCK_SHARED);
        let answer = in_words(refreshed.and_then(|()| body(&mut self.packed)));
        self.packed.unlocking(LOCK_NONE);
        // SAFETY: as above.
        unsafe { unlock(file, LOCK_NONE) };
        answer
    }

    fn info(&mut self) -> (Code, String) {
        self.locked(|packed| packed.info().map(|info| info_json(&info).to_string()))
    }

    fn check(&mut self) -> (Code, String) {
        self.locked(|packed| packed.check().map(|report| check_text(&report)))
    }

    /// Asks the host's file.
    fn forward(&self, op: c_int, arg: *mut c_void) -> Code {
        let (host, methods) = self.host();
        // SAFETY: the host's file is open, and the argument is the operation's.
        unsafe { (methods.file_control)(host, op, arg) }
    }

    fn pragma(&mut self, name: &str, value: Option<&str>) -> Option<(Code, String)> {
        if let Some(value) = value
            && name.eq_ignore_ascii_case("secure_delete")
        {
            // The rest of it is SQLite's to do.
            self.packed.hear_secure_delete(value);
        }
        Some(match from_pragma(name, value)? {
            Err(why) => (ERROR, why),
            Ok(Pragma::Version) => (OK, crate::VERSION.to_string()),
            Ok(Pragma::Get(name)) => (OK, self.packed.setting(name)),
            Ok(Pragma::Set(setting)) => {
                self.packed.apply(setting);
                (OK, value.unwrap_or_default().trim().to_string())
            }
            Ok(Pragma::Maintain(seconds)) => self.maintain_for(seconds),
            Ok(Pragma::Info) => self.info(),
            Ok(Pragma::Check) => self.check(),
            Ok(Pragma::Remote) => (ERROR, NOT_REMOTE.into()),
        })
    }

    /// Whether the WAL index is mapped.
    pub(super) fn has_wal_index(&self) -> bool {
        !self.wal_index.is_null()
    }

    /// A word of the WAL index, while that is mapped.
    fn index_word(&self, offset: usize) -> Option<&AtomicU32> {
        // SAFETY: the region is 32 KiB of shared memory that stays mapped until `shm_unmap`; SQLite's processes use the
        // words that are asked for atomically, or between barriers while no one relies on them.
        (!self.wal_index.is_null())
            .then(|| unsafe { AtomicU32::from_ptr(self.wal_index.byte_add(offset).cast()) })
    }

    /// `nBackfill`: how many frames of the WAL readers may take from the database instead.
    fn backfill_word(&self) -> Option<&AtomicU32> {
        self.index_word(wal_index::BACKFILL)
    }

    /// At the first read of a WAL transaction, sees what checkpoints have brought.
    fn catch_up(&mut self) -> Result<()> {
        if !self.packed.wal_read_is_new() {
            return Ok(());
        }
        // Not before SQLite has read the index itself: then the store could be behind what SQLite knows.
        let word = |offset| {
            self.index_word(offset)
                .map_or(0, |word| word.load(Ordering::SeqCst))
        };
        let checkpoints = Checkpoints::read(word);
        self.packed
            .catch_up_with(checkpoints, word(wal_index::BACKFILL))
    }
}

const WITH_SHARED_MEMORY: sqlite3_io_methods = sqlite3_io_methods {
    version: 3,
    close,
    read,
    write,
    truncate,
    sync,
    file_size,
    lock,
    unlock,
    check_reserved_lock,
    file_control,
    sector_size,
    device_characteristics,
    shm_map: Some(shm_map),
    shm_lock: Some(shm_lock),
    shm_barrier: Some(shm_barrier),
    shm_unmap: Some(shm_unmap),
    fetch: Some(controls::fetch),
    unfetch: Some(controls::unfetch),
};

static METHODS_3: sqlite3_io_methods = WITH_SHARED_MEMORY;
/// For a host without shared memory.
static METHODS_1: sqlite3_io_methods = sqlite3_io_methods {
    version: 1,
    ..WITH_SHARED_MEMORY
};

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    let object = file.cast::<PackedFile>();
    // SAFETY: the state was boxed by `open` and is taken once, because SQLite closes a file once;
    // the host's file is closed after the last use of the medium.
    unsafe {
        let State {
            api,
            packed,
            identity,
            ..
        } = *Box::from_raw((*object).state);
        let poisoned = (*object).poisoned;
        (*object).state = std::ptr::null_mut();
        (*object).base.methods = std::ptr::null();
        let (host, host_close) = (packed.disk().file(), packed.disk().methods().close);
        guard(
            api,
            || (),
            || {
                if poisoned {
                    // Its state is unknown: not even the mark of a clean close may be written.
                    std::mem::forget(packed);
                } else {
                    packed.close();
                }
                drop(identity);
                OK
            },
        );
        let code = host_close(host);
        (*host).methods = std::ptr::null();
        code
    }
}

unsafe extern "C" fn read(file: *mut sqlite3_file, to: *mut c_void, n: c_int, at: i64) -> c_int {
    let Some(offset) = controls::place(n, at) else {
        return IOERR_READ;
    };
    // SAFETY: SQLite gives a buffer of `n` bytes.
    let buf = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), len(n)) };
    let read = |state: &mut State| {
        if relieve().is_err() {
            return IOERR_NOMEM;
        }
        let read = state
            .catch_up()
            .and_then(|()| state.packed.read(offset, buf));
        match read {
            Ok(done) if done == buf.len() => OK,
            Ok(done) => {
                buf[done..].fill(0);
                IOERR_SHORT_READ
            }
            Err(error) => report(state.api, Err(error), While::Reading),
        }
    };
    // SAFETY: SQLite calls this on an open file.
    unsafe { with(file, read) }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    from: *const c_void,
    n: c_int,
    at: i64,
) -> c_int {
    let Some(offset) = controls::place(n, at) else {
        return IOERR_WRITE;
    };
    // SAFETY: SQLite gives a buffer of `n` bytes.
    let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), len(n)) };
    // SAFETY: SQLite calls this on an open file.
    unsafe {
        with(file, |state| {
            let written = relieved().and_then(|()| state.packed.write(offset, bytes));
            report(state.api, written, While::Writing)
        })
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: i64) -> c_int {
    let Ok(size) = u64::try_from(size) else {
        return IOERR_TRUNCATE;
    };
    // SAFETY: SQLite calls this on an open file.
    unsafe {
        with(file, |state| {
            let cut = relieved().and_then(|()| state.packed.truncate(size));
            report(state.api, cut, While::Writing)
        })
    }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    let sync = |state: &mut State| {
        state.packed.disk().set_sync_flags(flags);
        report(state.api, state.packed.flush(), While::Writing)
    };
    // SAFETY: SQLite calls this on an open file.
    unsafe { with(file, sync) }
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, size: *mut i64) -> c_int {
    let measure = |state: &mut State| {
        // SAFETY: SQLite gives a place for the result.
        let result = state
            .packed
            .size()
            .map(|len| unsafe { size.write(len as i64) });
        report(state.api, result, While::Reading)
    };
    // SAFETY: SQLite calls this on an open file.
    unsafe { with(file, measure) }
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    let lock = |state: &mut State| {
        if relieve().is_err() {
            return IOERR_NOMEM;
        }
        let (host, methods) = state.host();
        let before = state.packed.lock_level();
        // SAFETY: the host's file is open.
        match unsafe { (methods.lock)(host, level) } {
            OK => match report(state.api, state.packed.locked(level), While::Reading) {
                OK => OK,
                code => {
                    state.packed.unlocking(before);
                    let (host, methods) = state.host();
                    // SAFETY: as above.
                    unsafe { (methods.unlock)(host, before) };
                    code
                }
            },
            code => code,
        }
    };
    // SAFETY: SQLite calls this on an open file.
    unsafe { with(file, lock) }
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, level: c_int) -> c_int {
    let forget = |state: &mut State| {
        state.packed.unlocking(level);
        OK
    };
    // SAFETY: SQLite calls this on an open file, and the host's file is open too. A poisoned file must
    // still let go of its locks.
    unsafe {
        with(file, forget);
        let (host, methods) = state(file).host();
        (methods.unlock)(host, level)
    }
}

unsafe extern "C" fn check_reserved_lock(file: *mut sqlite3_file, held: *mut c_int) -> c_int {
    let check = |state: &mut State| {
        let (host, methods) = state.host();
        // SAFETY: the host's file is open and SQLite gives a place for the result.
        unsafe { (methods.check_reserved_lock)(host, held) }
    };
    // SAFETY: SQLite calls this on an open file.
    unsafe { with(file, check) }
}

unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite calls this on an open file, and the host's file is open too.
    unsafe {
        let (host, methods) = state(file).host();
        (methods.sector_size)(host)
    }
}

unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite calls this on an open file, and the host's file is open too.
    unsafe {
        let (host, methods) = state(file).host();
        (methods.device_characteristics)(host) & IOCAP_KEPT
    }
}

unsafe extern "C" fn file_control(file: *mut sqlite3_file, op: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: SQLite calls this on an open file, with the argument that the operation asks for.
    unsafe { with(file, |state| control(state, op, arg)) }
}

/// # Safety
/// `arg` is what SQLite documents for `op`.
unsafe fn control(state: &mut State, op: c_int, arg: *mut c_void) -> Code {
    match op {
        fcntl::SYNC => report(state.api, state.packed.publish(), While::Writing),
        fcntl::COMMIT_PHASETWO => report(state.api, state.packed.committed(), While::Writing),
        fcntl::OVERWRITE => {
            state.packed.overwrite_begins();
            OK
        }
        fcntl::PDB => {
            // SAFETY: the argument is where the connection's address is, or null if it was not SQLite that asked.
            if let Some(connection) = unsafe { arg.cast::<*const c_void>().as_ref() } {
                state.packed.secure_delete().join(connection.addr());
            }
            state.forward(op, arg)
        }
        fcntl::CKPT_START => {
            state.backfill = state
                .backfill_word()
                .map_or(0, |word| word.load(Ordering::SeqCst));
            report(state.api, state.packed.checkpoint_starts(), While::Writing)
        }
        fcntl::CKPT_DONE => report(state.api, state.packed.checkpoint_done(), While::Writing),
        // SAFETY: the argument is an i64.
        fcntl::SIZE_HINT if unsafe { arg.cast::<i64>().read() } < 0 => MISUSE,
        // Advice on how the file should grow, which is not for the database's pages to say.
        fcntl::SIZE_HINT | fcntl::CHUNK_SIZE => OK,
        fcntl::MMAP_SIZE => {
            // SAFETY: the argument is this operation's.
            unsafe { controls::mmap_size(arg, &mut state.mmap_size) }
        }
        fcntl::PRAGMA | fcntl::LITEPACK_INFO | fcntl::LITEPACK_CHECK | fcntl::LITEPACK_MAINTAIN
            if relieve().is_err() =>
        {
            NOMEM
        }
        fcntl::PRAGMA => {
            // SAFETY: as above.
            unsafe { controls::pragma(state.api, arg, |name, value| state.pragma(name, value)) }
        }
        fcntl::VFSNAME => {
            // SAFETY: the argument is where a string in SQLite's memory goes.
            unsafe { name_vfs(state, arg.cast()) };
            OK
        }
        fcntl::DBSTAT => {
            let pair = arg.cast::<i64>();
            // SAFETY: the argument is two i64: in page number, out offset and stored size.
            let page = unsafe { pair.read() };
            match state.packed.place_of_page(page.try_into().unwrap_or(0)) {
                Ok(place) => {
                    let (offset, size) = place.unwrap_or((0, 0));
                    // SAFETY: as above.
                    unsafe {
                        pair.write(offset as i64);
                        pair.add(1).write(size as i64);
                    }
                    OK
                }
                Err(error) => report(state.api, Err(error), While::Reading),
            }
        }
        fcntl::LITEPACK_INFO | fcntl::LITEPACK_CHECK => {
            let (code, text) = if op == fcntl::LITEPACK_INFO {
                state.info()
            } else {
                state.check()
            };
            // SAFETY: the argument is where a string in SQLite's memory goes.
            unsafe { controls::put_text(state.api, arg, &text) };
            code
        }
        fcntl::LITEPACK_MAINTAIN => {
            // SAFETY: the argument is a request.
            unsafe { state.maintain_at(arg) }
        }
        // About a file laid out like the database, which the host's file is not.
        fcntl::ZIPVFS
        | fcntl::FILESTAT
        | fcntl::BEGIN_ATOMIC_WRITE
        | fcntl::COMMIT_ATOMIC_WRITE
        | fcntl::ROLLBACK_ATOMIC_WRITE => NOTFOUND,
        _ => {
            if op == fcntl::BUSYHANDLER {
                // SAFETY: the argument is a function and what to call it with, both good for as long as the file is open.
                state.busy = Some(unsafe { arg.cast::<Busy>().read() });
            }
            state.forward(op, arg)
        }
    }
}

/// Answers `SQLITE_FCNTL_VFSNAME` as shims do: the name of our VFS, a slash, the host's.
///
/// # Safety
/// `to` is where a string in SQLite's memory goes.
unsafe fn name_vfs(state: &State, to: *mut *mut c_char) {
    let (host, methods) = state.host();
    // SAFETY: the host's file is open; its answer, if it gives one, is a string.
    let below = unsafe {
        let code = (methods.file_control)(host, fcntl::VFSNAME, to.cast());
        if code == OK && !(*to).is_null() {
            CStr::from_ptr(*to).to_string_lossy().into_owned()
        } else {
            String::new()
        }
    };
    let name = if below.is_empty() {
        state.vfs_name.into()
    } else {
        format!("{}/{below}", state.vfs_name)
    };
    // SAFETY: the host's answer was made for the caller to free; ours takes its place.
    unsafe {
        state.api.free((*to).cast());
        to.write(state.api.text(&name));
    }
}

unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    to: *mut *mut c_void,
) -> c_int {
    let map = |state: &mut State| {
        let (host, methods) = state.host();
        let Some(shm_map) = methods.shm_map else {
            return CORRUPT;
        };
        // SAFETY: the host's file is open; the arguments are SQLite's.
        let code = unsafe { shm_map(host, region, size, extend, to) };
        // A read-only mapping is a mapping too.
        if matches!(code & 0xff, OK | READONLY) && region == 0 {
            // SAFETY: SQLite gives a place for the result.
            state.wal_index = unsafe { to.read() };
            state.packed.maps_index(state.has_wal_index());
        }
        code
    };
    // SAFETY: SQLite calls this on an open file.
    unsafe { with(file, map) }
}

unsafe extern "C" fn shm_lock(file: *mut sqlite3_file, at: c_int, n: c_int, flags: c_int) -> c_int {
    // WAL_CKPT_LOCK and the first WAL_READ_LOCK (<https://sqlite.org/walformat.html#wal_locks>).
    const CHECKPOINT_LOCK: c_int = 1;
    const FIRST_READ_LOCK: c_int = 3;
    let lock = |state: &mut State| {
        if flags & SQLITE_SHM_UNLOCK != 0
            && (at..at + n).contains(&CHECKPOINT_LOCK)
            && state.packed.checkpoint_ends()
            && let Some(word) = state.backfill_word()
        {
            // SQLite believes that its checkpoint succeeded, and told readers so. Take that back
            // before anyone relies on it: the pages are still in the WAL.
            word.store(state.backfill, Ordering::SeqCst);
        }
        if flags & SQLITE_SHM_UNLOCK == 0 && flags & SQLITE_SHM_SHARED != 0 && at >= FIRST_READ_LOCK
        {
            state.packed.wal_read_begins();
        }
        let (host, methods) = state.host();
        let Some(shm_lock) = methods.shm_lock else {
            return BUSY;
        };
        // SAFETY: the host's file is open; the arguments are SQLite's.
        unsafe { shm_lock(host, at, n, flags) }
    };
    // SAFETY: SQLite calls this on an open file.
    unsafe { with(file, lock) }
}

unsafe extern "C" fn shm_barrier(file: *mut sqlite3_file) {
    // SAFETY: SQLite calls this on an open file, and the host's file is open too.
    unsafe {
        let (host, methods) = state(file).host();
        if let Some(barrier) = methods.shm_barrier {
            barrier(host);
        }
    }
}

unsafe extern "C" fn shm_unmap(file: *mut sqlite3_file, delete: c_int) -> c_int {
    // SAFETY: SQLite calls this on an open file, and the host's file is open too. A poisoned file
    // lets go as well.
    unsafe {
        let state = state(file);
        state.wal_index = std::ptr::null_mut();
        state.packed.maps_index(false);
        let (host, methods) = state.host();
        methods.shm_unmap.map_or(OK, |unmap| unmap(host, delete))
    }
}
