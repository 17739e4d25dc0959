//! The methods of an open file, `sqlite3_io_methods`: SQLite's calls, handed to a [`File`] of ours. The one place where
//! its pointers become slices, our errors result codes, and panics `SQLITE_INTERNAL`. Where SQLite gives up a transaction
//! after I/O errors only, a panic is one.
//!
//! A panic poisons the file, whose state is in no known condition: from then on it only lets go of its locks and
//! closes.

use std::ffi::{c_int, c_void};

use litepack_io::interrupt::deaf;

use super::controls::{
    State, asks_page_size, control, have_read, heard, is_long_pragma, is_maintenance, is_rekey,
    may_take_long, refuse_if_query_only,
};
use crate::c::api::{Api, len};
use crate::c::around::Around;
use crate::c::bindings::{
    SQLITE_SHM_LOCK, SQLITE_SHM_UNLOCK, sqlite3, sqlite3_file, sqlite3_io_methods,
};
use crate::c::codes::{
    BUSY, CANTOPEN, Code, INTERNAL, IOERR_FSTAT, IOERR_FSYNC, IOERR_NOMEM, IOERR_READ,
    IOERR_SHORT_READ, IOERR_TRUNCATE, IOERR_WRITE, LOCK_SHARED, MISUSE, OK, READONLY, as_io_error,
    fcntl,
};
use crate::c::guard::guard;
use crate::failure::{Failure, report};
use crate::files::{FIRST_READ, File, Methods};
use crate::host::file::HostFile;
use crate::relief::relieve;

/// The object that SQLite sees: its own field, then one pointer of ours. All else is behind that pointer, and nothing
/// of ours knows where the object is: VFSes above ours move it (`memmove` in SQLite's own appendvfs).
#[repr(C)]
struct Object<F> {
    base: sqlite3_file,
    inner: *mut Inner<F>,
}

/// An open file of ours.
struct Inner<F> {
    poisoned: bool,
    /// A method is using the state.
    running: bool,
    state: State<F>,
}

// SQLite's memory for a file begins at a multiple of 8.
const _: () = assert!(align_of::<Object<()>>() <= 8);

/// Bytes of an object of ours in the memory that SQLite gives for a file. A VFS asks for no less than this, and for no
/// more than the one below asks for.
pub(crate) const OBJECT_SIZE: usize = size_of::<Object<()>>();

/// Makes `out` this file.
///
/// # Safety
/// `out` is memory that SQLite gave to `xOpen` of our VFS, and nothing is open in it.
pub(crate) unsafe fn install<F: File>(
    out: *mut sqlite3_file,
    api: Api,
    vfs_name: &'static str,
    file: F,
) {
    let has_shared_memory = |host: &HostFile| host.has_shared_memory();
    let methods = match F::METHODS {
        Methods::Basic => Object::<F>::BASIC,
        Methods::WithFetch => Object::<F>::WITH_FETCH,
        Methods::AsHost if file.host().is_some_and(has_shared_memory) => {
            Object::<F>::WITH_SHARED_MEMORY
        }
        Methods::AsHost => Object::<F>::WITH_FETCH,
    };
    let state = State {
        api,
        vfs_name,
        connection: std::ptr::null(),
        mmap_size: 0,
        file,
    };
    let inner = Inner {
        poisoned: false,
        running: false,
        state,
    };
    let object = Object {
        base: sqlite3_file { pMethods: methods },
        inner: Box::into_raw(Box::new(inner)),
    };
    // SAFETY: the memory has the size that our VFS asks for, and is aligned to 8 bytes, which is enough.
    unsafe { out.cast::<Object<F>>().write(object) };
}

/// Runs `body` on the state of a file, and tells SQLite how that went. If a method of the file is running already, it
/// is busy: a report that waits for a lock runs the application's busy handler, which may use the file again. A file that
/// is closed answers that, as VFSes above ours may keep its methods and call them once more.
///
/// A call of SQLite's on a file is not interrupted: no statement may run meanwhile, which is how one learns of an
/// interrupt, and a commit is not left half done.
///
/// # Safety
/// `file` was made by [`install`] for an `F` and is open until this returns. SQLite calls the methods of a file from
/// one thread at a time, and only those that it found in the file itself. SQLite forbids busy handlers to close the
/// connection.
pub(crate) unsafe fn with<F: File>(
    file: *mut sqlite3_file,
    body: impl FnOnce(&mut State<F>) -> Result<(), Failure>,
) -> Code {
    // SAFETY: what the caller promises.
    deaf(|| unsafe { with_interrupts(file, body) })
}

