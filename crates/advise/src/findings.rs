//! Other changes to the database, its tables and indexes that would make it smaller or faster, with their SQL, which is
//! never run. `column_findings.rs` has the columns.
//!
//! Each finding says what it saves of the file as it is kept, by putting the rows into pages as they would then be. One
//! that would save nothing is left out; only an index for look-ups takes room, and says so.

use std::collections::HashMap;

use litepack_btree::{Tree, TreeKind};
use litepack_database::printable;
use serde::Serialize;

use super::account::Scale;
use super::copies::Copied;
use super::left::Left;
use super::modes::packed::Packed;
use super::rebuild::{Filling, changed, vacuumed};
use super::sample::{Samples, TreeSample, varint_len};
use super::schema::{Index, IndexField, Schema, TableSchema};
use super::sql::{in_sql, list, rebuilt};

/// A finding has to save this share of the file, and this many bytes.
const SHARE: f64 = 0.01;
const BYTES: f64 = 16384.0;
/// VACUUM has to save this share.
const VACUUM: f64 = 0.05;
/// A page that is not full takes about this much of a packed file more than if its rows were in another page.
const UNIT: f64 = 24.0;
/// Values that are there twice must be this share of a column or table.
pub(super) const TWICE: f64 = 0.05;
/// Share of a column's values that have to be of the kind that a finding is about.
pub(super) const NEARLY_ALL: f64 = 0.95;
/// Indexes of a table that another one is compared with.
const INDEXES: usize = 1000;
/// The kind of finding that saves nothing.
pub(super) const JSON_KEY: &str = "json_key";
/// No more findings are reported, those that save most first.
const MOST: usize = 100;

/// Something that would help.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Its kind, in one word.
    pub kind: &'static str,
    /// The finding, in words.
    pub title: String,
    /// Why, and what to heed.
    pub detail: String,
    /// About the bytes of the file that it saves, packed ones if that is packed; below zero if it takes some.
    pub saves_bytes: i64,
    /// The SQL to run; `None` if there is no such statement, or a name in it cannot be shown safely.
    pub sql: Option<String>,
}

impl Finding {
    /// Whether it makes queries faster, and takes room for it.
    pub fn is_for_speed(&self) -> bool {
        self.kind == JSON_KEY
    }
}

/// The data that findings are made from.
pub(crate) struct Evidence<'a> {
    pub(crate) samples: &'a Samples,
    pub(crate) trees: &'a [Tree],
    pub(crate) schema: &'a Schema,
    pub(crate) scale: &'a Scale,
    pub(crate) packed: &'a Packed,
    pub(crate) left: &'a Left,
    pub(crate) copies: &'a [Copied],
    /// Whether texts are UTF-8.
    pub(crate) utf8: bool,
    /// Pages that could not be read or made no sense.
    pub(crate) bad: u64,
    /// The place of each index among the trees.
    pub(crate) places: HashMap<&'a str, usize>,
}

/// All findings, those that save most first.
pub(crate) fn all(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(evidence.vacuum());
    found.extend(evidence.identical_pages());
    found.extend((evidence.copies.iter()).map(|copied| evidence.full_text_copy(copied)));
    for (at, tree) in evidence.trees.iter().enumerate() {
        let sample = &evidence.samples.trees[at];
        if tree.name.starts_with("sqlite_") && tree.kind == TreeKind::Table {
            continue;
        }
        match (tree.kind, evidence.schema.tables.get(&tree.name)) {
            // The content of a virtual table's shadow table is its own affair.
            (TreeKind::Table, Some(table)) if !table.shadow => {
                found.extend(evidence.without_rowid(at, tree, sample, table));
                found.extend(evidence.with_rowid(at, tree, sample, table));
                found.extend(evidence.rows_twice(at, tree, sample, table));
                for field in 0..sample.columns.len() {
                    found.extend(evidence.of_column(at, tree, field, table));
                }
            }
            (TreeKind::Index, _) => found.extend(evidence.redundant(at, tree)),
            _ => {}
        }
    }
    let least = (SHARE * evidence.left.file).max(BYTES);
    found.retain(|finding| finding.is_for_speed() || finding.saves_bytes as f64 >= least);
    found.sort_by(|a, b| (b.saves_bytes, &a.title).cmp(&(a.saves_bytes, &b.title)));
    found.truncate(MOST);
    found
}

