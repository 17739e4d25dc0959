//! The SQLite VFS over a simulated disk; the crate's only unsafe code is in this module.
//!
//! Promises that dropping a [`SimVfs`] unregisters it and lets go of the disk, and that calls
//! through a pointer that a forgotten connection still holds stay defined: the small
//! `sqlite3_vfs` itself is never freed.

mod io;
mod system;

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::{self, NonNull};
use std::sync::{Mutex, PoisonError};

use rusqlite::ffi;

use crate::disk::{SimDisk, full_name};
use crate::error::SimError;
use crate::file::OpenOptions;

/// The object that `pAppData` points to.
struct App {
    /// Empty once the VFS is unregistered.
    disk: Mutex<Option<SimDisk>>,
    name: CString,
    /// The VFS that was the default, for time, randomness and sleep.
    system: NonNull<ffi::sqlite3_vfs>,
}

impl App {
    fn disk(&self) -> Option<SimDisk> {
        self.disk
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// A registered VFS; dropping it unregisters it.
pub struct SimVfs {
    raw: NonNull<ffi::sqlite3_vfs>,
    app: &'static App,
}

// SAFETY: SQLite's registry has its own mutex, and `App` is shared through a Mutex.
unsafe impl Send for SimVfs {}
// SAFETY: as above; no method of SimVfs touches the raw structure but Drop.
unsafe impl Sync for SimVfs {}

impl SimDisk {
    /// Registers this disk as the VFS `name`, not as the default.
    ///
    /// # Panics
    ///
    /// If SQLite refuses, or the name has a NUL in it.
    pub fn register(&self, name: &str) -> SimVfs {
        // SAFETY: a NULL name asks for the default VFS; the call initialises SQLite if need be.
        let system = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
        let app: &'static App = Box::leak(Box::new(App {
            disk: Mutex::new(Some(self.clone())),
            name: CString::new(name).expect("a VFS name without NUL"),
            system: NonNull::new(system).expect("a default VFS"),
        }));
        let raw = NonNull::from(Box::leak(Box::new(table(app))));
        // SAFETY: `raw` and what it points to live for ever.
        let code = unsafe { ffi::sqlite3_vfs_register(raw.as_ptr(), 0) };
        assert_eq!(code, ffi::SQLITE_OK, "sqlite3_vfs_register");
        SimVfs { raw, app }
    }
}

impl SimVfs {
    /// The name it is registered by.
    pub fn name(&self) -> &str {
        self.app.name.to_str().expect("made from a str")
    }
}

