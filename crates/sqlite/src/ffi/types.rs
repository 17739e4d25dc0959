//! SQLite's C types that a VFS meets, as laid out in `sqlite3.h` since 3.7. Written out here rather than
//! taken from a bindings crate: the ABI is frozen, and a bindings crate has to be built either for
//! a linked SQLite or for a loaded one, while this code serves both.
#![allow(non_camel_case_types, missing_docs)]

use std::ffi::{c_char, c_int, c_void};

#[repr(C)]
pub struct sqlite3_file {
    pub methods: *const sqlite3_io_methods,
}

type FileFn = unsafe extern "C" fn(*mut sqlite3_file) -> c_int;

/// One file's methods. Version 1 ends after `device_characteristics`, version 2 after `shm_unmap`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sqlite3_io_methods {
    pub version: c_int,
    pub close: FileFn,
    pub read: unsafe extern "C" fn(*mut sqlite3_file, *mut c_void, c_int, i64) -> c_int,
    pub write: unsafe extern "C" fn(*mut sqlite3_file, *const c_void, c_int, i64) -> c_int,
    pub truncate: unsafe extern "C" fn(*mut sqlite3_file, i64) -> c_int,
    pub sync: unsafe extern "C" fn(*mut sqlite3_file, c_int) -> c_int,
    pub file_size: unsafe extern "C" fn(*mut sqlite3_file, *mut i64) -> c_int,
    pub lock: unsafe extern "C" fn(*mut sqlite3_file, c_int) -> c_int,
    pub unlock: unsafe extern "C" fn(*mut sqlite3_file, c_int) -> c_int,
    pub check_reserved_lock: unsafe extern "C" fn(*mut sqlite3_file, *mut c_int) -> c_int,
    pub file_control: unsafe extern "C" fn(*mut sqlite3_file, c_int, *mut c_void) -> c_int,
    pub sector_size: FileFn,
    pub device_characteristics: FileFn,
    pub shm_map: Option<
        unsafe extern "C" fn(*mut sqlite3_file, c_int, c_int, c_int, *mut *mut c_void) -> c_int,
    >,
    pub shm_lock: Option<unsafe extern "C" fn(*mut sqlite3_file, c_int, c_int, c_int) -> c_int>,
    pub shm_barrier: Option<unsafe extern "C" fn(*mut sqlite3_file)>,
    pub shm_unmap: Option<unsafe extern "C" fn(*mut sqlite3_file, c_int) -> c_int>,
    pub fetch:
        Option<unsafe extern "C" fn(*mut sqlite3_file, i64, c_int, *mut *mut c_void) -> c_int>,
    pub unfetch: Option<unsafe extern "C" fn(*mut sqlite3_file, i64, *mut c_void) -> c_int>,
}

type Vfs = *mut sqlite3_vfs;
/// A function pointer that is only handed on.
pub type Symbol = Option<unsafe extern "C" fn()>;

/// A VFS. Version 1 ends after `get_last_error`, version 2 after `current_time_int64`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sqlite3_vfs {
    pub version: c_int,
    pub sz_os_file: c_int,
    pub max_pathname: c_int,
    pub next: Vfs,
    pub name: *const c_char,
    pub app_data: *mut c_void,
    pub open:
        unsafe extern "C" fn(Vfs, *const c_char, *mut sqlite3_file, c_int, *mut c_int) -> c_int,
    pub delete: unsafe extern "C" fn(Vfs, *const c_char, c_int) -> c_int,
    pub access: unsafe extern "C" fn(Vfs, *const c_char, c_int, *mut c_int) -> c_int,
    pub full_pathname: unsafe extern "C" fn(Vfs, *const c_char, c_int, *mut c_char) -> c_int,
    pub dl_open: Option<unsafe extern "C" fn(Vfs, *const c_char) -> *mut c_void>,
    pub dl_error: Option<unsafe extern "C" fn(Vfs, c_int, *mut c_char)>,
    pub dl_sym: Option<unsafe extern "C" fn(Vfs, *mut c_void, *const c_char) -> Symbol>,
    pub dl_close: Option<unsafe extern "C" fn(Vfs, *mut c_void)>,
    pub randomness: unsafe extern "C" fn(Vfs, c_int, *mut c_char) -> c_int,
    pub sleep: unsafe extern "C" fn(Vfs, c_int) -> c_int,
    pub current_time: unsafe extern "C" fn(Vfs, *mut f64) -> c_int,
    pub get_last_error: Option<unsafe extern "C" fn(Vfs, c_int, *mut c_char) -> c_int>,
    pub current_time_int64: Option<unsafe extern "C" fn(Vfs, *mut i64) -> c_int>,
    pub set_system_call: Option<unsafe extern "C" fn(Vfs, *const c_char, Symbol) -> c_int>,
    pub get_system_call: Option<unsafe extern "C" fn(Vfs, *const c_char) -> Symbol>,
    pub next_system_call: Option<unsafe extern "C" fn(Vfs, *const c_char) -> *const c_char>,
}
