//! All that meets C: the functions that the program calls, the system's loader, and the few functions of SQLite that
//! are called here.
//!
//! A function that stands before another keeps the registers of the call, asks where the call is to go, and jumps
//! there. So it needs not know what the other takes and returns, and that sees the program as its caller.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{null, null_mut};

use crate::calls::{self, Memory};
use crate::{deepbind, extension, register};

/// A call on its way, as the code below lays it out: what is in its registers, and where it returns to.
#[cfg(target_arch = "x86_64")]
#[repr(C)]
pub struct Call {
    _aligned: usize,
    fourth: usize,
    third: usize,
    second: usize,
    first: usize,
    caller: *const c_void,
}

/// The same.
#[cfg(target_arch = "aarch64")]
#[repr(C)]
pub struct Call {
    _frame: usize,
    caller: *const c_void,
    first: usize,
    second: usize,
    third: usize,
    fourth: usize,
}

impl Call {
    /// What the call goes to if it was answered here.
    pub fn answered(&mut self, code: c_int) -> Function {
        self.first = code.cast_unsigned() as usize;
        Function(answer as *const c_void)
    }
}

extern "C" fn answer(code: c_int) -> c_int {
    code
}

/// A function of the C library's or SQLite's name, which stands before that one.
#[cfg(target_arch = "x86_64")]
macro_rules! stands_before {
    ($($name:ident goes to $target:ident;)*) => { $(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "endbr64",
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "sub rsp, 8",
                "mov rdi, rsp",
                "call {target}",
                "add rsp, 8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "jmp rax",
                target = sym $target,
            )
        }
    )* };
}

#[cfg(target_arch = "aarch64")]
macro_rules! stands_before {
    ($($name:ident goes to $target:ident;)*) => { $(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "hint 34",
                "stp x29, x30, [sp, #-48]!",
                "mov x29, sp",
                "stp x0, x1, [sp, #16]",
                "stp x2, x3, [sp, #32]",
                "mov x0, sp",
                "bl {target}",
                "mov x16, x0",
                "ldp x0, x1, [sp, #16]",
                "ldp x2, x3, [sp, #32]",
                "ldp x29, x30, [sp], #48",
                "br x16",
                target = sym $target,
            )
        }
    )* };
}

stands_before! {
    sqlite3_open goes to before_open;
    sqlite3_open16 goes to before_open16;
    sqlite3_open_v2 goes to before_open_v2;
    sqlite3_shutdown goes to before_shutdown;
    dlopen goes to before_dlopen;
}

extern "C" fn before_open(call: &mut Call) -> Function {
    to_open(c"sqlite3_open", call)
}

extern "C" fn before_open16(call: &mut Call) -> Function {
    to_open(c"sqlite3_open16", call)
}

extern "C" fn before_open_v2(call: &mut Call) -> Function {
    to_open(c"sqlite3_open_v2", call)
}

fn to_open(name: &CStr, call: &mut Call) -> Function {
    match Function::meant(name, call.caller) {
        Some(open) => register::before_open(open, call),
        None => Function(no_open as *const c_void),
    }
}

extern "C" fn before_shutdown(call: &Call) -> Function {
    let Some(shutdown) = Function::meant(c"sqlite3_shutdown", call.caller) else {
        return Function(no_shutdown as *const c_void);
    };
    register::before_shutdown(shutdown);
    shutdown
}

/// Where there is no SQLite, or it is not to be known which one is meant: what SQLite answers when it cannot even make
/// a connection, SQLITE_NOMEM.
unsafe extern "C" fn no_open(_name: *const c_void, to: *mut *mut c_void) -> c_int {
    if !to.is_null() {
        // SAFETY: each function that opens a database takes as its second argument where the connection goes.
        unsafe { to.write(null_mut()) };
    }
    7
}

extern "C" fn no_shutdown() -> c_int {
    0
}

extern "C" fn no_dlopen() -> *mut c_void {
    null_mut()
}

