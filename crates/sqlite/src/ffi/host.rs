//! A file of the host VFS, as the medium of a store.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::ops::Range;
use std::time::Instant;

use litepack_io::storage::{ReadAt, Storage};

use super::bindings::{SQLITE_SYNC_FULL as SYNC_FULL, SQLITE_SYNC_NORMAL as SYNC_NORMAL};
use super::types::{sqlite3_file, sqlite3_io_methods, sqlite3_vfs};
use crate::codes::{
    CANTOPEN, Code, IOERR_READ, IOERR_SHORT_READ, OK, OPEN_CREATE, OPEN_DELETEONCLOSE,
    OPEN_EXCLUSIVE, OPEN_MAIN_DB, OPEN_READONLY, OPEN_READWRITE, OPEN_SUPER_JOURNAL,
    OPEN_TEMP_JOURNAL, READONLY_DIRECTORY, from_host,
};
use crate::cold::Cold;

/// How often to look for a name that nobody has, to sync a directory by.
const NAMES_TRIED: u32 = 8;
/// Behind the file's own name; not longer than `-journal` with the five characters of chance that follow, so
/// that it fits wherever a journal does.
const SYNC_SUFFIX: &[u8] = b"-lp";
/// SQLite never reads or writes more than its largest page at once, and its own Unix VFS relies on
/// that: it takes lengths modulo 128 KiB.
const PART_MAX: usize = 1 << 16;

/// An open file of the host VFS in memory that outlives this value.
pub(crate) struct HostFile {
    file: *mut sqlite3_file,
    vfs: *mut sqlite3_vfs,
    /// The file's path, for syncing its name.
    path: CString,
    /// How SQLite wants the file synced.
    sync_flags: Cell<c_int>,
    cold: RefCell<Cold>,
}

impl std::fmt::Debug for HostFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HostFile({:?})", self.path)
    }
}

impl HostFile {
    /// # Safety
    /// `file` was opened by `vfs` and stays open, in place and used by one thread at a time, for as
    /// long as the value lives.
    pub(crate) unsafe fn new(
        file: *mut sqlite3_file,
        vfs: *mut sqlite3_vfs,
        path: CString,
    ) -> HostFile {
        let cold = RefCell::default();
        HostFile {
            file,
            vfs,
            path,
            // Until SQLite says how, which is when a new file gets its head: nothing stands on less than that.
            sync_flags: Cell::new(SYNC_NORMAL),
            cold,
        }
    }

    /// Has the file synced from now on as SQLite asked for in a call of `xSync`. Never as data alone: that is for a file
    /// that has its length, and where SQLite writes over a page the store writes a new one behind.
    pub(crate) fn set_sync_flags(&self, flags: c_int) {
        let full = flags & SYNC_FULL == SYNC_FULL;
        self.sync_flags
            .set(if full { SYNC_FULL } else { SYNC_NORMAL });
    }

    pub(crate) fn path(&self) -> &CStr {
        &self.path
    }

    pub(crate) fn file(&self) -> *mut sqlite3_file {
        self.file
    }

    pub(crate) fn methods(&self) -> &sqlite3_io_methods {
        // SAFETY: an open file has its methods set, and they are constant data of the VFS.
        unsafe { &*(*self.file).methods }
    }
}

impl ReadAt for HostFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let block = self.cold.borrow_mut().before(offset);
        if let Some(block) = block {
            self.bring(block);
        }
        let begun = Instant::now();
        let read = self.read_now(buf, offset)?;
        let len = || ReadAt::len(self).unwrap_or(u64::MAX);
        self.cold.borrow_mut().after(begun.elapsed(), len);
        Ok(read)
    }

    fn len(&self) -> io::Result<u64> {
        let mut len = 0;
        // SAFETY: the file is open.
        from_host(unsafe { (self.methods().file_size)(self.file, &raw mut len) })?;
        Ok(u64::try_from(len).unwrap_or(0))
    }
}

