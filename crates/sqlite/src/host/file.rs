//! A file of the host's VFS: the medium of a store, and what has the locks and the WAL index of a database.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use litepack_io::storage::{ReadAt, Storage};
use litepack_store::JOURNAL_SUFFIX;

use crate::c::api::{Api, call};
use crate::c::bindings::{
    SQLITE_SYNC_FULL as SYNC_FULL, SQLITE_SYNC_NORMAL as SYNC_NORMAL, sqlite3_file,
    sqlite3_io_methods, sqlite3_vfs,
};
use crate::c::codes::{
    ACCESS_EXISTS, ACCESS_READWRITE, BUSY, CANTOPEN, Code, IOERR_READ, IOERR_SHORT_READ, OK,
    OPEN_CREATE, OPEN_EXCLUSIVE, OPEN_MAIN_DB, OPEN_READWRITE, OPEN_SUPER_JOURNAL, OPEN_WAL,
    READONLY, READONLY_DIRECTORY, fcntl,
};
use crate::host::cold_prefetch::ColdPrefetch;
use crate::host::error::{HostCode, from_host};
use crate::host::wal_index::Words;

/// How often to look for an unused name, to sync a directory by.
const NAMES_TRIED: u32 = 8;
/// Behind the file's own name; not longer than `-journal` with the five characters of chance that follow, so
/// that it fits wherever a journal does.
const SYNC_SUFFIX: &[u8] = b"-lp";
/// SQLite never reads or writes more than its largest page at once, and its own Unix VFS relies on
/// that: it takes lengths modulo 128 KiB.
const PART_MAX: usize = 1 << 16;

/// An open file of the host's VFS. It is closed when this value is dropped.
pub(crate) struct HostFile {
    file: *mut sqlite3_file,
    /// Where `file` is: never in memory of SQLite's, which a VFS above ours may move. Not a box: pointers into it outlive
    /// moves of this value.
    _memory: Vec<u128>,
    vfs: *mut sqlite3_vfs,
    /// The file's path, for syncing its name.
    path: CString,
    /// How SQLite wants the file synced.
    sync_flags: Cell<c_int>,
    /// The first region of the WAL index, while it is mapped.
    index: Cell<*mut c_void>,
    /// Whether it may be written.
    index_is_writable: Cell<bool>,
    peek: Arc<Peek>,
}

/// A look at a file that is open, for the WAL beside it, and for as long as it is. SQLite uses a connection's files in one
/// thread at a time.
#[derive(Debug, Default)]
pub(crate) struct Peek {
    file: AtomicPtr<sqlite3_file>,
    /// How the file was read, also by who has it open.
    cold: Mutex<ColdPrefetch>,
}

impl Peek {
    pub(crate) fn is_open(&self) -> bool {
        !self.file.load(Ordering::Acquire).is_null()
    }

    /// The methods of the file while it is open.
    fn open(&self) -> io::Result<(*mut sqlite3_file, &sqlite3_io_methods)> {
        let file = self.file.load(Ordering::Acquire);
        // SAFETY: the pointer is that of a file that is open, or null: who closes it says so first, in the same thread.
        // The methods of an open file are constant data of its VFS.
        let methods = unsafe { file.as_ref().and_then(|file| file.pMethods.as_ref()) };
        let closed = || io::Error::other("the database is closed");
        methods.map(|m| (file, m)).ok_or_else(closed)
    }

    /// Reads the first bytes of the file; what it does not have are zeros.
    pub(crate) fn head(&self, head: &mut [u8]) -> io::Result<()> {
        let read = self.read_now(head, 0)?;
        if let Some(rest) = head.get_mut(read..) {
            rest.fill(0);
        }
        Ok(())
    }

