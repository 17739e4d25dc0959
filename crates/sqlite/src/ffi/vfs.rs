//! The VFS: decides for each file whether it is ours, and hands everything else to the host's VFS.
//!
//! Ours are main databases that are packed (or new) and their rollback journals, archives, files on a server, and what
//! is only opened to say that its URI is wrong. Any other file is opened by the host directly in SQLite's memory, so
//! that from then on we are not in the way at all.

use std::ffi::{CStr, c_char, c_int, c_void};

use litepack_archive::begins_like_zstd;
use litepack_io::storage::ReadAt;
use litepack_store::{HEAD_LEN, HeaderKind, JOURNAL_SUFFIX, Options, Store, WAL_SUFFIX, kind_of};

use super::api::{Api, call};
use super::bindings::{sqlite3_file, sqlite3_syscall_ptr, sqlite3_vfs};
use super::file::{self, OBJECT_SIZE, report};
use super::guard::guard;
use super::host::{HostFile, HostName};
use super::library::Library;
use super::registration::{Shim, named};
use crate::codes::{
    ACCESS_EXISTS, CANTOPEN, IOERR_DIR_FSYNC, MISUSE, NOMEM, NOTADB, OK, OPEN_CREATE,
    OPEN_EXCLUSIVE, OPEN_MAIN_DB, OPEN_MAIN_JOURNAL, OPEN_READONLY, OPEN_READWRITE, OPEN_WAL,
    While,
};
use crate::file::archive::{ArchiveFile, Which};
use crate::file::journal::JournalFile;
use crate::file::packed::Packed;
use crate::file::packed_file::PackedFile;
use crate::file::refused::Refused;
use crate::file::secure_delete::SecureDelete;
use crate::file::{Database, Failure, File};
use crate::file_stamp::FileStamp;
use crate::foreign;
use crate::identity::{
    Beside, FOREIGN_NAME, Identity, REPLACED, beside, is_filled, note_unsynced_name,
};
use crate::known_absent::{self, KnownAbsent};
use crate::options::{Setting, from_uri};
use crate::relief::relieve;
use crate::remote::{self, Location};

/// The VFS's name.
pub(crate) const NAME: &str = "litepack";

/// Whose methods these are. What a method is called with does not tell: others build VFSes on ours, take over its
/// methods, and call them with an object of their own (PROJ does).
pub(super) trait Owner {
    fn shim(vfs: *mut sqlite3_vfs) -> Option<&'static Shim>;
}

/// `litepack` or, with `DEFAULT`, `litepack-default` of one library: it has methods of its own.
pub(super) struct Standard<const LIBRARY: usize, const DEFAULT: bool>;

impl<const LIBRARY: usize, const DEFAULT: bool> Owner for Standard<LIBRARY, DEFAULT> {
    fn shim(_: *mut sqlite3_vfs) -> Option<&'static Shim> {
        Library(LIBRARY).shim(DEFAULT)
    }
}

/// One of the VFSes under names of the program's own choice. They share their methods, which fail for any other object.
pub(super) struct Named;

impl Owner for Named {
    fn shim(vfs: *mut sqlite3_vfs) -> Option<&'static Shim> {
        named(vfs)
    }
}

