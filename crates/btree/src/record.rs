//! Records: variable-length numbers, serial types, and the rows of `sqlite_schema`
//! (sqlite.org/fileformat2.html, sections 1.6, 2.1 and 2.6).

use crate::header::Encoding;
use crate::page_ownership::TreeKind;

/// The number at the start of `bytes` and its length, 1 to 9 bytes; `None` if it is cut off.
#[inline]
pub fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    match bytes {
        [byte @ 0..0x80, ..] => Some(((*byte).into(), 1)),
        [high, low @ 0..0x80, ..] => Some((u64::from(high & 0x7f) << 7 | u64::from(*low), 2)),
        _ => long_varint(bytes),
    }
}

fn long_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(8).enumerate() {
        value = value << 7 | u64::from(byte & 0x7f);
        if *byte < 0x80 {
            return Some((value, index + 1));
        }
    }
    Some((value << 8 | u64::from(*bytes.get(8)?), 9))
}

/// Length in bytes of a value of this serial type; `None` for the two that do not occur in files, and for
/// lengths that do not fit into memory.
#[inline]
pub fn len_of(serial: u64) -> Option<usize> {
    const LENS: [u8; 10] = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0];
    match serial.checked_sub(12) {
        Some(double) => usize::try_from(double / 2).ok(),
        None => {
            let len = LENS.get(usize::try_from(serial).ok()?);
            len.map(|len| usize::from(*len))
        }
    }
}

/// A row of the schema.
#[derive(Debug, PartialEq, Eq)]
pub struct SchemaRow {
    /// `None` for views, triggers and whatever else has no tree.
    pub kind: Option<TreeKind>,
    /// Its name.
    pub name: String,
    /// Name of the table it belongs to.
    pub table: String,
    /// The root page; 0 for what has no tree, such as a virtual table.
    pub root: i64,
    /// The statement that made it; `None` if there was none, as for the index of a constraint, or if it is cut off.
    pub sql: Option<String>,
}

impl SchemaRow {
    /// Reads a row from the beginning of its record; `None` if it is not such a record, or too short.
    pub fn parse(record: &[u8], encoding: Encoding) -> Option<SchemaRow> {
        let (header_len, mut at) = varint(record)?;
        let mut body = usize::try_from(header_len).ok()?;
        let header = record.get(..body)?;
        let mut column = || {
            let (serial, len) = varint(header.get(at..)?)?;
            at += len;
            let end = body.checked_add(len_of(serial)?)?;
            let bytes = record.get(body..end)?;
            body = end;
            Some((serial, bytes))
        };
        let (kind, name, table) = (column()?, column()?, column()?);
        Some(SchemaRow {
            kind: match text(kind, encoding)?.as_str() {
                "table" => Some(TreeKind::Table),
                "index" => Some(TreeKind::Index),
                _ => None,
            },
            name: text(name, encoding)?,
            table: text(table, encoding)?,
            root: integer(column()?)?,
            sql: column().and_then(|sql| text(sql, encoding)),
        })
    }
}

/// A text; invalid parts are replaced.
fn text((serial, bytes): (u64, &[u8]), encoding: Encoding) -> Option<String> {
    if serial < 13 || serial.is_multiple_of(2) {
        return None;
    }
    Some(decoded(bytes, encoding))
}

/// The text that these bytes hold; invalid parts are replaced.
pub fn decoded(bytes: &[u8], encoding: Encoding) -> String {
    let wide = |unit: fn([u8; 2]) -> u16| {
        let (units, _) = bytes.as_chunks();
        let units = units.iter().map(|bytes| unit(*bytes));
        char::decode_utf16(units)
            .map(|decoded| decoded.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect()
    };
    match encoding {
        Encoding::Utf8 => String::from_utf8_lossy(bytes).into_owned(),
        Encoding::Utf16Le => wide(u16::from_le_bytes),
        Encoding::Utf16Be => wide(u16::from_be_bytes),
    }
}

/// An integer; NULL is 0.
fn integer((serial, bytes): (u64, &[u8])) -> Option<i64> {
    match serial {
        0 | 8 => Some(0),
        9 => Some(1),
        1..=6 => {
            let negative = bytes.first().is_some_and(|byte| *byte >= 0x80);
            let value = if negative { -1 } else { 0 };
            Some(
                bytes
                    .iter()
                    .fold(value, |value, byte| value << 8 | i64::from(*byte)),
            )
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints() {
        assert_eq!(varint(&[0x7f, 1]), Some((0x7f, 1)));
        assert_eq!(varint(&[0x81, 0]), Some((0x80, 2)));
        assert_eq!(varint(&[0x80, 0x80, 5]), Some((5, 3)));
        assert_eq!(varint(&[0xff; 9]), Some((u64::MAX, 9)));
        assert_eq!(varint(&[0xff; 8]), None);
        assert_eq!(varint(&[]), None);
    }

    #[test]
    fn integers_have_signs() {
        assert_eq!(integer((1, &[0xff])), Some(-1));
        assert_eq!(integer((2, &[1, 0])), Some(256));
        assert_eq!(integer((6, &[0x80, 0, 0, 0, 0, 0, 0, 0])), Some(i64::MIN));
        assert_eq!(integer((9, &[])), Some(1));
        assert_eq!(integer((7, &[0; 8])), None);
    }

    #[test]
    fn a_row_that_ends_anywhere_is_none() {
        let mut record = vec![6, 23, 15, 15, 1, 15];
        record.extend(b"tablett\x03x");
        let whole = SchemaRow::parse(&record, Encoding::Utf8).unwrap();
        assert_eq!((whole.kind, whole.root), (Some(TreeKind::Table), 3));
        assert_eq!((whole.name.as_str(), whole.table.as_str()), ("t", "t"));
        // The SQL at the end is not needed.
        let needed = record.len() - 1;
        assert!(SchemaRow::parse(&record[..needed], Encoding::Utf8).is_some());
        for len in 0..needed {
            assert_eq!(SchemaRow::parse(&record[..len], Encoding::Utf8), None);
        }
    }
}
