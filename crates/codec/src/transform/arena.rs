//! Where decoded pieces come from: the stream that is being read, and behind it bytes made from it.
//!
//! Short pieces are copied in one [`CHUNK`], whatever their length, which costs less than asking how long they are;
//! what is too much is overwritten by what follows. So there is room for a chunk behind the last byte.

use super::bytes::{Malformed, Reader, Result, Span};

/// As most values are shorter, one load and one store copy them.
const CHUNK: usize = 32;

/// Ten to the power of the digits that [`eight_digits`] makes.
const EIGHT_DIGITS: u64 = 100_000_000;

/// Makes eight numbers from 0 to 9 digits.
const ASCII: u64 = u64::from_le_bytes([b'0'; 8]);

/// The two digits of the numbers below 100, as [`eight_digits`] makes eight.
const PAIRS: [u16; 100] = {
    let mut pairs = [0; 100];
    let mut value = 0;
    while value < 100 {
        pairs[value as usize] = (value / 10) | ((value % 10) << 8);
        value += 1;
    }
    pairs
};

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

    /// Appends a number in decimal: its last `width` digits, or all of them if that is 0.
    #[inline]
    pub(crate) fn put_decimal(&mut self, value: u64, width: usize) -> Result<()> {
        let len = if width == 0 {
            decimal_len(value)
        } else {
            width
        };
        if len > 8 {
            return self.put_long_decimal(value, len);
        }
        let digits = match PAIRS.get(value as usize) {
            Some(pair) if len <= 2 => u64::from(*pair) >> (8 * (2 - len)),
            _ => eight_digits((value % EIGHT_DIGITS) as u32) >> (8 * (8 - len)),
        };
        self.put_word(digits | ASCII, len)
    }

    #[inline(never)]
    fn put_long_decimal(&mut self, value: u64, len: usize) -> Result<()> {
        self.put_decimal(value / EIGHT_DIGITS, len - 8)?;
        self.put_decimal(value % EIGHT_DIGITS, 8)
    }

    /// Appends a copy of one of its own pieces.
    #[inline]
    pub(crate) fn copy(&mut self, piece: Span) -> Result<()> {
        let at = self.grow(piece.len())?;
        let (from, chunk) = (piece.start as usize, piece.len() <= CHUNK);
        match self.bytes[from..].first_chunk::<CHUNK>().copied() {
            Some(bytes) if chunk => self.bytes[at..at + CHUNK].copy_from_slice(&bytes),
            _ => self.copy_exactly(piece, at),
        }
        Ok(())
    }

    /// Kept out of line, or the compiler makes one call of this and of copying a chunk.
    #[inline(never)]
    fn copy_exactly(&mut self, piece: Span, at: usize) {
        self.bytes.copy_within(piece.range(), at);
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

/// The digits of a number below [`EIGHT_DIGITS`] as numbers 0 to 9, a byte each, the first in the lowest byte: all halves, then
/// all quarters, then all digits are split off in one word.
#[inline]
fn eight_digits(value: u32) -> u64 {
    let value = u64::from(value);
    let halves = (value / 10_000) | ((value % 10_000) << 32);
    // Multiplying and shifting divides numbers as small as these by 100, and by 10.
    let hundreds = (halves * 10_486) >> 20 & 0x7f_0000_007f;
    let quarters = hundreds | (halves - hundreds * 100) << 16;
    let tens = (quarters * 103) >> 10 & 0x000f_000f_000f_000f;
    tens | (quarters - tens * 10) << 8
}

/// Kept out of line like [`Arena::copy_exactly`].
#[inline(never)]
fn write_exactly(from: &[u8], to: &mut [u8]) {
    to[..from.len()].copy_from_slice(from);
}

/// How many digits a number has.
#[inline]
fn decimal_len(value: u64) -> usize {
    match value {
        0..10 => 1,
        10..100 => 2,
        _ => value.ilog10() as usize + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::super::bytes::put_planes;
    use super::*;
    use proptest::prelude::*;

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

    fn decimal(value: u64, width: usize) -> String {
        let mut arena = Arena::default();
        arena.begin(&[], 40);
        arena.put_decimal(value, width).unwrap();
        String::from_utf8(arena.bytes().to_vec()).unwrap()
    }

    #[test]
    fn numbers_end_where_there_is_no_room() {
        let mut arena = Arena::default();
        arena.begin(&[], 9);
        assert_eq!(arena.put_decimal(1_234_567_890, 0), Err(Malformed));
        arena.begin(&[], 10);
        assert_eq!(arena.put_decimal(1_234_567_890, 0), Ok(()));
    }

    proptest! {
        #[test]
        fn numbers_print_as_they_do_elsewhere(value: u64, shift in 0..64, width in 0usize..19) {
            let value = value >> shift;
            let expected = format!("{value:0width$}");
            let len = if width == 0 { expected.len() } else { width };
            prop_assert_eq!(decimal(value, width), expected[expected.len() - len..].to_owned());
        }
    }
}
