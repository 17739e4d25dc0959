//! How many pages a table or index takes after VACUUM: rows of the sampled sizes are put into pages as SQLite does it,
//! one after the other, each page as full as it gets.

use litepack_btree::page::PageKind;

use super::sample::{TreeSample, varint_len};

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
        self.tree_pages(rows) + (rows * self.overflow).ceil()
    }

    /// The same without overflow pages.
    fn tree_pages(self, rows: f64) -> f64 {
        let mut level = (rows * self.leaves).ceil().max(1.0);
        let mut pages = level;
        while level > 1.0 {
            level = (level / self.fanout.max(2.0)).ceil();
            pages += level;
        }
        pages
    }
}

/// Pages that are filled row by row, so that all rows that are seen count, and none has to be kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filling {
    usable: usize,
    is_index: bool,
    rows: u64,
    pages: u64,
    used: u64,
    overflow: u64,
    local_bytes: u64,
    promoted: bool,
}

impl Filling {
    /// Of pages of `usable` bytes.
    pub(crate) fn new(usable: usize, is_index: bool) -> Filling {
        Filling {
            usable,
            is_index,
            rows: 0,
            pages: 0,
            used: 0,
            overflow: 0,
            local_bytes: 0,
            promoted: false,
        }
    }

    fn room(&self) -> u64 {
        (self.usable as u64).saturating_sub(8).max(1)
    }

    /// Adds a row: its payload, and the bytes of its cell before that.
    pub(crate) fn add(&mut self, payload: u64, before: u32) {
        let kind = match self.is_index {
            true => PageKind::IndexLeaf,
            false => PageKind::TableLeaf,
        };
        let local = kind.local_len(payload, self.usable) as u64;
        let spilled = payload.saturating_sub(local);
        self.overflow += spilled.div_ceil(self.usable as u64 - 4);
        let link = if spilled > 0 { 4 } else { 0 };
        let cell = (u64::from(before) + local + link).max(4) + 2;
        self.local_bytes += cell;
        self.rows += 1;
        if self.used + cell > self.room() {
            self.pages += 1;
            self.used = 0;
            // In an index the row between two leaves goes to the page above them.
            self.promoted = self.is_index;
        }
        match std::mem::take(&mut self.promoted) {
            true => {}
            false => self.used += cell,
        }
    }

    /// How full the pages are.
    pub(crate) fn end(&self) -> Filled {
        if self.rows == 0 {
            return Filled::default();
        }
        let rows = self.rows as f64;
        let leaves = self.pages as f64 + self.used as f64 / self.room() as f64;
        let of_child = match self.is_index {
            true => self.local_bytes as f64 / rows + 4.0,
            // A page number, a rowid, a pointer.
            false => 4.0 + varint_len(self.rows) as f64 + 2.0,
        };
        Filled {
            leaves: leaves / rows,
            fanout: (self.usable as f64 - 12.0) / of_child,
            overflow: self.overflow as f64 / rows,
        }
    }
}

/// Fills pages of `usable` bytes with rows: for each its payload, and the bytes of its cell before that.
pub(crate) fn filled(
    rows: impl IntoIterator<Item = (u64, u32)>,
    usable: usize,
    is_index: bool,
) -> Filled {
    let mut filling = Filling::new(usable, is_index);
    for (payload, before) in rows {
        filling.add(payload, before);
    }
    filling.end()
}

/// Pages of a tree after VACUUM, which changes nothing about how many overflow pages there are; as many as there are now
/// where no row was seen.
pub(crate) fn vacuumed(sample: &TreeSample, rows: f64, overflow: f64) -> f64 {
    match sample.filling.map(|filling| filling.end()) {
        Some(filled) if filled != Filled::default() => filled.tree_pages(rows) + overflow,
        _ => (sample.leaves + sample.interior) as f64 + overflow,
    }
}

/// Pages of a tree after VACUUM, which else are `now`, if its rows had other sizes: what the sampled ones say of the
/// proportion counts.
pub(crate) fn changed(
    sample: &TreeSample,
    now: f64,
    rows: f64,
    usable: usize,
    is_index: bool,
    change: impl Fn(u64, u32) -> (u64, u32),
) -> f64 {
    let was_index = sample.filling.is_some_and(|filling| filling.is_index);
    let before = filled(sample.sizes.iter().copied(), usable, was_index).pages(rows);
    let sizes = sample
        .sizes
        .iter()
        .map(|(payload, before)| change(*payload, *before));
    let after = filled(sizes, usable, is_index).pages(rows);
    match sample.sizes.is_empty() {
        true => now,
        false => now * after / before.max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    /// The pages that SQLite itself makes of such rows.
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
                let sizes = std::iter::repeat_n(row, rows as usize);
                let found = filled(sizes, 4096, is_index).pages(rows as f64);
                let error = found / real(name) - 1.0;
                assert!(error.abs() < 0.04, "{name} {len}: {found} {}", real(name));
            }
        }
    }
}