    /// Fills a part of at most [`PART_MAX`] bytes, and says whether the file has all of it: behind its end a VFS fills up
    /// with zeros.
    fn read_part(&self, part: &mut [u8], at: u64) -> io::Result<bool> {
        let (file, methods) = self.open()?;
        let (to, len) = (part.as_mut_ptr().cast::<c_void>(), part.len() as c_int);
        // SAFETY: the file is open and the buffer holds its length.
        match unsafe { call!(methods, xRead(file, to, len, at as i64)) } {
            IOERR_SHORT_READ => Ok(false),
            code => from_host(code).map(|()| true),
        }
    }

    /// Reads as [`ReadAt::read_at`] says, and notes nothing.
    fn read_now(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let wanted = self.readable(offset, buf.len())?;
        let mut done = 0;
        for part in buf[..wanted].chunks_mut(PART_MAX) {
            let at = offset + done as u64;
            if !self.read_part(part, at)? {
                // A VFS does not say from where on there are zeros: ask for the length.
                let left = ReadAt::len(self)?.saturating_sub(at);
                let left = usize::try_from(left).unwrap_or(usize::MAX);
                if left < part.len() {
                    return Ok(done + left);
                }
                // It has grown since, or the system gave less than there was: zeros are not what it holds.
                if !self.read_part(part, at)? {
                    // SQLite would take a short read for the end of the file.
                    return Err(host_error(IOERR_READ));
                }
            }
            done += part.len();
        }
        Ok(done)
    }

    /// How much of `wanted` bytes to ask for. Only at the head of the file the length is asked for first:
    /// there it decides what kind of file this is. Further on, what is read has a checksum.
    fn readable(&self, offset: u64, wanted: usize) -> io::Result<usize> {
        if offset > 0 {
            return Ok(wanted);
        }
        Ok(usize::try_from(ReadAt::len(self)?).map_or(wanted, |len| len.min(wanted)))
    }

    fn cold(&self) -> MutexGuard<'_, ColdPrefetch> {
        self.cold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the system read a part of the file. An error there is not reported until the part is asked for.
    fn bring(&self, block: Range<u64>) {
        if let Ok(mut bytes) = litepack_io::memory::zeros((block.end - block.start) as usize) {
            let _ = self.read_now(&mut bytes, block.start);
        }
    }

    /// Makes durable what was written to the file.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let (file, methods) = self.open()?;
        // SAFETY: the file is open.
        from_host(unsafe { call!(methods, xSync(file, SYNC_FULL)) })
    }

    /// Whether the file was renamed or deleted since it was opened. False if the host cannot tell.
    pub(crate) fn has_moved(&self) -> io::Result<bool> {
        let (file, methods) = self.open()?;
        let mut has_moved: c_int = 0;
        let arg = (&raw mut has_moved).cast();
        // SAFETY: the file is open, and the argument is where a number goes.
        let code = unsafe { call!(methods, xFileControl(file, fcntl::HAS_MOVED, arg)) };
        Ok(code == OK && has_moved != 0)
    }
}

impl ReadAt for Peek {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let block = self.cold().before(offset);
        if let Some(block) = block {
            self.bring(block);
        }
        let begun = Instant::now();
        let read = self.read_now(buf, offset)?;
        let len = || ReadAt::len(self).unwrap_or(u64::MAX);
        let memory = litepack_io::limits::memory();
        self.cold().after(begun.elapsed(), len, memory);
        Ok(read)
    }

    fn len(&self) -> io::Result<u64> {
        let (file, methods) = self.open()?;
        let mut len = 0;
        // SAFETY: the file is open.
        from_host(unsafe { call!(methods, xFileSize(file, &raw mut len)) })?;
        Ok(u64::try_from(len).unwrap_or(0))
    }
}

/// The name of a file beside another one, and the VFS that opens it.
#[derive(Debug)]
pub(crate) struct Neighbour {
    vfs: AtomicPtr<sqlite3_vfs>,
    path: CString,
}

