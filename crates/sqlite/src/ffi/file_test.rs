//! A packed file over a host file in memory, called as SQLite calls it: a panic on the way is
//! SQLITE_INTERNAL, and from then on the file only lets go of its locks and closes.

use std::ffi::{c_int, c_void};

use litepack_store::{FileId, Options, Store};

use super::file::{self, HOST_OFFSET, with};
use super::host::HostFile;
use super::types::{sqlite3_file, sqlite3_io_methods};
use crate::codes::{INTERNAL, IOERR_SHORT_READ, NOTFOUND, OK};
use crate::packed::Packed;

/// A host's file: SQLite's field, then its content and lock.
#[repr(C)]
struct MemoryFile {
    base: sqlite3_file,
    bytes: *mut Vec<u8>,
    lock: c_int,
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
    // SAFETY: as for `content`.
    unsafe { content(file) }.truncate(len as usize);
    OK
}

unsafe extern "C" fn sync(_: *mut sqlite3_file, _: c_int) -> c_int {
    OK
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, to: *mut i64) -> c_int {
    // SAFETY: as for `content`; called with a place for the result.
    unsafe { to.write(content(file).len() as i64) };
    OK
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    // SAFETY: as for `content`.
    unsafe { (*file.cast::<MemoryFile>()).lock = level };
    OK
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

static HOST: sqlite3_io_methods = sqlite3_io_methods {
    version: 1,
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
    sector_size: zero,
    device_characteristics: zero,
    shm_map: None,
    shm_lock: None,
    shm_barrier: None,
    shm_unmap: None,
    fetch: None,
    unfetch: None,
};

#[test]
fn a_panic_is_an_internal_error_and_poisons_the_file() {
    let mut bytes = Vec::new();
    let mut memory = vec![0u128; (HOST_OFFSET + size_of::<MemoryFile>()).div_ceil(16)];
    let file: *mut sqlite3_file = memory.as_mut_ptr().cast();
    // SAFETY: the memory holds our file and the host's, and nothing else uses them.
    unsafe {
        let host = file.byte_add(HOST_OFFSET);
        let base = sqlite3_file {
            methods: &raw const HOST,
        };
        host.cast::<MemoryFile>().write(MemoryFile {
            base,
            bytes: &raw mut bytes,
            lock: 0,
        });
        let disk = HostFile::new(host, std::ptr::null_mut(), c"memory".into());
        let options = Options {
            file: FileId::unique(),
            ..Options::default()
        };
        let store = Store::open(disk, options).unwrap();
        file::open(file, Packed::new(store), None);

        let methods = &*(*file).methods;
        assert_eq!((methods.lock)(file, 1), OK);
        let mut size = -1;
        assert_eq!((methods.file_size)(file, &raw mut size), OK);
        assert_eq!(size, 0);

        assert_eq!(with(file, |_| panic!("on purpose")), INTERNAL);

        assert_eq!((methods.file_size)(file, &raw mut size), INTERNAL);
        let mut page = [0u8; 16];
        assert_eq!(
            (methods.read)(file, page.as_mut_ptr().cast(), 16, 0),
            INTERNAL
        );
        assert_eq!((methods.write)(file, page.as_ptr().cast(), 16, 0), INTERNAL);
        assert_eq!((methods.sync)(file, 2), INTERNAL);
        assert_eq!((methods.unlock)(file, 0), OK);
        assert_eq!((*host.cast::<MemoryFile>()).lock, 0);
        assert_eq!((methods.close)(file), OK);
        assert!((*file).methods.is_null());
    }
    assert!(bytes.is_empty(), "a poisoned file writes nothing");
}