/// The same for a request that litepack itself, or a pragma, makes of the file.
///
/// # Safety
/// As [`with`].
unsafe fn with_interrupts<F: File>(
    file: *mut sqlite3_file,
    body: impl FnOnce(&mut State<F>) -> Result<(), Failure>,
) -> Code {
    // SAFETY: the object is an `Object<F>`, and what it points to lives until the file is closed. No other call borrows
    // the state while this one is running. The flags are outside the state that `body` borrows.
    unsafe {
        let inner = (*file.cast::<Object<F>>()).inner;
        if inner.is_null() {
            return MISUSE;
        }
        if (*inner).running {
            return BUSY;
        }
        if (*inner).poisoned {
            return INTERNAL;
        }
        (*inner).running = true;
        let (api, state) = ((*inner).state.api, &raw mut (*inner).state);
        let answer = || match body(&mut *state) {
            Ok(()) => OK,
            Err(failure) => report(api, &failure),
        };
        let code = guard(api, || (*inner).poisoned = true, answer);
        (*inner).running = false;
        code
    }
}

/// Has a file look around on its connection, if it wants to: when a transaction takes its first lock, and before it is
/// read or written, which is first where nothing is locked. None of these comes first while a connection is closed.
///
/// # Safety
/// As [`with`].
unsafe fn look_around<F: File>(file: *mut sqlite3_file) -> Code {
    if !F::LOOKS_AROUND {
        return OK;
    }
    // SAFETY: what the caller promises. SQLite keeps the place of a connection as long as the file is open, and calls its
    // methods with the mutex of the connection held. No method of this file is running.
    unsafe {
        let inner = (*file.cast::<Object<F>>()).inner;
        if inner.is_null() || (*inner).running || (*inner).poisoned {
            return OK;
        }
        let state = &raw const (*inner).state;
        if !(*state).file.looks_around() {
            return OK;
        }
        let api = (*state).api;
        let db = (*state).connection.as_ref().copied();
        let Some(db) = db.filter(|db| !db.is_null()) else {
            return OK;
        };
        let mut around = Around::default();
        let look = || {
            around = Around::of(api, db);
            OK
        };
        match guard(api, || (), look) {
            OK => with::<F>(file, |state| state.file.meet(&around)),
            code => code,
        }
    }
}

/// Asks the host's file, which has to be reached after a panic as well. If a method is running, or the host's file has
/// no such method, the answer is `otherwise`.
///
/// # Safety
/// As [`with`].
unsafe fn on_host<F: File>(
    file: *mut sqlite3_file,
    otherwise: c_int,
    body: impl FnOnce(Option<&HostFile>) -> c_int,
) -> c_int {
    let mut answer = otherwise;
    // SAFETY: the object is an `Object<F>` that is open, so its state is there. No method that is running borrows it.
    unsafe {
        let inner = (*file.cast::<Object<F>>()).inner;
        if inner.is_null() || (*inner).running {
            return otherwise;
        }
        let state = &raw mut (*inner).state;
        let ask = || {
            answer = body((*state).file.host());
            OK
        };
        guard((*state).api, || (), ask);
    }
    answer
}

/// To be asked at the beginning of every call that may take memory.
fn relieved<F: File>() -> Result<(), Failure> {
    if F::TAKES_MEMORY && relieve().is_err() {
        return Err(IOERR_NOMEM.into());
    }
    Ok(())
}

/// The offset of a read or write of `n` bytes at `at`. SQLite's numbers have signs, and those it means none of do not
/// become large ones here.
fn place(n: c_int, at: i64) -> Option<u64> {
    let end = at.checked_add(n.into())?;
    (n >= 0 && end >= at).then(|| at.try_into().ok())?
}

impl<F: File> Object<F> {
    const WITH_SHARED_MEMORY: &sqlite3_io_methods = &sqlite3_io_methods {
        iVersion: 3,
        xClose: Some(close::<F>),
        xRead: Some(read::<F>),
        xWrite: Some(write::<F>),
        xTruncate: Some(truncate::<F>),
        xSync: Some(sync::<F>),
        xFileSize: Some(file_size::<F>),
        xLock: Some(lock::<F>),
        xUnlock: Some(unlock::<F>),
        xCheckReservedLock: Some(check_reserved_lock::<F>),
        xFileControl: Some(file_control::<F>),
        xSectorSize: Some(sector_size::<F>),
        xDeviceCharacteristics: Some(device_characteristics::<F>),
        xShmMap: Some(shm_map::<F>),
        xShmLock: Some(shm_lock::<F>),
        xShmBarrier: Some(shm_barrier::<F>),
        xShmUnmap: Some(shm_unmap::<F>),
        xFetch: Some(fetch),
        xUnfetch: Some(unfetch),
    };
    /// Without shared memory, which only a WAL needs.
    const WITH_FETCH: &sqlite3_io_methods = &sqlite3_io_methods {
        xShmMap: None,
        xShmLock: None,
        xShmBarrier: None,
        xShmUnmap: None,
        ..*Self::WITH_SHARED_MEMORY
    };
    /// SQLite looks at no more of it than version 1 has.
    const BASIC: &sqlite3_io_methods = &sqlite3_io_methods {
        iVersion: 1,
        xFetch: None,
        xUnfetch: None,
        ..*Self::WITH_FETCH
    };
}