impl Drop for SimVfs {
    fn drop(&mut self) {
        // SAFETY: `raw` was registered by `SimDisk::register` and is never freed.
        unsafe { ffi::sqlite3_vfs_unregister(self.raw.as_ptr()) };
        *self.app.disk.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Takes the VFS of this name off SQLite's list, if there is one. It has to be one that is never freed, as ours are.
pub(crate) fn unregister(name: &str) {
    let name = CString::new(name).expect("a VFS name without NUL");
    // SAFETY: the name ends with NUL. The VFS found stays where it is, and SQLite takes NULL for none.
    unsafe { ffi::sqlite3_vfs_unregister(ffi::sqlite3_vfs_find(name.as_ptr())) };
}

fn table(app: &'static App) -> ffi::sqlite3_vfs {
    ffi::sqlite3_vfs {
        iVersion: 2,
        szOsFile: size_of::<io::OsFile>() as c_int,
        mxPathname: 512,
        pNext: ptr::null_mut(),
        zName: app.name.as_ptr(),
        pAppData: ptr::from_ref(app).cast_mut().cast(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_pathname),
        xDlOpen: Some(system::dl_open),
        xDlError: Some(system::dl_error),
        xDlSym: Some(system::dl_sym),
        xDlClose: Some(system::dl_close),
        xRandomness: Some(system::randomness),
        xSleep: Some(system::sleep),
        xCurrentTime: Some(system::current_time),
        xGetLastError: Some(system::last_error),
        xCurrentTimeInt64: Some(system::current_time_int64),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    }
}

/// The `App` behind a VFS pointer.
///
/// # Safety
///
/// `vfs` must be one that [`table`] made.
unsafe fn app(vfs: *mut ffi::sqlite3_vfs) -> &'static App {
    // SAFETY: by the contract, pAppData is a leaked `App`, only ever shared.
    unsafe { &*(*vfs).pAppData.cast::<App>() }
}

/// A C string as text; other than UTF-8 becomes replacement characters.
///
/// # Safety
///
/// `text` must be NULL or a NUL-terminated string.
unsafe fn text(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not NULL, and terminated by the contract.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

fn code(result: Result<(), SimError>) -> c_int {
    result.map_or_else(|error| error.0, |()| ffi::SQLITE_OK)
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes our VFS, a valid or NULL name, and szOsFile bytes at `file`.
    let (app, name) = unsafe {
        (*file).pMethods = ptr::null();
        (app(vfs), text(name))
    };
    let has = |flag| flags & flag != 0;
    let journal = ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_SUPER_JOURNAL;
    let options = OpenOptions {
        create: has(ffi::SQLITE_OPEN_CREATE),
        exclusive: has(ffi::SQLITE_OPEN_EXCLUSIVE),
        read_only: has(ffi::SQLITE_OPEN_READONLY),
        temporary: has(ffi::SQLITE_OPEN_DELETEONCLOSE),
        journal: has(journal | ffi::SQLITE_OPEN_WAL),
    };
    let Some(disk) = app.disk() else {
        return ffi::SQLITE_CANTOPEN;
    };
    match disk.open(name.as_deref(), options) {
        Err(error) => error.0,
        Ok(opened) => {
            let mut given = flags;
            if opened.is_read_only() {
                given &= !(ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE);
                given |= ffi::SQLITE_OPEN_READONLY;
            }
            // SAFETY: `file` has room for an OsFile; `out_flags` is NULL or valid.
            unsafe {
                io::install(file, opened, app);
                if !out_flags.is_null() {
                    *out_flags = given;
                }
            }
            ffi::SQLITE_OK
        }
    }
}

unsafe extern "C" fn delete(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    sync_dir: c_int,
) -> c_int {
    // SAFETY: SQLite passes our VFS and a valid name.
    let (app, name) = unsafe { (app(vfs), text(name)) };
    match app.disk() {
        Some(disk) => code(disk.delete(&name.unwrap_or_default(), sync_dir != 0)),
        None => ffi::SQLITE_IOERR_DELETE,
    }
}

unsafe extern "C" fn access(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes our VFS and a valid name.
    let (app, name) = unsafe { (app(vfs), text(name)) };
    let Some(disk) = app.disk() else {
        return ffi::SQLITE_IOERR_ACCESS;
    };
    match disk.stat(&name.unwrap_or_default()) {
        Err(error) => error.0,
        Ok(len) => {
            // Like the unix VFS: an empty file does not count as existing.
            let yes = match flags {
                ffi::SQLITE_ACCESS_EXISTS => len.is_some_and(|len| len > 0),
                _ => len.is_some() && !disk.is_read_only(),
            };
            // SAFETY: `out` is valid for a write.
            unsafe { *out = c_int::from(yes) };
            ffi::SQLITE_OK
        }
    }
}

unsafe extern "C" fn full_pathname(
    _vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite passes a valid name.
    let name = full_name(&unsafe { text(name) }.unwrap_or_default());
    if name.len() + 1 > room as usize {
        return ffi::SQLITE_CANTOPEN;
    }
    // SAFETY: `out` has `room` bytes, and the name with its NUL fits.
    unsafe {
        ptr::copy_nonoverlapping(name.as_ptr(), out.cast(), name.len());
        *out.add(name.len()) = 0;
    }
    ffi::SQLITE_OK
}
