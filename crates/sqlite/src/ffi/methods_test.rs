//! A packed file over a host file in memory, called as SQLite calls it: a panic on the way is
//! SQLITE_INTERNAL, and from then on the file only lets go of its locks and closes.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use litepack_btree::PageNumber;
use litepack_io::testing::MemoryStorage;
use litepack_store::{FileId, FileUuid, Options, Store};

use super::methods::{OBJECT_SIZE, install, with};
use crate::c::api::tests::silent;
use crate::c::api::{Names, call};
use crate::c::bindings::{
    SQLITE_SHM_EXCLUSIVE, SQLITE_SHM_LOCK, SQLITE_SHM_SHARED, SQLITE_SHM_UNLOCK, sqlite3_file,
    sqlite3_io_methods,
};
use crate::host::file::HostFile;
use crate::host::name::HostName;

use crate::beside::entry::Entry;
use crate::c::codes::{
    BUSY, CORRUPT, ERROR, INTERNAL, IOERR_DATA, IOERR_FSTAT, IOERR_FSYNC, IOERR_READ,
    IOERR_SHORT_READ, IOERR_TRUNCATE, IOERR_WRITE, LOCK_EXCLUSIVE, LOCK_NONE, LOCK_SHARED, MISUSE,
    NOTADB, NOTFOUND, OK, OPEN_MAIN_DB, OPEN_READWRITE, READONLY, fcntl,
};
use crate::files::company::Wishes;
use crate::files::journal::JournalFile;
use crate::files::keyed::KeyedFile;
use crate::files::packed::PackedFile;
use crate::files::place::Place;
use crate::files::{Database, File};
use crate::session::packed::Packed;
use crate::session::{Handle, Upkeep};

/// A host's file: SQLite's field, then its content and lock.
#[repr(C)]
struct MemoryFile {
    base: sqlite3_file,
    bytes: *mut Vec<u8>,
    lock: c_int,
    /// The flags of every sync.
    synced: *mut Vec<c_int>,
}

unsafe fn content<'a>(file: *mut sqlite3_file) -> &'a mut Vec<u8> {
    // SAFETY: the tests below make no other kind of host file.
    unsafe { &mut *(*file.cast::<MemoryFile>()).bytes }
}

unsafe extern "C" fn close(_: *mut sqlite3_file) -> c_int {
    OK
}

unsafe extern "C" fn read(file: *mut sqlite3_file, to: *mut c_void, n: c_int, at: i64) -> c_int {
    // SAFETY: called with a buffer of `n` bytes.
    unsafe {
        let buf = std::slice::from_raw_parts_mut(to.cast::<u8>(), n as usize);
        let bytes = content(file);
        let start = (at as usize).min(bytes.len());
        let have = buf.len().min(bytes.len() - start);
        buf[..have].copy_from_slice(&bytes[start..start + have]);
        buf[have..].fill(0);
        if have == buf.len() {
            OK
        } else {
            IOERR_SHORT_READ
        }
    }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    from: *const c_void,
    n: c_int,
    at: i64,
) -> c_int {
    // SAFETY: called with a buffer of `n` bytes.
    unsafe {
        let new = std::slice::from_raw_parts(from.cast::<u8>(), n as usize);
        let bytes = content(file);
        let stop = at as usize + new.len();
        bytes.resize(bytes.len().max(stop), 0);
        bytes[at as usize..stop].copy_from_slice(new);
    }
    OK
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, len: i64) -> c_int {
    // SAFETY: the file is a `MemoryFile`, whose content lives as long as it.
    unsafe { content(file) }.truncate(len as usize);
    OK
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: the file is a `MemoryFile`, and the list of syncs outlives it.
    unsafe { (*(*file.cast::<MemoryFile>()).synced).push(flags) };
    OK
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, to: *mut i64) -> c_int {
    // SAFETY: the file is a `MemoryFile`; called with a place for the result.
    unsafe { to.write(content(file).len() as i64) };
    OK
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    // SAFETY: the file is a `MemoryFile`, which nothing else uses during the call.
    unsafe { (*file.cast::<MemoryFile>()).lock = level };
    OK
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, level: c_int) -> c_int {
    // No VFS knows another way down. A panic here ends the tests.
    assert!(level <= LOCK_SHARED, "unlocked to {level}");
    // SAFETY: as for `lock`.
    unsafe { lock(file, level) }
}