// SAFETY, for all functions below: SQLite calls them, as methods of a file that `install` has made for the same `F` and
// that is open; so what `with` and `on_host` ask for holds. Where SQLite documents a buffer or a place for a result, it
// gives one.

unsafe extern "C" fn close<F: File>(file: *mut sqlite3_file) -> c_int {
    let object = file.cast::<Object<F>>();
    // SAFETY: see above; it was boxed by `install` and is taken once, because the object no longer names it then.
    let inner = unsafe {
        if (*object).inner.is_null() {
            return OK;
        }
        let inner = Box::from_raw((*object).inner);
        (*object).inner = std::ptr::null_mut();
        (*object).base.pMethods = std::ptr::null();
        *inner
    };
    let (State { api, file, .. }, poisoned) = (inner.state, inner.poisoned);
    guard(api, || (), || file.close(poisoned))
}

unsafe extern "C" fn read<F: File>(
    file: *mut sqlite3_file,
    to: *mut c_void,
    n: c_int,
    at: i64,
) -> c_int {
    let Some(offset) = place(n, at) else {
        return IOERR_READ;
    };
    // SAFETY: see above; the buffer has `n` bytes.
    unsafe {
        let buf = std::slice::from_raw_parts_mut(to.cast::<u8>(), len(n));
        // While a file is being opened there is nothing around it yet.
        if buf.len() != FIRST_READ {
            match look_around::<F>(file) {
                OK => {}
                code => return code,
            }
        }
        let code = with::<F>(file, |state| {
            relieved::<F>()?;
            let done = state.file.read(buf, offset)?;
            if done < buf.len() {
                buf[done..].fill(0);
                return Err(IOERR_SHORT_READ.into());
            }
            Ok(())
        });
        match code {
            // SQLite begins a transaction again that is refused its first page (`sqlite3BtreeBeginTrans`). Of any other
            // page it expects no such code: a backup would go on without the page, a statement keep half its changes.
            BUSY if offset > 0 => IOERR_READ,
            INTERNAL => IOERR_READ,
            code => code,
        }
    }
}

unsafe extern "C" fn write<F: File>(
    file: *mut sqlite3_file,
    from: *const c_void,
    n: c_int,
    at: i64,
) -> c_int {
    let Some(offset) = place(n, at) else {
        return IOERR_WRITE;
    };
    // SAFETY: see above; the buffer has `n` bytes.
    unsafe {
        let bytes = std::slice::from_raw_parts(from.cast::<u8>(), len(n));
        match look_around::<F>(file) {
            OK => {}
            code => return as_io_error(code, IOERR_WRITE),
        }
        let code = with::<F>(file, |state| {
            relieved::<F>()?;
            state.file.write(bytes, offset)
        });
        as_io_error(code, IOERR_WRITE)
    }
}

unsafe extern "C" fn truncate<F: File>(file: *mut sqlite3_file, size: i64) -> c_int {
    let Ok(size) = u64::try_from(size) else {
        return IOERR_TRUNCATE;
    };
    let truncate = |state: &mut State<F>| {
        relieved::<F>()?;
        state.file.truncate(size)
    };
    // SAFETY: see above.
    as_io_error(unsafe { with(file, truncate) }, IOERR_TRUNCATE)
}

unsafe extern "C" fn sync<F: File>(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: see above.
    let code = unsafe { with::<F>(file, |state| state.file.sync(flags)) };
    as_io_error(code, IOERR_FSYNC)
}

unsafe extern "C" fn file_size<F: File>(file: *mut sqlite3_file, to: *mut i64) -> c_int {
    // SAFETY: see above.
    let code = unsafe {
        with::<F>(file, |state| {
            let size = i64::try_from(state.file.size()?).map_err(|_| IOERR_FSTAT)?;
            to.write(size);
            Ok(())
        })
    };
    match code {
        // A checkpoint asks, too, and what is busy it takes for a reader in the way.
        BUSY | INTERNAL => IOERR_FSTAT,
        code => code,
    }
}

