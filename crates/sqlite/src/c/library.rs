//! The SQLite libraries of the process that have loaded us, each in a place of its own.
//!
//! A process may hold several: Python's own beside pysqlite3, a driver in two class loaders. They share nothing, and
//! each loads the same extension. A function that SQLite calls has to know for which library, and none of its arguments
//! can tell: not a `sqlite3_vfs`, because others build VFSes on ours and call our methods with an object of their own,
//! and not a `sqlite3_context`, because asking one takes the library's functions. So every place has functions of its
//! own: those that SQLite calls are compiled once for each place, and know its number ([`for_each_library`]).

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError, RwLock};

use super::api::Api;
use super::bindings::sqlite3_vfs;

/// How many places there are.
pub(crate) const LIBRARIES: usize = 16;

/// `[make::<0>(), make::<1>(), ...]`, one for each place.
macro_rules! for_each_library {
    ($make:ident) => {
        [
            $make::<0>(),
            $make::<1>(),
            $make::<2>(),
            $make::<3>(),
            $make::<4>(),
            $make::<5>(),
            $make::<6>(),
            $make::<7>(),
            $make::<8>(),
            $make::<9>(),
            $make::<10>(),
            $make::<11>(),
            $make::<12>(),
            $make::<13>(),
            $make::<14>(),
            $make::<15>(),
        ]
    };
}

pub(crate) use for_each_library;

/// A library, by the number of its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Library(pub(crate) usize);

/// The data of a library.
struct LibrarySlot {
    /// The library's function table; null while the place is free.
    table: AtomicPtr<c_void>,
    /// Where the file that holds the table is mapped; null if the system does not say.
    image: AtomicPtr<c_void>,
    /// The VFSes `litepack` and `litepack-default`; null until they are registered.
    shims: [AtomicPtr<Shim>; 2],
    /// The last setting of `litepack_new_databases`: new databases of the default VFS are packed.
    new_are_packed: AtomicBool,
}

static PLACES: [LibrarySlot; LIBRARIES] = [const { LibrarySlot::free() }; LIBRARIES];

impl LibrarySlot {
    const fn free() -> LibrarySlot {
        LibrarySlot {
            table: AtomicPtr::new(std::ptr::null_mut()),
            image: AtomicPtr::new(std::ptr::null_mut()),
            shims: [const { AtomicPtr::new(std::ptr::null_mut()) }; 2],
            new_are_packed: AtomicBool::new(false),
        }
    }

    /// Whether no library can call the functions of this place: it was never taken, or its library was unloaded.
    fn is_free(&self) -> bool {
        let table = self.table.load(Ordering::Acquire);
        let image = self.image.load(Ordering::Acquire);
        table.is_null() || (!image.is_null() && image_of(table) != image)
    }
}

impl Library {
    /// The library with this table, if its entry point has run.
    pub(crate) fn known(table: *const c_void) -> Option<Library> {
        let has_table =
            |place: &LibrarySlot| place.table.load(Ordering::Acquire).cast_const() == table;
        let found = PLACES.iter().position(has_table);
        found.filter(|_| !table.is_null()).map(Library)
    }

    /// The library with this table, whose entry point is running. It gets a place if it has none.
    ///
    /// # Errors
    /// In words: that SQLite is too old, or there are too many.
    ///
    /// # Safety
    /// `table` is what SQLite handed to an extension's entry point.
    pub(crate) unsafe fn of(table: *const c_void) -> Result<Library, String> {
        // SAFETY: the caller promises that SQLite handed `table` to an entry point, so it is null or SQLite's table of
        // functions, which stays as long as the library does.
        unsafe { Api::new(table) }?;
        // How often one was taken.
        static TAKEN: Mutex<u64> = Mutex::new(0);
        let lock = || TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let table = table.cast_mut();
        loop {
            let before = *lock();
            // The loader is asked without our lock: who waits for that may have the loader's.
            let image = image_of(table);
            let free = PLACES.iter().position(LibrarySlot::is_free);
            let mut taken = lock();
            if *taken != before {
                continue;
            }
            *taken += 1;
            // A table at the address of one that was unloaded is a new library's. That takes over the place.
            if let Some(known) = Library::known(table) {
                known.place().image.store(image, Ordering::Release);
                return Ok(known);
            }
            let Some(number) = free else {
                return Err(format!(
                    "{LIBRARIES} SQLite libraries of this process use litepack already, and it can serve no more"
                ));
            };
            let place = &PLACES[number];
            for shim in &place.shims {
                shim.store(std::ptr::null_mut(), Ordering::Release);
            }
            place.image.store(image, Ordering::Release);
            place.table.store(table, Ordering::Release);
            return Ok(Library(number));
        }
    }

