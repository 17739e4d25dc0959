//! Making an archive: frames of equal size, compressed on all processors, the seek table behind them.
//!
//! Frames begin on page boundaries. Each says its size, has zstd's checksum, which `zstd -t` verifies, and another
//! one in the table. Bytes are the same for any number of threads. Memory: some frames for each thread.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::ops::{ControlFlow, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use litepack_btree::page_size;
use litepack_cipher::Key;
use litepack_io::interrupt;
use litepack_io::results::{Results, Waited};
use litepack_io::workers::WorkerPool;
use twox_hash::XxHash64;
use zstd_safe::zstd_sys::ZSTD_EndDirective::{ZSTD_e_continue, ZSTD_e_end};
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

use crate::error::{Error, Result};
use crate::sealed::{self, Sealer};
use crate::seek_table::{
    CHECKSUM_FLAG, FOOTER_LEN, HEADER_LEN, SEEKABLE_MAGIC, TABLE_MAGIC, TABLE_MAX,
};

/// The levels an archive can be made at.
pub const LEVELS: RangeInclusive<i32> = 1..=22;
/// The level unless another one is set.
pub const DEFAULT_LEVEL: i32 = 10;
/// The size of frames unless another one is set.
pub const DEFAULT_FRAME_SIZE: u32 = 64 << 10;
/// The sizes that frames can be made. Larger ones would only be slow to read.
pub const FRAME_SIZES: RangeInclusive<u32> = 1..=64 << 20;
/// Frames under way for each thread.
const UNDER_WAY: usize = 3;
/// So much of a frame is compressed between two looks whether to stop: a block of zstd's, which it does not leave half
/// done. At level 22 it takes a tenth of a second.
const PIECE: usize = 128 << 10;
/// So often `progress` is asked while a frame takes long.
const TICK: Duration = Duration::from_millis(20);

/// How an archive is made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes of the database in a frame; made a multiple of the database's page size.
    pub frame_size: u32,
    /// zstd's level, one of [`LEVELS`].
    pub level: i32,
    /// Threads that compress.
    pub threads: usize,
    /// What the archive is encrypted with.
    pub key: Option<Arc<Key>>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            frame_size: DEFAULT_FRAME_SIZE,
            level: DEFAULT_LEVEL,
            threads: std::thread::available_parallelism().map_or(1, |n| n.get()),
            key: None,
        }
    }
}

/// The sizes of an archive that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Created {
    /// Bytes of the database.
    pub size: u64,
    /// Bytes of the archive.
    pub stored: u64,
    /// The number of frames.
    pub frames: u32,
    /// Bytes of the database in each of them but the last.
    pub frame_size: u32,
}

