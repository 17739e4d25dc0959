//! The file object of a packed database's rollback journal: memory, then a temporary file when it
//! gets large, or the real journal file when several databases commit together.

use std::ffi::{c_char, c_int, c_void};

use litepack_io::storage::{ReadAt, Storage};

use super::api::{Api, len};
use super::controls;
use super::guard::guard;
use super::host::{HostFile, OwnedFile};
use super::types::{sqlite3_file, sqlite3_io_methods, sqlite3_vfs};
use crate::codes::{
    Code, IOERR_READ, IOERR_SHORT_READ, IOERR_TRUNCATE, IOERR_WRITE, NOTFOUND, OK, OPEN_CREATE,
    OPEN_MAIN_JOURNAL, OPEN_READWRITE, While, code_of,
};
use crate::file::journal::{Journal, names_super_journal};

/// What SQLite sees: its own field, then ours.
#[repr(C)]
pub(crate) struct JournalFile {
    base: sqlite3_file,
    state: *mut State,
}

struct State {
    /// The SQLite library that has the file open.
    api: Api,
    vfs: *mut sqlite3_vfs,
    /// The journal's name; SQLite keeps it for as long as the file is open.
    name: *const c_char,
    content: Content,
}

enum Content {
    Memory(Journal),
    /// Too large for memory.
    Temporary(OwnedFile),
    /// Needed under its own name, because a super-journal refers to it.
    Real(OwnedFile),
}

impl State {
    /// Copies what was written so far to `file`.
    fn copy_to(&mut self, file: &mut OwnedFile) -> Result<(), Code> {
        let to = file.disk(self.vfs);
        let copied = match &mut self.content {
            Content::Memory(journal) => to.write_at(journal.bytes(), 0),
            Content::Temporary(from) | Content::Real(from) => copy(&from.disk(self.vfs), &to),
        };
        copied.map_err(host_code)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Code> {
        if names_super_journal(offset, bytes) && !matches!(self.content, Content::Real(_)) {
            let flags = OPEN_READWRITE | OPEN_CREATE | OPEN_MAIN_JOURNAL;
            // SAFETY: SQLite opened this journal under this name, with these flags.
            let mut file = unsafe { OwnedFile::open(self.vfs, self.name, flags) }?;
            self.copy_to(&mut file)?;
            self.content = Content::Real(file);
        } else if let Content::Memory(journal) = &mut self.content {
            if journal.write(offset, bytes) {
                return Ok(());
            }
            let mut file = OwnedFile::temporary(self.vfs)?;
            self.copy_to(&mut file)?;
            self.content = Content::Temporary(file);
        }
        self.on_file(|disk| disk.write_at(bytes, offset))
    }

    /// Does something to the file, if there is one.
    fn on_file(
        &mut self,
        action: impl FnOnce(HostFile) -> std::io::Result<()>,
    ) -> Result<(), Code> {
        match &mut self.content {
            Content::Memory(_) => Ok(()),
            Content::Temporary(file) | Content::Real(file) => {
                action(file.disk(self.vfs)).map_err(host_code)
            }
        }
    }
}

fn host_code(error: std::io::Error) -> Code {
    code_of(&error.into(), While::Writing)
}

fn copy(from: &HostFile, to: &HostFile) -> std::io::Result<()> {
    let (len, mut at) = (from.len()?, 0);
    let mut part = vec![0; 1 << 16];
    while at < len {
        let n = usize::try_from(len - at).map_or(part.len(), |n| n.min(part.len()));
        from.read_at(&mut part[..n], at)?;
        to.write_at(&part[..n], at)?;
        at += n as u64;
    }
    Ok(())
}

/// Makes `file` an empty journal.
///
/// # Safety
/// `file` is memory that SQLite gave to `xOpen` for the journal `name`, whose VFS is over `vfs`.
pub(crate) unsafe fn open(
    file: *mut sqlite3_file,
    api: Api,
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
) {
    let state = State {
        api,
        vfs,
        name,
        content: Content::Memory(Journal::default()),
    };
    let object = JournalFile {
        base: sqlite3_file {
            methods: &raw const METHODS,
        },
        state: Box::into_raw(Box::new(state)),
    };
    // SAFETY: the memory is large enough for a JournalFile, which is smaller than a PackedFile.
    unsafe { file.cast::<JournalFile>().write(object) };
}

/// Runs `body` on the journal's state.
///
/// # Safety
/// `file` is an open journal file.
unsafe fn with(file: *mut sqlite3_file, body: impl FnOnce(&mut State) -> Result<(), Code>) -> Code {
    // SAFETY: SQLite calls a file's methods from one thread at a time, with an open file.
    let state = unsafe { &mut *(*file.cast::<JournalFile>()).state };
    guard(state.api, || (), || body(state).err().unwrap_or(OK))
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    version: 1,
    close,
    read,
    write,
    truncate,
    sync,
    file_size,
    lock,
    unlock: lock,
    check_reserved_lock,
    file_control,
    sector_size: zero,
    device_characteristics: zero,
    shm_map: None,
    shm_lock: None,
    shm_barrier: None,
    shm_unmap: None,
    fetch: None,
    unfetch: None,
};

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    let file = file.cast::<JournalFile>();
    // SAFETY: the state was boxed by `open` and is taken once, because SQLite closes a file once.
    unsafe {
        let state = Box::from_raw((*file).state);
        (*file).state = std::ptr::null_mut();
        (*file).base.methods = std::ptr::null();
        guard(
            state.api,
            || (),
            || {
                drop(state);
                OK
            },
        )
    }
}