unsafe extern "C" fn sync_fails(_: *mut sqlite3_file, _: c_int) -> c_int {
    IOERR_FSYNC
}

unsafe extern "C" fn check_reserved_lock(_: *mut sqlite3_file, held: *mut c_int) -> c_int {
    // SAFETY: called with a place for the result.
    unsafe { held.write(0) };
    OK
}

unsafe extern "C" fn file_control(_: *mut sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    NOTFOUND
}

unsafe extern "C" fn zero(_: *mut sqlite3_file) -> c_int {
    0
}

const HOST_METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(zero),
    xDeviceCharacteristics: Some(zero),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};
static HOST: sqlite3_io_methods = HOST_METHODS;
static SYNC_FAILS: sqlite3_io_methods = sqlite3_io_methods {
    xSync: Some(sync_fails),
    ..HOST_METHODS
};

/// A file of the host in memory.
fn in_memory(
    methods: &'static sqlite3_io_methods,
    bytes: &mut Vec<u8>,
    synced: &mut Vec<c_int>,
) -> MemoryFile {
    MemoryFile {
        base: sqlite3_file { pMethods: methods },
        bytes,
        lock: 0,
        synced,
    }
}

/// Calls `body` with an open packed file that has these bytes, and the host's; gives the flags of every sync.
fn over_memory(
    bytes: &mut Vec<u8>,
    body: impl FnOnce(*mut sqlite3_file, *mut MemoryFile),
) -> Vec<c_int> {
    over_host(&HOST, bytes, body)
}

/// As [`over_memory`], where the host's file has these methods.
fn over_host(
    methods: &'static sqlite3_io_methods,
    bytes: &mut Vec<u8>,
    body: impl FnOnce(*mut sqlite3_file, *mut MemoryFile),
) -> Vec<c_int> {
    let mut synced = Vec::new();
    let mut memory = vec![0u128; OBJECT_SIZE.div_ceil(16)];
    let file: *mut sqlite3_file = memory.as_mut_ptr().cast();
    let mut host = in_memory(methods, bytes, &mut synced);
    let host = &raw mut host;
    // SAFETY: the memory holds our file, and nothing else uses it or the host's.
    unsafe {
        let disk = HostFile::adopt(host.cast());
        let options = Options {
            file: FileId::unique(),
            ..Options::default()
        };
        let store = Store::open(disk, options).unwrap();
        let handle = Handle::new(Packed::new(store), Some(Upkeep::default()));
        let place = (c"/none/a.db", handle.disk().peek());
        let entry = Entry::new(place, Names::Ours, FileUuid([0; 16]), 1);
        let packed = PackedFile::new(handle, entry);
        install(file, silent(), "litepack", packed);
        body(file, host);
    }
    synced
}

/// The bytes of a packed file with one page.
fn packed() -> Vec<u8> {
    packed_with([7; 4096])
}

fn packed_with(page: [u8; 4096]) -> Vec<u8> {
    let disk = MemoryStorage::default();
    let mut store = Store::open(&disk, Options::default()).unwrap();
    store.write(0, &page).unwrap();
    store.flush().unwrap();
    store.close();
    disk.snapshot()
}

#[test]
fn syncs_are_as_full_as_sqlite_asks() {
    // SQLITE_SYNC_NORMAL, _FULL and _DATAONLY, which means nothing for a file that grows with each commit.
    for (asked, expected) in [(2, 2), (3, 3), (0x12, 2), (0x13, 3)] {
        let synced = over_memory(&mut packed(), |file, _| {
            // SAFETY: the file is open, and the buffer as long as said.
            unsafe {
                let methods = &*(*file).pMethods;
                assert_eq!(call!(methods, xLock(file, 1)), OK);
                assert_eq!(call!(methods, xLock(file, 2)), OK);
                for byte in 1..4 {
                    let page = [byte; 4096];
                    let from = page.as_ptr().cast();
                    assert_eq!(call!(methods, xWrite(file, from, 4096, 0)), OK);
                    assert_eq!(call!(methods, xSync(file, asked)), OK);
                }
                assert_eq!(call!(methods, xUnlock(file, 0)), OK);
                assert_eq!(call!(methods, xClose(file)), OK);
            }
        });
        assert!(synced.len() >= 3, "{synced:?}");
        assert_eq!(synced.last(), Some(&expected), "{asked:#x}: {synced:?}");
        assert!(
            synced[1..].iter().all(|flags| *flags == expected),
            "{synced:?}"
        );
    }
}