/// Takes from the mode what would keep a library that is linked to SQLite from calling us.
extern "C" fn before_dlopen(call: &mut Call) -> Function {
    const DEEPBIND: usize = 8;
    let path = core::ptr::with_exposed_provenance::<c_char>(call.first);
    if call.second & DEEPBIND != 0 && !path.is_null() {
        // SAFETY: the program gives null or a string.
        let path = unsafe { CStr::from_ptr(path) };
        if deepbind::is_linked_to_sqlite(path.to_bytes()) {
            call.second &= !DEEPBIND;
        }
    }
    // SAFETY: the name is a string.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"dlopen".as_ptr()) };
    Function::found(next).unwrap_or(Function(no_dlopen as *const c_void))
}

/// A function of the process, by its address.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Function(*const c_void);

impl Function {
    fn found(address: *mut c_void) -> Option<Function> {
        (!address.is_null()).then_some(Function(address))
    }

    /// The function that a call would go to without us, which returns to `caller`.
    ///
    /// The system looks among the program and what it is linked to, then among what the caller was loaded with. Whether
    /// it is the caller to which the call returns is not always known ([`calls`]). If not, it is the function that the
    /// process has, if there is just one.
    fn meant(name: &CStr, caller: *const c_void) -> Option<Function> {
        // SAFETY: the name is a string. The loader takes us for the one that asks, and looks behind us.
        let next = Function::found(unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) });
        next.or_else(|| Image::that_called(caller)?.function(name))
            .or_else(|| only_one(name))
    }
}

/// A file that is loaded.
struct Image {
    at: *const c_void,
    name: *const c_char,
}

impl Image {
    /// The one that has this address.
    fn of(address: *const c_void) -> Option<Image> {
        let mut found = libc::Dl_info {
            dli_fname: null(),
            dli_fbase: null_mut(),
            dli_sname: null(),
            dli_saddr: null_mut(),
        };
        // SAFETY: any address may be asked for.
        let known = unsafe { libc::dladdr(address, &raw mut found) } != 0;
        (known && !found.dli_fname.is_null()).then_some(Image {
            at: found.dli_fbase,
            name: found.dli_fname,
        })
    }

    /// The one that a call of ours returns to, if that has surely called us.
    fn that_called(caller: *const c_void) -> Option<Image> {
        let image = Image::of(caller)?;
        let ours = Image::ours()?.at;
        let is_ours = |function: usize| {
            let function = core::ptr::without_provenance::<c_void>(function);
            Image::of(function).is_some_and(|image| image.at == ours)
        };
        calls::goes_to(&image, caller.addr(), is_ours).then_some(image)
    }

    fn ours() -> Option<Image> {
        Image::of(no_shutdown as *const c_void)
    }

    /// A function of this file or of what it was loaded with, unless it is ours.
    fn function(&self, name: &CStr) -> Option<Function> {
        // SAFETY: the name is the loader's own, and stays as long as the file is loaded.
        unsafe { function_of(self.name, name) }
    }
}

impl Memory for Image {
    fn bytes<const LEN: usize>(&self, at: usize) -> Option<[u8; LEN]> {
        let mut wanted = Within {
            at,
            len: LEN,
            is_readable: false,
        };
        // SAFETY: the function is one for this purpose, and gets what it is for.
        unsafe { libc::dl_iterate_phdr(Some(look_for), (&raw mut wanted).cast()) };
        let from = core::ptr::with_exposed_provenance::<[u8; LEN]>(at);
        let is_here = Image::of(from.cast()).is_some_and(|image| image.at == self.at);
        // SAFETY: it is in what the loader has mapped of this file so that it can be read. That stays: a function of the
        // file is being called.
        (wanted.is_readable && is_here).then(|| unsafe { from.read_unaligned() })
    }
}

/// Bytes of the process, and whether they can be read.
struct Within {
    at: usize,
    len: usize,
    is_readable: bool,
}

