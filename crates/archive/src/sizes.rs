//! Whether the bytes of the database are where the seek table says, if nothing else vouches for the sizes in it.
//!
//! A wrong size shifts all bytes behind its frame, and who reads those would not notice. So before a byte is given out,
//! the frames before it are asked for their sizes, each once. Frames that do not state theirs are decoded. An archive can
//! claim any number of bytes in a small file, so what is decoded for this alone is bounded by the length of the file.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use litepack_io::interrupt;
use litepack_io::storage::ReadAt;

use crate::error::{Error, Result};
use crate::reader::Archive;
use crate::seek_table::{Frame, HEADER_LEN, is_skippable, word};

/// The header of a zstd frame, which states its size, is no longer (RFC 8878, 3.1.1.1).
const FRAME_HEADER_MAX: usize = 18;
/// Bytes that may be decoded only to learn their number, in any archive.
const DECODED_MIN: u64 = 256 << 20;
/// And as many more for each byte of the archive: no database with content is compressed as well.
const DECODED_RATIO: u64 = 64;

/// How far the sizes in a seek table were found to be right. Handles on the same archive share it.
#[derive(Debug, Default)]
pub struct Sizes {
    /// Frames before this one are right.
    right_before: AtomicU32,
    /// Bytes that were decoded to find that out.
    decoded: AtomicU64,
}

impl<S: ReadAt> Archive<S> {
    /// Compares the sizes of all frames before the one that holds `position` with what the frames say of themselves. It
    /// decodes those that do not say it.
    ///
    /// # Errors
    /// When the medium fails, a frame is not what the seek table says, or more would have to be decoded than a file of
    /// this length may ask for.
    pub fn expect_place(&mut self, position: u64, sizes: &Sizes) -> Result<()> {
        let table = Arc::clone(self.table());
        if table.is_sealed() {
            return Ok(());
        }
        let Some(holder) = table.frame_at(position) else {
            return Ok(());
        };
        let first = sizes.right_before.load(Ordering::Relaxed);
        let mut next = (first < holder.number)
            .then(|| table.frame(first))
            .flatten();
        while let Some(frame) = next.filter(|frame| frame.number < holder.number) {
            interrupt::check().map_err(|_| Error::Stopped)?;
            self.expect_size(&frame, sizes)?;
            sizes
                .right_before
                .fetch_max(frame.number + 1, Ordering::Relaxed);
            next = table.next(&frame);
        }
        Ok(())
    }

    fn expect_size(&mut self, frame: &Frame, sizes: &Sizes) -> Result<()> {
        if frame.stored == 0 || self.states_its_size(frame)? {
            return Ok(());
        }
        let decoded = sizes
            .decoded
            .fetch_add(frame.size.into(), Ordering::Relaxed);
        let most = DECODED_MIN.saturating_add(self.source().len()?.saturating_mul(DECODED_RATIO));
        if decoded.saturating_add(frame.size.into()) > most {
            let why = format!(
                "neither the database nor the frames up to this one state their sizes, and to find them out more than \
                 {most} bytes had to be decoded; if you trust the file, decompress it with `zstd -d` and make it anew \
                 with `litepack archive create`"
            );
            return Err(Error::frame(frame, why));
        }
        self.decode_once(frame)
    }

    /// Whether a frame begins with a header that states the size in the table.
    fn states_its_size(&self, frame: &Frame) -> Result<bool> {
        let mut head = [0; FRAME_HEADER_MAX];
        let len = FRAME_HEADER_MAX.min(frame.stored as usize);
        let part = head.get_mut(..len).unwrap_or_default();
        let n = self.source().read_at(part, frame.offset)?;
        let head = head.get(..n).unwrap_or_default();
        if word(head, 0).is_some_and(is_skippable) {
            let len = word(head, 4).map(|len| HEADER_LEN + u64::from(len));
            return Ok(frame.size == 0 && len == Some(frame.stored.into()));
        }
        let stated = zstd_safe::get_frame_content_size(head);
        Ok(stated.ok().flatten() == Some(frame.size.into()))
    }
}