/// So is a journal that has its name.
#[test]
fn syncs_of_a_journal_are_as_full_as_sqlite_asks() {
    let (mut bytes, mut synced) = (vec![0; 512], Vec::new());
    let mut host = in_memory(&HOST, &mut bytes, &mut synced);
    let mut memory = vec![0u128; OBJECT_SIZE.div_ceil(16)];
    let file: *mut sqlite3_file = memory.as_mut_ptr().cast();
    // SAFETY: the memory holds our file, and nothing else uses it or the host's.
    unsafe {
        let name = HostName::new(std::ptr::null_mut(), c"/none/b.db-lpjourn".as_ptr());
        let disk = HostFile::adopt((&raw mut host).cast());
        let journal = JournalFile::of(name, disk).unwrap();
        install(file, silent(), "litepack", journal);
        let methods = &*(*file).pMethods;
        for asked in [2, 3, 0x12, 0x13] {
            assert_eq!(call!(methods, xSync(file, asked)), OK);
        }
        assert_eq!(call!(methods, xClose(file)), OK);
    }
    assert_eq!(synced, [2, 3, 2, 3]);
}

/// A place for a file in memory.
fn place() -> Place {
    let path = c"/none/a.db";
    Place {
        // SAFETY: the name is constant, and what has no VFS is never opened by it.
        name: unsafe { HostName::new(std::ptr::null_mut(), path.as_ptr()) },
        flags: OPEN_READWRITE | OPEN_MAIN_DB,
        path: path.into(),
        names: Names::Ours,
        journal: 1,
        is_immutable: false,
        is_writable: true,
        erases_by_default: false,
        settings: Vec::new(),
        padding: None,
    }
}

/// SQLite before 3.54 has the host open a file for writing that is said to be immutable.
#[test]
fn what_never_changes_is_not_maintained() {
    for (is_immutable, expected) in [(false, ERROR), (true, READONLY)] {
        // In WAL mode, in which it wants to be read first.
        let (mut bytes, mut synced) = (packed_with([2; 4096]), Vec::new());
        let mut host = in_memory(&HOST, &mut bytes, &mut synced);
        // SAFETY: nothing else uses the host's file.
        let disk = unsafe { HostFile::adopt((&raw mut host).cast()) };
        let place = Place {
            is_immutable,
            ..place()
        };
        let mut file = place.open(disk, None).unwrap();
        file.lock(LOCK_SHARED).unwrap();
        let code = file.maintain(None).map_err(|refused| refused.code);
        assert_eq!(code, Err(expected));
        file.unlocking(LOCK_NONE);
        assert_eq!(file.close(false), OK);
    }
}

/// Nor would SQLite look for a journal to play back, which it does with the lock.
#[test]
fn a_file_without_its_key_is_not_locked() {
    let (mut bytes, mut synced) = (packed(), Vec::new());
    let mut host = in_memory(&HOST, &mut bytes, &mut synced);
    let host = &raw mut host;
    let mut memory = vec![0u128; OBJECT_SIZE.div_ceil(16)];
    let file: *mut sqlite3_file = memory.as_mut_ptr().cast();
    // SAFETY: the memory holds our file, and nothing else uses it or the host's.
    unsafe {
        let locked = KeyedFile::locked(HostFile::adopt(host.cast()), place(), Wishes::default());
        install(file, silent(), "litepack", locked);
        let methods = &*(*file).pMethods;
        for level in [LOCK_SHARED, LOCK_EXCLUSIVE] {
            assert_eq!(call!(methods, xLock(file, level)), NOTADB);
            assert_eq!((*host).lock, LOCK_NONE);
        }
        assert_eq!(call!(methods, xClose(file)), OK);
    }
}

