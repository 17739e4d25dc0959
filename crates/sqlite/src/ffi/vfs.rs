//! The methods of our VFSes, as SQLite calls them: what is ours is opened by `open.rs`, and everything else handed to the
//! host's VFS.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use super::methods::{self, OBJECT_SIZE};
use crate::beside::names::{Beside, is_filled};
use crate::beside::open_files::{self, beside, note_unsynced_name};
use crate::c::api::call;
use crate::c::bindings::{sqlite3_file, sqlite3_syscall_ptr, sqlite3_vfs};
use crate::c::codes::{
    ACCESS_EXISTS, CANTOPEN, IOERR_DIR_FSYNC, NOMEM, OK, OPEN_CREATE, OPEN_DELETEONCLOSE,
    OPEN_MAIN_DB, OPEN_MAIN_JOURNAL, OPEN_READONLY, OPEN_READWRITE, OPEN_WAL,
};
use crate::c::guard::guard;
use crate::c::library::{Library, Shim, named};
use crate::failure::{Failure, report};
use crate::files::File;
use crate::files::log::keep_if_refused;
use crate::host::file::HostFile;
use crate::host::name::{HostName, MainName};
use crate::open::{self, Opened, beside_main};
use crate::relief::relieve;

/// Whose methods these are. The arguments of a method do not tell: others build VFSes on ours, take over its methods,
/// and call them with an object of their own (PROJ does).
pub(crate) trait Owner {
    fn shim(vfs: *mut sqlite3_vfs) -> Option<&'static Shim>;
}

/// `litepack` or, with `DEFAULT`, `litepack-default` of one library: it has methods of its own.
pub(crate) struct Standard<const LIBRARY: usize, const DEFAULT: bool>;

impl<const LIBRARY: usize, const DEFAULT: bool> Owner for Standard<LIBRARY, DEFAULT> {
    fn shim(_: *mut sqlite3_vfs) -> Option<&'static Shim> {
        Library(LIBRARY).shim(DEFAULT)
    }
}

/// One of the VFSes under names of the program's own choice. They share their methods, which fail for any other object.
pub(crate) struct Named;

impl Owner for Named {
    fn shim(vfs: *mut sqlite3_vfs) -> Option<&'static Shim> {
        named(vfs)
    }
}

/// A VFS over a host's, without a name. It has those methods that the host has, and asks for as much memory for a file:
/// VFSes above the default one remember how much that was, also of the default that ours replaces (PROJ's does).
pub(crate) fn over<O: Owner>(below: &sqlite3_vfs) -> sqlite3_vfs {
    let (second, third) = (below.iVersion >= 2, below.iVersion >= 3);
    sqlite3_vfs {
        iVersion: below.iVersion.min(3),
        szOsFile: below.szOsFile.max(OBJECT_SIZE as c_int),
        mxPathname: below.mxPathname,
        pNext: std::ptr::null_mut(),
        zName: std::ptr::null(),
        pAppData: std::ptr::null_mut(),
        xOpen: Some(open::<O>),
        xDelete: Some(delete::<O>),
        xAccess: below.xAccess.map(|_| x_access::<O> as _),
        xFullPathname: below.xFullPathname.map(|_| x_full_pathname::<O> as _),
        xDlOpen: below.xDlOpen.map(|_| x_dl_open::<O> as _),
        xDlError: below.xDlError.map(|_| x_dl_error::<O> as _),
        xDlSym: below.xDlSym.map(|_| x_dl_sym::<O> as _),
        xDlClose: below.xDlClose.map(|_| x_dl_close::<O> as _),
        xRandomness: below.xRandomness.map(|_| x_randomness::<O> as _),
        xSleep: below.xSleep.map(|_| x_sleep::<O> as _),
        xCurrentTime: below.xCurrentTime.map(|_| x_current_time::<O> as _),
        xGetLastError: below.xGetLastError.map(|_| x_get_last_error::<O> as _),
        xCurrentTimeInt64: (below.xCurrentTimeInt64.filter(|_| second))
            .map(|_| x_current_time_int64::<O> as _),
        xSetSystemCall: (below.xSetSystemCall.filter(|_| third))
            .map(|_| x_set_system_call::<O> as _),
        xGetSystemCall: (below.xGetSystemCall.filter(|_| third))
            .map(|_| x_get_system_call::<O> as _),
        xNextSystemCall: (below.xNextSystemCall.filter(|_| third))
            .map(|_| x_next_system_call::<O> as _),
    }
}

unsafe extern "C" fn open<O: Owner>(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    out: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives memory for a file; without methods it is not closed after a failure.
    unsafe { (*out).pMethods = std::ptr::null() };
    let Some(shim) = O::shim(vfs) else {
        return CANTOPEN;
    };
    let opening = Opening {
        shim,
        name,
        out,
        flags,
        out_flags,
    };
    // SAFETY: the arguments are SQLite's.
    let body = || match unsafe { opening.any() } {
        Ok(()) => OK,
        Err(failure) => report(shim.api(), &failure),
    };
    guard(shim.api(), || (), body)
}