unsafe extern "C" fn look_for(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: `bytes` has the loader call this with a `Within`, which nothing else uses meanwhile.
    let wanted = unsafe { &mut *data.cast::<Within>() };
    // SAFETY: the loader gives a description.
    let info = unsafe { &*info };
    for number in 0..usize::from(info.dlpi_phnum) {
        // SAFETY: there are as many of them.
        let segment = unsafe { &*info.dlpi_phdr.add(number) };
        let start = info.dlpi_addr.wrapping_add(segment.p_vaddr);
        let from = (wanted.at as u64).checked_sub(start);
        let end = from.and_then(|from| from.checked_add(wanted.len as u64));
        if segment.p_type == libc::PT_LOAD
            && segment.p_flags & libc::PF_R != 0
            && end.is_some_and(|end| end <= segment.p_memsz)
        {
            wanted.is_readable = true;
            return 1;
        }
    }
    0
}

/// A function of the loaded file of this name, or of what it was loaded with, unless it is ours.
///
/// # Safety
/// `file` is a string.
unsafe fn function_of(file: *const c_char, name: &CStr) -> Option<Function> {
    // SAFETY: the caller says that it is a string. Nothing is loaded, so no code of others runs.
    let handle = unsafe { libc::dlopen(file, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return None;
    }
    // SAFETY: the handle is open, and the name is a string.
    let found = Function::found(unsafe { libc::dlsym(handle, name.as_ptr()) });
    // SAFETY: the handle is the one from above. The file stays, as it was there before.
    unsafe { libc::dlclose(handle) };
    let ours = Image::ours()?.at;
    found.filter(|function| Image::of(function.0).is_some_and(|image| image.at != ours))
}

/// The function of this name, if all loaded files that lead to one lead to the same.
fn only_one(name: &CStr) -> Option<Function> {
    let mut only = None;
    for number in 0.. {
        let mut wanted = Wanted {
            number,
            name: Path([0; Path::LEN]),
        };
        // SAFETY: the function is one for this purpose, and gets what it is for. No file can be asked for its functions
        // while the loader goes through them, so it does so once for each.
        let found = unsafe { libc::dl_iterate_phdr(Some(take), (&raw mut wanted).cast()) } != 0;
        if !found {
            break;
        }
        // SAFETY: a path ends with a zero byte.
        let function = unsafe { function_of(wanted.name.as_ptr(), name) };
        match (only, function) {
            (_, None) => {}
            (Some(one), Some(other)) if one != other => return None,
            _ => only = function,
        }
    }
    only
}

/// The name of a loaded file, by its number.
struct Wanted {
    number: usize,
    name: Path,
}

unsafe extern "C" fn take(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: `only_one` has the loader call this with a `Wanted`, which nothing else uses meanwhile.
    let wanted = unsafe { &mut *data.cast::<Wanted>() };
    let Some(number) = wanted.number.checked_sub(1) else {
        // SAFETY: the loader gives a description, whose name is a string.
        let name = unsafe { CStr::from_ptr((*info).dlpi_name) };
        if let Some(name) = Path::of(&[name.to_bytes()]) {
            wanted.name = name;
        }
        return 1;
    };
    wanted.number = number;
    0
}

/// The name of a file, as C has it.
pub struct Path([u8; Path::LEN]);

impl Path {
    const LEN: usize = 4096;

    /// All parts, one behind the other.
    pub fn of(parts: &[&[u8]]) -> Option<Path> {
        let mut path = Path([0; Path::LEN]);
        let mut bytes = parts.iter().copied().flatten();
        // The last byte stays zero.
        for place in path.0.iter_mut().take(Path::LEN - 1) {
            match bytes.next() {
                Some(byte) => *place = *byte,
                None => return Some(path),
            }
        }
        bytes.next().is_none().then_some(path)
    }

    fn as_ptr(&self) -> *const c_char {
        self.0.as_ptr().cast()
    }
}

/// The directory that this library was loaded from, with the slash behind it.
pub fn our_directory() -> Option<&'static [u8]> {
    let ours = Image::ours()?;
    // SAFETY: the name is the loader's own, a string that stays as long as we are loaded, which is always.
    let name: &'static [u8] = unsafe { CStr::from_ptr(ours.name) }.to_bytes();
    let end = name.iter().rposition(|byte| *byte == b'/')?;
    name.get(..=end)
}