/// Who takes over makes the last commit durable first. If that fails, SQLite has the lock that it had before.
#[test]
fn an_exclusive_lock_that_fails_leaves_the_host_to_go_down_by_itself() {
    let mut bytes = packed();
    let page = [9; 4096];
    // SAFETY: the file is open, and the buffer as long as said.
    over_memory(&mut bytes, |file, _| unsafe {
        let methods = &*(*file).pMethods;
        for level in [1, 2, LOCK_EXCLUSIVE] {
            assert_eq!(call!(methods, xLock(file, level)), OK);
        }
        let from = page.as_ptr().cast();
        assert_eq!(call!(methods, xWrite(file, from, 4096, 0)), OK);
        // The end of a transaction without syncs.
        let none = std::ptr::null_mut();
        call!(methods, xFileControl(file, fcntl::COMMIT_PHASETWO, none));
        assert_eq!(call!(methods, xUnlock(file, 0)), OK);
        assert_eq!(call!(methods, xClose(file)), OK);
    });
    for reserved in [false, true] {
        // SAFETY: as above.
        over_host(&SYNC_FAILS, &mut bytes, |file, host| unsafe {
            let methods = &*(*file).pMethods;
            assert_eq!(call!(methods, xLock(file, 1)), OK);
            if reserved {
                assert_eq!(call!(methods, xLock(file, 2)), OK);
            }
            assert_eq!(call!(methods, xLock(file, LOCK_EXCLUSIVE)), IOERR_FSYNC);
            let expected = if reserved {
                LOCK_EXCLUSIVE
            } else {
                LOCK_SHARED
            };
            assert_eq!((*host).lock, expected);
            assert_eq!(call!(methods, xUnlock(file, 1)), OK);
            assert_eq!((*host).lock, LOCK_SHARED);
            assert_eq!(call!(methods, xUnlock(file, 0)), OK);
            assert_eq!(call!(methods, xClose(file)), OK);
        });
    }
}

#[test]
fn negative_numbers_are_refused() {
    over_memory(&mut packed(), |file, _| {
        // SAFETY: the file is open, and the buffer as long as said.
        unsafe {
            let methods = &*(*file).pMethods;
            assert_eq!(call!(methods, xLock(file, 1)), OK);
            assert_eq!(call!(methods, xLock(file, 2)), OK);
            let mut page = [0u8; 16];
            let to = page.as_mut_ptr().cast();
            for (n, at) in [(16, -1), (-1, 0), (16, i64::MIN), (16, i64::MAX - 1)] {
                assert_eq!(call!(methods, xRead(file, to, n, at)), IOERR_READ);
                assert_eq!(call!(methods, xWrite(file, to, n, at)), IOERR_WRITE);
            }
            for size in [-1, i64::MIN] {
                assert_eq!(call!(methods, xTruncate(file, size)), IOERR_TRUNCATE);
                let mut hint = size;
                let hint = (&raw mut hint).cast();
                assert_eq!(call!(methods, xFileControl(file, 5, hint)), MISUSE);
            }
            let mut size = 0;
            assert_eq!(call!(methods, xFileSize(file, &raw mut size)), OK);
            assert_eq!(size, 4096);
            assert_eq!(call!(methods, xUnlock(file, 0)), OK);
            assert_eq!(call!(methods, xClose(file)), OK);
        }
    });
}

/// The bytes of a packed file with two pages, the second of which is damaged.
fn damaged() -> Vec<u8> {
    let disk = MemoryStorage::default();
    let mut store = Store::open(&disk, Options::default()).unwrap();
    store.write(0, &[7; 4096]).unwrap();
    store.write(4096, &[8; 4096]).unwrap();
    store.flush().unwrap();
    let place = store.place_of_page(PageNumber::new(2).unwrap());
    let (at, _) = place.unwrap().expect("it is stored");
    store.close();
    let mut bytes = disk.snapshot();
    bytes[at.0 as usize + 2] ^= 1;
    bytes
}

/// After "malformed" SQLite would go on with half a statement, and a rollback could leave it in its cache.
#[test]
fn damage_is_an_io_error_to_a_transaction_that_writes() {
    let mut bytes = damaged();
    // SAFETY: the file is open, and the buffer as long as said.
    over_memory(&mut bytes, |file, _| unsafe {
        let methods = &*(*file).pMethods;
        let mut page = [0u8; 4096];
        let mut read = || call!(methods, xRead(file, page.as_mut_ptr().cast(), 4096, 4096));
        assert_eq!(call!(methods, xLock(file, 1)), OK);
        assert_eq!(read(), CORRUPT);
        assert_eq!(call!(methods, xLock(file, 2)), OK);
        assert_eq!(read(), IOERR_DATA);
        assert_eq!(call!(methods, xUnlock(file, 1)), OK);
        assert_eq!(read(), CORRUPT);
        assert_eq!(call!(methods, xUnlock(file, 0)), OK);
        assert_eq!(call!(methods, xClose(file)), OK);
    });
}

