//! How many pages a table or index takes after VACUUM: rows of the sampled sizes are put into pages as SQLite does it,
//! one after the other, each page as full as it gets.

use litepack_btree::page::PageKind;

use super::sample::varint_len;

/// How full pages get.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Filled {
    /// Leaves for each row.
    leaves: f64,
    /// Children of a page above the leaves.
    fanout: f64,
    /// Overflow pages for each row.
    overflow: f64,
}

impl Filled {
    /// Pages for so many rows; no tree has none.
    pub(crate) fn pages(self, rows: f64) -> f64 {
        let mut level = (rows * self.leaves).ceil().max(1.0);
        let mut pages = level;
        while level > 1.0 {
            level = (level / self.fanout.max(2.0)).ceil();
            pages += level;
        }
        pages + (rows * self.overflow).ceil()
    }
}

/// Fills pages of `usable` bytes with rows: for each its payload, and the bytes of its cell before that.
pub(crate) fn filled(rows: &[(u64, u32)], usable: usize, is_index: bool) -> Filled {
    let kind = match is_index {
        true => PageKind::IndexLeaf,
        false => PageKind::TableLeaf,
    };
    if rows.is_empty() {
        return Filled::default();
    }
    let room = usable as u64 - 8;
    let (mut pages, mut used, mut overflow) = (0_u64, 0_u64, 0_u64);
    let (mut local_bytes, mut promoted) = (0_u64, false);
    for (payload, before) in rows {
        let local = kind.local_len(*payload, usable) as u64;
        let spilled = payload - local;
        overflow += spilled.div_ceil(usable as u64 - 4);
        let link = if spilled > 0 { 4 } else { 0 };
        let cell = (u64::from(*before) + local + link).max(4) + 2;
        local_bytes += cell;
        if used + cell > room {
            pages += 1;
            used = 0;
            // In an index the row between two leaves goes to the page above them.
            promoted = is_index;
        }
        if promoted {
            promoted = false;
            continue;
        }
        used += cell;
    }
    let leaves = pages as f64 + used as f64 / room as f64;
    let of_child = match is_index {
        true => local_bytes as f64 / rows.len() as f64 + 4.0,
        // A page number, a rowid, a pointer.
        false => 4.0 + varint_len(rows.len() as u64) as f64 + 2.0,
    };
    Filled {
        leaves: leaves / rows.len() as f64,
        fanout: (usable as f64 - 12.0) / of_child,
        overflow: overflow as f64 / rows.len() as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    /// What SQLite itself makes of such rows.
    #[test]
    fn pages_are_filled_as_vacuum_fills_them() {
        for (rows, len) in [
            (20_000_u64, 20_u64),
            (2000, 900),
            (500, 5000),
            (300, 20_000),
        ] {
            let db = Connection::open_in_memory().unwrap();
            db.execute_batch(&format!(
                "CREATE TABLE t(a); CREATE INDEX i ON t(a);
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
                 INSERT INTO t SELECT cast(randomblob({len}) AS BLOB) FROM n; VACUUM;"
            ))
            .unwrap();
            let real = |name: &str| {
                let sql = "SELECT sum(pageno) FROM dbstat WHERE name = ?1 AND aggregate = TRUE";
                db.query_row(sql, [name], |row| row.get::<_, f64>(0))
                    .unwrap()
            };
            // The header of the record: its length, a serial type, in an index also the rowid's, which is two bytes.
            let header = 2 + u64::from(len > 57);
            for (name, more, is_index) in [("t", 0, false), ("i", 3, true)] {
                let payload = len + header + more;
                let before = varint_len(payload) + if is_index { 0 } else { 2 };
                let row = (payload, before as u32);
                let sizes = vec![row; rows as usize];
                let found = filled(&sizes, 4096, is_index).pages(rows as f64);
                let error = found / real(name) - 1.0;
                assert!(error.abs() < 0.04, "{name} {len}: {found} {}", real(name));
            }
        }
    }
}
