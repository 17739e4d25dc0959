//! Reading and writing the streams of the columnar layout. Any input that is not valid is [`Malformed`].

use wide::u8x16;

/// The error for bytes that no encoder wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

pub(crate) type Result<T> = std::result::Result<T, Malformed>;

/// A piece of a buffer; the context says of which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "pieces lie in pages of at most 64 KiB, and in buffers of a few times as much"
)]
impl Span {
    /// The piece from `start` to `end`.
    pub(crate) fn new(start: usize, end: usize) -> Span {
        Span {
            start: start as u32,
            len: (end - start) as u32,
        }
    }

    /// The same piece of a buffer that has `start` bytes before this one.
    #[inline]
    pub(crate) fn behind(self, start: usize) -> Span {
        Span {
            start: self.start + start as u32,
            ..self
        }
    }

    /// The piece without its first bytes, of which it has at least this many.
    #[inline]
    pub(crate) fn from(self, bytes: usize) -> Span {
        Span {
            start: self.start + bytes as u32,
            len: self.len - bytes as u32,
        }
    }

    /// Its first bytes, of which it has at least this many.
    #[inline]
    pub(crate) fn to(self, bytes: usize) -> Span {
        Span {
            len: bytes as u32,
            ..self
        }
    }

    #[inline]
    pub(crate) fn len(self) -> usize {
        self.len as usize
    }

    #[inline]
    pub(crate) fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.start as usize + self.len()
    }

    /// Its bytes in `buffer`, the one that it is a piece of.
    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "a piece is made of bytes that are in its buffer, and buffers only grow while there are pieces of them"
    )]
    pub(crate) fn of(self, buffer: &[u8]) -> &[u8] {
        &buffer[self.range()]
    }
}

/// A stream and how far it has been read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    stream: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(stream: &'a [u8]) -> Reader<'a> {
        Reader { stream, at: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.stream.len()
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let taken = self.rest().get(..len).ok_or(Malformed)?;
        self.at += len;
        Ok(taken)
    }

    /// A reader of the next bytes, which knows where in the stream they are.
    pub(crate) fn reader(&mut self, len: usize) -> Result<Reader<'a>> {
        let start = self.at;
        self.take(len)?;
        Ok(Reader {
            stream: self.stream.get(..self.at).ok_or(Malformed)?,
            at: start,
        })
    }

    /// The rest of the stream.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.stream.get(self.at..).unwrap_or_default()
    }

    /// How far the stream has been read.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The next bytes as a piece of the stream.
    pub(crate) fn span(&mut self, len: usize) -> Result<Span> {
        let start = self.at;
        self.take(len)?;
        Ok(Span::new(start, self.at))
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8> {
        let byte = *self.stream.get(self.at).ok_or(Malformed)?;
        self.at += 1;
        Ok(byte)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let taken = *self.rest().first_chunk().ok_or(Malformed)?;
        self.at += N;
        Ok(taken)
    }

    /// Appends the next `count` pieces that each end before a zero byte.
    pub(crate) fn take_ended(&mut self, count: usize, pieces: &mut Vec<Span>) -> Result<()> {
        pieces.reserve(count);
        let mut start = self.at;
        let mut left = count;
        for at in (start..self.stream.len()).step_by(BLOCK) {
            // Most strings are so short that a call of memchr for each would take longer.
            let mut zeros = zeros(self.stream.get(at..).unwrap_or_default());
            while zeros != 0 {
                let end = at + zeros.trailing_zeros() as usize;
                pieces.push(Span::new(start, end));
                start = end + 1;
                left -= 1;
                if left == 0 {
                    self.at = start;
                    return Ok(());
                }
                zeros &= zeros - 1;
            }
        }
        Err(Malformed)
    }

    /// An unsigned LEB128 number.
    #[inline]
    pub(crate) fn number(&mut self) -> Result<u64> {
        match self.stream.get(self.at) {
            Some(byte @ ..0x80) => {
                self.at += 1;
                Ok((*byte).into())
            }
            _ => self.long_number(),
        }
    }

    #[inline(never)]
    fn long_number(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    /// A number that counts things on a page of `limit` bytes.
    pub(crate) fn count(&mut self, limit: usize) -> Result<usize> {
        let number = self.number()?;
        usize::try_from(number)
            .ok()
            .filter(|&count| count <= limit)
            .ok_or(Malformed)
    }

    /// A signed number, zig-zag coded.
    pub(crate) fn signed(&mut self) -> Result<i64> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }
}

/// How many bytes [`zeros`] looks at.
const BLOCK: usize = 64;

/// A bit for each of the first bytes, the lowest for the first, set where it is zero.
#[inline]
fn zeros(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(block) => zeros_of(block),
        None => {
            let mut block = [0xff; BLOCK];
            if let Some(begin) = block.get_mut(..bytes.len()) {
                begin.copy_from_slice(bytes);
            }
            zeros_of(&block)
        }
    }
}

#[inline]
fn zeros_of(block: &[u8; BLOCK]) -> u64 {
    let (parts, _) = block.as_chunks();
    let bits = |part: &[u8; 16]| u8x16::from(*part).simd_eq(u8x16::ZERO).to_bitmask();
    let parts = parts.iter().enumerate();
    parts.fold(0, |zeros, (at, part)| {
        zeros | u64::from(bits(part)) << (16 * at)
    })
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "each byte has seven bits, and the loop writes all of them"
)]
pub(crate) fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_number(out, (value << 1 ^ value >> 63) as u64);
}

/// Appends a bit for each item, the lowest first.
pub(crate) fn put_bits(bits: impl Iterator<Item = bool>, out: &mut Vec<u8>) {
    for (index, bit) in bits.enumerate() {
        if index % 8 == 0 {
            out.push(0);
        }
        if let Some(last) = out.last_mut() {
            *last |= u8::from(bit) << (index % 8);
        }
    }
}

/// The bits that [`put_bits`] wrote.
#[derive(Clone, Copy)]
pub(crate) struct Bits<'a> {
    bytes: &'a [u8],
    /// How many are set.
    pub(crate) set: usize,
}

impl<'a> Bits<'a> {
    /// Takes `count` bits; without `some` there are none, and none is set.
    pub(crate) fn take(input: &mut Reader<'a>, some: bool, count: usize) -> Result<Bits<'a>> {
        let len = if some { count.div_ceil(8) } else { 0 };
        let mut bits = Bits {
            bytes: input.take(len)?,
            set: 0,
        };
        if let Some((_, others)) = bits.bytes.split_last() {
            let set = |byte: &u8| byte.count_ones() as usize;
            // The last byte may have more bits than there are.
            let more = (others.len() * 8..count).filter(|index| bits.has(*index));
            bits.set = others.iter().map(set).sum::<usize>() + more.count();
        }
        Ok(bits)
    }

    #[inline]
    pub(crate) fn has(&self, index: usize) -> bool {
        let byte = self.bytes.get(index / 8);
        byte.is_some_and(|byte| byte >> (index % 8) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let values = [0, 1, 63, 64, -64, -65, 127, 128, i64::MAX, i64::MIN, -1];
        let mut out = Vec::new();
        for value in values {
            put_signed(&mut out, value);
            put_number(&mut out, value as u64);
        }
        let mut reader = Reader::new(&out);
        for value in values {
            assert_eq!(reader.signed(), Ok(value));
            assert_eq!(reader.number(), Ok(value as u64));
        }
        assert!(reader.is_empty());
        assert_eq!(Reader::new(&[0xff; 11]).number(), Err(Malformed));
    }
}
