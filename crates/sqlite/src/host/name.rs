//! The names that SQLite gives to `xOpen`, and what it keeps around that of a main database: URI parameters, and the
//! names of the files beside it.

use std::ffi::{CStr, CString, c_char, c_int};
use std::marker::PhantomData;

use crate::c::api::{Api, Names};
use crate::c::bindings::sqlite3_vfs;
use crate::c::codes::{
    Code, OPEN_CREATE, OPEN_DELETEONCLOSE, OPEN_EXCLUSIVE, OPEN_READWRITE, OPEN_TEMP_JOURNAL,
};
use crate::host::file::HostFile;

/// A name that SQLite has given to `xOpen`, and the VFS below ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostName {
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
}

impl HostName {
    /// # Safety
    /// The VFS is registered for ever. The name is one that SQLite gave to `xOpen` and keeps until that file is closed;
    /// nothing that is opened by this value is used after that.
    pub(crate) unsafe fn new(vfs: *mut sqlite3_vfs, name: *const c_char) -> HostName {
        HostName { vfs, name }
    }

    pub(crate) fn path(&self) -> &CStr {
        // SAFETY: SQLite's names are strings, kept as long as `new` says.
        unsafe { CStr::from_ptr(self.name) }
    }

    /// Opens the file, in memory of its own. Gives what the host grants of `flags`, too.
    ///
    /// # Errors
    /// The host's result code.
    pub(crate) fn open(self, flags: c_int) -> Result<(HostFile, c_int), Code> {
        // SAFETY: the name is SQLite's, kept as long as `new` says.
        unsafe { HostFile::open(self.vfs, self.name, self.path().to_owned(), flags) }
    }

    /// Opens a nameless file that vanishes when it is closed.
    ///
    /// # Errors
    /// The host's result code.
    pub(crate) fn temporary(self) -> Result<HostFile, Code> {
        let flags =
            OPEN_READWRITE | OPEN_CREATE | OPEN_EXCLUSIVE | OPEN_DELETEONCLOSE | OPEN_TEMP_JOURNAL;
        // SAFETY: a temporary file has no name.
        let opened =
            unsafe { HostFile::open(self.vfs, std::ptr::null(), CString::default(), flags) };
        opened.map(|(file, _)| file)
    }
}

/// The name of a main database that SQLite is opening.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MainName<'a> {
    api: Api,
    host: HostName,
    /// Not longer than the call of `xOpen`.
    opening: PhantomData<&'a ()>,
}

impl MainName<'_> {
    /// # Safety
    /// The name is a main database's, and SQLite's call of `xOpen` for it runs as long as what is returned is used.
    pub(crate) unsafe fn new(api: Api, host: HostName) -> Self {
        MainName {
            api,
            host,
            opening: PhantomData,
        }
    }

    pub(crate) fn host(&self) -> HostName {
        self.host
    }

    /// A parameter of the URI.
    pub(crate) fn parameter(&self, key: &CStr) -> Option<String> {
        // SAFETY: the name is a main database's, as `new` says.
        unsafe { self.api.uri_parameter(self.host.name, key) }
    }

    /// All of them, in order.
    pub(crate) fn parameters(&self) -> Vec<(String, String)> {
        // SAFETY: the name is a main database's, as `new` says.
        unsafe { self.api.uri_parameters(self.host.name) }
    }

    /// Whether a parameter is on, by SQLite's words for that.
    pub(crate) fn is_on(&self, key: &CStr) -> bool {
        // SAFETY: the name is a main database's, as `new` says.
        unsafe { self.api.uri_is_on(self.host.name, key) }
    }

    /// Where SQLite has the name of the journal, behind which that of the WAL follows.
    pub(crate) fn journal(&self) -> usize {
        // SAFETY: the name is a main database's, as `new` says.
        unsafe { self.api.journal_of(self.host.name) }
    }

    /// Gives the journal and the WAL names of their own: [`Api::rename_beside`].
    ///
    /// # Errors
    /// If SQLite may have given short names.
    pub(crate) fn rename_beside(&self) -> Result<Names, &'static str> {
        // SAFETY: the name is a main database's, and this is a call of `xOpen` for it, as `new` says.
        unsafe { self.api.rename_beside(self.host.name) }
    }
}