unsafe extern "C" fn lock<F: File>(file: *mut sqlite3_file, level: c_int) -> c_int {
    let lock = |state: &mut State<F>| {
        relieved::<F>()?;
        state.file.lock(level)
    };
    // SAFETY: see above.
    unsafe {
        match if level == LOCK_SHARED {
            look_around::<F>(file)
        } else {
            OK
        } {
            OK => with(file, lock),
            code => code,
        }
    }
}

unsafe extern "C" fn unlock<F: File>(file: *mut sqlite3_file, level: c_int) -> c_int {
    let lower = |state: &mut State<F>| {
        state.file.unlocking(level);
        Ok(())
    };
    // SAFETY: see above. A poisoned file must still let go of its locks.
    unsafe {
        with(file, lower);
        on_host::<F>(file, INTERNAL, |host| {
            host.map_or(OK, |host| host.unlock(level))
        })
    }
}

unsafe extern "C" fn check_reserved_lock<F: File>(
    file: *mut sqlite3_file,
    held: *mut c_int,
) -> c_int {
    // SAFETY: see above.
    unsafe {
        with::<F>(file, |state| {
            let is_held = match state.file.host() {
                Some(host) => host.is_reserved()?,
                None => false,
            };
            held.write(is_held.into());
            Ok(())
        })
    }
}

/// The library that has a file open, and the connection if it is known; the code if a method of the file is running.
///
/// # Safety
/// As [`with`].
unsafe fn user_of<F: File>(file: *mut sqlite3_file) -> Result<(Api, Option<*mut sqlite3>), Code> {
    let mut user = None;
    // SAFETY: what the caller promises. SQLite keeps the place of a connection as long as the file is open.
    let code = unsafe {
        with::<F>(file, |state| {
            let connection = state.connection.as_ref().copied();
            user = Some((state.api, connection.filter(|db| !db.is_null())));
            Ok(())
        })
    };
    user.ok_or(code)
}

/// Whether SQLite may not know the size of the pages of a file.
///
/// # Safety
/// As [`with`].
unsafe fn has_unknown_pages<F: File>(file: *mut sqlite3_file) -> bool {
    let mut is_unknown = false;
    // SAFETY: what the caller promises.
    unsafe {
        with::<F>(file, |state| {
            let database = state.file.database();
            is_unknown = database.is_some_and(|database| database.has_unknown_pages());
            Ok(())
        })
    };
    is_unknown
}

/// Answers a pragma that gives another key.
///
/// # Safety
/// As [`with`]; the argument is that of the pragma.
unsafe fn rekey<F: File>(
    file: *mut sqlite3_file,
    (api, connection): (Api, Option<*mut sqlite3>),
    arg: *mut c_void,
) -> Code {
    let mut is_long = false;
    // SAFETY: what the caller promises; no method of the file is running, and the connection, which is open, runs the
    // pragma.
    unsafe {
        let ask = |state: &mut State<F>| {
            is_long = state.file.is_rekeyed_anew();
            Ok(())
        };
        match with::<F>(file, ask) {
            OK => {}
            code => return code,
        }
        let answer = || with_interrupts::<F>(file, |state| control(state, fcntl::PRAGMA, arg));
        let Some(db) = connection.filter(|_| is_long) else {
            return answer();
        };
        match refuse_if_query_only(api, connection, arg) {
            OK => {}
            code => return code,
        }
        let mut around = None;
        let look = || {
            around = Some(Around::of(api, db));
            OK
        };
        match guard(api, || (), look) {
            OK => {}
            code => return code,
        }
        let note = |state: &mut State<F>| {
            if let Some(around) = around {
                state.file.note_around(around);
            }
            Ok(())
        };
        match with::<F>(file, note) {
            OK => heard(api, db, answer),
            code => code,
        }
    }
}

unsafe extern "C" fn file_control<F: File>(
    file: *mut sqlite3_file,
    op: c_int,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: see above; the argument is what the operation asks for. The file's connection is the one that runs the
    // pragma.
    unsafe {
        if op == fcntl::PRAGMA && is_long_pragma(arg) {
            // Not while a method is running: SQLite asks this file about every pragma.
            let (api, connection) = match user_of::<F>(file) {
                Ok(user) => user,
                Err(code) => return code,
            };
            if is_rekey(arg) {
                return rekey::<F>(file, (api, connection), arg);
            }
            if is_maintenance(arg) {
                match refuse_if_query_only(api, connection, arg) {
                    OK => {}
                    code => return code,
                }
            }
            let answer = || with_interrupts::<F>(file, |state| control(state, op, arg));
            return match connection {
                Some(db) => heard(api, db, answer),
                None => answer(),
            };
        }
        if op == fcntl::PRAGMA
            && asks_page_size(arg)
            && has_unknown_pages::<F>(file)
            && let Ok((api, Some(db))) = user_of::<F>(file)
        {
            have_read(api, db);
        }
        let answer = |state: &mut State<F>| control(state, op, arg);
        if may_take_long(op) {
            with_interrupts(file, answer)
        } else {
            with(file, answer)
        }
    }
}

