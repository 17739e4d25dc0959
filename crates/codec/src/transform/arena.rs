//! The buffer of decoded pieces: the stream that is being read, then bytes made from it.
//!
//! Short pieces are copied as one [`CHUNK`], whatever their length: this is faster than a copy of the exact length. The
//! excess is overwritten by the next piece. So there is room for a chunk behind the last byte.

use super::bytes::{Malformed, Result, Span};

/// As most values are shorter, one load and one store copy them.
pub(crate) const CHUNK: usize = 32;

/// A buffer that spans are pieces of.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    bytes: Vec<u8>,
    len: usize,
    limit: usize,
}

#[expect(
    clippy::indexing_slicing,
    reason = "`begin` makes room for `limit` bytes and a chunk, and `grow` and `joined` keep `len` within `limit`"
)]
impl Arena {
    /// Starts over with a stream, and room for this many bytes behind it.
    pub(crate) fn begin(&mut self, stream: &[u8], room: usize) {
        self.limit = stream.len() + room;
        if self.bytes.len() < self.limit + CHUNK {
            // Nothing of the former stream is needed.
            self.bytes = Vec::new();
            self.bytes = vec![0; self.limit + CHUNK];
        }
        self.bytes[..stream.len()].copy_from_slice(stream);
        self.len = stream.len();
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How long a stream and its room may be without more memory.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.len().saturating_sub(CHUNK)
    }

    /// The bytes appended since the arena had `start` bytes.
    #[inline]
    pub(crate) fn since(&self, start: usize) -> Span {
        Span::new(start, self.len)
    }

    /// How many more bytes fit.
    pub(crate) fn room(&self) -> usize {
        self.limit - self.len
    }

    /// Room for `len` more bytes; there is a chunk behind the last of them.
    #[inline]
    fn grow(&mut self, len: usize) -> Result<usize> {
        let start = self.len;
        if len > self.room() {
            return Err(Malformed);
        }
        self.len += len;
        Ok(start)
    }

    #[inline]
    pub(crate) fn push(&mut self, byte: u8) -> Result<()> {
        let at = self.grow(1)?;
        self.bytes[at] = byte;
        Ok(())
    }

    /// Appends bytes and says where.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<usize> {
        let at = self.grow(bytes.len())?;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(at)
    }

    /// Appends this many bytes, to be filled by the caller.
    pub(crate) fn leave(&mut self, len: usize) -> Result<()> {
        self.grow(len).map(drop)
    }

    /// The last bytes appended, of which there are at least this many.
    pub(crate) fn last(&mut self, len: usize) -> &mut [u8] {
        &mut self.bytes[self.len - len..self.len]
    }

    /// Appends the last `len` bytes as often again as makes them `count`.
    pub(crate) fn repeat_last(&mut self, len: usize, count: usize) -> Result<()> {
        let start = self.len - len;
        self.grow(count.saturating_sub(1).checked_mul(len).ok_or(Malformed)?)?;
        repeat(&mut self.bytes[start..self.len], len);
        Ok(())
    }

    /// Appends this many words, to be filled by the caller.
    pub(crate) fn words(&mut self, count: usize) -> Result<&mut [[u8; 8]]> {
        let at = self.grow(count.checked_mul(8).ok_or(Malformed)?)?;
        Ok(self.bytes[at..self.len].as_chunks_mut().0)
    }

    /// Appends the first `len` bytes of a word, the lowest first.
    #[inline]
    pub(crate) fn put_word(&mut self, word: u64, len: usize) -> Result<()> {
        let at = self.grow(len)?;
        self.bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        Ok(())
    }

    /// Appends a copy of one of its own pieces.
    #[inline]
    pub(crate) fn copy(&mut self, piece: Span) -> Result<Span> {
        let (from, to) = self.join();
        let rest = copy(from, piece, to)?.len();
        self.joined(rest)
    }

    /// Appends the first bytes of a chunk, and a copy of one of its own pieces behind them.
    #[inline]
    pub(crate) fn put_behind(
        &mut self,
        chunk: &[u8; CHUNK],
        len: usize,
        piece: Span,
    ) -> Result<Span> {
        let (from, to) = self.join();
        to[..CHUNK].copy_from_slice(chunk);
        let rest = copy(from, piece, to.get_mut(len..).ok_or(Malformed)?)?.len();
        self.joined(rest)
    }

    /// The chunk that begins where one of its pieces does, of any length.
    #[inline]
    pub(crate) fn chunk(&self, piece: Span) -> [u8; CHUNK] {
        let chunk = self.bytes[piece.start as usize..].first_chunk();
        *chunk.expect("there is a chunk behind the last byte")
    }

    /// All its bytes, and the room behind them, to [`copy`] pieces to.
    #[inline]
    pub(crate) fn join(&mut self) -> (&[u8], &mut [u8]) {
        let (from, to) = self.bytes.split_at_mut(self.len);
        (from, &mut to[..self.limit + CHUNK - self.len])
    }

    /// Appends what was put there, when that leaves a rest of so many bytes.
    #[inline]
    pub(crate) fn joined(&mut self, rest: usize) -> Result<Span> {
        let start = self.len;
        self.len = self.limit - rest.checked_sub(CHUNK).ok_or(Malformed)?;
        Ok(Span::new(start, self.len))
    }

    /// All its bytes, and a chunk.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len + CHUNK]
    }
}

