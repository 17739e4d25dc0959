//! The VFS: decides for each file whether it is ours, and hands everything else to the host's VFS.
//!
//! Ours are main databases that are packed (or new) and their rollback journals, and archives. Any other file is
//! opened by the host directly in SQLite's memory, so that from then on we are not in the way at all.

use std::ffi::{CStr, c_char, c_int, c_void};

use litepack_archive::begins_like_zstd;
use litepack_io::storage::ReadAt;
use litepack_store::{FileKind, HEAD_LEN, Options, Store, kind_of};

use super::api::Api;
use super::file::{self, HOST_OFFSET};
use super::guard::guard;
use super::host::{HostFile, HostSource};
use super::journal_file;
use super::library::Library;
use super::readonly_file;
use super::registration::{Shim, named};
use super::types::{Symbol, sqlite3_file, sqlite3_vfs};
use crate::codes::{
    ACCESS_EXISTS, CANTOPEN, Code, MISUSE, NOMEM, NOTADB, OK, OPEN_CREATE, OPEN_EXCLUSIVE,
    OPEN_MAIN_DB, OPEN_MAIN_JOURNAL, OPEN_READONLY, OPEN_READWRITE, While, code_of,
};
use crate::file::archive::{ArchiveFile, Which};
use crate::file::packed::Packed;
use crate::file::refused::Refused;
use crate::file::secure_delete::SecureDelete;
use crate::file_stamp::FileStamp;
use crate::foreign;
use crate::identity::{Identity, is_packed_journal};
use crate::options::{Setting, from_uri};
use crate::read_only::{Failure, ReadOnly};
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

