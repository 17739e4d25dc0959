//! The VFS: decides for each file whether it is ours, and hands everything else to the host's VFS.
//!
//! Ours are main databases that are packed (or new) and their rollback journals, and archives. Any other file is
//! opened by the host directly in SQLite's memory, so that from then on we are not in the way at all.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use litepack_archive::begins_like_zstd;
use litepack_remote::Options as RemoteOptions;
use litepack_store::{Disk, FileKind, HEADER_LEN, Options, Store, kind_of};

use super::api::{Api, api};
use super::file::{self, HOST_OFFSET};
use super::guard::guard;
use super::host::{HostFile, HostSource};
use super::journal_file;
use super::readonly_file;
use super::types::{Symbol, sqlite3_file, sqlite3_vfs};
use crate::archive::{ArchiveFile, Which};
use crate::codes::{
    ACCESS_EXISTS, CANTOPEN, Code, MISUSE, NOTADB, OK, OPEN_CREATE, OPEN_EXCLUSIVE, OPEN_MAIN_DB,
    OPEN_MAIN_JOURNAL, OPEN_READONLY, OPEN_READWRITE, While, code_of,
};
use crate::file_stamp::FileStamp;
use crate::foreign;
use crate::identity::{Identity, is_packed_journal};
use crate::options::{Setting, from_uri};
use crate::packed::Packed;
use crate::read_only::{Failure, ReadOnly};
use crate::refused::Refused;
use crate::remote::RemoteFile;
use crate::remote_options;
use crate::secure_delete::SecureDelete;

/// The VFS's name.
pub(crate) const NAME: &str = "litepack";
const NAME_C: &CStr = c"litepack";
/// The name of the one that becomes the default: it makes new databases plain unless told otherwise.
const DEFAULT_NAME_C: &CStr = c"litepack-default";

/// What `litepack_new_databases` was last told: new databases of the default VFS are packed.
pub(crate) static NEW_ARE_PACKED: AtomicBool = AtomicBool::new(false);

/// What one of our VFSes knows.
struct Shim {
    host: *mut sqlite3_vfs,
    /// Whether databases are ours to make only on request: this is the process's default VFS.
    is_default: bool,
}

/// Registers the VFS `litepack` over the host's default VFS, and with `default` a second one that
/// becomes the default itself. Does nothing the second time.
///
/// # Errors
/// In words.
pub(crate) fn register(default: bool) -> Result<(), String> {
    static REGISTERING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = REGISTERING.lock().unwrap_or_else(PoisonError::into_inner);
    let api = api();
    let ours = api.vfs_find(Some(NAME_C));
    let host = if ours.is_null() {
        api.vfs_find(None)
    } else {
        // SAFETY: a VFS of this name was registered by this code, with a shim as its data.
        unsafe { (*(*ours).app_data.cast::<Shim>()).host }
    };
    if host.is_null() {
        return Err("SQLite has no default VFS to build on".into());
    }
    if ours.is_null() {
        // SAFETY: the host's VFS was just found.
        unsafe { register_over(api, host, NAME_C, false) }?;
    }
    if default {
        let ours = api.vfs_find(Some(DEFAULT_NAME_C));
        if ours.is_null() {
            // SAFETY: the host's VFS was just found.
            unsafe { register_over(api, host, DEFAULT_NAME_C, true) }?;
        } else {
            // A host that has shut SQLite down and started it again has its own default back.
            // SAFETY: it was registered by this code and stays for ever.
            match unsafe { api.vfs_register(ours, true) } {
                OK => {}
                code => return Err(format!("SQLite refused the VFS (code {code})")),
            }
        }
    }
    Ok(())
}

/// Registers a VFS under `name` over the VFS named `host`: for hosts with several VFSes, and for
/// tests over a simulated disk.
///
/// # Errors
/// In words.
pub(crate) fn register_named(name: &str, host: &str) -> Result<(), String> {
    let host_name = CString::new(host).map_err(|error| error.to_string())?;
    let found = api().vfs_find(Some(&host_name));
    if found.is_null() {
        return Err(format!("no VFS is named '{host}'"));
    }
    let name = CString::new(name).map_err(|error| error.to_string())?;
    // SAFETY: the host's VFS was just found; the name is leaked because a VFS stays for ever.
    unsafe { register_over(api(), found, Box::leak(name.into_boxed_c_str()), false) }
}

