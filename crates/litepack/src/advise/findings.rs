//! What else would make the database smaller or faster, with the SQL for it, which is never run: of the database, its
//! tables and indexes. `column_findings.rs` has the columns.

use std::collections::HashMap;

use litepack_btree::{Tree, TreeKind};
use serde::Serialize;

use super::account::Scale;
use super::modes::columns::Columns;
use super::modes::packed::Packed;
use super::rebuild::filled;
use super::sample::{Samples, TreeSample};
use super::schema::{Index, IndexField, Schema, Table};
use super::sql::{in_sql, list, rebuilt};
use crate::printable;

/// A finding has to save this share of the database, and this many bytes.
const SHARE: f64 = 0.01;
const BYTES: f64 = 16384.0;
/// What stands twice has to be this share of a column or table.
pub(super) const TWICE: f64 = 0.05;
/// Share of a column's values that have to be of the kind that a finding is about.
pub(super) const NEARLY_ALL: f64 = 0.95;
/// Indexes of a table that another one is compared with.
const INDEXES: usize = 1000;
/// No more findings are reported, those that save most first.
const MOST: usize = 100;

/// Something that would help.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// What it is, in one word.
    pub kind: &'static str,
    /// What is found.
    pub title: String,
    /// Why, and what to heed.
    pub detail: String,
    /// About the bytes of the plain database that it saves; below zero if it takes some.
    pub saves_bytes: i64,
    /// What to run; `None` if there is no such statement, or a name in it cannot be shown safely.
    pub sql: Option<String>,
}

/// What findings are made from.
pub(crate) struct Evidence<'a> {
    pub(crate) samples: &'a Samples,
    pub(crate) trees: &'a [Tree],
    pub(crate) schema: &'a Schema,
    pub(crate) scale: &'a Scale,
    pub(crate) columns: &'a Columns,
    pub(crate) packed: &'a Packed,
    /// The place of each index among the trees.
    pub(crate) places: HashMap<&'a str, usize>,
}

/// All findings, those that save most first.
pub(crate) fn all(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(evidence.free_pages());
    found.extend(evidence.identical_pages());
    for (at, tree) in evidence.trees.iter().enumerate() {
        let sample = &evidence.samples.trees[at];
        if tree.name.starts_with("sqlite_") && tree.kind == TreeKind::Table {
            continue;
        }
        match (tree.kind, evidence.schema.tables.get(&tree.name)) {
            // What a virtual table keeps in it is its own affair.
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
    let least = (SHARE * evidence.scale.size as f64).max(BYTES);
    found.retain(|finding| finding.saves_bytes < 0 || finding.saves_bytes as f64 >= least);
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

    /// Pages that nothing uses, and pages that are not full.
    fn free_pages(&self) -> Option<Finding> {
        let page = f64::from(self.scale.page_size);
        let free = self.samples.free as f64 * page;
        let saves = (self.scale.size as f64 - self.columns.vacuumed).max(free);
        if saves < 0.05 * self.scale.size as f64 {
            return None;
        }
        let keep = match self.schema.auto_vacuum {
            false => {
                " With PRAGMA auto_vacuum = INCREMENTAL before it, PRAGMA incremental_vacuum gives back later ones."
            }
            true => "",
        };
        Some(Finding {
            kind: "vacuum",
            title: match self.samples.free {
                0 => "pages that are not full".into(),
                free => format!("{free} free pages, and pages that are not full"),
            },
            detail: format!(
                "VACUUM writes the database anew, with room for all of it beside it, and nobody else can write it \
                 meanwhile. Rows of tables without an INTEGER PRIMARY KEY may get other rowids.{keep}"
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
            saves_bytes: (share * self.scale.size as f64) as i64,
            sql: None,
        })
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
                "Queries that use it can use {instead}. Statements that name it (INDEXED BY) have to be changed."
            ),
            saves_bytes: self.bytes(at) as i64,
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
        table: &Table,
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
        // Every other index has the key where it had the rowid.
        let rows = self.scale.rows(at);
        let index = &self.samples.trees[primary_at];
        let key: u64 = index.columns.iter().map(|column| column.bytes).sum();
        let key = key as f64 / index.cells.max(1) as f64;
        let others = self.schema.indexes_of(&tree.name).count() - 1;
        let rowids = sample.rowids as f64 * self.scale.of(at);
        let saves = self.bytes(primary_at) + rowids - rows * (key - 4.0).max(0.0) * others as f64;
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

    /// The SQL to make a table anew; `None` for one that has more than columns and a key, which would be lost.
    fn rebuilt(&self, name: &str, table: &Table, without_rowid: bool) -> Option<String> {
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
        table: &Table,
    ) -> Option<Finding> {
        if !table.without_rowid || sample.sizes.is_empty() {
            return None;
        }
        let usable = self.scale.usable;
        let rows = self.scale.rows(at);
        let as_table: Vec<(u64, u32)> = sample.sizes.iter().map(|(p, b)| (*p, b + 3)).collect();
        let keys = table.columns.iter().filter(|column| column.key > 0).count();
        let bytes: u64 = sample
            .columns
            .iter()
            .take(keys)
            .map(|column| column.bytes)
            .sum();
        let key = bytes / sample.cells.max(1) + 6 + keys as u64;
        let index = filled(&[(key, 2)], usable, true).pages(rows);
        let now = filled(&sample.sizes, usable, true).pages(rows);
        let then = filled(&as_table, usable, false).pages(rows) + index;
        let saves = (now - then) * f64::from(self.scale.page_size);
        (saves > 0.1 * self.bytes(at)).then(|| Finding {
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
        table: &Table,
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
            saves_bytes: (share * self.bytes(at)) as i64,
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