/// A VFS over a host's, without a name.
pub(super) fn over<O: Owner>(below: &sqlite3_vfs) -> sqlite3_vfs {
    sqlite3_vfs {
        version: below.version.min(3),
        sz_os_file: below.sz_os_file + HOST_OFFSET as c_int,
        max_pathname: below.max_pathname,
        next: std::ptr::null_mut(),
        name: std::ptr::null(),
        app_data: std::ptr::null_mut(),
        open: open::<O>,
        delete: delete::<O>,
        access: access::<O>,
        full_pathname: full_pathname::<O>,
        dl_open: below.dl_open.map(|_| dl_open::<O> as _),
        dl_error: below.dl_error.map(|_| dl_error::<O> as _),
        dl_sym: below.dl_sym.map(|_| dl_sym::<O> as _),
        dl_close: below.dl_close.map(|_| dl_close::<O> as _),
        randomness: randomness::<O>,
        sleep: sleep::<O>,
        current_time: current_time::<O>,
        get_last_error: below.get_last_error.map(|_| get_last_error::<O> as _),
        current_time_int64: (below.version >= 2)
            .then(|| {
                below
                    .current_time_int64
                    .map(|_| current_time_int64::<O> as _)
            })
            .flatten(),
        set_system_call: (below.version >= 3)
            .then(|| below.set_system_call.map(|_| set_system_call::<O> as _))
            .flatten(),
        get_system_call: (below.version >= 3)
            .then(|| below.get_system_call.map(|_| get_system_call::<O> as _))
            .flatten(),
        next_system_call: (below.version >= 3)
            .then(|| below.next_system_call.map(|_| next_system_call::<O> as _))
            .flatten(),
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
    unsafe { (*out).methods = std::ptr::null() };
    // SAFETY: the arguments are SQLite's.
    O::shim(vfs).map_or(CANTOPEN, |shim| unsafe {
        open_any(shim, name, out, flags, out_flags)
    })
}

/// Opens a file of any kind.
///
/// # Safety
/// The arguments are those of `xOpen`.
unsafe fn open_any(
    shim: &Shim,
    name: *const c_char,
    out: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: as for this function.
    guard(
        shim.api(),
        || (),
        || unsafe {
            if relieve().is_err() {
                return NOMEM;
            }
            if name.is_null() || flags & (OPEN_MAIN_DB | OPEN_MAIN_JOURNAL) == 0 {
                open_below(shim, name, out, flags, out_flags)
            } else if flags & OPEN_MAIN_JOURNAL != 0 {
                // Without CREATE it is a journal left on disk, to be looked at or played back.
                if flags & OPEN_CREATE != 0 && is_packed_journal(CStr::from_ptr(name)) {
                    journal_file::open(out, shim.api(), shim.host, name);
                    if !out_flags.is_null() {
                        out_flags.write(flags);
                    }
                    OK
                } else {
                    open_below(shim, name, out, flags, out_flags)
                }
            } else {
                open_main(shim, name, out, flags, out_flags)
            }
        },
    )
}

/// Lets the host open a file in SQLite's memory: from here on it is the host's.
///
/// # Safety
/// The arguments are those of `xOpen`.
unsafe fn open_below(
    shim: &Shim,
    name: *const c_char,
    out: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> Code {
    // SAFETY: as for this function.
    unsafe { ((*shim.host).open)(shim.host, name, out, flags, out_flags) }
}

/// Opens a main database.
///
/// # Safety
/// As [`open_below`], with a name.
unsafe fn open_main(
    shim: &Shim,
    name: *const c_char,
    out: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> Code {
    let api = shim.api();
    // SAFETY: the name is a main database's.
    let explicit =
        !shim.is_default || unsafe { api.uri_parameter(name, c"vfs") }.as_deref() == Some(NAME);
    // As the default VFS we may meet parameters that are meant for someone else.
    let asked = if explicit {
        // SAFETY: as above.
        match Asked::of(&unsafe { api.uri_parameters(name) }) {
            Ok(asked) => asked,
            // SAFETY: as for this function.
            Err(why) => return unsafe { refuse(shim, out, why, flags, out_flags) },
        }
    } else {
        Asked::default()
    };
    if let Some(location) = asked.remote {
        // SAFETY: as for this function.
        return unsafe { open_remote(shim, location, asked.settings, out, flags, out_flags) };
    }
    // SAFETY: the memory has room for the host's file behind ours.
    let host_file = unsafe { out.byte_add(HOST_OFFSET) };
    let mut granted = flags;
    // SAFETY: as for this function; methods are reset so that a failure leaves nothing to close.
    let code = unsafe {
        (*host_file).methods = std::ptr::null();
        ((*shim.host).open)(shim.host, name, host_file, flags, &raw mut granted)
    };
    if code != OK {
        // SAFETY: a host that failed after setting methods wants to be closed.
        unsafe { close_host(host_file) };
        return code;
    }
    // SAFETY: the name is a string.
    let path = unsafe { CStr::from_ptr(name) };
    // SAFETY: the host's file is open, in memory that SQLite keeps until the file is closed.
    let disk = unsafe { HostFile::new(host_file, shim.host, path.to_owned()) };
    let kind = match kind(api, &disk) {
        Ok(kind) => kind,
        Err(error) => {
            // SAFETY: the file is open.
            unsafe { close_host(host_file) };
            return code_of(&error, While::Reading);
        }
    };
    let packed = match kind {
        Kind::Packed => true,
        Kind::Other => false,
        Kind::Empty => granted & OPEN_READONLY == 0 && (explicit || shim.library.new_are_packed()),
        Kind::Zstd => {
            drop(disk);
            // SAFETY: the file is open; it is opened again as one that is only read.
            return unsafe {
                close_host(host_file);
                open_archive(shim, name, asked.settings, explicit, out, flags, out_flags)
            };
        }
    };
    if !packed {
        // SAFETY: the file is open; it is opened again where the host expects its own files. It
        // exists by now, so it can no longer be asked to be created exclusively.
        return unsafe {
            close_host(host_file);
            open_below(shim, name, out, flags & !OPEN_EXCLUSIVE, out_flags)
        };
    }
    match Store::open(disk, Options::default()) {
        Ok(mut store) => {
            let identity = Identity::new(path, store.uuid());
            store.set_file(identity.file());
            let mut packed = Packed::new(store);
            *packed.secure_delete() = SecureDelete::new(api.compiled_with(c"SECURE_DELETE"));
            for setting in asked.settings {
                packed.apply(setting);
            }
            // SAFETY: SQLite gave this memory, and the host's file in it is the medium.
            unsafe {
                file::open(out, api, shim.name, packed, Some(identity));
                if !out_flags.is_null() {
                    out_flags.write(granted);
                }
            }
            OK
        }
        Err(error) => {
            let code = code_of(&error, While::Reading);
            api.log(code, &format!("{}: {error}", path.to_string_lossy()));
            // SAFETY: the file is open.
            unsafe { close_host(host_file) };
            if code == OK { CANTOPEN } else { code }
        }
    }
}

/// Opens an archive, read-only whatever is asked for. What only begins like one is a file of some other VFS to the
/// default one, and a mistake where the user asked for us.
///
/// # Safety
/// As [`open_main`].
unsafe fn open_archive(
    shim: &Shim,
    name: *const c_char,
    settings: Vec<Setting>,
    explicit: bool,
    out: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> Code {
    let api = shim.api();
    // SAFETY: the name is a string.
    let path = unsafe { CStr::from_ptr(name) };
    let tell = |code, why: &str| {
        api.log(code, &format!("{}: {why}", path.to_string_lossy()));
        code
    };
    let stamp = FileStamp::of(path.to_bytes());
    // SAFETY: the name is a main database's, and SQLite keeps it until the file is closed.
    let source = match unsafe { HostSource::open(shim.host, name) } {
        Ok(source) => source,
        Err(code) => return code,
    };
    // Only if the name still means the file that it meant before is it known which file this is.
    let which = || stamp?.confirmed(path.to_bytes()).map(Which::Local);
    let mut archive = match ArchiveFile::open(source, which) {
        Ok(archive) => archive,
        Err(failure) => {
            let code = tell(failure.code, &failure.why);
            if code == NOTADB && !explicit {
                // SAFETY: as for this function; nothing is open in SQLite's memory.
                return unsafe { open_below(shim, name, out, flags & !OPEN_EXCLUSIVE, out_flags) };
            }
            return code;
        }
    };
    if let Err(why) = settings.into_iter().try_for_each(|one| archive.apply(one)) {
        // SAFETY: as for this function; nothing is open in SQLite's memory.
        return unsafe { refuse(shim, out, why, flags, out_flags) };
    }
    // SAFETY: SQLite gave this memory, and the host's file in it is closed.
    unsafe { open_read_only(shim, out, Box::new(archive), flags, out_flags) };
    OK
}

/// Opens a file on a server. There need not be a local one of this name, and if there is, it is not looked at.
///
/// # Safety
/// As [`open_main`].
unsafe fn open_remote(
    shim: &Shim,
    location: Location,
    settings: Vec<Setting>,
    out: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> Code {
    match location.open(settings) {
        Ok(file) => {
            // SAFETY: SQLite gave this memory, and nothing is open in it.
            unsafe { open_read_only(shim, out, file, flags, out_flags) };
            OK
        }
        // SAFETY: as above.
        Err(Failure { code: MISUSE, why }) => unsafe { refuse(shim, out, why, flags, out_flags) },
        Err(failure) => readonly_file::report(shim.api(), &failure),
    }
}

/// Opens what was asked for in a wrong way, so that somebody hears the words.
///
/// # Safety
/// As [`readonly_file::open`].
unsafe fn refuse(
    shim: &Shim,
    out: *mut sqlite3_file,
    why: String,
    flags: c_int,
    out_flags: *mut c_int,
) -> Code {
    shim.api().log(MISUSE, &why);
    // SAFETY: as for this function.
    unsafe { open_read_only(shim, out, Box::new(Refused(why)), flags, out_flags) };
    OK
}

/// Makes `out` a database that is only read, whatever was asked for.
///
/// # Safety
/// As [`readonly_file::open`].
unsafe fn open_read_only(
    shim: &Shim,
    out: *mut sqlite3_file,
    content: Box<dyn ReadOnly>,
    flags: c_int,
    out_flags: *mut c_int,
) {
    // SAFETY: as for this function.
    unsafe {
        readonly_file::open(out, shim.api(), shim.name, content);
        if !out_flags.is_null() {
            out_flags.write(flags & !(OPEN_READWRITE | OPEN_CREATE) | OPEN_READONLY);
        }
    }
}

/// # Safety
/// `file` is the host's, open or with its methods null.
unsafe fn close_host(file: *mut sqlite3_file) {
    // SAFETY: as for this function.
    unsafe {
        if !(*file).methods.is_null() {
            ((*(*file).methods).close)(file);
            (*file).methods = std::ptr::null();
        }
    }
}

/// What a main database is, by its first bytes.
enum Kind {
    Empty,
    Packed,
    /// An archive, or a zstd file that is none.
    Zstd,
    Other,
}

fn kind(api: Api, disk: &HostFile) -> litepack_store::Result<Kind> {
    let mut head = [0; HEAD_LEN];
    let n = disk.read_at(&mut head, 0)?;
    Ok(match kind_of(&head[..n], disk.len()?) {
        FileKind::Empty => Kind::Empty,
        FileKind::Packed => Kind::Packed,
        FileKind::Other if begins_like_zstd(&head[..n]) => Kind::Zstd,
        FileKind::Other => {
            if let Some(what) = foreign::what(&head[..n]) {
                let path = disk.path().to_string_lossy();
                api.log(NOTADB, &format!("{path}: not a database but {what}"));
            }
            Kind::Other
        }
    })
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
            // SQLite would take two URLs under one path for one database. That the C API asked for it is not to be seen.
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
    // SAFETY: as for this function.
    guard(
        shim.api(),
        || (),
        || unsafe {
            let host = shim.host;
            match ((*host).delete)(host, name, sync) {
                OK => OK,
                // A journal that never left memory is gone already: the commit must not fail over it.
                code if is_packed_journal(CStr::from_ptr(name)) => {
                    let mut there = 1;
                    match ((*host).access)(host, name, ACCESS_EXISTS, &raw mut there) {
                        OK if there == 0 => OK,
                        _ => code,
                    }
                }
                code => code,
            }
        },
    )
}

/// Methods that the host answers, called with the host's VFS in place of ours.
macro_rules! forward {
    ($(fn $method:ident($($arg:ident: $type:ty),*) -> $ret:ty;)*) => {$(
        unsafe extern "C" fn $method<O: Owner>(vfs: *mut sqlite3_vfs, $($arg: $type),*) -> $ret {
            let Some(shim) = O::shim(vfs) else {
                return CANTOPEN;
            };
            // SAFETY: the arguments are SQLite's.
            unsafe { ((*shim.host).$method)(shim.host, $($arg),*) }
        }
    )*};
}

forward! {
    fn access(name: *const c_char, flags: c_int, out: *mut c_int) -> c_int;
    fn full_pathname(name: *const c_char, n: c_int, out: *mut c_char) -> c_int;
    fn randomness(n: c_int, out: *mut c_char) -> c_int;
    fn sleep(microseconds: c_int) -> c_int;
    fn current_time(out: *mut f64) -> c_int;
}

/// The same for methods that a VFS may lack; ours has only those that the host has.
macro_rules! forward_optional {
    ($(fn $method:ident($($arg:ident: $type:ty),*) -> $ret:ty, else $otherwise:expr;)*) => {$(
        unsafe extern "C" fn $method<O: Owner>(vfs: *mut sqlite3_vfs, $($arg: $type),*) -> $ret {
            // SAFETY: the arguments are SQLite's.
            unsafe {
                match O::shim(vfs).and_then(|shim| (*shim.host).$method.map(|method| (shim, method))) {
                    Some((shim, method)) => method(shim.host, $($arg),*),
                    None => $otherwise,
                }
            }
        }
    )*};
}

forward_optional! {
    fn dl_open(name: *const c_char) -> *mut c_void, else std::ptr::null_mut();
    fn dl_error(n: c_int, out: *mut c_char) -> (), else ();
    fn dl_sym(library: *mut c_void, name: *const c_char) -> Symbol, else None;
    fn dl_close(library: *mut c_void) -> (), else ();
    fn get_last_error(n: c_int, out: *mut c_char) -> c_int, else OK;
    fn current_time_int64(out: *mut i64) -> c_int, else CANTOPEN;
    fn set_system_call(name: *const c_char, call: Symbol) -> c_int, else CANTOPEN;
    fn get_system_call(name: *const c_char) -> Symbol, else None;
    fn next_system_call(name: *const c_char) -> *const c_char, else std::ptr::null();
}
