//! Reading and writing the transform's streams. Reading trusts nothing: it ends in [`Malformed`].

/// Bytes that no encoder wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

pub(crate) type Result<T> = std::result::Result<T, Malformed>;

/// A piece of a buffer that is known from the context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl Span {
    /// The piece from `start` to `end`; pages and arenas are far below 4 GiB.
    pub(crate) fn new(start: usize, end: usize) -> Span {
        Span {
            start: start as u32,
            len: (end - start) as u32,
        }
    }

    pub(crate) fn len(self) -> usize {
        self.len as usize
    }

    pub(crate) fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.start as usize + self.len()
    }

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
        let taken = self.stream[self.at..].get(..len).ok_or(Malformed)?;
        self.at += len;
        Ok(taken)
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
        let taken = *self.stream[self.at..].first_chunk().ok_or(Malformed)?;
        self.at += N;
        Ok(taken)
    }

    /// Everything before `end`, which is skipped, as a piece of the stream.
    #[inline]
    pub(crate) fn until(&mut self, end: u8) -> Result<Span> {
        let start = self.at;
        let len = memchr::memchr(end, &self.stream[start..]).ok_or(Malformed)?;
        self.at += len + 1;
        Ok(Span::new(start, start + len))
    }

    /// An unsigned LEB128 number.
    pub(crate) fn number(&mut self) -> Result<u64> {
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

/// Writes equally long values by position: all first bytes, then all second bytes, and so on.
pub(crate) fn put_planes<'a>(
    out: &mut Vec<u8>,
    len: usize,
    values: impl Iterator<Item = &'a [u8]>,
) {
    let start = out.len();
    let (count, _) = values.size_hint();
    out.resize(start + count * len, 0);
    for (index, value) in values.enumerate() {
        for (plane, byte) in value.iter().enumerate() {
            out[start + plane * count + index] = *byte;
        }
    }
}

/// The stream that is being read, and behind it bytes made from it: what spans are pieces of.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    bytes: Vec<u8>,
    len: usize,
    limit: usize,
}

/// Short pieces are copied in whole chunks, whatever their length: the rest is overwritten by what follows.
const CHUNK: usize = 16;
const SHORT: usize = 4 * CHUNK;

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

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.len
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

    /// Appends a copy of one of its own pieces.
    #[inline]
    pub(crate) fn copy(&mut self, piece: Span) -> Result<()> {
        let at = self.grow(piece.len())?;
        let start = piece.start as usize;
        if piece.len() > SHORT {
            self.bytes.copy_within(piece.range(), at);
            return Ok(());
        }
        for done in (0..piece.len()).step_by(CHUNK) {
            let from = start + done;
            self.bytes.copy_within(from..from + CHUNK, at + done);
        }
        Ok(())
    }

    /// Undoes [`put_planes`]: appends the values one after another.
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

    #[test]
    fn pieces_of_any_length_are_copied() {
        let stream: Vec<u8> = (0..100).collect();
        for len in 0..100 {
            let mut arena = Arena::default();
            arena.begin(&stream, 2 * len);
            arena.copy(Span::new(100 - len, 100)).unwrap();
            arena.copy(Span::new(0, len)).unwrap();
            assert_eq!(arena.len(), 100 + 2 * len);
            assert_eq!(arena.bytes()[100..100 + len], stream[100 - len..]);
            assert_eq!(arena.bytes()[100 + len..100 + 2 * len], stream[..len]);
            assert_eq!(arena.push(1), Err(Malformed));
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
        assert_eq!(&arena.bytes()[12..24], b"abcdefghijkl");
        let again = arena.take_planes(&mut Reader::new(&out), 4, 3);
        assert_eq!(again, Err(Malformed), "there is no room for more");
        let much = arena.take_planes(&mut Reader::new(&out), usize::MAX, 3);
        assert_eq!(much, Err(Malformed));
    }
}