/// # Safety
/// `host` is a registered VFS that stays registered.
unsafe fn register_over(
    api: &Api,
    host: *mut sqlite3_vfs,
    name: &'static CStr,
    is_default: bool,
) -> Result<(), String> {
    // SAFETY: as for this function.
    let below = unsafe { &*host };
    let shim = Box::new(Shim { host, is_default });
    let vfs = sqlite3_vfs {
        version: below.version.min(3),
        sz_os_file: below.sz_os_file + HOST_OFFSET as c_int,
        max_pathname: below.max_pathname,
        next: std::ptr::null_mut(),
        name: name.as_ptr(),
        app_data: Box::into_raw(shim).cast(),
        open,
        delete,
        access,
        full_pathname,
        dl_open: below.dl_open.map(|_| dl_open as _),
        dl_error: below.dl_error.map(|_| dl_error as _),
        dl_sym: below.dl_sym.map(|_| dl_sym as _),
        dl_close: below.dl_close.map(|_| dl_close as _),
        randomness,
        sleep,
        current_time,
        get_last_error: below.get_last_error.map(|_| get_last_error as _),
        current_time_int64: (below.version >= 2)
            .then(|| below.current_time_int64.map(|_| current_time_int64 as _))
            .flatten(),
        set_system_call: (below.version >= 3)
            .then(|| below.set_system_call.map(|_| set_system_call as _))
            .flatten(),
        get_system_call: (below.version >= 3)
            .then(|| below.get_system_call.map(|_| get_system_call as _))
            .flatten(),
        next_system_call: (below.version >= 3)
            .then(|| below.next_system_call.map(|_| next_system_call as _))
            .flatten(),
    };
    // SAFETY: the VFS is leaked: SQLite keeps the pointer, and the library is never unloaded.
    match unsafe { api.vfs_register(Box::into_raw(Box::new(vfs)), is_default) } {
        OK => Ok(()),
        code => Err(format!("SQLite refused the VFS (code {code})")),
    }
}

