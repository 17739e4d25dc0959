//! Reading a whole packed file on all cores: for unpacking, and for comparing it with the plain file.
//!
//! Each thread has a store handle of its own; memory is bounded by the number of threads.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use litepack_io::parallel::parallel;
use litepack_io::storage::ReadAt;
use litepack_store::{Cache, FileId, Options, Store};

use crate::bytes::snapshot::{Bytes, Frames};
use crate::bytes::unlocked::Unlocked;
use crate::error::{Context, cannot_read, refuse};
use crate::job::Step;
use crate::{Error, Job, Result};

/// Bytes of the database that are read at once: whole units, whatever their size.
pub const CHUNK: u64 = 1 << 20;
/// More threads would wait for the disk.
const THREADS_MAX: usize = 16;
/// For map nodes; the pages themselves are read once.
const CACHE_BYTES: u64 = 4 << 20;

/// Times that a page is read again which others overwrite while it is read.
const RETRIES: usize = 20;

/// Cores to use.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get().min(THREADS_MAX))
}

/// Options for a file that is read or written once, from beginning to end.
pub fn options(unlocked: Option<&Unlocked>) -> Options {
    Options {
        key: unlocked.map(|unlocked| Arc::clone(unlocked.key())),
        threads: threads(),
        cache: Arc::new(Cache::new(CACHE_BYTES)),
        file: FileId::unique(),
        ..Options::default()
    }
}

/// Opens a packed file at its newest commit.
pub fn open<'a>(packed: &'a File, options: &Options) -> litepack_store::Result<Store<&'a File>> {
    let mut store = Store::open(packed, options.clone())?;
    store.refresh()?;
    Ok(store)
}

/// Fills `buf` from an offset of the database: from the file, and what is newer in its WAL from there. Says how much there
/// is. While others go on, the file may be at a later commit than the handle, with the same pages wherever the WAL has none.
pub fn read(
    store: &mut Store<&File>,
    frames: Option<&Frames>,
    offset: u64,
    buf: &mut [u8],
) -> litepack_store::Result<usize> {
    let Some(frames) = frames else {
        return store.read(offset, buf);
    };
    let mut retries = RETRIES;
    let n = loop {
        match store.read(offset, buf) {
            Err(_) if retries > 0 && store.refresh()? => retries -= 1,
            read => break read?,
        }
    };
    let left = usize::try_from(frames.size().saturating_sub(offset)).unwrap_or(usize::MAX);
    let wanted = buf.len().min(left);
    if let Some(beyond) = buf.get_mut(n.min(wanted)..wanted) {
        beyond.fill(0);
    }
    if let Some(buf) = buf.get_mut(..wanted) {
        frames.lay_over(offset, buf)?;
    }
    Ok(wanted)
}

/// The length of the database in a packed file.
pub fn size(packed: Bytes<'_>) -> litepack_store::Result<u64> {
    match packed.frames {
        Some(frames) => Ok(frames.size()),
        None => Ok(open(packed.file, &options(packed.unlocked))?.size()),
    }
}

/// Calls `each` with every chunk of the database in `packed` and its offset, in no particular order,
/// from several threads. The first error ends it. The file is called `name`.
pub fn read_all(
    packed: Bytes<'_>,
    name: &Path,
    job: &Job<'_>,
    step: &Step<'_>,
    each: impl Fn(u64, &[u8]) -> Result<()> + Sync,
) -> Result<()> {
    let options = options(packed.unlocked);
    let cannot = || cannot_read(name);
    let size = size(packed).with_context(cannot)?;
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let work = || -> Result<()> {
        let mut store = open(packed.file, &options).with_context(cannot)?;
        let mut buf = vec![0; CHUNK as usize];
        loop {
            let offset = next.fetch_add(CHUNK, Ordering::Relaxed);
            if offset >= size || failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            job.check()?;
            let n = read(&mut store, packed.frames, offset, &mut buf).with_context(cannot)?;
            if n as u64 != CHUNK.min(size - offset) {
                refuse!("{} changed while it was read", name.display());
            }
            each(offset, &buf[..n])?;
            step.add(n as u64);
        }
    };
    let work = || work().inspect_err(|_| failed.store(true, Ordering::Relaxed));
    let wanted = size.div_ceil(CHUNK).clamp(1, threads() as u64);
    parallel(0..wanted, |_| work()).into_iter().collect()
}

/// Makes sure that `packed` holds exactly the bytes of `plain`. Both come with their names.
pub fn compare(
    packed: (Bytes<'_>, &Path),
    (plain, plain_name): (Bytes<'_>, &Path),
    job: &Job<'_>,
) -> Result<()> {
    let cannot = || cannot_read(plain_name);
    let len = ReadAt::len(&plain).with_context(cannot)?;
    let read = |offset, buf: &mut [u8]| plain.read_at(buf, offset).with_context(cannot);
    compare_with(packed, len, &read, job)
}

/// Makes sure that `packed` holds exactly the `len` bytes of a database, with which `read` fills a buffer from an offset.
pub fn compare_with(
    (packed, packed_name): (Bytes<'_>, &Path),
    len: u64,
    read: &(impl Fn(u64, &mut [u8]) -> Result<usize> + Sync),
    job: &Job<'_>,
) -> Result<()> {
    let size = size(packed).with_context(|| cannot_read(packed_name))?;
    if len != size {
        let why = format!("{size} bytes are packed, the database has {len}");
        return Err(Error::Mismatch(why));
    }
    let step = job.bytes("verifying", len);
    read_all(packed, packed_name, job, &step, |offset, bytes| {
        let mut other = vec![0; bytes.len()];
        let n = read(offset, &mut other)?;
        if n != bytes.len() || bytes != other {
            let why = format!("the files differ near byte {offset}");
            return Err(Error::Mismatch(why));
        }
        Ok(())
    })
}