/// The loader calls this before the program begins.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

extern "C" fn at_start() {
    extension::begin();
}

/// As much of a file as shows what it is.
const HEAD: usize = 16;

/// Whether a file with this beginning is a packed one (docs/format.md), or an archive: a frame of zstd, or one that zstd
/// skips.
fn is_ours(head: [u8; HEAD]) -> bool {
    let [first, others @ ..] = &head;
    head == *b"Litepack\r\n\x1a\n\0\0\0\0"
        || head.starts_with(b"\x28\xb5\x2f\xfd")
        || (first & 0xf0 == 0x50 && others.starts_with(b"\x2a\x4d\x18"))
}

/// A SQLite library of the process.
pub struct Library(Image);

type Connection = *mut c_void;

/// SQLite's function of this name in a library.
macro_rules! function {
    ($library:ident, $name:literal, fn($($argument:tt)*) $(-> $result:ty)?) => {
        $library.0.function($name).map(|found| {
            type Declared = unsafe extern "C" fn($($argument)*) $(-> $result)?;
            // SAFETY: SQLite declares the function of this name so, in all versions.
            unsafe { core::mem::transmute::<Function, Declared>(found) }
        })
    };
}

impl Library {
    /// The one that has this function.
    pub fn of(function: Function) -> Option<Library> {
        Image::of(function.0).map(Library)
    }

    /// Where it is in memory.
    pub fn at(&self) -> usize {
        self.0.at.addr()
    }

    /// Whether it has a VFS of this name.
    pub fn has_vfs(&self, name: &CStr) -> bool {
        let find = function!(self, c"sqlite3_vfs_find", fn(*const c_char) -> *mut c_void);
        // SAFETY: the name is a string.
        find.is_some_and(|find| unsafe { !find(name.as_ptr()).is_null() })
    }

    /// Loads an extension by a connection of our own; whether that went well. If not, SQLite's log has the reason.
    pub fn load(&self, extension: &Path, entry_point: &CStr) -> bool {
        const READ_WRITE_CREATE: c_int = 2 | 4;
        let open = function!(
            self,
            c"sqlite3_open_v2",
            fn(*const c_char, *mut Connection, c_int, *const c_char) -> c_int
        );
        let enable = function!(
            self,
            c"sqlite3_enable_load_extension",
            fn(Connection, c_int) -> c_int
        );
        let load = function!(
            self,
            c"sqlite3_load_extension",
            fn(Connection, *const c_char, *const c_char, *mut *mut c_char) -> c_int
        );
        let close = function!(self, c"sqlite3_close", fn(Connection) -> c_int);
        let (Some(open), Some(enable), Some(load), Some(close)) = (open, enable, load, close)
        else {
            return false;
        };
        let mut db = null_mut();
        let mut message = null_mut();
        // SAFETY: the names are strings, and the connection is used only if there is one. It is closed in the end, also
        // one that could not be opened.
        unsafe {
            let mut code = open(c":memory:".as_ptr(), &raw mut db, READ_WRITE_CREATE, null());
            if code == 0 {
                enable(db, 1);
                let entry_point = entry_point.as_ptr();
                code = load(db, extension.as_ptr(), entry_point, &raw mut message);
            }
            self.log(code, message);
            close(db);
            code == 0
        }
    }

    /// Opens as the call says, without the extension; the code. None if that is a packed file or an archive:
    /// then nothing is open.
    ///
    /// Which file it is SQLite alone knows: there are URIs, and other VFSes. And nobody else may open it, as closing it
    /// would take away the locks that the process has on it.
    pub fn open_unless_packed(&self, open: Function, call: &Call) -> Option<c_int> {
        type Open = unsafe extern "C" fn(usize, usize, usize, usize) -> c_int;
        // SAFETY: it is one of the functions that open a database. They take two to four arguments, all in registers.
        let open = unsafe { core::mem::transmute::<Function, Open>(open) };
        // SAFETY: the arguments are the program's.
        let code = unsafe { open(call.first, call.second, call.third, call.fourth) };
        if code != 0 {
            return Some(code);
        }
        let to = core::ptr::with_exposed_provenance_mut::<Connection>(call.second);
        // SAFETY: SQLite has written the connection there.
        let db = unsafe { to.read() };
        // SAFETY: it is open, and nobody else knows it yet.
        if !unsafe { self.head(db) }.is_some_and(is_ours) {
            return Some(code);
        }
        if let Some(close) = function!(self, c"sqlite3_close", fn(Connection) -> c_int) {
            // SAFETY: as before. It is not used again: the program gets another one in its place.
            unsafe { close(db) };
        }
        // SAFETY: as above.
        unsafe { to.write(null_mut()) };
        None
    }