/// The WAL index of a host's file that has one.
static INDEX: [AtomicU32; 8192] = [const { AtomicU32::new(0) }; 8192];
/// Whether it may only be read, and whether its locks are refused.
static READ_ONLY: AtomicBool = AtomicBool::new(false);
static REFUSED: AtomicBool = AtomicBool::new(false);
/// The locks of it that SQLite has.
static INDEX_LOCKS: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn shm_map(
    _: *mut sqlite3_file,
    _: c_int,
    _: c_int,
    _: c_int,
    to: *mut *mut c_void,
) -> c_int {
    // SAFETY: called with a place for the result.
    unsafe { to.write(INDEX.as_ptr().cast_mut().cast()) };
    if READ_ONLY.load(Ordering::SeqCst) {
        READONLY
    } else {
        OK
    }
}

unsafe extern "C" fn shm_lock(_: *mut sqlite3_file, first: c_int, n: c_int, flags: c_int) -> c_int {
    let mask = ((1 << n) - 1) << first;
    if REFUSED.load(Ordering::SeqCst) {
        return BUSY;
    }
    if flags & SQLITE_SHM_UNLOCK != 0 {
        INDEX_LOCKS.fetch_and(!mask, Ordering::SeqCst);
    } else {
        INDEX_LOCKS.fetch_or(mask, Ordering::SeqCst);
    }
    OK
}

unsafe extern "C" fn shm_barrier(_: *mut sqlite3_file) {}

unsafe extern "C" fn shm_unmap(_: *mut sqlite3_file, _: c_int) -> c_int {
    OK
}

static WITH_INDEX: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 2,
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    ..HOST_METHODS
};