/// Makes an archive of all that `input` gives. `progress` is told how many bytes of the database are written, and
/// can stop it at any time. Threads that are at a frame then end by themselves, after a piece of it.
///
/// # Errors
/// When reading or writing fails, `progress` stops it, or the archive would need more frames than fit its table.
pub fn create(
    input: &mut impl Read,
    output: &mut impl Write,
    settings: &Settings,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Created> {
    if !LEVELS.contains(&settings.level) {
        let (least, most) = (LEVELS.start(), LEVELS.end());
        let why = format!("level {}; levels are {least} to {most}", settings.level);
        return Err(Error::Limit(why));
    }
    let mut head = [0; 18];
    let head_len = fill(input, &mut head)?;
    let head = head.get(..head_len).unwrap_or_default();
    let page_size = page_size(head);
    let frame_size = frame_size(settings.frame_size, page_size.unwrap_or(1))?;
    if settings.key.is_some() && frame_size > sealed::FRAME_MAX {
        let most = sealed::FRAME_MAX;
        let why = format!(
            "frames of {frame_size} bytes; in an encrypted archive they hold at most {most}"
        );
        return Err(Error::Limit(why));
    }
    let mut input = head.chain(input);
    let (threads, level) = (settings.threads.max(1), settings.level);
    let (mut workers, mut tools) = (WorkerPool::<Tools>::default(), Tools::default());
    let results = Results::default();
    let stop = Stop::default();
    let mut writer = Writer::new(output, frame_size);
    if let Some(key) = &settings.key {
        writer.seal(key, page_size.unwrap_or(0))?;
    }
    let (mut read, mut ended) = (0, false);
    let mut early = BTreeMap::new();
    loop {
        while !ended && read - writer.frames() < threads * UNDER_WAY {
            let mut bytes = vec![0; frame_size as usize];
            let found = fill(&mut input, &mut bytes)?;
            bytes.truncate(found);
            ended = bytes.len() < frame_size as usize;
            if !bytes.is_empty() {
                let (number, promise) = (read, results.promise());
                let stopped = Arc::clone(&stop.0);
                let job = move |tools: &mut Tools| {
                    promise.keep((number, tools.frame(level, &bytes, &stopped)));
                };
                workers.give(threads, Box::new(job));
                read += 1;
            }
        }
        if writer.frames() == read {
            return writer.finish();
        }
        // Where no thread can be started, this one compresses.
        if workers.started() == 0 {
            workers.work_some(&mut tools);
        }
        let stopped = || io::Error::other("a thread that compresses has stopped");
        match results.wait_for(TICK) {
            Waited::Arrived((number, frame)) => drop(early.insert(number, frame?)),
            Waited::Ended => return Err(stopped().into()),
            Waited::NotYet => {}
        }
        while let Some(frame) = early.remove(&writer.frames()) {
            writer.frame(frame)?;
        }
        if progress(writer.created.size).is_break() {
            workers.detach();
            return Err(Error::Stopped);
        }
    }
}

/// Tells threads to stop when it is dropped, in whatever way making the archive ends.
#[derive(Default)]
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Compressed {
    stored: Vec<u8>,
    size: u32,
    checksum: u32,
}

/// The tools of a thread.
#[derive(Default)]
struct Tools {
    context: Option<CCtx<'static>>,
}

impl Tools {
    fn frame(&mut self, level: i32, bytes: &[u8], stop: &AtomicBool) -> Result<Compressed> {
        if self.context.is_none() {
            self.context = CCtx::try_create();
        }
        let context = self.context.as_mut();
        let context = context.ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let compressed = compress(context, level, bytes, stop).map_err(|code| {
            let name = zstd_safe::get_error_name(code);
            io::Error::other(format!("zstd cannot compress: {name}"))
        });
        // A frame that was left half done is in it.
        let compressed = compressed?;
        if compressed.is_none() {
            self.context = None;
        }
        compressed.ok_or(Error::Stopped)
    }
}

/// Compresses a frame; `None` if it was stopped.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a frame has at most as many bytes as `FRAME_SIZES` allows; the table has the low half of the hash"
)]
fn compress(
    context: &mut CCtx<'static>,
    level: i32,
    bytes: &[u8],
    stop: &AtomicBool,
) -> Result<Option<Compressed>, zstd_safe::ErrorCode> {
    context.set_parameter(CParameter::CompressionLevel(level))?;
    context.set_parameter(CParameter::ChecksumFlag(true))?;
    let mut stored = Vec::with_capacity(zstd_safe::compress_bound(bytes.len()));
    if bytes.len() <= PIECE {
        context.compress2(&mut stored, bytes)?;
    } else {
        context.set_pledged_src_size(Some(bytes.len() as u64))?;
        let mut output = OutBuffer::around(&mut stored);
        let mut pieces = bytes.chunks(PIECE).peekable();
        while let Some(piece) = pieces.next() {
            // Where no thread could be started this is the caller's.
            if stop.load(Ordering::Relaxed) || interrupt::is_interrupted() {
                return Ok(None);
            }
            let end = match pieces.peek() {
                Some(_) => ZSTD_e_continue,
                None => ZSTD_e_end,
            };
            let mut input = InBuffer::around(piece);
            // The output has room for all, so what is left after the last piece is nothing.
            let mut left = 1;
            while input.pos() < piece.len() || (end == ZSTD_e_end && left > 0) {
                left = context.compress_stream2(&mut output, &mut input, end)?;
            }
        }
    }
    Ok(Some(Compressed {
        stored,
        size: bytes.len() as u32,
        checksum: XxHash64::oneshot(0, bytes) as u32,
    }))
}

/// Writes frames in their order, and remembers what the table says of them.
struct Writer<'a, W> {
    output: &'a mut W,
    sealer: Option<Sealer>,
    entries: Vec<u8>,
    created: Created,
}

