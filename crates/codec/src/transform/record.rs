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
    reason = "there are 1 to 64 copies of the sign, which are entries 8 to 1; the value that is cast is 0 or 1"
)]
pub(crate) fn serial_of(value: i64) -> (u32, usize) {
    /// By the bytes that the value needs: there are no integers of five and of seven bytes.
    const SERIALS: [(u32, usize); 9] = [
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 3),
        (4, 4),
        (5, 6),
        (5, 6),
        (6, 8),
        (6, 8),
    ];
    if value as u64 <= 1 {
        return (8 + value as u32, 0);
    }
    let copies_of_the_sign = (value ^ value >> 63).leading_zeros();
    SERIALS[(72 - copies_of_the_sign as usize) / 8]
}

/// The bytes of an integer in a record as a word, the first lowest; of those beyond `len` any.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the length is at most 8")]
pub(crate) fn word_of(value: i64, len: usize) -> u64 {
    (value as u64)
        .wrapping_shl(64 - 8 * len as u32)
        .swap_bytes()
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

/// Writes the shortest varint at the start of `out` and says how long it is.
#[inline]
#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "`out` begins where a place for it was measured with `varint_len`; each byte has seven bits"
)]
pub(crate) fn put_varint(value: u64, out: &mut [u8]) -> usize {
    if value < 0x80 {
        out[0] = value as u8;
        return 1;
    }
    let seven = |shift: u32| (value >> shift) as u8 & 0x7f;
    if value < 0x4000 {
        out[..2].copy_from_slice(&[seven(7) | 0x80, seven(0)]);
        return 2;
    }
    if value < 0x20_0000 {
        out[..3].copy_from_slice(&[seven(14) | 0x80, seven(7) | 0x80, seven(0)]);
        return 3;
    }
    put_long_varint(value, out)
}

#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "`out` has at least `varint_len` bytes; each has seven bits of the value, the ninth eight"
)]
fn put_long_varint(value: u64, out: &mut [u8]) -> usize {
    let len = varint_len(value);
    if len == 9 {
        out[8] = value as u8;
        for (index, byte) in out[..8].iter_mut().enumerate() {
            *byte = (value >> (8 + 7 * (7 - index))) as u8 | 0x80;
        }
    } else {
        for (index, byte) in out[..len].iter_mut().enumerate() {
            let more = if index + 1 < len { 0x80 } else { 0 };
            *byte = (value >> (7 * (len - 1 - index))) as u8 & 0x7f | more;
        }
    }
    len
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
            let len = put_varint(value, &mut bytes);
            prop_assert_eq!(varint(&bytes), Some((value, len)));
        }

        #[test]
        fn integers_come_back_and_take_no_byte_more_than_need_be(value: i64, shift in 0..64) {
            let value = value >> shift;
            let (serial, len) = serial_of(value);
            prop_assert_eq!(len_of(serial.into()), Some(len));
            let bytes = word_of(value, len).to_le_bytes();
            // At the end of a page, and before it.
            prop_assert_eq!(integer_of(serial.into(), Span::new(0, len), &bytes), value);
            prop_assert_eq!(integer_of(serial.into(), Span::new(0, len), &bytes[..len]), value);
            for len in [1, 2, 3, 4, 6].into_iter().filter(|shorter| *shorter < len) {
                let bytes = word_of(value, len).to_le_bytes();
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
