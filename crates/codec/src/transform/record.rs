//! SQLite's record format: varints and serial types (sqlite.org/fileformat2.html, sections 1.6 and 2.1).

use litepack_btree::record::len_of;

use super::bytes::Span;

/// A value of a record on a page: its serial type and its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) serial: u64,
    pub(crate) span: Span,
}

/// The decoded values of a page, before they are written into records.
#[derive(Default)]
pub(crate) struct Values {
    pub(crate) serials: Vec<u32>,
    /// The bytes of each, in the arena.
    pub(crate) pieces: Vec<Span>,
}

impl Values {
    pub(crate) fn clear(&mut self) {
        self.serials.clear();
        self.pieces.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.serials.len()
    }

    pub(crate) fn push(&mut self, serial: u32, piece: Span) {
        self.serials.push(serial);
        self.pieces.push(piece);
    }

    pub(crate) fn push_nulls(&mut self, count: usize) {
        self.serials.resize(self.len() + count, NULL_SERIAL);
        self.pieces.resize(self.len(), Span::default());
    }

    /// Moves the values from `first` on to those of `count` places that have one; the others get NULL. As many places
    /// have one as there are values.
    #[expect(
        clippy::indexing_slicing,
        reason = "there are `first + count` values once NULLs are added, and `next` ends at `first`"
    )]
    pub(crate) fn spread(&mut self, first: usize, count: usize, has: impl Fn(usize) -> bool) {
        let mut next = self.len();
        self.push_nulls(first + count - next);
        // From the back, so that no value is overwritten before it has moved.
        for place in (0..count).rev() {
            let (serial, piece) = if has(place) {
                next -= 1;
                (self.serials[next], self.pieces[next])
            } else {
                (NULL_SERIAL, Span::default())
            };
            self.serials[first + place] = serial;
            self.pieces[first + place] = piece;
        }
    }
}

pub(crate) const NULL: u64 = NULL_SERIAL as u64;
pub(crate) const REAL: u64 = REAL_SERIAL as u64;
/// The same as [`Values`] have them.
const NULL_SERIAL: u32 = 0;
pub(crate) const REAL_SERIAL: u32 = 7;

pub(crate) fn is_integer(serial: u64) -> bool {
    matches!(serial, 1..=6 | 8 | 9)
}

pub(crate) fn is_text(serial: u64) -> bool {
    serial >= 13 && !serial.is_multiple_of(2)
}

pub(crate) fn is_blob(serial: u64) -> bool {
    serial >= 12 && serial.is_multiple_of(2)
}

/// The integer that a field of a page holds.
#[inline]
#[expect(
    clippy::indexing_slicing,
    reason = "a piece begins within its buffer, or at its end"
)]
pub(crate) fn integer_of(serial: u64, span: Span, page: &[u8]) -> i64 {
    match serial {
        8 => 0,
        9 => 1,
        // A word that begins with it has its sign on top.
        _ => match page[span.start as usize..].first_chunk() {
            Some(word) => i64::from_be_bytes(*word) >> (64 - 8 * span.len),
            None => {
                let bytes = span.of(page);
                let negative = bytes.first().is_some_and(|byte| *byte >= 0x80);
                let fold = |value: i64, byte: &u8| value << 8 | i64::from(*byte);
                bytes.iter().fold(-i64::from(negative), fold)
            }
        },
    }
}

/// The serial type SQLite chooses for an integer, and how many bytes that has.
#[inline]
#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "there are 64 bits, and as many entries; the value that is cast is 0 or 1"
)]
pub(crate) fn serial_of(value: i64) -> (u32, u32) {
    /// By the number of the highest bit that is not a copy of the sign.
    const SERIALS: [(u32, u32); 64] = {
        let mut serials = [(6, 8); 64];
        let mut bit = 0;
        while bit < 47 {
            serials[bit] = match bit {
                0..7 => (1, 1),
                7..15 => (2, 2),
                15..23 => (3, 3),
                23..31 => (4, 4),
                _ => (5, 6),
            };
            bit += 1;
        }
        serials
    };
    if value as u64 <= 1 {
        return (8 + value as u32, 0);
    }
    // The lowest bit decides nothing.
    let bits = value ^ value >> 63 | 1;
    SERIALS[63 ^ bits.leading_zeros() as usize]
}

/// The bytes of an integer in a record as a word, the first lowest; of those beyond `len` any.
#[inline]
pub(crate) fn word_of(value: i64, len: u32) -> u64 {
    (value as u64).wrapping_shl(64 - 8 * len).swap_bytes()
}

/// A SQLite varint and its length, if it is written in as few bytes as possible.
#[inline]
pub(crate) fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    match bytes {
        [byte @ 0..0x80, ..] => Some(((*byte).into(), 1)),
        _ => {
            litepack_btree::record::varint(bytes).filter(|(value, len)| varint_len(*value) == *len)
        }
    }
}