impl<W: Write> Writer<'_, W> {
    fn new(output: &mut W, frame_size: u32) -> Writer<'_, W> {
        let created = Created {
            size: 0,
            stored: 0,
            frames: 0,
            frame_size,
        };
        Writer {
            output,
            sealer: None,
            entries: Vec::new(),
            created,
        }
    }

    /// Has all that is written from now on sealed.
    fn seal(&mut self, key: &Key, page_size: u32) -> Result<()> {
        let (sealer, head) = Sealer::new(key, page_size)?;
        self.output.write_all(&head)?;
        self.created.stored += head.len() as u64;
        self.sealer = Some(sealer);
        Ok(())
    }

    fn frames(&self) -> usize {
        self.created.frames as usize
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "a compressed frame is little longer than its bytes, of which there are at most as `FRAME_SIZES` allows"
    )]
    fn frame(&mut self, mut frame: Compressed) -> Result<()> {
        let table_len = HEADER_LEN + self.entries.len() as u64 + 12 + FOOTER_LEN;
        if table_len > TABLE_MAX {
            return Err(Error::Limit(format!(
                "more than {} frames; choose a larger frame size",
                self.created.frames
            )));
        }
        if let Some(sealer) = &self.sealer {
            let place = (self.created.size, frame.size);
            sealer.frame(self.created.frames, place, &mut frame.stored)?;
        }
        self.output.write_all(&frame.stored)?;
        let fields = [frame.stored.len() as u32, frame.size, frame.checksum];
        // What is sealed needs no checksum.
        let count = if self.sealer.is_some() { 2 } else { 3 };
        for field in fields.into_iter().take(count) {
            self.entries.extend_from_slice(&field.to_le_bytes());
        }
        self.created.size += u64::from(frame.size);
        self.created.stored += frame.stored.len() as u64;
        self.created.frames += 1;
        Ok(())
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "`frame` has kept the table below `TABLE_MAX`"
    )]
    fn finish(mut self) -> Result<Created> {
        if let Some(sealer) = self.sealer {
            sealer.table(self.created.frames, &mut self.entries)?;
            self.output.write_all(&self.entries)?;
            self.output.flush()?;
            self.created.stored += self.entries.len() as u64;
            return Ok(self.created);
        }
        let mut table = Vec::with_capacity(self.entries.len() + 17);
        table.extend_from_slice(&TABLE_MAGIC.to_le_bytes());
        let len = self.entries.len() as u64 + FOOTER_LEN;
        table.extend_from_slice(&(len as u32).to_le_bytes());
        table.append(&mut self.entries);
        table.extend_from_slice(&self.created.frames.to_le_bytes());
        table.push(CHECKSUM_FLAG);
        table.extend_from_slice(&SEEKABLE_MAGIC.to_le_bytes());
        self.output.write_all(&table)?;
        self.output.flush()?;
        self.created.stored += table.len() as u64;
        Ok(self.created)
    }
}

/// The size asked for, made a multiple of the page size.
fn frame_size(asked: u32, page_size: u32) -> Result<u32> {
    let size = asked.max(1).checked_next_multiple_of(page_size);
    size.filter(|size| FRAME_SIZES.contains(size))
        .ok_or_else(|| {
            let most = FRAME_SIZES.end();
            let why = format!("frames of {asked} bytes; they hold at most {most}");
            Error::Limit(why)
        })
}

/// Fills `buf` as far as there are bytes.
fn fill(input: &mut impl Read, buf: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buf.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match input.read(rest) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_takes_long_is_stopped_and_the_next_one_is_whole() {
        let bytes: Vec<u8> = (0..1_000_005_u32)
            .map(|n| (n / 7).to_le_bytes()[n as usize % 3])
            .collect();
        let (mut tools, go_on, stop) = (Tools::default(), false.into(), true.into());
        assert!(matches!(tools.frame(3, &bytes, &stop), Err(Error::Stopped)));
        let frame = tools.frame(3, &bytes, &go_on).unwrap();
        let mut back = Vec::with_capacity(bytes.len());
        zstd_safe::decompress(&mut back, &frame.stored).unwrap();
        assert!(back == bytes);
        // It says its size, as one that is compressed in one go.
        let said = zstd_safe::get_frame_content_size(&frame.stored).unwrap();
        assert_eq!(said, Some(bytes.len() as u64));
        let stopped = interrupt::listen(|| true, || tools.frame(3, &bytes, &go_on));
        assert!(matches!(stopped, Err(Error::Stopped)));
    }
}