/// One test, as there is one index.
#[test]
fn with_a_wal_index() {
    let (lock, unlock) = (SQLITE_SHM_LOCK, SQLITE_SHM_UNLOCK);
    let (shared, exclusive) = (SQLITE_SHM_SHARED, SQLITE_SHM_EXCLUSIVE);
    let (writes, checkpoints, reads) = (0, 1, 4);
    let mut bytes = damaged();
    // SAFETY: the file is open, and the buffers are as long as said.
    over_host(&WITH_INDEX, &mut bytes, |file, _| unsafe {
        let methods = &*(*file).pMethods;
        let mut index = std::ptr::null_mut();
        assert_eq!(
            call!(methods, xShmMap(file, 0, 32768, 1, &raw mut index)),
            OK
        );
        let shm = |first, flags| call!(methods, xShmLock(file, first, 1, flags));
        let mut page = [0u8; 4096];
        let mut read_at = |at| call!(methods, xRead(file, page.as_mut_ptr().cast(), 4096, at));
        assert_eq!(call!(methods, xLock(file, 1)), OK);

        // Damage is an I/O error to one that writes.
        assert_eq!(shm(reads, lock | shared), OK);
        call!(methods, xShmBarrier(file));
        assert_eq!(read_at(4096), CORRUPT);
        assert_eq!(shm(writes, lock | exclusive), OK);
        assert_eq!(read_at(4096), IOERR_DATA);
        assert_eq!(shm(writes, unlock | exclusive), OK);
        assert_eq!(read_at(4096), CORRUPT);
        assert_eq!(shm(reads, unlock | shared), OK);

        // Who was misled does not write, nor have the file for itself, and begins anew at the first page. Who writes
        // already has an I/O error, and so has any read of another page, which SQLite does not begin anew for.
        let doubt = &INDEX[30];
        for has_lock in [false, true] {
            if has_lock {
                assert_eq!(shm(writes, lock | exclusive), OK);
            }
            assert_eq!(shm(reads, lock | shared), OK);
            doubt.fetch_add(2, Ordering::SeqCst);
            call!(methods, xShmBarrier(file));
            if has_lock {
                assert_eq!(read_at(0), IOERR_READ);
                assert_eq!(shm(writes, unlock | exclusive), OK);
            } else {
                assert_eq!(read_at(0), BUSY);
                assert_eq!(read_at(4096), IOERR_READ);
                assert_eq!(shm(writes, lock | exclusive), BUSY);
                assert_eq!(call!(methods, xLock(file, LOCK_EXCLUSIVE)), BUSY);
            }
            assert_eq!(shm(reads, unlock | shared), OK);
        }
        // Nor does a lock that was refused mislead a transaction.
        REFUSED.store(true, Ordering::SeqCst);
        assert_eq!(shm(reads, lock | shared), BUSY);
        REFUSED.store(false, Ordering::SeqCst);
        doubt.fetch_add(2, Ordering::SeqCst);
        call!(methods, xShmBarrier(file));
        assert_eq!(read_at(4096), CORRUPT);
        // A checkpoint that fails after the barrier does not mislead the transaction.
        assert_eq!(shm(reads, lock | shared), OK);
        call!(methods, xShmBarrier(file));
        doubt.fetch_add(2, Ordering::SeqCst);
        call!(methods, xShmBarrier(file));
        assert_eq!(read_at(4096), CORRUPT);
        assert_eq!(shm(reads, unlock | shared), OK);

        // A checkpoint does not copy if the WAL was begun anew since it began. Who writes as well has looked since then, and
        // of an index that was not made SQLite knows nothing that can be wrong.
        let copies = 3;
        let (made, salt) = (&INDEX[3], &INDEX[8]);
        for (is_made, writes_too, expected) in [(0, false, OK), (1, false, BUSY), (1, true, OK)] {
            made.store(u32::from_ne_bytes([is_made, 0, 0, 0]), Ordering::SeqCst);
            salt.store(7, Ordering::SeqCst);
            for expected in [OK, expected] {
                assert_eq!(shm(checkpoints, lock | exclusive), OK);
                if writes_too {
                    assert_eq!(shm(writes, lock | exclusive), OK);
                }
                salt.fetch_add(
                    u32::from(expected == BUSY || is_made == 0 || writes_too),
                    Ordering::SeqCst,
                );
                assert_eq!(shm(copies, lock | exclusive), expected);
                assert_eq!(
                    INDEX_LOCKS.load(Ordering::SeqCst) >> copies & 1,
                    u32::from(expected == OK)
                );
                for held in [copies, writes, checkpoints] {
                    shm(held, unlock | exclusive);
                }
            }
        }
        // One that reads the database alone does no checkpoint.
        assert_eq!(shm(copies, lock | exclusive), OK);
        assert_eq!(shm(copies, unlock | exclusive), OK);
        made.store(0, Ordering::SeqCst);

        // A checkpoint whose last step fails is taken back as its lock is let go of, to what was true before.
        let backfill = &INDEX[24];
        backfill.store(2, Ordering::SeqCst);
        assert_eq!(shm(checkpoints, lock | exclusive), OK);
        let code = with::<PackedFile>(file, |state| {
            let full = std::io::Error::other("on purpose");
            let mut checkpoint = state.file.handle.checkpoint();
            assert!(checkpoint.finish_by(|_| Err(full.into())).is_err());
            Ok(())
        });
        assert_eq!(code, OK);
        assert!(!doubt.load(Ordering::SeqCst).is_multiple_of(2));
        // SQLite goes on, and tells readers of frames that are not there.
        backfill.store(7, Ordering::SeqCst);
        assert_eq!(shm(checkpoints, unlock | exclusive), OK);
        assert_eq!(backfill.load(Ordering::SeqCst), 2);
        assert!(doubt.load(Ordering::SeqCst).is_multiple_of(2));
        backfill.store(0, Ordering::SeqCst);

        // A panic in a checkpoint: its lock is let go of, and what it left is settled by the next one.
        assert_eq!(shm(checkpoints, lock | exclusive), OK);
        assert!(doubt.load(Ordering::SeqCst).is_multiple_of(2));
        let panics = with::<PackedFile>(file, |state| {
            let finished = state
                .file
                .handle
                .checkpoint()
                .finish_by(|_| panic!("on purpose"));
            finished.map_err(|_| IOERR_READ.into())
        });
        assert_eq!(panics, INTERNAL);
        assert!(!doubt.load(Ordering::SeqCst).is_multiple_of(2));
        assert_eq!(shm(reads, lock | shared), INTERNAL);
        assert_eq!(shm(checkpoints, unlock | exclusive), OK);
        assert_eq!(INDEX_LOCKS.load(Ordering::SeqCst), 0);
        assert_eq!(call!(methods, xUnlock(file, 0)), OK);
        assert_eq!(call!(methods, xClose(file)), OK);
    });
    // SAFETY: the file is open.
    over_host(&WITH_INDEX, &mut bytes, |file, _| unsafe {
        let methods = &*(*file).pMethods;
        let map = |expected| {
            let mut index = std::ptr::null_mut();
            let code = call!(methods, xShmMap(file, 0, 32768, 1, &raw mut index));
            assert_eq!(code, expected);
        };
        let (backfill, doubt) = (&INDEX[24], &INDEX[30]);
        backfill.store(7, Ordering::SeqCst);
        let begin = || call!(methods, xShmLock(file, reads, 1, lock | shared));
        // Where the index is only read, it is not settled, and not believed.
        READ_ONLY.store(true, Ordering::SeqCst);
        map(READONLY);
        assert_eq!(begin(), BUSY);
        assert_eq!(call!(methods, xLock(file, 1)), OK);
        assert_eq!(call!(methods, xLock(file, LOCK_EXCLUSIVE)), OK);
        assert_eq!(backfill.load(Ordering::SeqCst), 7);
        assert_eq!(call!(methods, xUnlock(file, 0)), OK);
        READ_ONLY.store(false, Ordering::SeqCst);
        map(OK);
        assert_eq!(begin(), OK);
        assert_eq!(backfill.load(Ordering::SeqCst), 0);
        assert!(doubt.load(Ordering::SeqCst).is_multiple_of(2));
        // Who has the file for itself settles it, too.
        backfill.store(7, Ordering::SeqCst);
        doubt.fetch_or(1, Ordering::SeqCst);
        assert_eq!(call!(methods, xLock(file, 1)), OK);
        assert_eq!(backfill.load(Ordering::SeqCst), 7);
        assert_eq!(call!(methods, xLock(file, LOCK_EXCLUSIVE)), OK);
        assert_eq!(backfill.load(Ordering::SeqCst), 0);
        assert_eq!(call!(methods, xUnlock(file, 0)), OK);
        assert_eq!(call!(methods, xClose(file)), OK);
    });
}