unsafe extern "C" fn sector_size<F: File>(file: *mut sqlite3_file) -> c_int {
    // SAFETY: see above.
    unsafe {
        on_host::<F>(file, F::SECTOR_SIZE, |host| {
            host.map_or(F::SECTOR_SIZE, HostFile::sector_size)
        })
    }
}

unsafe extern "C" fn device_characteristics<F: File>(file: *mut sqlite3_file) -> c_int {
    // SAFETY: see above.
    unsafe {
        on_host::<F>(file, 0, |host| {
            host.map_or(F::CHARACTERISTICS, |host| {
                host.characteristics() & F::CHARACTERISTICS
            })
        })
    }
}

unsafe extern "C" fn shm_map<F: File>(
    file: *mut sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    to: *mut *mut c_void,
) -> c_int {
    let map = |state: &mut State<F>| {
        if region == 0 {
            state.file.index_mapping()?;
        }
        let Some(host) = state.file.host() else {
            return Err(CANTOPEN.into());
        };
        // SAFETY: the arguments are SQLite's.
        let code = unsafe { host.map_index(region, size, extend, to) };
        // A read-only mapping is a mapping too.
        if matches!(code & 0xff, OK | READONLY) && region == 0 {
            let is_mapped = host.has_index();
            state.file.index_mapped(is_mapped);
        }
        if code == OK { Ok(()) } else { Err(code.into()) }
    };
    // SAFETY: see above.
    unsafe { with(file, map) }
}

unsafe extern "C" fn shm_lock<F: File>(
    file: *mut sqlite3_file,
    first: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    let is_released = flags & SQLITE_SHM_UNLOCK != 0;
    let locks = first..first.saturating_add(count);
    let locking = |state: &mut State<F>| state.file.index_locking(locks.clone(), flags);
    let locked = |state: &mut State<F>| state.file.index_locked(locks.clone(), flags);
    let refused = |state: &mut State<F>| {
        state.file.index_refused();
        Ok(())
    };
    // SAFETY: see above. A poisoned file must still let go of its locks.
    unsafe {
        match with(file, locking) {
            OK => {}
            _ if is_released => {}
            code => return code,
        }
        let on_index = |flags| {
            on_host::<F>(file, BUSY, |host| {
                host.map_or(BUSY, |host| host.pass_index_lock(first, count, flags))
            })
        };
        match on_index(flags) {
            code if is_released => code,
            OK => {
                let code = with(file, locked);
                if code != OK {
                    on_index(flags & !SQLITE_SHM_LOCK | SQLITE_SHM_UNLOCK);
                }
                code
            }
            code => {
                with(file, refused);
                code
            }
        }
    }
}

unsafe extern "C" fn shm_barrier<F: File>(file: *mut sqlite3_file) {
    let passed = |state: &mut State<F>| {
        state.file.index_barrier();
        Ok(())
    };
    // SAFETY: see above.
    unsafe {
        on_host::<F>(file, OK, |host| {
            if let Some(host) = host {
                host.index_barrier();
            }
            OK
        });
        with(file, passed);
    }
}

unsafe extern "C" fn shm_unmap<F: File>(file: *mut sqlite3_file, delete: c_int) -> c_int {
    let forget = |state: &mut State<F>| {
        state.file.index_mapped(false);
        Ok(())
    };
    // SAFETY: see above. A poisoned file lets go as well.
    unsafe {
        with(file, forget);
        on_host::<F>(file, INTERNAL, |host| {
            host.map_or(OK, |host| host.unmap_index(delete))
        })
    }
}

/// The bytes of a page are on disk in no form that could be mapped, so SQLite reads it instead. The method is there
/// because `PRAGMA mmap_size` only takes a value from a file that has it.
unsafe extern "C" fn fetch(_: *mut sqlite3_file, _: i64, _: c_int, to: *mut *mut c_void) -> c_int {
    // SAFETY: SQLite gives a place for the result.
    unsafe { to.write(std::ptr::null_mut()) };
    OK
}

unsafe extern "C" fn unfetch(_: *mut sqlite3_file, _: i64, _: *mut c_void) -> c_int {
    OK
}