/// The length of the shortest varint for a value.
#[inline]
pub(crate) fn varint_len(value: u64) -> usize {
    match value {
        0..=0x7f => 1,
        0x80..=0x3fff => 2,
        0x4000..=0x1f_ffff => 3,
        _ if value >> 56 != 0 => 9,
        _ => (64 - value.leading_zeros() as usize).div_ceil(7),
    }
}

/// Writes the shortest varint at the start of `out` and returns what is behind it, if there is room.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "each byte has seven bits of the value"
)]
pub(crate) fn put_varint(value: u64, out: &mut [u8]) -> Option<&mut [u8]> {
    let seven = |shift: u32| (value >> shift) as u8 & 0x7f;
    if value < 0x80 {
        let (place, rest) = out.split_first_mut()?;
        *place = value as u8;
        return Some(rest);
    }
    if value < 0x4000 {
        let (place, rest) = out.split_first_chunk_mut()?;
        *place = [seven(7) | 0x80, seven(0)];
        return Some(rest);
    }
    if value < 0x20_0000 {
        let (place, rest) = out.split_first_chunk_mut()?;
        *place = [seven(14) | 0x80, seven(7) | 0x80, seven(0)];
        return Some(rest);
    }
    put_long_varint(value, out)
}

#[inline(never)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "each byte has seven bits of the value, the ninth eight"
)]
fn put_long_varint(mut value: u64, out: &mut [u8]) -> Option<&mut [u8]> {
    let len = varint_len(value);
    let (place, rest) = out.split_at_mut_checked(len)?;
    if let Some(ninth) = place.get_mut(8) {
        *ninth = value as u8;
        value >>= 8;
    }
    for (index, byte) in place.iter_mut().take(8).rev().enumerate() {
        // The lowest of fewer than nine bytes is the last.
        let more = if index > 0 || len == 9 { 0x80 } else { 0 };
        *byte = value as u8 & 0x7f | more;
        value >>= 7;
    }
    Some(rest)
}

/// The length of a record header, its own length included, whose serial types take `types` bytes.
#[inline]
pub(crate) fn header_len(types: usize) -> usize {
    if types < 0x7f {
        return types + 1;
    }
    (2..=3)
        .map(|own| types + own)
        .find(|len| varint_len(*len as u64) == len - types)
        .unwrap_or(types + 3)
}

/// Appends the fields of the record at `start..end` of `page`, if it is written as SQLite does:
/// shortest varints, and a header and values that fill it exactly.
pub(crate) fn parse(page: &[u8], start: usize, end: usize, fields: &mut Vec<Field>) -> Option<()> {
    let record = page.get(start..end)?;
    let (header, at) = varint(record)?;
    let header = usize::try_from(header)
        .ok()
        .filter(|len| *len <= record.len())?;
    let mut value = start + header;
    let mut types = record.get(at..header)?;
    if header_len(types.len()) != header {
        return None;
    }
    while !types.is_empty() {
        let (serial, len) = varint(types)?;
        types = types.get(len..)?;
        let len = len_of(serial)?;
        let value_end = value
            .checked_add(len)
            .filter(|value_end| *value_end <= end)?;
        fields.push(Field {
            serial,
            span: Span::new(value, value_end),
        });
        value = value_end;
    }
    (value == end).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_come_back(value: u64, shift in 0..64) {
            let value = value >> shift;
            let mut bytes = [0; 9];
            let len = 9 - put_varint(value, &mut bytes).unwrap().len();
            prop_assert_eq!(varint(&bytes), Some((value, len)));
            prop_assert_eq!(put_varint(value, &mut bytes[..len - 1]), None);
        }

        #[test]
        fn integers_come_back_and_take_no_byte_more_than_need_be(value: i64, shift in 0..64) {
            let value = value >> shift;
            let (serial, len) = serial_of(value);
            prop_assert_eq!(len_of(serial.into()), Some(len as usize));
            let bytes_of = |value, len| word_of(value, len).to_le_bytes();
            let (bytes, len) = (bytes_of(value, len), len as usize);
            // At the end of a page, and before it.
            prop_assert_eq!(integer_of(serial.into(), Span::new(0, len), &bytes), value);
            prop_assert_eq!(integer_of(serial.into(), Span::new(0, len), &bytes[..len]), value);
            for len in [1, 2, 3, 4, 6].into_iter().filter(|shorter| *shorter < len) {
                let bytes = bytes_of(value, len as u32);
                prop_assert_ne!(integer_of(1, Span::new(0, len), &bytes), value);
            }
        }
    }

    #[test]
    fn a_varint_longer_than_needed_is_not_taken() {
        assert_eq!(varint(&[0x80, 0x01]), None);
        assert_eq!(varint(&[0x81, 0x00]), Some((128, 2)));
        assert_eq!(varint(&[0x80]), None);
    }
}