impl Neighbour {
    /// Opens it as a WAL, if it is there, also if it is empty: SQLite's VFSes say that such a file does not exist, and do
    /// not say so when they are asked whether it can be written.
    pub(crate) fn open(&self) -> io::Result<Option<BesideFile>> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.try_open() {
                // It may have been deleted since it was there.
                Err(CANTOPEN) if tries < NAMES_TRIED => {}
                opened => return opened.map_err(host_error),
            }
        }
    }

    fn try_open(&self) -> Result<Option<BesideFile>, Code> {
        let vfs = self.vfs.load(Ordering::Relaxed);
        let mut there = 0;
        for question in [ACCESS_READWRITE, ACCESS_EXISTS] {
            if there == 0 {
                // SAFETY: the VFS is registered for ever.
                let code = unsafe {
                    let name = self.path.as_ptr();
                    call!((*vfs), xAccess(vfs, name, question, &raw mut there))
                };
                if code != OK {
                    return Err(code);
                }
            }
        }
        if there == 0 {
            return Ok(None);
        }
        let name = between_nuls(&[self.path.to_bytes()]);
        let pointer = name[NAME_MARGIN..].as_ptr().cast::<c_char>();
        // SAFETY: the VFS is registered for ever. The name is laid out as a WAL's is, and is kept as long as the file.
        let opened =
            unsafe { HostFile::open(vfs, pointer, self.path.clone(), OPEN_READWRITE | OPEN_WAL) };
        let (file, _) = opened?;
        // It is not known what the connection asks for, and only SQLite's WAL tells its file.
        file.set_sync_flags(SYNC_FULL);
        Ok(Some(BesideFile { file, _name: name }))
    }

    /// Returns once a power loss would not bring it back, if it is not there.
    pub(crate) fn sync_name(&self) -> io::Result<()> {
        sync_name(self.vfs.load(Ordering::Relaxed), &self.path)
    }
}

impl std::fmt::Debug for HostFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HostFile({:?})", self.path)
    }
}

impl Drop for HostFile {
    fn drop(&mut self) {
        self.close();
    }
}

impl HostFile {
    fn in_memory(
        file: *mut sqlite3_file,
        memory: Vec<u128>,
        vfs: *mut sqlite3_vfs,
        path: CString,
    ) -> HostFile {
        HostFile {
            file,
            _memory: memory,
            vfs,
            path,
            // Until SQLite says how, which is when a new file gets its head: nothing stands on less than that.
            sync_flags: Cell::new(SYNC_NORMAL),
            index: Cell::new(std::ptr::null_mut()),
            index_is_writable: Cell::new(false),
            peek: Arc::new(Peek {
                file: AtomicPtr::new(file),
                cold: Mutex::default(),
            }),
        }
    }

    /// A look at this file.
    pub(crate) fn peek(&self) -> &Arc<Peek> {
        &self.peek
    }

    /// Opens a file in memory of its own. Gives the flags that the VFS grants, too.
    ///
    /// # Safety
    /// The VFS is registered for ever; `name` is null or a name such as SQLite gives to `xOpen` with these flags, and
    /// outlives the file.
    pub(crate) unsafe fn open(
        vfs: *mut sqlite3_vfs,
        name: *const c_char,
        path: CString,
        flags: c_int,
    ) -> Result<(HostFile, c_int), Code> {
        // SAFETY: the VFS is registered for ever, as the caller says.
        let size = crate::c::api::len(unsafe { (*vfs).szOsFile });
        let mut memory = vec![0u128; size.div_ceil(16)];
        let file = HostFile::in_memory(memory.as_mut_ptr().cast(), memory, vfs, path);
        // SAFETY: the memory has the size that the VFS asks for, and stays with the value.
        let granted = unsafe { file.open_now(name, flags) }?;
        Ok((file, granted))
    }

    /// Has the VFS open the file, and gives the flags that it grants.
    ///
    /// # Safety
    /// `self.file` is memory as `open` makes it; the name is as there.
    unsafe fn open_now(&self, name: *const c_char, flags: c_int) -> Result<c_int, Code> {
        let mut granted = flags;
        // SAFETY: the memory behind `self.file` is as large as the VFS asks for, and the name outlives the file.
        // Without methods the file is not closed after a failure; a host that failed after setting them wants it to be,
        // which dropping the value does.
        let code = unsafe {
            (*self.file).pMethods = std::ptr::null();
            let granted = &raw mut granted;
            call!(
                (*self.vfs),
                xOpen(self.vfs, name, self.file, flags, granted)
            )
        };
        if code == OK { Ok(granted) } else { Err(code) }
    }