impl Storage for HostFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut at = offset;
        for part in bytes.chunks(PART_MAX) {
            let (pointer, len) = (part.as_ptr().cast::<c_void>(), part.len() as c_int);
            // SAFETY: the file is open and the buffer holds its length.
            from_host(unsafe { (self.methods().write)(self.file, pointer, len, at as i64) })?;
            at += part.len() as u64;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        // SAFETY: the file is open.
        from_host(unsafe { (self.methods().sync)(self.file, self.sync_flags.get()) })
    }

    /// SQLite's VFSes sync a directory when a file in it is deleted, if they are asked to. So an empty file is made and
    /// deleted. It has a name of our own that nobody else has: whatever ends in `-journal`, `-wal` or `-mj...` is
    /// SQLite's, and may be what a transaction over several databases hangs on at this moment.
    fn sync_name(&self) -> io::Result<()> {
        let mut tries = 0;
        let name = loop {
            let name = beside(&self.path);
            let flags = OPEN_READWRITE | OPEN_CREATE | OPEN_EXCLUSIVE | OPEN_SUPER_JOURNAL;
            let pointer = name[NAME_MARGIN..].as_ptr().cast::<c_char>();
            tries += 1;
            // SAFETY: the name is laid out as a super-journal's is, and outlives the file.
            match unsafe { OwnedFile::open(self.vfs, pointer, flags) } {
                Ok(file) => {
                    drop(file);
                    break name;
                }
                // Who must not make files in this directory did not make the database there either: its name is
                // older than this, and not ours to look after.
                Err(READONLY_DIRECTORY) => return Ok(()),
                Err(code) if code & 0xff == CANTOPEN && tries < NAMES_TRIED => {}
                Err(code) => return Err(host_error(code)),
            }
        };
        let pointer = name[NAME_MARGIN..].as_ptr().cast::<c_char>();
        // SAFETY: the VFS is registered for ever, and the name is as above.
        from_host(unsafe { ((*self.vfs).delete)(self.vfs, pointer, 1) })
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        // SAFETY: the file is open.
        from_host(unsafe { (self.methods().truncate)(self.file, len as i64) })
    }
}

fn host_error(code: Code) -> io::Error {
    io::Error::other(crate::codes::HostCode(code))
}

/// NULs that SQLite has before a name, as it looks there for where the names of a database begin, and at least as many behind.
const NAME_MARGIN: usize = 4;

/// A name beside a file that nobody has, between NULs.
fn beside(path: &CStr) -> Vec<u8> {
    let chance = RandomState::new().hash_one(path);
    let mut name = vec![0; NAME_MARGIN];
    name.extend(path.to_bytes());
    name.extend(SYNC_SUFFIX);
    name.extend(format!("{:05x}", chance >> 44).bytes());
    name.extend([0; NAME_MARGIN]);
    name
}

impl HostFile {
    fn read_now(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let wanted = self.readable(offset, buf.len())?;
        let mut done = 0;
        for part in buf[..wanted].chunks_mut(PART_MAX) {
            let (pointer, len) = (part.as_mut_ptr().cast::<c_void>(), part.len() as c_int);
            let at = offset + done as u64;
            // SAFETY: the file is open and the buffer holds its length.
            let read = || unsafe { (self.methods().read)(self.file, pointer, len, at as i64) };
            let mut code = read();
            if code == IOERR_SHORT_READ {
                // A VFS fills up with zeros and does not say from where: ask for the length.
                let left = usize::try_from(self.len()?.saturating_sub(at)).unwrap_or(usize::MAX);
                if left < part.len() {
                    return Ok(done + left);
                }
                // It has grown since, or the system gave less than there was: zeros are not what it holds.
                code = match read() {
                    // Which SQLite would take for the end of the file.
                    IOERR_SHORT_READ => IOERR_READ,
                    code => code,
                };
            }
            from_host(code)?;
            done += part.len();
        }
        Ok(done)
    }

    /// Has the system read a part of the file. Trouble there is nobody's business until it is asked for.
    fn bring(&self, block: Range<u64>) {
        if let Ok(mut bytes) = litepack_io::memory::zeros((block.end - block.start) as usize) {
            let _ = self.read_now(&mut bytes, block.start);
        }
    }

