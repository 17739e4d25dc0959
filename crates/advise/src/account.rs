//! From a sample to the whole: what each table, index and column takes now, and what packing leaves of it.

use litepack_btree::{Tree, TreeKind};
use litepack_codec::Encoder;
use serde::Serialize;

use super::column::ColumnSample;
use super::kind::Kind;
use super::modes::packed::Packed;
use super::sample::{Samples, TreeSample};
use super::schema::Schema;

/// The share that packing leaves of integers and reals, and of headers, beside text, where nothing was tried.
const NUMBERS: f64 = 0.5;
const HEADERS: f64 = 0.05;
const STRINGS: f64 = 0.4;
/// Bytes of a column that are compressed to see what is left, and how many at once.
const TRIED: usize = 256 << 10;
const CHUNK: usize = 32 << 10;
/// Columns with a smaller share of the database are not tried.
const SHARE: f64 = 0.001;
/// A kind is named if it has this share of a column's bytes.
const MOSTLY: f64 = 0.8;

/// The bytes of a table or index.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TreeReport {
    /// `table` or `index`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// The table it belongs to.
    pub table: String,
    /// About how many rows it has.
    pub rows: u64,
    /// Bytes of all its pages.
    pub bytes: u64,
    /// About what packing leaves of them.
    pub packed_bytes: u64,
    /// Bytes that are not payload.
    pub overhead: Overhead,
    /// By column; of an index what it has of each.
    pub columns: Vec<ColumnReport>,
}

impl TreeReport {
    /// Says what it takes packed, of which each column keeps its share.
    pub(crate) fn pack_into(&mut self, bytes: u64) {
        for column in &mut self.columns {
            let share = u128::from(column.packed_bytes) * u128::from(bytes);
            let share = share / u128::from(self.packed_bytes.max(1));
            column.packed_bytes = u64::try_from(share).unwrap_or(bytes).min(bytes);
        }
        self.packed_bytes = bytes;
    }
}

/// Bytes of SQLite's own in a table or index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Overhead {
    /// Headers of leaves, and pointers to their cells.
    pub page_headers: u64,
    /// Headers of cells and records.
    pub row_headers: u64,
    /// Rowids that no column stands for.
    pub rowids: u64,
    /// Pages above the leaves.
    pub interior: u64,
    /// Unused bytes of leaves.
    pub unused: u64,
    /// Unused bytes of overflow pages, and their links.
    pub overflow: u64,
    /// Pages that were not read.
    pub unread: u64,
}

impl Overhead {
    /// All of it.
    pub fn sum(&self) -> u64 {
        self.parts().into_iter().map(|(_, bytes)| bytes).sum()
    }

    /// Each part, and its name for people.
    pub fn parts(&self) -> [(&'static str, u64); 7] {
        [
            ("page headers", self.page_headers),
            ("row headers", self.row_headers),
            ("rowids", self.rowids),
            ("interior pages", self.interior),
            ("unused", self.unused),
            ("overflow", self.overflow),
            ("not read", self.unread),
        ]
    }
}

/// The bytes of a column.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ColumnReport {
    /// Its name; `None` for an expression of an index.
    pub name: Option<String>,
    /// Bytes of its values.
    pub bytes: u64,
    /// About what packing leaves of them.
    pub packed_bytes: u64,
    /// The kind of most of its values; `None` if there is no such kind.
    pub kind: Option<Kind>,
    /// The share of its bytes that are of this kind.
    pub kind_share: f64,
    /// How many different texts or blobs there are, if they are few.
    pub distinct: Option<u64>,
    /// Of JSON: the share of its bytes that keys take.
    pub json_keys: Option<f64>,
    /// The share of rows in which it is NULL.
    pub nulls: f64,
}

/// How much more there is than was sampled.
#[derive(Debug)]
pub(crate) struct Scale {
    pub(crate) page_size: u32,
    pub(crate) usable: usize,
    /// Bytes of the database.
    pub(crate) size: u64,
    /// Pages that nothing leads to, at least.
    pub(crate) orphaned: f64,
    /// For each tree how many leaves there are for one that was read, its rows, and its overflow pages.
    trees: Vec<(f64, f64, f64)>,
}