/// A VFS over a host's, without a name. It has those methods that the host has, and asks for as much memory for a file:
/// VFSes above the default one remember how much that was, also of the default that ours replaces (PROJ's does).
pub(super) fn over<O: Owner>(below: &sqlite3_vfs) -> sqlite3_vfs {
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

/// The functions below are for the arguments of a call of `xOpen` that is running. Only `any`, `below` and `finish` are
/// for one without a name as well. Each opens the file and leaves it open in SQLite's memory, or has nothing open there
/// when it fails.
impl Opening<'_> {
    /// Opens a file of any kind.
    ///
    /// # Safety
    /// The arguments are SQLite's.
    unsafe fn any(&self) -> Result<(), Failure> {
        relieve().map_err(|_| NOMEM)?;
        // SAFETY: the arguments are SQLite's, as the caller says. Each function below is called for the kind of file
        // that it is for, and with a name where it looks at one.
        unsafe {
            let kind = self.flags & (OPEN_MAIN_DB | OPEN_MAIN_JOURNAL | OPEN_WAL);
            if self.name.is_null() || kind == 0 {
                return self.below(self.flags);
            }
            if kind == OPEN_MAIN_DB {
                return self.main();
            }
            let name = self.host_name();
            match beside(name.path()) {
                Some(Beside::Journal | Beside::ForeignJournal) if self.flags & OPEN_CREATE != 0 => {
                    self.finish(JournalFile::new(name), self.flags);
                    Ok(())
                }
                Some(Beside::Journal) if self.flags & OPEN_READWRITE != 0 => {
                    // Without CREATE it is a journal left on disk, to be played back.
                    let (file, granted) = name.open(self.flags)?;
                    self.finish(JournalFile::of(name, file), granted);
                    Ok(())
                }
                Some(Beside::ForeignJournal | Beside::ForeignWal) => {
                    Err(Failure::new(CANTOPEN, FOREIGN_NAME))
                }
                Some(Beside::OthersWal) => Err(Failure::new(CANTOPEN, REPLACED)),
                // A journal is to be looked at.
                _ => self.below(self.flags),
            }
        }
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

    /// # Safety
    /// The arguments are SQLite's.
    unsafe fn host_name(&self) -> HostName {
        // SAFETY: SQLite keeps the name until the file is closed, and so is what is opened by it: it is part of our
        // file.
        unsafe { HostName::new(self.shim.host, self.name) }
    }

    /// Makes SQLite's memory a file of ours.
    ///
    /// # Safety
    /// The arguments are SQLite's, and nothing is open in its memory.
    unsafe fn finish<F: File>(&self, file: F, granted: c_int) {
        // SAFETY: SQLite's memory has the size that our VFS asks for, and stays until it closes the file. The place for
        // the flags is there or null.
        unsafe {
            file::install(self.out, self.shim.api(), self.shim.name, file);
            if !self.out_flags.is_null() {
                self.out_flags.write(granted);
            }
        }
    }

    /// The same for a file that is only read, whatever was asked for.
    ///
    /// # Safety
    /// The arguments are SQLite's, and nothing is open in its memory.
    unsafe fn finish_read_only<F: File>(&self, file: F) {
        let granted = self.flags & !(OPEN_READWRITE | OPEN_CREATE) | OPEN_READONLY;
        // SAFETY: nothing is open in SQLite's memory, as the caller says.
        unsafe { self.finish(file, granted) };
    }

    /// Opens what was asked for in a wrong way, so that somebody hears the words.
    ///
    /// # Safety
    /// As [`Opening::finish_read_only`].
    unsafe fn refuse(&self, why: String) {
        self.shim.api().log(MISUSE, &why);
        // SAFETY: nothing is open in SQLite's memory, as the caller says.
        unsafe { self.finish_read_only(Refused(why)) };
    }

    /// Opens a main database.
    ///
    /// # Safety
    /// The arguments are SQLite's, for a main database.
    unsafe fn main(&self) -> Result<(), Failure> {
        let (shim, api) = (self.shim, self.shim.api());
        // SAFETY: the name is a main database's.
        let vfs = || unsafe { api.uri_parameter(self.name, c"vfs") };
        let explicit = !shim.is_default || vfs().as_deref() == Some(NAME);
        // As the default VFS we may meet parameters that are meant for someone else.
        let asked = if explicit {
            // SAFETY: the name is a main database's, as the caller says.
            Asked::of(&unsafe { api.uri_parameters(self.name) })
        } else {
            Ok(Asked::default())
        };
        // SAFETY: the arguments are SQLite's, for a main database. The host's file is opened in memory of its own.
        unsafe {
            let asked = match asked {
                Ok(asked) => asked,
                Err(why) => {
                    self.refuse(why);
                    return Ok(());
                }
            };
            if let Some(location) = asked.remote {
                return self.remote(location, asked.settings);
            }
            let (disk, granted) = self.host_name().open(self.flags)?;
            let is_new_ours =
                || granted & OPEN_READONLY == 0 && (explicit || shim.library.new_are_packed());
            match Content::of(api, &disk)? {
                Content::Packed => self.packed(disk, granted, asked.settings),
                Content::Empty if is_new_ours() => self.packed(disk, granted, asked.settings),
                Content::Zstd => {
                    drop(disk);
                    self.archive(asked.settings, explicit)
                }
                Content::Empty | Content::Other => {
                    drop(disk);
                    self.plain()
                }
            }
        }
    }

    /// Hands a main database that was looked at to the host. It exists by now, so it can no longer be asked to be
    /// created exclusively.
    ///
    /// # Safety
    /// As [`Opening::below`].
    unsafe fn plain(&self) -> Result<(), Failure> {
        // SAFETY: the arguments are SQLite's, and the caller has nothing open in its memory.
        unsafe { self.below(self.flags & !OPEN_EXCLUSIVE) }
    }

    /// Opens a packed database, or an empty file as one.
    ///
    /// # Safety
    /// The arguments are SQLite's, and nothing is open in its memory.
    unsafe fn packed(
        &self,
        disk: HostFile,
        granted: c_int,
        settings: Vec<Setting>,
    ) -> Result<(), Failure> {
        let path = disk.path().to_owned();
        // SAFETY: the name is a main database's, and this is a call of `xOpen` for it.
        let names = unsafe { self.shim.api().rename_beside(self.name) }
            .map_err(|why| Failure::new(CANTOPEN, why))?;
        let mut store = Store::open(disk, Options::default()).map_err(|error| {
            let failure = Failure::of_store(&error, While::Reading);
            Failure::new(failure.code, format!("{}: {error}", path.to_string_lossy()))
        })?;
        let identity = Identity::new(&path, names, store.uuid());
        // Else the WAL of the file that has the name by now would be taken for this one's.
        if identity.has_file() && store.disk().has_moved() {
            return Err(Failure::new(CANTOPEN, REPLACED));
        }
        // SAFETY: the name is a main database's.
        let is_immutable = unsafe { self.shim.api().uri_is_on(self.name, c"immutable") };
        // Those beside a new database go with its first commit, as SQLite has it. SQLite looks for none where nothing can
        // change.
        let stranger = identity.strangers().next();
        if let Some(stranger) = stranger.filter(|_| !store.is_new() && !is_immutable) {
            drop((store, identity));
            // SAFETY: nothing is open in SQLite's memory, as the caller says.
            unsafe { self.refuse(beside_in_words(&stranger)) };
            return Ok(());
        }
        store.set_file(identity.file());
        let mut packed = Packed::new(store);
        let by_default = self.shim.api().compiled_with(c"SECURE_DELETE");
        *packed.secure_delete() = SecureDelete::new(by_default);
        for setting in settings {
            packed.apply(setting);
        }
        // SQLite writes nothing of a file that is said not to change, but the host may have it open for writing.
        let writable = granted & OPEN_READONLY == 0 && !is_immutable;
        // SAFETY: the name is a main database's.
        let journal = unsafe { self.shim.api().journal_of(self.name) };
        let absent = KnownAbsent::new(&path, journal);
        // SAFETY: as the caller says.
        unsafe {
            let file = PackedFile::new(packed, Some(identity), absent, writable);
            self.finish(file, granted);
        }
        Ok(())
    }

    /// Opens an archive, read-only whatever is asked for. What only begins like one is a file of some other VFS to the
    /// default one, and a mistake where the user asked for us.
    ///
    /// # Safety
    /// The arguments are SQLite's, and nothing is open in its memory.
    unsafe fn archive(&self, settings: Vec<Setting>, explicit: bool) -> Result<(), Failure> {
        // SAFETY: the name is a main database's, so it is there.
        let name = unsafe { self.host_name() };
        let path = name.path().to_bytes();
        let stamp = FileStamp::of(path);
        let (source, _) = name.open(OPEN_READONLY | OPEN_MAIN_DB)?;
        // Only if the name still means the file that it meant before is it known which file this is.
        let which = || stamp?.confirmed(path).map(Which::Local);
        let mut archive = match ArchiveFile::open(source, which) {
            Ok(archive) => archive,
            Err(failure) => {
                let why = format!("{}: {}", String::from_utf8_lossy(path), failure.why);
                let failure = Failure::new(failure.code, why);
                if failure.code != NOTADB || explicit {
                    return Err(failure);
                }
                report(self.shim.api(), &failure);
                // SAFETY: the archive is opened in memory of its own, so nothing is open in SQLite's.
                return unsafe { self.plain() };
            }
        };
        let applied = settings
            .into_iter()
            .try_for_each(|setting| archive.apply(setting));
        // SAFETY: the archive is opened in memory of its own, so nothing is open in SQLite's.
        unsafe {
            match applied {
                Ok(()) => self.finish_read_only(archive),
                Err(why) => self.refuse(why),
            }
        }
        Ok(())
    }

    /// Opens a file on a server. There need not be a local one of this name, and if there is, it is not looked at.
    ///
    /// # Safety
    /// The arguments are SQLite's, and nothing is open in its memory.
    unsafe fn remote(&self, location: Location, settings: Vec<Setting>) -> Result<(), Failure> {
        // SAFETY: a file on a server takes nothing of SQLite's memory, so nothing is open there.
        unsafe {
            match location.open(settings) {
                Ok(file) => self.finish_read_only(file),
                Err(failure) if failure.code == MISUSE => self.refuse(failure.why.into_owned()),
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }
}

/// Why a packed database is not opened beside this file.
fn beside_in_words(stranger: &CStr) -> String {
    let name = stranger.to_string_lossy();
    let suffixes = [("-wal", WAL_SUFFIX), ("-journal", JOURNAL_SUFFIX)];
    let ours = suffixes.iter().find_map(|(theirs, ours)| {
        let path = name.strip_suffix(theirs)?;
        Some(format!("{path}{ours}"))
    });
    format!(
        "{name} is not this packed file's, and a program without Litepack would write it into it: remove it. \
         (If an early Litepack wrote it, rename it to {}.)",
        ours.unwrap_or_default()
    )
}

/// What a main database is, by its first bytes.
enum Content {
    Empty,
    Packed,
    /// An archive, or a zstd file that is none.
    Zstd,
    Other,
}

impl Content {
    fn of(api: Api, disk: &HostFile) -> Result<Content, Failure> {
        let mut head = [0; HEAD_LEN];
        let mut read = || Ok((ReadAt::read_at(disk, &mut head, 0)?, ReadAt::len(disk)?));
        let failed = |error: std::io::Error| Failure::of_store(&error.into(), While::Reading);
        let (n, len) = read().map_err(failed)?;
        Ok(match kind_of(&head[..n], len) {
            HeaderKind::Empty => Content::Empty,
            HeaderKind::Packed => Content::Packed,
            HeaderKind::Other if begins_like_zstd(&head[..n]) => Content::Zstd,
            HeaderKind::Other => {
                if let Some(what) = foreign::what(&head[..n]) {
                    let path = disk.path().to_string_lossy();
                    api.log(NOTADB, &format!("{path}: not a database but {what}"));
                }
                Content::Other
            }
        })
    }
}

/// What the URI of a database asks for.
#[derive(Default)]
struct Asked {
    settings: Vec<Setting>,
    remote: Option<Location>,
}

impl Asked {
    /// # Errors
    /// In words.
    fn of(parameters: &[(String, String)]) -> Result<Asked, String> {
        let settings = from_uri(parameters)?;
        let remote = remote::from_uri(parameters)?;
        let is_shared = |(key, value): &(String, String)| key == "cache" && value == "shared";
        if remote.is_some() && parameters.iter().any(is_shared) {
            // SQLite would take two URLs under one path for one database. That the C API asked for it is not to be
            // seen.
            return Err("cache=shared cannot be used together with url".into());
        }
        Ok(Asked { settings, remote })
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
    if name_text.is_some_and(known_absent::is_absent) {
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
            known_absent::note_absent(name);
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