    /// How much of `wanted` bytes to ask for. Only at the head of the file the length is asked for first:
    /// there it decides what kind of file this is. Further on, what is read has a checksum.
    fn readable(&self, offset: u64, wanted: usize) -> io::Result<usize> {
        if offset > 0 {
            return Ok(wanted);
        }
        Ok(usize::try_from(self.len()?).map_or(wanted, |len| len.min(wanted)))
    }
}

/// A file of the host VFS that this code opened for itself; closed when dropped.
#[derive(Debug)]
pub(crate) struct OwnedFile {
    /// SQLite's file object, aligned for anything. Not a box: pointers into it outlive moves of this value.
    memory: Vec<u128>,
}

impl OwnedFile {
    /// Opens a file.
    ///
    /// # Errors
    /// The host's result code.
    ///
    /// # Safety
    /// `name` is null or a name such as SQLite passes to `xOpen` with these flags, and lives as long
    /// as the file.
    pub(crate) unsafe fn open(
        vfs: *mut sqlite3_vfs,
        name: *const c_char,
        flags: c_int,
    ) -> Result<OwnedFile, Code> {
        // SAFETY: the VFS is registered for ever.
        let size = super::api::len(unsafe { (*vfs).sz_os_file });
        let mut file = OwnedFile {
            memory: vec![0; size.div_ceil(16)],
        };
        let mut out_flags = 0;
        // SAFETY: the memory has the size the VFS asks for; the caller vouches for the name.
        let code = unsafe { ((*vfs).open)(vfs, name, file.as_ptr(), flags, &raw mut out_flags) };
        if code == OK { Ok(file) } else { Err(code) }
    }

    /// A nameless file that vanishes when it is closed.
    pub(crate) fn temporary(vfs: *mut sqlite3_vfs) -> Result<OwnedFile, Code> {
        let flags =
            OPEN_READWRITE | OPEN_CREATE | OPEN_EXCLUSIVE | OPEN_DELETEONCLOSE | OPEN_TEMP_JOURNAL;
        // SAFETY: a temporary file has no name.
        unsafe { OwnedFile::open(vfs, std::ptr::null(), flags) }
    }

    pub(crate) fn as_ptr(&mut self) -> *mut sqlite3_file {
        self.memory.as_mut_ptr().cast()
    }

    /// The file as a medium, for as long as this value is borrowed.
    pub(crate) fn disk(&mut self, vfs: *mut sqlite3_vfs) -> HostFile {
        // SAFETY: the file is open until this value is dropped, which the callers outwait.
        unsafe { HostFile::new(self.as_ptr(), vfs, CString::default()) }
    }
}

impl Drop for OwnedFile {
    fn drop(&mut self) {
        let file = self.as_ptr();
        // SAFETY: after a failed open the methods are null or must be closed all the same; after a
        // successful one they are set.
        unsafe {
            if !(*file).methods.is_null() {
                ((*(*file).methods).close)(file);
            }
        }
    }
}

/// A file of the host VFS that is only read, and belongs to whoever has this value.
#[derive(Debug)]
pub(crate) struct HostSource {
    disk: HostFile,
    /// The file that `disk` uses.
    _file: OwnedFile,
}

impl HostSource {
    /// Opens a file.
    ///
    /// # Errors
    /// The host's result code.
    ///
    /// # Safety
    /// `name` is a main database's, as SQLite passes it to `xOpen`, and lives as long as the value.
    pub(crate) unsafe fn open(
        vfs: *mut sqlite3_vfs,
        name: *const c_char,
    ) -> Result<HostSource, Code> {
        // SAFETY: as for this function.
        let mut file = unsafe { OwnedFile::open(vfs, name, OPEN_READONLY | OPEN_MAIN_DB) }?;
        let disk = file.disk(vfs);
        Ok(HostSource { disk, _file: file })
    }
}

impl ReadAt for HostSource {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.read_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        ReadAt::len(&self.disk)
    }
}