    /// Answers as SQLite does if it cannot open a file, with a connection that says so; the code.
    pub fn cannot_open(&self, call: &Call) -> c_int {
        const READ_WRITE: c_int = 2;
        const CANNOT_OPEN: c_int = 14;
        let open = function!(
            self,
            c"sqlite3_open_v2",
            fn(*const c_char, *mut Connection, c_int, *const c_char) -> c_int
        );
        let log = function!(self, c"sqlite3_log", fn(c_int, *const c_char, ...));
        if let Some(log) = log {
            let words = c"litepack: the file is packed, and the extension is not loaded";
            // SAFETY: the format takes nothing.
            unsafe { log(CANNOT_OPEN, words.as_ptr()) };
        }
        if let Some(open) = open {
            let to = core::ptr::with_exposed_provenance_mut::<Connection>(call.second);
            // SAFETY: the name is a string, and the program gave the place for a connection. SQLite cannot write a
            // directory.
            unsafe { open(c"/".as_ptr(), to, READ_WRITE, null()) };
        }
        CANNOT_OPEN
    }

    /// What the file of a connection begins with.
    ///
    /// # Safety
    /// `db` is open, and no other thread uses it.
    unsafe fn head(&self, db: Connection) -> Option<[u8; HEAD]> {
        const FILE_POINTER: c_int = 7;
        const OK: c_int = 0;
        const SHORT_READ: c_int = 522;
        /// The beginning of SQLite's `sqlite3_io_methods`.
        #[repr(C)]
        struct Methods {
            version: c_int,
            close: *const c_void,
            read: unsafe extern "C" fn(*mut File, *mut c_void, c_int, i64) -> c_int,
        }
        /// SQLite's `sqlite3_file`.
        #[repr(C)]
        struct File {
            methods: *const Methods,
        }
        let control = function!(
            self,
            c"sqlite3_file_control",
            fn(Connection, *const c_char, c_int, *mut c_void) -> c_int
        )?;
        let mut file: *mut File = null_mut();
        let mut bytes = [0; HEAD];
        let len = c_int::try_from(bytes.len()).ok()?;
        // SAFETY: the connection is open, so its file is there as long as it is; one that is not open, as that of a
        // database in memory, has no methods. They read into what is as long as they are told.
        let code = unsafe {
            let place = (&raw mut file).cast();
            if control(db, null(), FILE_POINTER, place) != 0 || file.is_null() {
                return None;
            }
            let methods = (*file).methods.as_ref()?;
            (methods.read)(file, bytes.as_mut_ptr().cast(), len, 0)
        };
        (code == OK || code == SHORT_READ).then_some(bytes)
    }

    /// Writes a message of SQLite's to its log if the code is that of an error, and frees it.
    ///
    /// # Safety
    /// `message` is null or a string from SQLite's memory.
    unsafe fn log(&self, code: c_int, message: *mut c_char) {
        let log = function!(self, c"sqlite3_log", fn(c_int, *const c_char, ...));
        let free = function!(self, c"sqlite3_free", fn(*mut c_void));
        if let (Some(log), true) = (log, code != 0 && !message.is_null()) {
            // SAFETY: the format takes the one string that is given.
            unsafe { log(code, c"litepack: %s".as_ptr(), message) };
        }
        if let Some(free) = free {
            // SAFETY: the caller says that it is SQLite's, and it is not used again.
            unsafe { free(message.cast()) };
        }
    }
}