impl Scale {
    /// For a database with such pages.
    pub(crate) fn new(samples: &Samples, header: &litepack_btree::Header) -> Scale {
        let mut trees: Vec<(f64, f64, f64)> = (samples.trees.iter())
            .map(|tree| {
                let factor = tree.leaves as f64 / tree.read.max(1) as f64;
                // Without rowids, rows are between the leaves as well, with overflow pages as others have, if it is not known.
                let between = match tree.rowids {
                    0 => tree.leaves.saturating_sub(1),
                    _ => 0,
                };
                let overflow = tree.overflow as f64 * factor;
                let each = tree.overflow as f64 / tree.cells.max(1) as f64;
                let rows = tree.cells as f64 * factor + between as f64;
                let those = tree
                    .between
                    .map_or(each * between as f64, |pages| pages as f64);
                (factor, rows, overflow + those)
            })
            .collect();
        // How many overflow pages there are in all is known: what no tree has above its leaves. Where more were found
        // than that, pages are missing or were read at another moment.
        let found: f64 = trees.iter().map(|(_, _, overflow)| overflow).sum();
        let there = samples.unknown as f64;
        let most = if samples.whole { 1.0 } else { 2.0 };
        let factor = (there / found.max(1.0)).clamp(0.0, most);
        // Of a sample there may be more of all. Where time has ended the reading, there is no telling what the rest leads to.
        let known = (samples.trees.iter())
            .all(|tree| tree.rowids > 0 || tree.overflow == 0 || tree.between.is_some());
        let orphaned = match samples.whole && known {
            true => there - found - 1.0,
            false if samples.ended => 0.0,
            false => there - 2.0 * found,
        };
        for (_, _, overflow) in &mut trees {
            *overflow *= factor;
        }
        Scale {
            page_size: header.page_size,
            usable: header.usable(),
            size: u64::from(header.pages) * u64::from(header.page_size),
            trees,
            orphaned: orphaned.max(0.0),
        }
    }

    /// How much of a tree there is for each that was sampled.
    pub(crate) fn of(&self, tree: usize) -> f64 {
        self.trees[tree].0
    }

    /// Rows of a tree.
    pub(crate) fn rows(&self, tree: usize) -> f64 {
        self.trees[tree].1
    }

    /// Overflow pages of a tree.
    pub(crate) fn overflow(&self, tree: usize) -> f64 {
        self.trees[tree].2
    }
}

/// The report on each tree, the largest first.
pub(crate) fn trees(
    samples: &Samples,
    trees: &[Tree],
    schema: &Schema,
    scale: &Scale,
    packed: &Packed,
) -> Vec<TreeReport> {
    let mut encoder = Encoder::with_columnar(litepack_store::DEFAULT_LEVEL, false);
    let mut reports: Vec<TreeReport> = (trees.iter().enumerate())
        .map(|(at, tree)| {
            let fields = names(tree, schema);
            let sample = &samples.trees[at];
            report(tree, at, sample, &fields, scale, packed, &mut encoder)
        })
        .collect();
    reports.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    reports
}

/// The names of the fields of a tree's records, and the column that is its rowid.
struct Fields {
    names: Vec<Option<String>>,
    rowid: Option<String>,
}

fn names(tree: &Tree, schema: &Schema) -> Fields {
    let mut fields = Fields {
        names: Vec::new(),
        rowid: None,
    };
    if tree.name == "sqlite_schema" {
        let names = ["type", "name", "tbl_name", "rootpage", "sql"];
        fields.names = names.map(|name| Some(name.to_owned())).to_vec();
        return fields;
    }
    let Some(table) = schema.tables.get(&tree.table) else {
        return fields;
    };
    let name = |at: usize| Some(table.columns[at].name.clone());
    match tree.kind {
        TreeKind::Table => {
            fields.names = table.fields.iter().map(|at| name(*at)).collect();
            fields.rowid = table.rowid.and_then(name);
        }
        TreeKind::Index => {
            let of = schema.indexes.get(&tree.name).map(|index| &index.fields);
            fields.names = (of.into_iter().flatten())
                .map(|field| match field.column {
                    Some(at) => name(at),
                    None if field.is_rowid => {
                        let alias = table.rowid.and_then(name);
                        Some(alias.unwrap_or_else(|| "rowid".to_owned()))
                    }
                    None => None,
                })
                .collect();
        }
    }
    fields
}