    /// A file that is open already, for tests.
    ///
    /// # Safety
    /// `file` is open and stays where it is.
    #[cfg(test)]
    pub(crate) unsafe fn adopt(file: *mut sqlite3_file) -> HostFile {
        let vfs = std::ptr::null_mut();
        HostFile::in_memory(file, Vec::new(), vfs, c"memory".into())
    }

    /// Closes the file, after which nothing may be done with it. Does nothing if it is closed.
    pub(crate) fn close(&self) -> Code {
        self.peek
            .file
            .store(std::ptr::null_mut(), Ordering::Release);
        // SAFETY: the memory is as `open` made it. A file has methods from when it is opened until it is
        // closed.
        unsafe {
            let Some(methods) = (*self.file).pMethods.as_ref() else {
                return OK;
            };
            let code = methods.xClose.map_or(OK, |close| close(self.file));
            (*self.file).pMethods = std::ptr::null();
            code
        }
    }

    /// Has the file synced from now on as SQLite asked for in a call of `xSync`. Never as data alone: that is for a
    /// file that has its length, and where SQLite writes over a page the store writes a new one behind.
    pub(crate) fn set_sync_flags(&self, flags: c_int) {
        let full = flags & SYNC_FULL == SYNC_FULL;
        self.sync_flags
            .set(if full { SYNC_FULL } else { SYNC_NORMAL });
    }

    pub(crate) fn path(&self) -> &CStr {
        &self.path
    }

    fn methods(&self) -> &sqlite3_io_methods {
        // SAFETY: the memory is as `open` made it, and the methods of an open file are constant data of its
        // VFS.
        let methods = unsafe { (*self.file).pMethods.as_ref() };
        methods.expect("the file is open")
    }

    /// As SQLite would have the file read: all of `buf`, or a code. One for a short read has filled up with zeros.
    pub(crate) fn read_once(&self, buf: &mut [u8], offset: u64) -> Code {
        let (to, len) = (buf.as_mut_ptr().cast::<c_void>(), buf.len() as c_int);
        // SAFETY: the file is open and the buffer holds its length.
        unsafe { call!(self.methods(), xRead(self.file, to, len, offset as i64)) }
    }

    /// Whether there is a file where the journal of this one would be.
    ///
    /// # Errors
    /// The host's result code.
    pub(crate) fn has_journal(&self) -> Result<bool, Code> {
        let name = [self.path.to_bytes(), JOURNAL_SUFFIX.as_bytes(), b"\0"].concat();
        let mut there = 0;
        // SAFETY: the host's VFS is registered for ever, and the name ends with a zero byte.
        let code = unsafe {
            let (vfs, name) = (self.vfs, name.as_ptr().cast());
            call!((*vfs), xAccess(vfs, name, ACCESS_EXISTS, &raw mut there))
        };
        if code == OK {
            Ok(there != 0)
        } else {
            Err(code)
        }
    }

    /// The file beside this one whose name is that of this one and a suffix.
    pub(crate) fn neighbour(&self, suffix: &str) -> Neighbour {
        let path = [self.path.to_bytes(), suffix.as_bytes()].concat();
        Neighbour {
            vfs: AtomicPtr::new(self.vfs),
            path: CString::new(path).unwrap_or_default(),
        }
    }