impl Evidence<'_> {
    fn bytes(&self, tree: usize) -> f64 {
        let sample = &self.samples.trees[tree];
        let pages = (sample.leaves + sample.interior) as f64 + self.scale.overflow(tree);
        pages * f64::from(self.scale.page_size)
    }

    fn vacuumed_pages(&self, tree: usize) -> f64 {
        let (rows, overflow) = (self.scale.rows(tree), self.scale.overflow(tree));
        vacuumed(&self.samples.trees[tree], rows, overflow)
    }

    /// Bytes of a tree after VACUUM.
    pub(super) fn vacuumed(&self, tree: usize) -> f64 {
        self.vacuumed_pages(tree) * f64::from(self.scale.page_size)
    }

    /// Bytes of a tree after VACUUM if its rows had other sizes.
    pub(super) fn changed(
        &self,
        tree: usize,
        is_index: bool,
        change: impl Fn(u64, u32) -> (u64, u32),
    ) -> f64 {
        let (sample, rows) = (&self.samples.trees[tree], self.scale.rows(tree));
        let now = self.vacuumed_pages(tree);
        let pages = changed(sample, now, rows, self.scale.usable, is_index, change);
        pages * f64::from(self.scale.page_size)
    }

    /// Bytes of pages that no table, index or list leads to. Where pages are damaged it is not known whose these are.
    pub(super) fn orphaned(&self) -> f64 {
        if self.bad > 0 {
            return 0.0;
        }
        // One page, around SQLite's lock bytes, is never used.
        let lock = if self.scale.size > 1 << 30 { 1.0 } else { 0.0 };
        (self.scale.orphaned - lock).max(0.0) * f64::from(self.scale.page_size)
    }

    /// Pages that nothing uses, and pages that are not full.
    fn vacuum(&self) -> Option<Finding> {
        let page = f64::from(self.scale.page_size);
        let free = self.samples.free as f64 * page;
        let orphaned = self.orphaned();
        // Where time has ended the reading, of trees that were read to their end.
        let read = |tree: &usize| {
            let sample = &self.samples.trees[*tree];
            !self.samples.ended || sample.read >= sample.leaves
        };
        let loose: f64 = (0..self.trees.len())
            .filter(read)
            .map(|tree| self.bytes(tree) - self.vacuumed(tree))
            .sum();
        let loose = loose.max(0.0);
        let saves = match self.left.is_plain() {
            true => free + orphaned + loose,
            // Room that is not used takes nothing there.
            false => self.left.of_free(free) + self.left.of_other(orphaned) + loose / page * UNIT,
        };
        if saves < VACUUM * self.left.file {
            return None;
        }
        let keep = match self.schema.auto_vacuum {
            false => {
                " With PRAGMA auto_vacuum = INCREMENTAL before it, PRAGMA incremental_vacuum gives back later ones."
            }
            true => "",
        };
        let packed = match self.left.is_plain() {
            true => "",
            false if free > 0.0 => {
                " `litepack maintain` alone gives back what free pages take, while others read and write, and should be run \
                 after VACUUM, too: until then pages are packed less well."
            }
            false => " Run `litepack maintain` after it: until then pages are packed less well.",
        };
        let pages = |bytes: f64| (bytes / page).round() as u64;
        let mut parts = Vec::new();
        match pages(free) {
            0 => {}
            pages => parts.push(format!("{pages} free pages")),
        }
        match pages(orphaned) {
            0 => {}
            pages => parts.push(format!("{pages} pages that nothing leads to")),
        }
        if loose >= SHARE * self.scale.size as f64 || parts.is_empty() {
            parts.push("pages that are not full".into());
        }
        Some(Finding {
            kind: "vacuum",
            title: parts.join(", and "),
            detail: format!(
                "VACUUM writes the database anew, with room for all of it beside it, and no other program can write it \
                 meanwhile. Rows of tables without an INTEGER PRIMARY KEY may get other rowids.{keep}{packed}"
            ),
            saves_bytes: saves as i64,
            sql: Some("VACUUM;".into()),
        })
    }

    fn identical_pages(&self) -> Option<Finding> {
        let share = self.packed.same;
        (share > 0.02).then(|| Finding {
            kind: "identical_pages",
            title: format!("{:.0} % of the pages are the same as another", share * 100.0),
            detail: "Mostly the same large value in several rows. Store it once, in a table of its own, and its key in \
                     the rows. Of a sample this is the least it can be."
                .into(),
            saves_bytes: (share * self.left.file) as i64,
            sql: None,
        })
    }

    /// A full-text table with a copy of the text of a table.
    fn full_text_copy(&self, copied: &Copied) -> Finding {
        let (name, table) = (printable(&copied.name), printable(&copied.table));
        let columns = self.schema.tables.get(&copied.table).map(|of| &of.columns);
        let columns: Vec<String> = (copied.columns.iter())
            .filter_map(|at| Some(printable(&columns?.get(*at)?.name)))
            .collect();
        let copy = printable(&self.trees[copied.copy].name);
        Finding {
            kind: "full_text_copy",
            title: format!(
                "full-text table {name} has a copy of {table} ({})",
                columns.join(", ")
            ),
            detail: format!(
                "Its table {copy} keeps what the rows of {table} with the same rowids have. A full-text table made anew with \
                 content='{table}' keeps the index alone, and reads the text there. Its columns need the names that they \
                 have there, or in a view. Fill it by INSERT INTO name(name) VALUES('rebuild'). Triggers on {table} then \
                 have to tell it of each row that is inserted, deleted or updated, a deletion with the former text: see \
                 https://sqlite.org/fts5.html#external_content_tables. VACUUM then gives the room back."
            ),
            saves_bytes: self.left.of(copied.copy, self.bytes(copied.copy)) as i64,
            sql: None,
        }
    }

    /// An index that another one, or the key of the table, does all the work of.
    fn redundant(&self, at: usize, tree: &Tree) -> Option<Finding> {
        let index = self.schema.indexes.get(&tree.name)?;
        let table = self.schema.tables.get(&index.table)?;
        if index.origin != "c" || index.partial || table.shadow {
            return None;
        }
        let own: Vec<&IndexField> = keys(index).collect();
        if own.is_empty() || own.iter().any(|field| field.column.is_none()) {
            return None;
        }
        let instead = if !index.unique && own.len() == 1 && own[0].column == table.rowid {
            "the table itself, which is in the order of this key".to_owned()
        } else {
            let (name, exact) = self.covering(tree, index, &own)?;
            let how = if exact {
                "has the same columns"
            } else {
                "begins with its columns"
            };
            format!("index {}, which {how}", printable(&name))
        };
        let sql = in_sql(&tree.name).map(|name| format!("DROP INDEX {name};"));
        Some(Finding {
            kind: "redundant_index",
            title: format!("index {} is not needed", printable(&tree.name)),
            detail: format!(
                "Queries that use it can use {instead}. Statements that name it (INDEXED BY) have to be changed. VACUUM \
                 then gives its room back."
            ),
            saves_bytes: self.left.of(at, self.bytes(at)) as i64,
            sql,
        })
    }

    /// The index that makes another one needless, and whether it has just the same columns.
    fn covering(&self, tree: &Tree, index: &Index, own: &[&IndexField]) -> Option<(String, bool)> {
        let others = self.schema.indexes_of(&index.table).take(INDEXES);
        let mut others = others.filter(|(name, other)| *name != tree.name && !other.partial);
        // A constraint may do something else with a second value than to refuse it.
        let refuses = |other: &Index| {
            let table = self.schema.tables.get(&index.table);
            other.origin == "c" || table.is_some_and(|table| !table.conflict)
        };
        others.find_map(|(name, other)| {
            let theirs: Vec<&IndexField> = keys(other).collect();
            let exact = theirs.len() == own.len();
            let begins = theirs.len() >= own.len() && same(own, &theirs[..own.len()]);
            // Of two that are the same the constraint's stays, or else the unique one, or the first by name.
            let stays = other.origin != "c"
                || (other.unique, std::cmp::Reverse(name))
                    > (index.unique, std::cmp::Reverse(tree.name.as_str()));
            let needless = begins
                && if index.unique {
                    exact && other.unique && stays && refuses(other)
                } else {
                    !exact || stays
                };
            needless.then(|| (name.to_owned(), exact))
        })
    }

    /// A table whose key is an index beside it, though it could be in the order of its key.
    fn without_rowid(
        &self,
        at: usize,
        tree: &Tree,
        sample: &TreeSample,
        table: &TableSchema,
    ) -> Option<Finding> {
        if table.without_rowid || table.rowid.is_some() || !table.has_key() {
            return None;
        }
        let (primary, _) = self
            .schema
            .indexes_of(&tree.name)
            .find(|(_, index)| index.origin == "pk")?;
        let primary_at = *self.places.get(primary)?;
        // No NULL in a key can stay, and what the table is used by may need its rowid.
        let null = |at: &usize| {
            let field = table.fields.iter().position(|column| column == at);
            let column = field.and_then(|field| sample.columns.get(field));
            table.columns[*at].key > 0 && column.is_none_or(|column| column.nulls > 0)
        };
        if (0..table.columns.len()).any(|at| null(&at)) {
            return None;
        }
        let payload: u64 = sample.sizes.iter().map(|(payload, _)| payload).sum();
        let mean = payload as f64 / sample.sizes.len().max(1) as f64;
        // As SQLite's documentation says: rows of less than about a twentieth of a page.
        if sample.sizes.is_empty() || mean > f64::from(self.scale.page_size) / 20.0 {
            return None;
        }
        let saves = self.without_rowid_saves(at, tree, sample, table, primary_at);
        Some(Finding {
            kind: "without_rowid",
            title: format!("table {} could be WITHOUT ROWID", printable(&tree.name)),
            detail: "Its key is an index beside it now, and its rows are short. A table WITHOUT ROWID is in the order of \
                     its key, and a look-up reads one tree and not two. Not if a program uses its rowid, which is gone \
                     then."
                .into(),
            saves_bytes: saves as i64,
            sql: self.rebuilt(&tree.name, table, true),
        })
    }

    /// The bytes it saves, after a VACUUM now and then. Rows go into the pages of an index, and there is no index
    /// beside them; but every other index has the key where it had the rowid.
    fn without_rowid_saves(
        &self,
        at: usize,
        tree: &Tree,
        sample: &TreeSample,
        table: &TableSchema,
        primary: usize,
    ) -> f64 {
        let after = self.changed(at, true, |payload, _| (payload, varint_len(payload) as u32));
        let mut saves = self.left.of(at, self.vacuumed(at) - after)
            + self.left.of(primary, self.vacuumed(primary));
        // The mean bytes of a column, and its serial type.
        let mean = |column: usize| {
            let field = table.fields.iter().position(|at| *at == column);
            let column = field.and_then(|field| sample.columns.get(field));
            column.map_or(0.0, |column| {
                1.0 + column.bytes as f64 / column.values.max(1) as f64
            })
        };
        for (name, index) in self.schema.indexes_of(&tree.name) {
            let Some(other) = self.places.get(name).copied().filter(|at| *at != primary) else {
                continue;
            };
            let has = |column: usize| index.fields.iter().any(|f| f.column == Some(column));
            let key: f64 = (0..table.columns.len())
                .filter(|column| table.columns[*column].key > 0 && !has(*column))
                .map(mean)
                .sum();
            let columns = &self.samples.trees[other].columns;
            let rowid = columns.last().map_or(0.0, |column| {
                1.0 + column.bytes as f64 / column.values.max(1) as f64
            });
            let more = key - rowid;
            let after = self.changed(other, true, |payload, before| {
                ((payload as f64 + more).round().max(1.0) as u64, before)
            });
            saves += self.left.of(other, self.vacuumed(other) - after);
        }
        saves
    }

    /// The SQL to make a table anew; `None` for one that has more than columns and a key, which would be lost.
    fn rebuilt(&self, name: &str, table: &TableSchema, without_rowid: bool) -> Option<String> {
        let has_more = table.more
            || table.triggers
            || self.schema.related.contains(&name.to_lowercase())
            || table.columns.iter().any(|column| column.hidden != 0)
            || (self.schema.indexes_of(name)).any(|(_, index)| index.origin != "pk");
        (!has_more).then(|| rebuilt(name, table, without_rowid))?
    }

    /// A table WITHOUT ROWID with rows so long that its pages hold few of them.
    fn with_rowid(
        &self,
        at: usize,
        tree: &Tree,
        sample: &TreeSample,
        table: &TableSchema,
    ) -> Option<Finding> {
        if !table.without_rowid || sample.sizes.is_empty() {
            return None;
        }
        let (rows, page) = (self.scale.rows(at), f64::from(self.scale.page_size));
        let keys = table.columns.iter().filter(|column| column.key > 0).count();
        let bytes: u64 = sample
            .columns
            .iter()
            .take(keys)
            .map(|column| column.bytes)
            .sum();
        let key = bytes / sample.cells.max(1) + 6 + keys as u64;
        let mut index = Filling::new(self.scale.usable, true);
        // As many as are needed to see how full pages get.
        (0..10_000).for_each(|_| index.add(key, 2));
        let index = index.end().pages(rows) * page;
        let now = self.vacuumed(at);
        let then = self.changed(at, false, |payload, before| (payload, before + 3)) + index;
        let saves = self.left.of(at, now - then);
        (now - then > 0.1 * self.bytes(at)).then(|| Finding {
            kind: "with_rowid",
            title: format!("table {} should have a rowid", printable(&tree.name)),
            detail: "Its rows are too long for a table WITHOUT ROWID: of those longer than a quarter of a page most is on \
                     overflow pages."
                .into(),
            saves_bytes: saves as i64,
            sql: self.rebuilt(&tree.name, table, false),
        })
    }

    /// Rows that are equal, but for the integer that is their key.
    fn rows_twice(
        &self,
        at: usize,
        tree: &Tree,
        sample: &TreeSample,
        table: &TableSchema,
    ) -> Option<Finding> {
        let mut rows = sample.rows.clone();
        rows.sort_unstable();
        let again = rows.windows(2).filter(|pair| pair[0] == pair[1]).count();
        let share = again as f64 / rows.len().max(1) as f64;
        if share < TWICE || rows.len() < 20 {
            return None;
        }
        let columns: Vec<usize> = (0..table.columns.len())
            .filter(|at| Some(*at) != table.rowid && table.columns[*at].hidden == 0)
            .collect();
        let but = match table.rowid {
            Some(at) => format!(" but for {}", printable(&table.columns[at].name)),
            None => String::new(),
        };
        let sql = in_sql(&tree.name).zip(list(table, &columns)).map(|(name, list)| {
            format!(
                "SELECT count(*), {list} FROM {name} GROUP BY {list} HAVING count(*) > 1 ORDER BY 1 DESC LIMIT 20;"
            )
        });
        Some(Finding {
            kind: "rows_twice",
            title: format!(
                "{:.0} % of the rows of {} stand in it before{but}",
                share * 100.0,
                printable(&tree.name)
            ),
            detail: "The statement shows them. Whether they may go only you can know. Of a sample this is the least it can \
                     be."
            .into(),
            saves_bytes: self.left.of(at, share * self.bytes(at)) as i64,
            sql,
        })
    }
}

fn keys(index: &Index) -> impl Iterator<Item = &IndexField> {
    index.fields.iter().filter(|field| field.is_key)
}

fn same(a: &[&IndexField], b: &[&IndexField]) -> bool {
    (a.iter().zip(b)).all(|(a, b)| {
        a.column == b.column
            && a.column.is_some()
            && a.descending == b.descending
            && a.collation.eq_ignore_ascii_case(&b.collation)
    })
}
