//! The `sqlite3_io_methods` of a simulated file.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{Ordering, fence};
use std::{ptr, slice};

use rusqlite::ffi;

use super::{App, code};
use crate::file::SimFile;

/// The memory that SQLite allocates for each file: its part, then a pointer to ours.
#[repr(C)]
pub(super) struct OsFile {
    base: ffi::sqlite3_file,
    open: *mut Open,
}

struct Open {
    file: SimFile,
    app: &'static App,
    persist_wal: bool,
    powersafe: bool,
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved),
    xFileControl: Some(control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// Makes `file` an open file.
///
/// # Safety
///
/// `file` must point to memory for an [`OsFile`] that is not open.
pub(super) unsafe fn install(file: *mut ffi::sqlite3_file, opened: SimFile, app: &'static App) {
    let open = Box::new(Open {
        file: opened,
        app,
        persist_wal: false,
        powersafe: true,
    });
    let base = ffi::sqlite3_file {
        pMethods: &raw const METHODS,
    };
    // SAFETY: by the contract there is room for an OsFile.
    unsafe {
        ptr::write(
            file.cast(),
            OsFile {
                base,
                open: Box::into_raw(open),
            },
        )
    };
}

/// Our part of an open file.
///
/// # Safety
///
/// `file` must have been made by [`install`] and not closed, and no other reference to its part
/// may be alive: SQLite calls one method of a file at a time.
unsafe fn part<'a>(file: *mut ffi::sqlite3_file) -> &'a mut Open {
    // SAFETY: by the contract.
    unsafe { &mut *(*file.cast::<OsFile>()).open }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite closes an open file once; the box was made by `install`.
    unsafe {
        (*file).pMethods = ptr::null();
        drop(Box::from_raw((*file.cast::<OsFile>()).open));
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    into: *mut c_void,
    amount: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: an open file, and `amount` writable bytes, which are set before they are borrowed.
    let (open, into) = unsafe {
        ptr::write_bytes(into.cast::<u8>(), 0, amount as usize);
        (
            part(file),
            slice::from_raw_parts_mut(into.cast::<u8>(), amount as usize),
        )
    };
    match open.file.read_at(into, offset as u64) {
        Err(error) => error.0,
        Ok(len) if len < into.len() => ffi::SQLITE_IOERR_SHORT_READ,
        Ok(_) => ffi::SQLITE_OK,
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    data: *const c_void,
    amount: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: an open file, and `amount` readable bytes.
    let (open, data) = unsafe {
        (
            part(file),
            slice::from_raw_parts(data.cast::<u8>(), amount as usize),
        )
    };
    code(open.file.write_at(data, offset as u64))
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, len: ffi::sqlite3_int64) -> c_int {
    // SAFETY: an open file.
    code(unsafe { part(file) }.file.truncate(len as u64))
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: an open file.
    code(unsafe { part(file) }.file.sync())
}

unsafe extern "C" fn file_size(
    file: *mut ffi::sqlite3_file,
    out: *mut ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: an open file.
    match unsafe { part(file) }.file.size() {
        Err(error) => error.0,
        Ok(len) => {
            // SAFETY: `out` is valid for a write.
            unsafe { *out = len as i64 };
            ffi::SQLITE_OK
        }
    }
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: an open file.
    code(unsafe { part(file) }.file.lock(level))
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: an open file.
    unsafe { part(file) }.file.unlock(level);
    ffi::SQLITE_OK
}

unsafe extern "C" fn check_reserved(file: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: an open file, and `out` valid for a write.
    unsafe { *out = c_int::from(part(file).file.reserved()) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn control(file: *mut ffi::sqlite3_file, op: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: an open file.
    let open = unsafe { part(file) };
    let number = arg.cast::<c_int>();
    // SAFETY: of these operations the argument is an int, but of VFSNAME a `char*`.
    unsafe {
        match op {
            ffi::SQLITE_FCNTL_LOCKSTATE => *number = open.file.lock_level(),
            ffi::SQLITE_FCNTL_LAST_ERRNO => *number = 0,
            ffi::SQLITE_FCNTL_HAS_MOVED => *number = c_int::from(open.file.has_moved()),
            ffi::SQLITE_FCNTL_PERSIST_WAL => flag(number, &mut open.persist_wal),
            ffi::SQLITE_FCNTL_POWERSAFE_OVERWRITE => flag(number, &mut open.powersafe),
            ffi::SQLITE_FCNTL_VFSNAME => {
                let name = open.app.name.as_ptr();
                *arg.cast() = ffi::sqlite3_mprintf(c"%s".as_ptr(), name);
            }
            _ => return ffi::SQLITE_NOTFOUND,
        }
    }
    ffi::SQLITE_OK
}

/// Sets the flag to 0 or 1, or reports it if the argument is negative.
///
/// # Safety
///
/// `number` must be valid.
unsafe fn flag(number: *mut c_int, flag: &mut bool) {
    // SAFETY: by the contract.
    unsafe {
        match *number {
            value if value < 0 => *number = c_int::from(*flag),
            value => *flag = value > 0,
        }
    }
}

unsafe extern "C" fn sector_size(_file: *mut ffi::sqlite3_file) -> c_int {
    512
}

unsafe extern "C" fn characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: an open file.
    match unsafe { part(file) }.powersafe {
        true => ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE,
        false => 0,
    }
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    index: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: an open file.
    let open = unsafe { part(file) };
    let (found, result) = match open
        .file
        .shm_map(index as usize, size as usize, extend != 0)
    {
        Err(error) => (None, error.0),
        Ok(region) => (region, ffi::SQLITE_OK),
    };
    let address = found.map_or(ptr::null_mut(), |region| region.as_ptr().cast_mut().cast());
    // SAFETY: `out` is valid for a write. The region stays while this file is attached; it is
    // made of atomics, so it may be changed through a pointer from a shared reference.
    unsafe { *out = address };
    result
}

unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    first: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: an open file.
    code(
        unsafe { part(file) }
            .file
            .shm_lock(first as u32, count as u32, flags),
    )
}

unsafe extern "C" fn shm_barrier(_file: *mut ffi::sqlite3_file) {
    fence(Ordering::SeqCst);
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, _delete: c_int) -> c_int {
    // SAFETY: an open file.
    unsafe { part(file) }.file.shm_unmap();
    ffi::SQLITE_OK
}