    fn place(self) -> &'static LibrarySlot {
        &PLACES[self.0]
    }

    /// Its functions.
    pub(crate) fn api(self) -> Api {
        Api {
            table: self.place().table.load(Ordering::Acquire).cast(),
        }
    }

    /// One of its VFSes.
    pub(crate) fn shim(self, is_default: bool) -> Option<&'static Shim> {
        let shim = self.place().shims[usize::from(is_default)].load(Ordering::Acquire);
        // SAFETY: it is null or was leaked for this.
        unsafe { shim.as_ref() }
    }

    pub(crate) fn set_shim(self, is_default: bool, shim: &'static Shim) {
        let shim = std::ptr::from_ref(shim).cast_mut();
        self.place().shims[usize::from(is_default)].store(shim, Ordering::Release);
    }

    /// Whether its default VFS packs new databases.
    pub(crate) fn new_are_packed(self) -> bool {
        self.place().new_are_packed.load(Ordering::Relaxed)
    }

    pub(crate) fn pack_new(self, packed: bool) {
        self.place().new_are_packed.store(packed, Ordering::Relaxed);
    }
}

/// The data of one of our VFSes.
pub(crate) struct Shim {
    pub(crate) library: Library,
    pub(crate) host: *mut sqlite3_vfs,
    /// Whether databases are ours to make only on request: this is the library's default VFS.
    pub(crate) is_default: bool,
    pub(crate) name: &'static str,
    /// As SQLite knows it.
    pub(crate) vfs: *mut sqlite3_vfs,
}

// SAFETY: a shim is leaked and never changes. Its pointers are to VFSes, which SQLite itself uses from any thread.
unsafe impl Send for Shim {}
// SAFETY: no method changes anything through a shared reference, and the pointers are good on every thread.
unsafe impl Sync for Shim {}

impl Shim {
    pub(crate) fn api(&self) -> Api {
        self.library.api()
    }

    /// Whether it still is what would be registered over a VFS that looks like this now.
    pub(crate) fn is_over(&self, host: *mut sqlite3_vfs, vfs: &sqlite3_vfs) -> bool {
        let ours = self.vfs;
        // SAFETY: our VFS is never freed, and SQLite changes none of these.
        let form = unsafe { ((*ours).iVersion, (*ours).szOsFile, (*ours).mxPathname) };
        self.host == host && form == (vfs.iVersion, vfs.szOsFile, vfs.mxPathname)
    }

    /// From now on [`named`] finds it.
    pub(crate) fn name_it(&'static self) {
        let mut named = NAMED.write().unwrap_or_else(PoisonError::into_inner);
        named.insert(self.vfs.addr(), self);
    }
}

/// VFSes under names of the program's own choice, by where SQLite has them.
static NAMED: LazyLock<RwLock<HashMap<usize, &'static Shim>>> = LazyLock::new(RwLock::default);

/// The VFS of [`register_named`] at this address.
pub(crate) fn named(vfs: *mut sqlite3_vfs) -> Option<&'static Shim> {
    let named = NAMED.read().unwrap_or_else(PoisonError::into_inner);
    named.get(&vfs.addr()).copied()
}

/// Whether this is one of our VFSes.
pub(crate) fn is_ours(vfs: *mut sqlite3_vfs) -> bool {
    let mut libraries = (0..LIBRARIES).map(Library);
    let has_it = |library: Library| {
        [false, true]
            .into_iter()
            .filter_map(|is_default| library.shim(is_default))
            .any(|shim| shim.vfs == vfs)
    };
    libraries.any(has_it) || named(vfs).is_some()
}

/// Where the file is mapped that holds this address; null if there is none, or the system does not say.
#[cfg(unix)]
fn image_of(address: *mut c_void) -> *mut c_void {
    use std::ffi::{c_char, c_int};

    /// POSIX's `Dl_info`.
    #[repr(C)]
    struct Info {
        name: *const c_char,
        base: *mut c_void,
        symbol: *const c_char,
        symbol_at: *mut c_void,
    }
    unsafe extern "C" {
        fn dladdr(address: *const c_void, info: *mut Info) -> c_int;
    }
    let null: *mut c_void = std::ptr::null_mut();
    let mut info = Info {
        name: null.cast(),
        base: null,
        symbol: null.cast(),
        symbol_at: null,
    };
    // SAFETY: the declaration is POSIX's. Any address may be asked for; of the answer only the base is looked at,
    // because the names are the library's own and may vanish with it.
    match unsafe { dladdr(address, &raw mut info) } {
        0 => null,
        _ => info.base,
    }
}

#[cfg(not(unix))]
fn image_of(_: *mut c_void) -> *mut c_void {
    std::ptr::null_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_an_image_while_that_is_mapped() {
        let here = image_of(std::ptr::from_ref(&PLACES).cast_mut().cast());
        // In a program that is linked statically, as those for musl, there is no loader to ask.
        if cfg!(not(target_env = "musl")) {
            assert_eq!(here.is_null(), cfg!(not(unix)));
        }
        assert!(image_of(std::ptr::null_mut()).is_null());
    }
}