unsafe extern "C" fn read(file: *mut sqlite3_file, to: *mut c_void, n: c_int, at: i64) -> c_int {
    let Some(offset) = controls::place(n, at) else {
        return IOERR_READ;
    };
    // SAFETY: SQLite gives a buffer of `n` bytes.
    let buf = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), len(n)) };
    let read = |state: &mut State| match &mut state.content {
        Content::Memory(journal) => {
            let done = journal.read(offset, buf);
            buf[done..].fill(0);
            if done == buf.len() {
                Ok(())
            } else {
                Err(IOERR_SHORT_READ)
            }
        }
        Content::Temporary(file) | Content::Real(file) => {
            let methods = *file.disk(state.vfs).methods();
            // SAFETY: the file is open and the buffer holds `n` bytes.
            match unsafe { (methods.read)(file.as_ptr(), to, n, at) } {
                OK => Ok(()),
                code => Err(code),
            }
        }
    };
    // SAFETY: SQLite calls this on an open journal.
    unsafe { with(file, read) }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    from: *const c_void,
    n: c_int,
    at: i64,
) -> c_int {
    let Some(offset) = controls::place(n, at) else {
        return IOERR_WRITE;
    };
    // SAFETY: SQLite gives a buffer of `n` bytes.
    let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), len(n)) };
    // SAFETY: SQLite calls this on an open journal.
    unsafe { with(file, |state| state.write(offset, bytes)) }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: i64) -> c_int {
    let Ok(size) = u64::try_from(size) else {
        return IOERR_TRUNCATE;
    };
    let truncate = |state: &mut State| {
        if let Content::Memory(journal) = &mut state.content {
            journal.truncate(size);
        }
        state.on_file(|disk| disk.truncate(size))
    };
    // SAFETY: SQLite calls this on an open journal.
    unsafe { with(file, truncate) }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    let sync = |disk: HostFile| {
        disk.set_sync_flags(flags);
        disk.sync()
    };
    // SAFETY: SQLite calls this on an open journal.
    unsafe { with(file, |state| state.on_file(sync)) }
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, size: *mut i64) -> c_int {
    let measure = |state: &mut State| {
        let len = match &mut state.content {
            Content::Memory(journal) => journal.bytes().len() as u64,
            Content::Temporary(file) | Content::Real(file) => {
                file.disk(state.vfs).len().map_err(host_code)?
            }
        };
        // SAFETY: SQLite gives a place for the result.
        unsafe { size.write(len as i64) };
        Ok(())
    };
    // SAFETY: SQLite calls this on an open journal.
    unsafe { with(file, measure) }
}

unsafe extern "C" fn lock(_: *mut sqlite3_file, _: c_int) -> c_int {
    OK
}

unsafe extern "C" fn check_reserved_lock(_: *mut sqlite3_file, held: *mut c_int) -> c_int {
    // SAFETY: SQLite gives a place for the result.
    unsafe { held.write(0) };
    OK
}

unsafe extern "C" fn file_control(_: *mut sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    NOTFOUND
}

unsafe extern "C" fn zero(_: *mut sqlite3_file) -> c_int {
    0
}