/// A call of `xOpen`, with its arguments.
struct Opening<'a> {
    shim: &'a Shim,
    name: *const c_char,
    out: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
}

impl Opening<'_> {
    /// Opens a file of any kind. It is open in SQLite's memory then, or nothing is when this fails.
    ///
    /// # Safety
    /// The arguments are SQLite's.
    unsafe fn any(&self) -> Result<(), Failure> {
        relieve().map_err(|_| NOMEM)?;
        // SAFETY: the arguments are SQLite's, as the caller says. The opened file is in memory of its own, so nothing
        // is open in SQLite's yet.
        unsafe {
            match self.what()? {
                Opened::Below(flags) => self.below(flags),
                Opened::Journal(file, granted) => self.finish(*file, granted),
                Opened::Log(file, granted) => self.finish(*file, granted),
                Opened::Packed(file, granted) => self.finish(*file, granted),
                Opened::Undecided(file, granted) => self.finish(*file, granted),
                Opened::Temporary(file, granted) => self.finish(*file, granted),
                Opened::Archive(file) => self.finish_read_only(*file),
                Opened::KeyedArchive(file) => self.finish_read_only(*file),
                Opened::Remote(file) => self.finish_read_only(*file),
                Opened::KeyedRemote(file) => self.finish_read_only(*file),
                Opened::Refused(file) => self.finish_read_only(file),
            }
        }
    }

    /// The file that SQLite gets.
    ///
    /// # Safety
    /// The arguments are SQLite's.
    unsafe fn what(&self) -> Result<Opened, Failure> {
        let kind = self.flags & (OPEN_MAIN_DB | OPEN_MAIN_JOURNAL | OPEN_WAL);
        if self.name.is_null() || kind == 0 && self.flags & OPEN_DELETEONCLOSE != 0 {
            let (host, name, flags) = (self.shim.host, self.name, self.flags);
            // SAFETY: SQLite keeps a name until the file is closed, and so is what is opened by it: it is part of our
            // file.
            let open = || unsafe { HostFile::open(host, name, CString::default(), flags) };
            return open::temporary(flags, open);
        }
        if kind == 0 {
            return Ok(Opened::Below(self.flags));
        }
        // SAFETY: SQLite keeps the name until the file is closed, and so is what is opened by it: it is part of our
        // file.
        let name = unsafe { HostName::new(self.shim.host, self.name) };
        if kind != OPEN_MAIN_DB {
            return beside_main(self.shim.api(), name, self.flags);
        }
        // SAFETY: the name is a main database's, and this is a call of `xOpen` for it.
        let name = unsafe { MainName::new(self.shim.api(), name) };
        let (shim, flags) = (self.shim, self.flags);
        open::Opening { shim, name, flags }.main()
    }

    /// Has the host open the file in SQLite's memory: from here on it is the host's.
    ///
    /// # Safety
    /// The arguments are SQLite's, and nothing is open in its memory.
    unsafe fn below(&self, flags: c_int) -> Result<(), Failure> {
        let (host, name) = (self.shim.host, self.name);
        // SAFETY: the arguments are SQLite's, and its memory is as large as the host's file needs: we ask for no less.
        match unsafe { call!((*host), xOpen(host, name, self.out, flags, self.out_flags)) } {
            OK => Ok(()),
            code => Err(code.into()),
        }
    }

    /// Makes SQLite's memory a file of ours.
    ///
    /// # Safety
    /// The arguments are SQLite's, and nothing is open in its memory.
    unsafe fn finish<F: File>(&self, file: F, granted: c_int) -> Result<(), Failure> {
        // SAFETY: SQLite's memory has the size that our VFS asks for, and stays until it closes the file. The place for
        // the flags is there or null.
        unsafe {
            methods::install(self.out, self.shim.api(), self.shim.name, file);
            if !self.out_flags.is_null() {
                self.out_flags.write(granted);
            }
        }
        Ok(())
    }

    /// The same for a file that is only read, whatever was asked for.
    ///
    /// # Safety
    /// The arguments are SQLite's, and nothing is open in its memory.
    unsafe fn finish_read_only<F: File>(&self, file: F) -> Result<(), Failure> {
        let granted = self.flags & !(OPEN_READWRITE | OPEN_CREATE) | OPEN_READONLY;
        // SAFETY: nothing is open in SQLite's memory, as the caller says.
        unsafe { self.finish(file, granted) }
    }
}

unsafe extern "C" fn delete<O: Owner>(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    sync: c_int,
) -> c_int {
    // SAFETY: the arguments are SQLite's.
    O::shim(vfs).map_or(CANTOPEN, |shim| unsafe { delete_any(shim, name, sync) })
}