fn report(
    tree: &Tree,
    at: usize,
    sample: &TreeSample,
    fields: &Fields,
    scale: &Scale,
    packed: &Packed,
    encoder: &mut Encoder,
) -> TreeReport {
    let page = u64::from(scale.page_size);
    let overflow = scale.overflow(at);
    let below = sample.leaves * page + (overflow * page as f64) as u64;
    let bytes = below + sample.interior * page;
    let mut overhead = Overhead {
        interior: sample.interior * page,
        ..Overhead::default()
    };
    // All that was seen of leaves and overflow pages stands for all of these.
    let payload: u64 = sample.columns.iter().map(|column| column.bytes).sum();
    let seen = sample.page_headers
        + sample.cell_headers
        + sample.rowids
        + sample.unused
        + sample.overflow_slack
        + payload;
    let factor = below as f64 / seen.max(1) as f64;
    let whole = |part: u64| (part as f64 * factor) as u64;
    let mut columns = Vec::new();
    let mut weights = Vec::new();
    let mut add = |name: Option<String>, bytes: u64, column: Option<&ColumnSample>| {
        let least = bytes as f64 > SHARE * scale.size as f64;
        let ratio = match column {
            Some(column) if least => left(column, encoder),
            Some(column) if column.strings > 0 => STRINGS,
            _ => NUMBERS,
        };
        weights.push(bytes as f64 * ratio);
        columns.push(column_report(name, bytes, column));
    };
    if sample.read == 0 {
        overhead.unread = below;
    } else {
        overhead.page_headers = whole(sample.page_headers);
        overhead.row_headers = whole(sample.cell_headers);
        overhead.overflow = whole(sample.overflow_slack);
        match &fields.rowid {
            Some(name) => add(Some(name.clone()), whole(sample.rowids), None),
            None => overhead.rowids = whole(sample.rowids),
        }
        for (field, column) in sample.columns.iter().enumerate() {
            let name = fields.names.get(field).cloned().flatten();
            // The alias of the rowid is NULL in every record.
            if name.is_some() && name == fields.rowid && tree.kind == TreeKind::Table {
                continue;
            }
            add(name, whole(column.bytes), Some(column));
        }
        let payload: u64 = columns.iter().map(|column| column.bytes).sum();
        // The bytes left, and those lost by rounding.
        overhead.unused = bytes.saturating_sub(payload + overhead.sum());
    }
    let packed_bytes = (bytes as f64 * packed.trees[at]) as u64;
    let headers = overhead.sum() as f64 * HEADERS;
    let all = weights.iter().sum::<f64>() + headers;
    for (column, weight) in columns.iter_mut().zip(&weights) {
        column.packed_bytes = (packed_bytes as f64 * weight / all.max(1.0)) as u64;
    }
    columns.sort_by_key(|column| std::cmp::Reverse(column.bytes));
    TreeReport {
        kind: match tree.kind {
            TreeKind::Table => "table",
            TreeKind::Index => "index",
        },
        name: tree.name.clone(),
        table: tree.table.clone(),
        rows: scale.rows(at) as u64,
        bytes,
        packed_bytes,
        overhead,
        columns,
    }
}

fn column_report(name: Option<String>, bytes: u64, column: Option<&ColumnSample>) -> ColumnReport {
    let Some(column) = column else {
        // A rowid.
        return ColumnReport {
            name,
            bytes,
            packed_bytes: 0,
            kind: Some(Kind::Integers),
            kind_share: 1.0,
            distinct: None,
            json_keys: None,
            nulls: 0.0,
        };
    };
    let kind = column.kind().filter(|(_, share)| *share >= MOSTLY);
    let round = |share: f64| (share * 1000.0).round() / 1000.0;
    ColumnReport {
        name,
        bytes,
        packed_bytes: 0,
        kind: kind.map(|(kind, _)| kind),
        kind_share: kind.map_or(0.0, |(_, share)| round(share)),
        distinct: column.few(),
        json_keys: (column.json.texts > 0 && kind.is_some_and(|(kind, _)| kind == Kind::Json))
            .then(|| round(column.json.share())),
        nulls: round(column.nulls as f64 / column.values.max(1) as f64),
    }
}

/// The share of a column's bytes that compressing many values together leaves.
fn left(column: &ColumnSample, encoder: &mut Encoder) -> f64 {
    if column.kept.values.is_empty() {
        return if column.strings > 0 { STRINGS } else { NUMBERS };
    }
    let (mut before, mut chunk, mut stored) = (0, Vec::new(), Vec::new());
    for value in &column.kept.values {
        chunk.extend_from_slice(value);
        if chunk.len() >= CHUNK {
            before += chunk.len();
            if encoder.encode(&chunk, None, &mut stored).is_err() {
                return STRINGS;
            }
            chunk.clear();
        }
        if before >= TRIED {
            break;
        }
    }
    if before == 0 {
        before = chunk.len();
        if encoder.encode(&chunk, None, &mut stored).is_err() {
            return STRINGS;
        }
    }
    (stored.len() as f64 / before.max(1) as f64).min(1.0)
}