#[test]
fn a_panic_is_an_internal_error_and_poisons_the_file() {
    let mut bytes = Vec::new();
    // SAFETY: the file is open, and nothing else uses it.
    over_memory(&mut bytes, |file, host| unsafe {
        let methods = &*(*file).pMethods;
        assert_eq!(call!(methods, xLock(file, 1)), OK);
        let mut size = -1;
        assert_eq!(call!(methods, xFileSize(file, &raw mut size)), OK);
        assert_eq!(size, 0);

        assert_eq!(with::<PackedFile>(file, |_| panic!("on purpose")), INTERNAL);

        assert_eq!(call!(methods, xFileSize(file, &raw mut size)), IOERR_FSTAT);
        let mut page = [0u8; 16];
        assert_eq!(
            call!(methods, xRead(file, page.as_mut_ptr().cast(), 16, 0)),
            IOERR_READ
        );
        assert_eq!(
            call!(methods, xWrite(file, page.as_ptr().cast(), 16, 0)),
            IOERR_WRITE
        );
        assert_eq!(call!(methods, xSync(file, 2)), IOERR_FSYNC);
        assert_eq!(call!(methods, xUnlock(file, 0)), OK);
        assert_eq!((*host).lock, 0);
        assert_eq!(call!(methods, xClose(file)), OK);
        assert!((*file).pMethods.is_null());
    });
    assert!(bytes.is_empty(), "a poisoned file writes nothing");
}

#[test]
fn methods_that_the_host_lacks_do_not_end_the_process() {
    static LESS: sqlite3_io_methods = sqlite3_io_methods {
        xUnlock: None,
        xSectorSize: None,
        xDeviceCharacteristics: None,
        ..HOST_METHODS
    };
    over_host(&LESS, &mut packed(), |file, _| {
        // SAFETY: the file is open.
        unsafe {
            let methods = &*(*file).pMethods;
            assert_eq!(call!(methods, xSectorSize(file)), 4096);
            assert_eq!(call!(methods, xDeviceCharacteristics(file)), 0);
            assert_eq!(call!(methods, xUnlock(file, 0)), INTERNAL);
            assert_eq!(call!(methods, xClose(file)), OK);
        }
    });
}

#[test]
fn a_file_that_a_method_is_using_is_busy() {
    over_memory(&mut packed(), |file, _| {
        // SAFETY: the file is open, and the place for a size is there.
        unsafe {
            let methods = &*(*file).pMethods;
            let mut size = -1;
            let code = with::<PackedFile>(file, |_| {
                assert_eq!(call!(methods, xLock(file, 1)), BUSY);
                assert_eq!(call!(methods, xFileSize(file, &raw mut size)), IOERR_FSTAT);
                Ok(())
            });
            assert_eq!(code, OK);
            assert_eq!(call!(methods, xFileSize(file, &raw mut size)), OK);
            assert_eq!(size, 4096);
            assert_eq!(call!(methods, xClose(file)), OK);
        }
    });
}