/// # Safety
/// The arguments are those of `xDelete`.
unsafe fn delete_any(shim: &Shim, name: *const c_char, sync: c_int) -> c_int {
    let (api, host) = (shim.api(), shim.host);
    // SAFETY: the host is a VFS that SQLite has registered, and the arguments are those of its call of `xDelete`.
    let body = || unsafe {
        let name_text = CStr::from_ptr(name);
        let found = beside(name_text);
        let is_ours = matches!(found, Some(Beside::Journal | Beside::ForeignJournal));
        // SQLite leaves it to the next journal that no power loss brings this one, or a WAL, back, to be played over
        // what is committed by then. Ours has no file.
        let is_filled = found.is_some_and(|found| is_filled(found, name_text));
        let sync = if is_filled { 1 } else { sync };
        if found == Some(Beside::Wal)
            && let Err(failure) = keep_if_refused(api, HostName::new(host, name))
        {
            return report(api, &failure);
        }
        match call!((*host), xDelete(host, name, sync)) {
            OK => OK,
            IOERR_DIR_FSYNC => {
                note_unsynced_name(name_text);
                IOERR_DIR_FSYNC
            }
            // A journal that never left memory is gone already: the commit must not fail over it.
            code if is_ours => {
                let mut there = 1;
                match call!((*host), xAccess(host, name, ACCESS_EXISTS, &raw mut there)) {
                    OK if there == 0 => OK,
                    _ => code,
                }
            }
            code => code,
        }
    };
    guard(api, || (), body)
}

unsafe extern "C" fn x_access<O: Owner>(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let is_asked = flags == ACCESS_EXISTS && !name.is_null();
    // SAFETY: SQLite's names are strings.
    let name_text = is_asked.then(|| unsafe { CStr::from_ptr(name) });
    if name_text.is_some_and(open_files::is_absent) {
        // SAFETY: SQLite gives a place for the answer.
        unsafe { out.write(0) };
        return OK;
    }
    // SAFETY: the arguments are SQLite's.
    let code = unsafe { access_below::<O>(vfs, name, flags, out) };
    if let Some(name) = name_text.filter(|_| code == OK) {
        // SAFETY: SQLite gives a place for the answer, and the host has written it, as all went well.
        let is_there = unsafe { out.read() } != 0;
        if !is_there {
            open_files::note_absent(name);
        }
    }
    code
}

/// Methods that the host answers, called with the host's VFS in place of ours. Ours has only those that the host has,
/// and what it answers otherwise is for objects that are not ours.
macro_rules! forward {
    ($(fn $name:ident = $method:ident($($arg:ident: $type:ty),*) -> $ret:ty, else $otherwise:expr;)*) => {$(
        unsafe extern "C" fn $name<O: Owner>(vfs: *mut sqlite3_vfs, $($arg: $type),*) -> $ret {
            // SAFETY: the arguments are SQLite's, and the host's VFS is registered for ever.
            unsafe {
                match O::shim(vfs).and_then(|shim| (*shim.host).$method.map(|method| (shim, method))) {
                    Some((shim, method)) => method(shim.host, $($arg),*),
                    None => $otherwise,
                }
            }
        }
    )*};
}

/// As the bindings have it: what it gives is not called here.
type Symbol = Option<unsafe extern "C" fn(*mut sqlite3_vfs, *mut c_void, *const c_char)>;

forward! {
    fn access_below = xAccess(name: *const c_char, flags: c_int, out: *mut c_int) -> c_int, else CANTOPEN;
    fn x_full_pathname = xFullPathname(name: *const c_char, n: c_int, out: *mut c_char) -> c_int, else CANTOPEN;
    fn x_randomness = xRandomness(n: c_int, out: *mut c_char) -> c_int, else CANTOPEN;
    fn x_sleep = xSleep(microseconds: c_int) -> c_int, else CANTOPEN;
    fn x_current_time = xCurrentTime(out: *mut f64) -> c_int, else CANTOPEN;
    fn x_dl_open = xDlOpen(name: *const c_char) -> *mut c_void, else std::ptr::null_mut();
    fn x_dl_error = xDlError(n: c_int, out: *mut c_char) -> (), else ();
    fn x_dl_sym = xDlSym(library: *mut c_void, name: *const c_char) -> Symbol, else None;
    fn x_dl_close = xDlClose(library: *mut c_void) -> (), else ();
    fn x_get_last_error = xGetLastError(n: c_int, out: *mut c_char) -> c_int, else OK;
    fn x_current_time_int64 = xCurrentTimeInt64(out: *mut i64) -> c_int, else CANTOPEN;
    fn x_set_system_call = xSetSystemCall(name: *const c_char, call: sqlite3_syscall_ptr) -> c_int, else CANTOPEN;
    fn x_get_system_call = xGetSystemCall(name: *const c_char) -> sqlite3_syscall_ptr, else None;
    fn x_next_system_call = xNextSystemCall(name: *const c_char) -> *const c_char, else std::ptr::null();
}