    /// Opens or makes a file beside this one, a WAL, whose name is that of this one and a suffix.
    ///
    /// # Errors
    /// The host's result code.
    pub(crate) fn open_beside(&self, suffix: &str) -> Result<BesideFile, Code> {
        let name = between_nuls(&[self.path.to_bytes(), suffix.as_bytes()]);
        let pointer = name[NAME_MARGIN..].as_ptr().cast::<c_char>();
        let path = [self.path.to_bytes(), suffix.as_bytes()].concat();
        let path = CString::new(path).unwrap_or_default();
        let flags = OPEN_READWRITE | OPEN_CREATE | OPEN_WAL;
        // SAFETY: the VFS is registered for ever. The name is laid out as a WAL's is, and is kept as long as the file.
        let (file, _) = unsafe { HostFile::open(self.vfs, pointer, path, flags) }?;
        Ok(BesideFile { file, _name: name })
    }

    /// Opens a file as a main database, by a name that is none of SQLite's.
    ///
    /// # Errors
    /// The host's result code, or that the name cannot be one.
    pub(crate) fn open_main(&self, path: &Path) -> Result<BesideFile, Code> {
        let path = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| CANTOPEN)?;
        let name = between_nuls(&[path.to_bytes()]);
        let pointer = name[NAME_MARGIN..].as_ptr().cast::<c_char>();
        // SAFETY: the VFS is registered for ever. The name is laid out as a main database's is that has no parameters, and
        // is kept as long as the file.
        let opened =
            unsafe { HostFile::open(self.vfs, pointer, path, OPEN_READWRITE | OPEN_MAIN_DB) };
        let (file, _) = opened?;
        Ok(BesideFile { file, _name: name })
    }

    /// Deletes a file beside this one, for good.
    pub(crate) fn delete_beside(&self, name: &CStr) -> Code {
        // SAFETY: the host's VFS is registered for ever.
        unsafe { call!((*self.vfs), xDelete(self.vfs, name.as_ptr(), 1)) }
    }

    pub(crate) fn lock(&self, level: c_int) -> Code {
        // SAFETY: the file is open.
        unsafe { call!(self.methods(), xLock(self.file, level)) }
    }

    pub(crate) fn unlock(&self, level: c_int) -> Code {
        // SAFETY: the file is open.
        unsafe { call!(self.methods(), xUnlock(self.file, level)) }
    }

    /// Whether a connection has a RESERVED lock.
    pub(crate) fn is_reserved(&self) -> Result<bool, Code> {
        let mut held = 0;
        // SAFETY: the file is open.
        let code = unsafe { call!(self.methods(), xCheckReservedLock(self.file, &raw mut held)) };
        if code == OK { Ok(held != 0) } else { Err(code) }
    }

    pub(crate) fn sector_size(&self) -> c_int {
        // SAFETY: the file is open.
        let ask = |size: SectorSize| unsafe { size(self.file) };
        // Without the method SQLite takes this one.
        self.methods().xSectorSize.map_or(4096, ask)
    }

    pub(crate) fn characteristics(&self) -> c_int {
        // SAFETY: the file is open.
        unsafe { call!(self.methods(), xDeviceCharacteristics(self.file)) }
    }

    /// Hands a file control to the host.
    ///
    /// # Safety
    /// `arg` is what the operation asks for.
    pub(crate) unsafe fn control(&self, op: c_int, arg: *mut c_void) -> Code {
        // SAFETY: the file is open; the rest is as for this function.
        unsafe { call!(self.methods(), xFileControl(self.file, op, arg)) }
    }

    /// As [`Peek::has_moved`].
    pub(crate) fn has_moved(&self) -> bool {
        self.peek.has_moved().unwrap_or(false)
    }

    /// The host's own name of its VFS, if it says.
    pub(crate) fn vfs_name(&self, api: Api) -> Option<String> {
        let mut name: *mut c_char = std::ptr::null_mut();
        // SAFETY: the argument is where a string of SQLite's memory goes, which is ours to free.
        unsafe {
            let code = self.control(fcntl::VFSNAME, (&raw mut name).cast());
            let text = (code == OK && !name.is_null())
                .then(|| CStr::from_ptr(name).to_string_lossy().into_owned());
            api.free(name.cast());
            text.filter(|text| !text.is_empty())
        }
    }
}