#[test]
fn a_file_that_sqlite_uses_hears_no_interrupt() {
    use litepack_io::interrupt::{is_interrupted, listen};
    over_memory(&mut packed(), |file, _| {
        let use_it = || {
            // SAFETY: the file is open.
            unsafe {
                with::<PackedFile>(file, |_| {
                    assert!(!is_interrupted());
                    Ok(())
                })
            }
        };
        let code = listen(|| true, use_it);
        assert_eq!(code, OK);
        // SAFETY: the file is open.
        unsafe { assert_eq!(call!(&*(*file).pMethods, xClose(file)), OK) };
    });
}

#[test]
fn a_panic_in_a_journal_is_an_internal_error_and_poisons_it() {
    let mut memory = vec![0u128; OBJECT_SIZE.div_ceil(16)];
    let file: *mut sqlite3_file = memory.as_mut_ptr().cast();
    // SAFETY: the memory holds a file of ours, which nothing else uses; so short a journal opens nothing by its name.
    unsafe {
        let name = HostName::new(std::ptr::null_mut(), c"journal".as_ptr());
        install(file, silent(), "litepack", JournalFile::new(name));
        let methods = &*(*file).pMethods;
        let (mut byte, mut size) = ([7u8], -1);
        let buf = byte.as_mut_ptr().cast();
        assert_eq!(call!(methods, xWrite(file, buf, 1, 0)), OK);
        assert_eq!(
            with::<JournalFile>(file, |_| panic!("on purpose")),
            INTERNAL
        );
        assert_eq!(call!(methods, xRead(file, buf, 1, 0)), IOERR_READ);
        assert_eq!(call!(methods, xWrite(file, buf, 1, 0)), IOERR_WRITE);
        assert_eq!(call!(methods, xSync(file, 2)), IOERR_FSYNC);
        assert_eq!(call!(methods, xFileSize(file, &raw mut size)), IOERR_FSTAT);
        assert_eq!(call!(methods, xUnlock(file, 0)), OK);
        assert_eq!(call!(methods, xClose(file)), OK);
        assert!((*file).pMethods.is_null());
    }
}

/// As SQLite's appendvfs does: it opens our file behind a piece of its own, and moves it to where SQLite looks for it.
#[test]
fn a_file_may_be_moved_while_it_is_open() {
    over_memory(&mut packed(), |file, host| {
        let mut elsewhere = vec![u128::MAX; OBJECT_SIZE.div_ceil(16) + 1];
        let moved: *mut sqlite3_file = elsewhere.as_mut_ptr().cast();
        // SAFETY: there is room for the object, which is used at its new place alone.
        unsafe {
            let object = std::slice::from_raw_parts_mut(file.cast::<u8>(), OBJECT_SIZE);
            std::ptr::copy(object.as_ptr(), moved.cast(), OBJECT_SIZE);
            object.fill(0xa5);
            let methods = &*(*moved).pMethods;
            let mut buf = [0u8; 4096];
            let to: *mut c_void = buf.as_mut_ptr().cast();
            assert_eq!(call!(methods, xLock(moved, LOCK_SHARED)), OK);
            assert_eq!((*host).lock, LOCK_SHARED);
            assert_eq!(call!(methods, xRead(moved, to, 4096, 0)), OK);
            assert!(buf.iter().all(|byte| *byte == 7));
            assert_eq!(call!(methods, xWrite(moved, to, 4096, 4096)), OK);
            assert_eq!(call!(methods, xSync(moved, 2)), OK);
            assert_eq!(call!(methods, xUnlock(moved, 0)), OK);
            assert_eq!(call!(methods, xClose(moved)), OK);
            assert!((*moved).pMethods.is_null());
            // Who has kept the methods may call them once more.
            assert_eq!(call!(methods, xClose(moved)), OK);
            assert_ne!(call!(methods, xRead(moved, to, 4096, 0)), OK);
            assert_ne!(call!(methods, xWrite(moved, to, 4096, 0)), OK);
            assert_ne!(call!(methods, xLock(moved, LOCK_SHARED)), OK);
            assert_ne!(call!(methods, xUnlock(moved, 0)), OK);
            assert!(call!(methods, xSectorSize(moved)) > 0);
        }
    });
}
