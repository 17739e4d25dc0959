//! Where decoded pieces come from: the stream that is being read, and behind it bytes made from it.
//!
//! Short pieces are copied in one [`CHUNK`], whatever their length, which costs less than asking how long they are;
//! what is too much is overwritten by what follows. So there is room for a chunk behind the last byte.

use super::bytes::{Malformed, Reader, Result, Span};
use super::digits;

/// As most values are shorter, one load and one store copy them.
const CHUNK: usize = 32;

/// A buffer that spans are pieces of.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    bytes: Vec<u8>,
    len: usize,
    limit: usize,
}

impl Arena {
    /// Begins anew with a stream, and room for so many bytes behind it.
    pub(crate) fn begin(&mut self, stream: &[u8], room: usize) {
        self.limit = stream.len() + room;
        if self.bytes.len() < self.limit + CHUNK {
            self.bytes.resize(self.limit + CHUNK, 0);
        }
        self.bytes[..stream.len()].copy_from_slice(stream);
        self.len = stream.len();
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// What was appended since it had `start` bytes.
    #[inline]
    pub(crate) fn since(&self, start: usize) -> Span {
        Span::new(start, self.len)
    }

    /// How many bytes more it takes.
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

    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let at = self.grow(bytes.len())?;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    /// Appends so many bytes, to be filled by the caller.
    pub(crate) fn leave(&mut self, len: usize) -> Result<()> {
        self.grow(len).map(drop)
    }

    /// The last bytes appended.
    pub(crate) fn last(&mut self, len: usize) -> &mut [u8] {
        &mut self.bytes[self.len - len..self.len]
    }

    /// Appends so many words, to be filled by the caller.
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

    /// Appends the last `width` digits of a number, or as many as it needs if that is 0.
    #[inline]
    pub(crate) fn put_digits(&mut self, value: u64, width: usize) -> Result<()> {
        match digits::small(value, width) {
            Some((word, len)) => self.put_word(word, len),
            None => self.put_many_digits(value, width),
        }
    }

    #[inline(never)]
    fn put_many_digits(&mut self, value: u64, width: usize) -> Result<()> {
        let len = if width == 0 {
            digits::count(value)
        } else {
            width
        };
        let at = self.grow(len)?;
        digits::fill(&mut self.bytes[at..at + len], value);
        Ok(())
    }

    /// Appends a copy of one of its own pieces.
    #[inline]
    pub(crate) fn copy(&mut self, piece: Span) -> Result<Span> {
        let mut joint = self.join();
        joint.copy(piece)?;
        let end = joint.at;
        Ok(self.joined(end))
    }

    /// Begins to append copies of its own pieces, until [`Arena::joined`].
    #[inline]
    pub(crate) fn join(&mut self) -> Joint<'_> {
        Joint {
            at: self.len,
            limit: self.limit,
            bytes: &mut self.bytes,
        }
    }

    /// Ends that where it has come to.
    #[inline]
    pub(crate) fn joined(&mut self, end: usize) -> Span {
        let start = self.len;
        self.len = end;
        Span::new(start, end)
    }

    /// Undoes [`super::bytes::put_planes`]: appends the values one after another.
    pub(crate) fn take_planes(
        &mut self,
        input: &mut Reader<'_>,
        len: usize,
        count: usize,
    ) -> Result<()> {
        let planes = input.take(len.checked_mul(count).ok_or(Malformed)?)?;
        let at = self.grow(planes.len())?;
        let values = &mut self.bytes[at..at + planes.len()];
        for (plane, bytes) in planes.chunks_exact(count.max(1)).enumerate() {
            for (value, byte) in values.chunks_exact_mut(len).zip(bytes) {
                value[plane] = *byte;
            }
        }
        Ok(())
    }

    /// Copies a piece to the start of `page`, where it fits, and returns what is behind it, of which the first bytes may have
    /// changed.
    #[inline]
    pub(crate) fn write<'a>(&self, piece: Span, page: &'a mut [u8]) -> &'a mut [u8] {
        let len = piece.len();
        let from = &self.bytes[piece.start as usize..];
        match (from.first_chunk::<CHUNK>(), page.first_chunk_mut::<CHUNK>()) {
            (Some(from), Some(to)) if len <= CHUNK => *to = *from,
            _ => write_exactly(&from[..len], page),
        }
        &mut page[len..]
    }
}

/// Pieces that are being put together, in variables that fit the processor's registers.
pub(crate) struct Joint<'a> {
    bytes: &'a mut [u8],
    pub(crate) at: usize,
    limit: usize,
}

impl Joint<'_> {
    /// Appends a copy of a piece.
    #[inline(always)]
    pub(crate) fn copy(&mut self, piece: Span) -> Result<()> {
        let (from, at) = (piece.start as usize, self.at);
        self.at += piece.len();
        if self.at > self.limit {
            return Err(Malformed);
        }
        match self.bytes[from..].first_chunk::<CHUNK>().copied() {
            Some(chunk) if piece.len() <= CHUNK => {
                self.bytes[at..at + CHUNK].copy_from_slice(&chunk);
            }
            _ => copy_exactly(self.bytes, piece, at),
        }
        Ok(())
    }
}

/// Kept out of line, or the compiler makes one call of this and of copying a chunk.
#[inline(never)]
fn copy_exactly(bytes: &mut [u8], piece: Span, at: usize) {
    bytes.copy_within(piece.range(), at);
}

/// Likewise.
#[inline(never)]
fn write_exactly(from: &[u8], to: &mut [u8]) {
    to[..from.len()].copy_from_slice(from);
}

#[cfg(test)]
mod tests {
    use super::super::bytes::put_planes;
    use super::*;

    impl Arena {
        pub(crate) fn bytes(&self) -> &[u8] {
            &self.bytes[..self.len]
        }
    }

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
            assert_eq!(arena.bytes()[100 + len..], stream[..len]);
            assert_eq!(arena.push(1), Err(Malformed));
            // At the end of a page, and before it.
            for room in [0, CHUNK] {
                let mut page = vec![7; len + room];
                let rest = arena.write(Span::new(0, len), &mut page);
                assert_eq!(rest.len(), room);
                assert_eq!(page[..len], stream[..len]);
            }
        }
    }

    #[test]
    fn planes_come_back() {
        let values: [&[u8]; 3] = [b"abcd", b"efgh", b"ijkl"];
        let mut out = Vec::new();
        put_planes(&mut out, 4, values.into_iter());
        assert_eq!(out, b"aeibfjcgkdhl");
        let mut arena = Arena::default();
        arena.begin(&out, 12);
        arena.take_planes(&mut Reader::new(&out), 4, 3).unwrap();
        assert_eq!(&arena.bytes()[12..], b"abcdefghijkl");
        let again = arena.take_planes(&mut Reader::new(&out), 4, 3);
        assert_eq!(again, Err(Malformed), "there is no room for more");
        let much = arena.take_planes(&mut Reader::new(&out), usize::MAX, 3);
        assert_eq!(much, Err(Malformed));
    }
}
