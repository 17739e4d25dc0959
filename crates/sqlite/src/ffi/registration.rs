//! Our VFSes in a SQLite library: `litepack` over what is its default, and `litepack-default`, which becomes the
//! default.
//!
//! SQLite knows which VFSes it has, so it is asked each time: `sqlite3_shutdown` and a start after it leave our VFSes
//! and put the host's own default back, a library that was unloaded and loaded again has none, and another copy of
//! this extension may have registered its own under the same names.

use std::ffi::{CStr, CString, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use super::vfs::{Named, Standard, over};
use crate::c::bindings::sqlite3_vfs;
use crate::c::codes::OK;
use crate::c::library::{LIBRARIES, Library, Shim, for_each_library};
use crate::open::NAME;

const NAME_C: &CStr = c"litepack";
/// The name of the one that becomes the default: it makes new databases plain unless told otherwise.
const DEFAULT_NAME_C: &CStr = c"litepack-default";

/// Puts the methods of one VFS over those of a host.
type Over = fn(&sqlite3_vfs) -> sqlite3_vfs;

const fn standard<const LIBRARY: usize>() -> [Over; 2] {
    [
        over::<Standard<LIBRARY, false>>,
        over::<Standard<LIBRARY, true>>,
    ]
}

static STANDARD: [[Over; 2]; LIBRARIES] = for_each_library!(standard);

/// Registers the VFS `litepack` over the library's default VFS, and with `default` a second one that becomes the
/// default itself. Does nothing the second time.
///
/// # Errors
/// In words.
pub(crate) fn register(library: Library, default: bool) -> Result<(), String> {
    static REGISTERING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = REGISTERING.lock().unwrap_or_else(PoisonError::into_inner);
    let api = library.api();
    if api.vfs_find(Some(NAME_C)).is_null() {
        // Whatever was told to a library that had this place before.
        library.pack_new(false);
        register_standard(library, false)?;
    }
    if !default {
        return Ok(());
    }
    let there = api.vfs_find(Some(DEFAULT_NAME_C));
    if there.is_null() {
        return register_standard(library, true);
    }
    // SAFETY: SQLite has it, so it stays for ever.
    accepted(unsafe { api.vfs_register(there, true) })
}

fn register_standard(library: Library, is_default: bool) -> Result<(), String> {
    let mut host = library.api().vfs_find(None);
    if let Some(ours) = library.shim(false)
        && ours.vfs == host
    {
        host = ours.host;
    }
    if host.is_null() {
        return Err("SQLite has no default VFS to build on".into());
    }
    // SAFETY: SQLite has just found it.
    let vfs = STANDARD[library.0][usize::from(is_default)](unsafe { &*host });
    let known = library.shim(is_default);
    let shim = match known.filter(|shim| shim.is_over(host, &vfs)) {
        Some(shim) => shim,
        None => {
            let name = if is_default { DEFAULT_NAME_C } else { NAME_C };
            let shim = leak(library, host, is_default, name, vfs);
            library.set_shim(is_default, shim);
            shim
        }
    };
    // SAFETY: the VFS is leaked, and the library that this code is in is never unloaded.
    accepted(unsafe { library.api().vfs_register(shim.vfs, is_default) })
}

/// Registers a VFS under `name` over the VFS named `host`: for programs with several VFSes, and for
/// tests over a simulated disk.
///
/// # Errors
/// In words.
///
/// # Safety
/// `table` is what SQLite handed to an extension's entry point.
pub(crate) unsafe fn register_named(
    table: *const c_void,
    name: &str,
    host: &str,
) -> Result<(), String> {
    // SAFETY: the caller says that `table` is the function table that SQLite gives to extensions.
    let library = unsafe { Library::of(table) }?;
    let host_name = CString::new(host).map_err(|error| error.to_string())?;
    let found = library.api().vfs_find(Some(&host_name));
    if found.is_null() {
        return Err(format!("no VFS is named '{host}'"));
    }
    let name = CString::new(name).map_err(|error| error.to_string())?;
    let name = Box::leak(name.into_boxed_c_str());
    // SAFETY: SQLite has just found it.
    let vfs = over::<Named>(unsafe { &*found });
    let shim = leak(library, found, false, name, vfs);
    shim.name_it();
    // SAFETY: the VFS is leaked, and the library that this code is in is never unloaded.
    accepted(unsafe { library.api().vfs_register(shim.vfs, false) })
}

/// A VFS that stays for ever, as SQLite keeps the pointer, and may use it after it was unregistered.
fn leak(
    library: Library,
    host: *mut sqlite3_vfs,
    is_default: bool,
    name: &'static CStr,
    mut vfs: sqlite3_vfs,
) -> &'static Shim {
    vfs.zName = name.as_ptr();
    Box::leak(Box::new(Shim {
        library,
        host,
        is_default,
        name: name.to_str().unwrap_or(NAME),
        vfs: Box::into_raw(Box::new(vfs)),
    }))
}

fn accepted(code: c_int) -> Result<(), String> {
    match code {
        OK => Ok(()),
        code => Err(format!("SQLite refused the VFS (code {code})")),
    }
}