/// # Safety
/// `vfs` is one of ours.
unsafe fn shim<'a>(vfs: *mut sqlite3_vfs) -> &'a Shim {
    // SAFETY: as for this function; the data is never freed.
    unsafe { &*(*vfs).app_data.cast::<Shim>() }
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    out: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives memory for a file; without methods it is not closed after a failure.
    unsafe { (*out).methods = std::ptr::null() };
    // SAFETY: the arguments are SQLite's, for one of our VFSes.
    guard(
        || (),
        || unsafe {
            let shim = shim(vfs);
            if name.is_null() || flags & (OPEN_MAIN_DB | OPEN_MAIN_JOURNAL) == 0 {
                open_below(shim, name, out, flags, out_flags)
            } else if flags & OPEN_MAIN_JOURNAL != 0 {
                // Without CREATE it is a journal left on disk, to be looked at or played back.
                if flags & OPEN_CREATE != 0 && is_packed_journal(CStr::from_ptr(name)) {
                    journal_file::open(out, shim.host, name);
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
    // SAFETY: the name is a main database's.
    let explicit =
        !shim.is_default || unsafe { api().uri_parameter(name, c"vfs") }.as_deref() == Some(NAME);
    // As the default VFS we may meet parameters that are meant for someone else.
    let asked = if explicit {
        // SAFETY: as above.
        match Asked::of(&unsafe { api().uri_parameters(name) }) {
            Ok(asked) => asked,
            // SAFETY: as for this function.
            Err(why) => return unsafe { refuse(out, why, flags, out_flags) },
        }
    } else {
        Asked::default()
    };
    if let Some((url, options)) = asked.remote {
        // SAFETY: as for this function.
        return unsafe { open_remote(&url, options, asked.settings, out, flags, out_flags) };
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
    let kind = match kind(&disk) {
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
        Kind::Empty => {
            granted & OPEN_READONLY == 0 && (explicit || NEW_ARE_PACKED.load(Ordering::Relaxed))
        }
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
            *packed.secure_delete() = SecureDelete::new(api().compiled_with(c"SECURE_DELETE"));
            for setting in asked.settings {
                packed.apply(setting);
            }
            // SAFETY: SQLite gave this memory, and the host's file in it is the medium.
            unsafe {
                file::open(out, packed, Some(identity));
                if !out_flags.is_null() {
                    out_flags.write(granted);
                }
            }
            OK
        }
        Err(error) => {
            let code = code_of(&error, While::Reading);
            api().log(code, &format!("{}: {error}", path.to_string_lossy()));
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
    // SAFETY: the name is a string.
    let path = unsafe { CStr::from_ptr(name) };
    let tell = |code, why: &str| {
        api().log(code, &format!("{}: {why}", path.to_string_lossy()));
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
        return unsafe { refuse(out, why, flags, out_flags) };
    }
    // SAFETY: SQLite gave this memory, and the host's file in it is closed.
    unsafe { open_read_only(out, Box::new(archive), flags, out_flags) };
    OK
}

/// Opens a file on a server. There need not be a local one of this name, and if there is, it is not looked at.
///
/// # Safety
/// As [`open_main`].
unsafe fn open_remote(
    url: &str,
    options: RemoteOptions,
    settings: Vec<Setting>,
    out: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> Code {
    let opened = RemoteFile::open(url, options).and_then(|mut file| {
        let misused = |why| Failure { code: MISUSE, why };
        let mut settings = settings.into_iter();
        let applied = settings.try_for_each(|setting| file.apply(setting));
        applied.map(|()| file).map_err(misused)
    });
    match opened {
        Ok(file) => {
            // SAFETY: SQLite gave this memory, and nothing is open in it.
            unsafe { open_read_only(out, Box::new(file), flags, out_flags) };
            OK
        }
        // SAFETY: as above.
        Err(Failure { code: MISUSE, why }) => unsafe { refuse(out, why, flags, out_flags) },
        Err(failure) => readonly_file::report(&failure),
    }
}

/// Opens what was asked for in a wrong way, so that somebody hears the words.
///
/// # Safety
/// As [`readonly_file::open`].
unsafe fn refuse(out: *mut sqlite3_file, why: String, flags: c_int, out_flags: *mut c_int) -> Code {
    api().log(MISUSE, &why);
    // SAFETY: as for this function.
    unsafe { open_read_only(out, Box::new(Refused(why)), flags, out_flags) };
    OK
}

/// Makes `out` a database that is only read, whatever was asked for.
///
/// # Safety
/// As [`readonly_file::open`].
unsafe fn open_read_only(
    out: *mut sqlite3_file,
    content: Box<dyn ReadOnly>,
    flags: c_int,
    out_flags: *mut c_int,
) {
    // SAFETY: as for this function.
    unsafe {
        readonly_file::open(out, content);
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

fn kind(disk: &HostFile) -> litepack_store::Result<Kind> {
    let mut head = [0; HEADER_LEN];
    let n = disk.read_at(&mut head, 0)?;
    Ok(match kind_of(&head[..n], disk.len()?) {
        FileKind::Empty => Kind::Empty,
        FileKind::Packed => Kind::Packed,
        FileKind::Other if begins_like_zstd(&head[..n]) => Kind::Zstd,
        FileKind::Other => {
            if let Some(what) = foreign::what(&head[..n]) {
                let path = disk.path().to_string_lossy();
                api().log(NOTADB, &format!("{path}: not a database but {what}"));
            }
            Kind::Other
        }
    })
}

/// What the URI of a database asks for.
#[derive(Default)]
struct Asked {
    settings: Vec<Setting>,
    remote: Option<(String, RemoteOptions)>,
}

impl Asked {
    /// # Errors
    /// In words.
    fn of(parameters: &[(String, String)]) -> Result<Asked, String> {
        let settings = from_uri(parameters)?;
        let remote = remote_options::from_uri(parameters)?;
        let is_shared = |(key, value): &(String, String)| key == "cache" && value == "shared";
        if remote.is_some() && parameters.iter().any(is_shared) {
            // SQLite would take two URLs under one path for one database. That the C API asked for it is not to be seen.
            return Err("cache=shared cannot be used together with url".into());
        }
        Ok(Asked { settings, remote })
    }
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: the arguments are SQLite's, for one of our VFSes.
    guard(
        || (),
        || unsafe {
            let host = shim(vfs).host;
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
        unsafe extern "C" fn $method(vfs: *mut sqlite3_vfs, $($arg: $type),*) -> $ret {
            // SAFETY: the arguments are SQLite's, for one of our VFSes.
            unsafe {
                let host = shim(vfs).host;
                ((*host).$method)(host, $($arg),*)
            }
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
        unsafe extern "C" fn $method(vfs: *mut sqlite3_vfs, $($arg: $type),*) -> $ret {
            // SAFETY: the arguments are SQLite's, for one of our VFSes.
            unsafe {
                let host = shim(vfs).host;
                match (*host).$method {
                    Some(method) => method(host, $($arg),*),
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
