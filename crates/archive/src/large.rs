//! Frames that are too large to be held: decoded from their beginning up to the piece that is wanted.
//!
//! Some writers make frames of up to 1 GiB. Such a frame is decoded to its end once, when it is first touched, and
//! nothing of it is given out before its length and checksums have been found right. From then on the decoder stays
//! where it was, so reading forward decodes each byte once; going back starts at the frame's beginning. The bytes it
//! passes go into the cache. Memory: one piece, some input and zstd's window, 128 MiB at most.

use std::collections::BTreeSet;
use std::hash::Hasher;
use std::sync::Arc;

use twox_hash::XxHash64;
use zstd_safe::{DCtx, InBuffer, OutBuffer, ResetDirective};

use crate::decode::{check_size, check_sum, context, malformed};
use crate::error::{Error, Result};
use crate::seek_table::Frame;
use litepack_io::interrupt;
use litepack_io::storage::ReadAt;

use crate::source::read_exact;

/// Bytes of the database that are kept and given out together.
pub(crate) const PIECE: u64 = PIECE_LEN as u64;
const PIECE_LEN: usize = 256 << 10;
/// Stored bytes read at once.
const INPUT: usize = 128 << 10;

/// A decoder somewhere in a large frame.
pub(crate) struct Large {
    context: Option<DCtx<'static>>,
    /// The frame it is in, and the piece that comes next.
    position: Option<(u32, u32)>,
    /// Stored bytes of the frame that were read.
    consumed: u64,
    input: Vec<u8>,
    /// How much of `input` is decoded.
    used: usize,
    /// zstd is between two frames.
    at_end: bool,
    verified: BTreeSet<u32>,
}

impl std::fmt::Debug for Large {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Large(at {:?})", self.position)
    }
}

impl Default for Large {
    fn default() -> Self {
        Large {
            context: None,
            position: None,
            consumed: 0,
            input: Vec::new(),
            used: 0,
            at_end: true,
            verified: BTreeSet::new(),
        }
    }
}

impl Large {
    /// Piece number `wanted` of `frame`. Pieces that are decoded on the way are offered to `keep`.
    pub(crate) fn piece(
        &mut self,
        source: &impl ReadAt,
        frame: &Frame,
        wanted: u32,
        keep: impl FnMut(u32, &Arc<Vec<u8>>),
    ) -> Result<Arc<Vec<u8>>> {
        let found = if self.verified.contains(&frame.number) {
            self.forward(source, frame, wanted, keep)
        } else {
            let found = self.verify(source, frame, wanted);
            found.and_then(|found| {
                found.ok_or_else(|| Error::frame(frame, "it is shorter than the seek table says"))
            })
        };
        if found.is_err() {
            self.position = None;
        }
        found
    }

    fn forward(
        &mut self,
        source: &impl ReadAt,
        frame: &Frame,
        wanted: u32,
        mut keep: impl FnMut(u32, &Arc<Vec<u8>>),
    ) -> Result<Arc<Vec<u8>>> {
        let mut number = match self.position {
            Some((at, number)) if at == frame.number && number <= wanted => number,
            _ => self.restart(frame)?,
        };
        loop {
            let piece = Arc::new(self.next(source, frame)?);
            if piece.is_empty() {
                return Err(Error::frame(frame, "it has changed since it was opened"));
            }
            keep(number, &piece);
            if number == wanted {
                self.position = Some((frame.number, number + 1));
                return Ok(piece);
            }
            number += 1;
        }
    }

    /// Whether the frame is what the seek table says.
    pub(crate) fn expect_sound(&mut self, source: &impl ReadAt, frame: &Frame) -> Result<()> {
        self.verify(source, frame, u32::MAX).map(drop)
    }

    /// Decodes all of the frame, and hands out the wanted piece only if all is right; `None` if it has no such piece.
    fn verify(
        &mut self,
        source: &impl ReadAt,
        frame: &Frame,
        wanted: u32,
    ) -> Result<Option<Arc<Vec<u8>>>> {
        self.restart(frame)?;
        self.position = None;
        let (mut number, mut decoded, mut found) = (0, 0, None);
        let mut hash = XxHash64::with_seed(0);
        loop {
            let piece = self.next(source, frame)?;
            if piece.is_empty() {
                break;
            }
            decoded += piece.len() as u64;
            if decoded > u64::from(frame.size) {
                let why = format!(
                    "it decodes to more than the {} bytes in the seek table",
                    frame.size
                );
                return Err(Error::frame(frame, why));
            }
            if frame.checksum.is_some() {
                hash.write(&piece);
            }
            if number == wanted {
                found = Some(Arc::new(piece));
            }
            number += 1;
        }
        check_size(frame, decoded)?;
        check_sum(frame, hash.finish())?;
        self.verified.insert(frame.number);
        Ok(found)
    }

    /// Goes to the beginning of `frame`, that is to piece 0.
    fn restart(&mut self, frame: &Frame) -> Result<u32> {
        context(&mut self.context)?
            .reset(ResetDirective::SessionOnly)
            .map_err(|code| malformed(frame, code))?;
        (self.consumed, self.used, self.at_end) = (0, 0, true);
        self.input.clear();
        Ok(0)
    }

    /// The next piece, shorter only at the frame's end, empty behind it.
    fn next(&mut self, source: &impl ReadAt, frame: &Frame) -> Result<Vec<u8>> {
        interrupt::check().map_err(|_| Error::Stopped)?;
        let mut piece = litepack_io::memory::zeros(PIECE_LEN)?;
        let mut filled = 0;
        while filled < piece.len() {
            let rest = u64::from(frame.stored) - self.consumed;
            if self.used == self.input.len() && rest > 0 {
                let len = usize::try_from(rest).map_or(INPUT, |rest| rest.min(INPUT));
                litepack_io::memory::resize(&mut self.input, len)?;
                read_exact(source, &mut self.input, frame.offset + self.consumed)?;
                self.consumed += self.input.len() as u64;
                self.used = 0;
            }
            let last = self.used == self.input.len();
            if last && self.at_end {
                break;
            }
            let mut from = InBuffer::around(self.input.get(self.used..).unwrap_or_default());
            let mut to = OutBuffer::around_pos(piece.as_mut_slice(), filled);
            let left = context(&mut self.context)?
                .decompress_stream(&mut to, &mut from)
                .map_err(|code| malformed(frame, code))?;
            let (decoded, used) = (to.pos(), from.pos());
            if last && decoded == filled && left > 0 {
                return Err(Error::frame(frame, "it ends too early"));
            }
            self.at_end = left == 0;
            filled = decoded;
            self.used += used;
        }
        piece.truncate(filled);
        Ok(piece)
    }
}