/// Copies a piece of `from` to the start of `to` and returns what is behind it there, where a chunk may have changed.
#[inline(always)]
pub(crate) fn copy<'a>(from: &[u8], piece: Span, to: &'a mut [u8]) -> Result<&'a mut [u8]> {
    let len = piece.len();
    let from = from.get(piece.start as usize..).ok_or(Malformed)?;
    match (from.first_chunk::<CHUNK>(), to.first_chunk_mut::<CHUNK>()) {
        (Some(from), Some(chunk)) if len <= CHUNK => {
            *chunk = *from;
            to.get_mut(len..).ok_or(Malformed)
        }
        _ => copy_exactly(from, len, to),
    }
}

/// Fills `bytes` with copies of its first `len`. The copies are copied, too: few long copies take less time than many
/// short ones.
pub(crate) fn repeat(bytes: &mut [u8], len: usize) {
    let mut done = len;
    while done > 0 && done < bytes.len() {
        let more = done.min(bytes.len() - done);
        bytes.copy_within(..more, done);
        done += more;
    }
}

/// Kept out of line, or the compiler makes one call of this and of copying a chunk.
#[inline(never)]
pub(crate) fn copy_exactly<'a>(from: &[u8], len: usize, to: &'a mut [u8]) -> Result<&'a mut [u8]> {
    let from = from.get(..len).ok_or(Malformed)?;
    let (to, rest) = to.split_at_mut_checked(len).ok_or(Malformed)?;
    to.copy_from_slice(from);
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_length_are_copied() {
        let stream: Vec<u8> = (0..100).collect();
        for len in 0..100 {
            let mut arena = Arena::default();
            arena.begin(&stream, 2 * len);
            arena.copy(Span::new(100 - len, 100)).unwrap();
            arena.copy(Span::new(0, len)).unwrap();
            assert_eq!(arena.bytes()[..100], stream);
            assert_eq!(arena.bytes()[100..100 + len], stream[100 - len..]);
            assert_eq!(arena.bytes()[100 + len..100 + 2 * len], stream[..len]);
            assert_eq!(arena.push(1), Err(Malformed));
            // At the end of a page, and before it.
            for room in [0, CHUNK] {
                let mut page = vec![7; len + room];
                let rest = copy(&stream, Span::new(0, len), &mut page).unwrap();
                assert_eq!(rest.len(), room);
                assert_eq!(page[..len], stream[..len]);
            }
        }
    }
}