/// Shared memory: the WAL index.
impl HostFile {
    /// As SQLite tells: its own `unix-none` is of version 3 and has none.
    pub(crate) fn has_shared_memory(&self) -> bool {
        let methods = self.methods();
        methods.iVersion >= 2 && methods.xShmMap.is_some()
    }

    /// Whether the first region of the WAL index is mapped.
    pub(crate) fn has_index(&self) -> bool {
        !self.index.get().is_null()
    }

    /// A word of the WAL index, while that is mapped.
    pub(crate) fn index_word(&self, offset: usize) -> Option<&AtomicU32> {
        let index = self.index.get();
        debug_assert!(offset.is_multiple_of(4) && offset < INDEX_REGION);
        // SAFETY: the region is shared memory that stays mapped until `unmap_index`, which no one calls while a method
        // of the file is running. SQLite's processes use the words that are asked for atomically, or between barriers
        // while no one relies on them.
        (!index.is_null()).then(|| unsafe { AtomicU32::from_ptr(index.byte_add(offset).cast()) })
    }

    /// The same to write to; `None` as well if the index is mapped to be read only.
    pub(crate) fn writable_index_word(&self, offset: usize) -> Option<&AtomicU32> {
        self.index_word(offset)
            .filter(|_| self.index_is_writable.get())
    }

    /// `xShmMap`.
    ///
    /// # Safety
    /// The arguments are SQLite's.
    pub(crate) unsafe fn map_index(
        &self,
        region: c_int,
        size: c_int,
        extend: c_int,
        to: *mut *mut c_void,
    ) -> Code {
        let Some(map) = self.methods().xShmMap.filter(|_| self.has_shared_memory()) else {
            return CANTOPEN;
        };
        // SAFETY: the file is open; the rest is as for this function.
        unsafe {
            let code = map(self.file, region, size, extend, to);
            // A read-only mapping is a mapping too.
            if matches!(code & 0xff, OK | READONLY) && region == 0 {
                self.index.set(to.read());
                self.index_is_writable.set(code == OK);
            }
            code
        }
    }

    /// `xShmLock`, called because SQLite does: it has mapped the index before.
    pub(crate) fn pass_index_lock(&self, first: c_int, count: c_int, flags: c_int) -> Code {
        // SAFETY: the file is open, and its index was mapped.
        let lock = |lock: ShmLock| unsafe { lock(self.file, first, count, flags) };
        self.methods().xShmLock.map_or(BUSY, lock)
    }

    /// Takes or releases locks of the WAL index; `None` if it is not mapped.
    pub(crate) fn lock_index(&self, first: c_int, count: c_int, flags: c_int) -> Option<Code> {
        let is_there = self.has_index() && self.methods().xShmLock.is_some();
        is_there.then(|| self.pass_index_lock(first, count, flags))
    }

    /// `xShmBarrier`.
    pub(crate) fn index_barrier(&self) {
        if let Some(barrier) = self.methods().xShmBarrier {
            // SAFETY: the file is open.
            unsafe { barrier(self.file) };
        }
    }

    /// `xShmUnmap`.
    pub(crate) fn unmap_index(&self, delete: c_int) -> Code {
        self.index.set(std::ptr::null_mut());
        // SAFETY: the file is open.
        let unmap = |unmap: ShmUnmap| unsafe { unmap(self.file, delete) };
        self.methods().xShmUnmap.map_or(OK, unmap)
    }
}

/// How the connection wants to wait while others are in the way, as `SQLITE_FCNTL_BUSYHANDLER` brings it: a function,
/// and what to call it with.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct BusyHandler {
    handler: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    argument: *mut c_void,
}

impl BusyHandler {
    /// Waits as the connection was told to; false if it was told to give up by now.
    pub(crate) fn wait(self) -> bool {
        // SAFETY: SQLite gave both for that, and the file that they came for is open.
        self.handler
            .is_some_and(|handler| unsafe { handler(self.argument) } != 0)
    }
}

impl Words for HostFile {
    fn word(&self, offset: usize) -> u32 {
        let word = self.index_word(offset);
        word.map_or(0, |word| word.load(Ordering::SeqCst))
    }
}

