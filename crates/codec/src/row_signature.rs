//! The row signature of a page: a hash of its kind and of the types of its columns. Pages of one table or index usually
//! have one signature, or a few.

use crate::transform::{PageKind, cell_at, varint};

/// The row signature of a page, equal for pages of one kind whose rows have the same number and types of columns.
pub type RowSignature = u32;

/// Rows examined.
const ROWS: usize = 8;
/// No page of SQLite is shorter.
const PAGE_MIN: usize = 512;
/// Columns examined.
const COLUMNS: usize = 64;

/// NULL and every kind of number count as one type: SQLite stores the column's own values in all of them.
fn class(serial_type: u64) -> u8 {
    match serial_type {
        0..12 => 1,
        n if n % 2 == 0 => 2,
        _ => 3,
    }
}

/// The row signature of a page; `None` if it is not a b-tree page, or empty.
pub fn row_signature(page: &[u8]) -> Option<RowSignature> {
    let first = page.first()?;
    let kind = PageKind::of(*first).filter(|_| page.len() >= PAGE_MIN)?;
    let number = |at: usize| {
        Some(usize::from(u16::from_be_bytes([
            *page.get(at)?,
            *page.get(at + 1)?,
        ])))
    };
    let cells = number(3)?.checked_sub(1)? + 1;
    let pointers = if kind.is_interior() { 12 } else { 8 };
    let mut classes = [0; COLUMNS];
    if kind.has_payload() {
        let rows = cells.min(ROWS);
        for row in 0..rows {
            let at = number(pointers + 2 * (row * cells / rows))?;
            let cell = cell_at(page, kind, at)?;
            let payload = page.get(cell.payload..cell.end)?;
            let (header_len, mut at) = varint(payload)?;
            // Of a record with overflow pages the first columns are enough.
            let header = payload.get(..usize::try_from(header_len).ok()?);
            let header = header.unwrap_or(payload);
            for known in &mut classes {
                let Some((serial_type, len)) = header.get(at..).and_then(varint) else {
                    break;
                };
                at += len;
                *known = class(serial_type).max(*known);
            }
        }
    }
    // FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/).
    let columns = classes.iter().take_while(|class| **class > 0);
    Some(columns.chain([first]).fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A page of this kind with a row for each list of serial types; the values are zeros.
    fn page(kind: u8, rows: &[Vec<u8>]) -> Vec<u8> {
        let mut page = vec![0; 4096];
        page[0] = kind;
        page[3..5].copy_from_slice(&(rows.len() as u16).to_be_bytes());
        let mut end = page.len();
        for (index, types) in rows.iter().enumerate() {
            let values: usize = types
                .iter()
                .map(|serial_type| match serial_type {
                    0 | 8 | 9 => 0,
                    1..=4 => usize::from(*serial_type),
                    n => usize::from(n.saturating_sub(12) / 2),
                })
                .sum();
            let mut cell = vec![(types.len() + 1 + values) as u8];
            if kind == 13 {
                cell.push(index as u8 & 0x7f);
            }
            cell.push(types.len() as u8 + 1);
            cell.extend(types);
            cell.resize(cell.len() + values, 0);
            end -= cell.len();
            page[end..end + cell.len()].copy_from_slice(&cell);
            page[8 + 2 * index..10 + 2 * index].copy_from_slice(&(end as u16).to_be_bytes());
        }
        page
    }

    #[test]
    fn rows_of_a_table_are_alike_whatever_is_null_and_however_long_it_is() {
        let one: Vec<_> = (0..40).map(|i| vec![i % 5, i % 3, 21 + 2 * i]).collect();
        let other: Vec<_> = (0..30)
            .map(|i| vec![9, 0, if i % 4 == 0 { 0 } else { 15 }])
            .collect();
        assert_eq!(
            row_signature(&page(13, &one)),
            row_signature(&page(13, &other))
        );
        assert!(row_signature(&page(13, &one)).is_some());
    }

    #[test]
    fn other_columns_are_another_signature() {
        let signatures = [
            (13, vec![1, 21]),
            (13, vec![21, 1]),
            (13, vec![1, 1]),
            (13, vec![1, 1, 1]),
            (13, vec![1, 20]),
            (10, vec![1, 1]),
        ]
        .map(|(kind, row)| row_signature(&page(kind, &[row])));
        for (at, row_signature) in signatures.iter().enumerate() {
            assert!(
                row_signature.is_some() && !signatures[..at].contains(row_signature),
                "{at}"
            );
        }
    }

    #[test]
    fn other_pages_have_none() {
        assert_eq!(row_signature(&[]), None);
        assert_eq!(row_signature(&[0; 4096]), None);
        assert_eq!(row_signature(&page(13, &[])), None);
        assert_eq!(row_signature(b"SQLite format 3\0"), None);
    }

    proptest! {
        #[test]
        fn hostile_pages_never_panic(
            mut page in proptest::collection::vec(any::<u8>(), 1..4096),
            kind in proptest::sample::select(vec![2, 5, 10, 13]),
        ) {
            page[0] = kind;
            let _ = row_signature(&page);
        }
    }
}
