//! SQLite's record format: varints and serial types (sqlite.org/fileformat2.html, sections 1.6 and 2.1).

use super::bytes::Span;

/// A value of a record on a page: its serial type and its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) serial: u64,
    pub(crate) span: Span,
}

/// A value on its way into a record.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Value {
    pub(crate) serial: u64,
    /// The number itself, or where the bytes of a text or blob begin.
    pub(crate) bits: u64,
}

impl Value {
    pub(crate) const NULL: Value = Value {
        serial: NULL,
        bits: 0,
    };

    /// An integer in the serial type that SQLite chooses for it.
    pub(crate) fn integer(value: i64) -> Value {
        Value {
            serial: serial_of(value),
            bits: value as u64,
        }
    }

    /// The length of its bytes; its serial type is one that [`len_of`] knows.
    pub(crate) fn len(self) -> usize {
        len_of(self.serial).unwrap_or(0)
    }

    /// Writes its bytes, those of texts and blobs from `arena`, into a place of their length.
    #[inline]
    pub(crate) fn put(self, arena: &[u8], place: &mut [u8]) {
        match self.serial {
            NULL | 8 | 9 => {}
            // A loop over a few bytes beats a call that copies any number.
            1..=REAL => {
                let mut bits = self.bits;
                for byte in place.iter_mut().rev() {
                    *byte = bits as u8;
                    bits >>= 8;
                }
            }
            _ => place.copy_from_slice(&arena[self.bits as usize..][..place.len()]),
        }
    }
}

pub(crate) const NULL: u64 = 0;
pub(crate) const REAL: u64 = 7;

/// The length of a value's bytes. Serial types 10 and 11 do not occur in files.
#[inline]
pub(crate) fn len_of(serial: u64) -> Option<usize> {
    match serial {
        0 | 8 | 9 => Some(0),
        1..=4 => Some(serial as usize),
        5 => Some(6),
        6 | REAL => Some(8),
        10 | 11 => None,
        _ => usize::try_from((serial - 12) / 2).ok(),
    }
}

pub(crate) fn is_integer(serial: u64) -> bool {
    matches!(serial, 1..=6 | 8 | 9)
}

pub(crate) fn is_text(serial: u64) -> bool {
    serial >= 13 && !serial.is_multiple_of(2)
}

pub(crate) fn is_blob(serial: u64) -> bool {
    serial >= 12 && serial.is_multiple_of(2)
}

/// The integer that a field holds.
pub(crate) fn integer_of(serial: u64, bytes: &[u8]) -> i64 {
    match serial {
        8 => 0,
        9 => 1,
        _ => {
            let negative = bytes.first().is_some_and(|byte| *byte >= 0x80);
            let fold = |value: i64, byte: &u8| value << 8 | i64::from(*byte);
            bytes.iter().fold(-i64::from(negative), fold)
        }
    }
}

/// The serial type SQLite chooses for an integer.
pub(crate) fn serial_of(value: i64) -> u64 {
    match value {
        0 => 8,
        1 => 9,
        -0x80..=0x7f => 1,
        -0x8000..=0x7fff => 2,
        -0x80_0000..=0x7f_ffff => 3,
        -0x8000_0000..=0x7fff_ffff => 4,
        -0x8000_0000_0000..=0x7fff_ffff_ffff => 5,
        _ => 6,
    }
}

/// A SQLite varint and its length, if it is written in as few bytes as possible.
#[inline]
pub(crate) fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    match bytes.first() {
        Some(byte @ 0..0x80) => Some(((*byte).into(), 1)),
        _ => long_varint(bytes),
    }
}

fn long_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(8).enumerate() {
        value = value << 7 | u64::from(byte & 0x7f);
        if *byte < 0x80 {
            return (varint_len(value) == index + 1).then_some((value, index + 1));
        }
    }
    let value = value << 8 | u64::from(*bytes.get(8)?);
    (varint_len(value) == 9).then_some((value, 9))
}

/// The length of the shortest varint for a value.
#[inline]
pub(crate) fn varint_len(value: u64) -> usize {
    match value {
        0..=0x7f => 1,
        0x80..=0x3fff => 2,
        _ if value >> 56 != 0 => 9,
        _ => (64 - value.leading_zeros() as usize).div_ceil(7),
    }
}

/// Writes the shortest varint at the start of `out` and says how long it is.
#[inline]
pub(crate) fn put_varint(value: u64, out: &mut [u8]) -> usize {
    if value < 0x80 {
        out[0] = value as u8;
        return 1;
    }
    if value < 0x4000 {
        out[..2].copy_from_slice(&[(value >> 7) as u8 | 0x80, value as u8 & 0x7f]);
        return 2;
    }
    put_long_varint(value, out)
}

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
pub(crate) fn header_len(types: usize) -> usize {
    (1..=3)
        .map(|own| types + own)
        .find(|len| varint_len(*len as u64) == len - types)
        .unwrap_or(types + 3)
}

/// Appends the fields of the record at `start..end` of `page`, if it is written as SQLite does:
/// shortest varints, and a header and values that fill it exactly.
pub(crate) fn parse(page: &[u8], start: usize, end: usize, fields: &mut Vec<Field>) -> Option<()> {
    let record = &page[start..end];
    let (header, mut at) = varint(record)?;
    let header = usize::try_from(header)
        .ok()
        .filter(|len| *len <= record.len())?;
    let mut value = start + header;
    let types = header.checked_sub(at)?;
    if header_len(types) != header {
        return None;
    }
    while at < header {
        let (serial, len) = varint(&record[at..header])?;
        at += len;
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
        fn integers_come_back(value: i64, shift in 0..64) {
            let value = value >> shift;
            let value = Value::integer(value);
            let mut bytes = vec![0; value.len()];
            value.put(&[], &mut bytes);
            prop_assert_eq!(integer_of(value.serial, &bytes), value.bits as i64);
        }
    }

    #[test]
    fn a_varint_longer_than_needed_is_not_taken() {
        assert_eq!(varint(&[0x80, 0x01]), None);
        assert_eq!(varint(&[0x81, 0x00]), Some((128, 2)));
        assert_eq!(varint(&[0x80]), None);
    }
}