impl ReadAt for HostFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.peek.read_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        ReadAt::len(&*self.peek)
    }
}

impl Storage for HostFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut at = offset;
        for part in bytes.chunks(PART_MAX) {
            let (pointer, len) = (part.as_ptr().cast::<c_void>(), part.len() as c_int);
            // SAFETY: the file is open and the buffer holds its length.
            from_host(unsafe {
                call!(self.methods(), xWrite(self.file, pointer, len, at as i64))
            })?;
            at += part.len() as u64;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        // SAFETY: the file is open.
        from_host(unsafe { call!(self.methods(), xSync(self.file, self.sync_flags.get())) })
    }

    fn sync_name(&self) -> io::Result<()> {
        sync_name(self.vfs, &self.path)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        // SAFETY: the file is open.
        from_host(unsafe { call!(self.methods(), xTruncate(self.file, len as i64)) })
    }
}

/// Syncs the directory of a file of this name, for the VFS.
///
/// SQLite's VFSes do that when a file in it is deleted, if they are asked to. So an empty file is made and deleted. Its
/// name is used for nothing else: whatever ends in `-lpjourn`, `-lpw` or `-mj...` is SQLite's, and may be what a
/// transaction over several databases hangs on at this moment.
fn sync_name(vfs: *mut sqlite3_vfs, path: &CStr) -> io::Result<()> {
    let mut tries = 0;
    let name = loop {
        let name = beside(path);
        let flags = OPEN_READWRITE | OPEN_CREATE | OPEN_EXCLUSIVE | OPEN_SUPER_JOURNAL;
        let pointer = name[NAME_MARGIN..].as_ptr().cast::<c_char>();
        tries += 1;
        // SAFETY: the VFS is registered for ever. The name is laid out as a super-journal's is, and outlives the file.
        match unsafe { HostFile::open(vfs, pointer, CString::default(), flags) } {
            Ok(file) => {
                drop(file);
                break name;
            }
            // Who must not make files in this directory did not make the database there either: its name is older than
            // this, and not ours to look after.
            Err(READONLY_DIRECTORY) => return Ok(()),
            Err(code) if code & 0xff == CANTOPEN && tries < NAMES_TRIED => {}
            Err(code) => return Err(host_error(code)),
        }
    };
    let pointer = name[NAME_MARGIN..].as_ptr().cast::<c_char>();
    // SAFETY: the VFS is registered for ever, and the name is as above.
    from_host(unsafe { call!((*vfs), xDelete(vfs, pointer, 1)) })
}

fn host_error(code: Code) -> io::Error {
    io::Error::other(HostCode(code))
}

type SectorSize = unsafe extern "C" fn(*mut sqlite3_file) -> c_int;
type ShmLock = unsafe extern "C" fn(*mut sqlite3_file, c_int, c_int, c_int) -> c_int;
type ShmUnmap = unsafe extern "C" fn(*mut sqlite3_file, c_int) -> c_int;

/// The size of a region of the WAL index.
const INDEX_REGION: usize = 32 << 10;

/// NULs that SQLite has before a name, as it looks there for where the names of a database begin, and at least as many
/// behind.
const NAME_MARGIN: usize = 4;

/// A file beside another one, with its name.
#[derive(Debug)]
pub(crate) struct BesideFile {
    /// First, so that it is closed before its name goes.
    pub(crate) file: HostFile,
    _name: Vec<u8>,
}

/// A name, as SQLite lays it out.
fn between_nuls(parts: &[&[u8]]) -> Vec<u8> {
    let margin = &[0; NAME_MARGIN][..];
    [margin, &parts.concat(), margin].concat()
}

/// An unused name beside a file, between NULs.
fn beside(path: &CStr) -> Vec<u8> {
    let chance = RandomState::new().hash_one(path);
    let chance = format!("{:05x}", chance >> 44);
    between_nuls(&[path.to_bytes(), SYNC_SUFFIX, chance.as_bytes()])
}
