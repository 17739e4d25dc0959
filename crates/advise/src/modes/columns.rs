//! The size with compressed columns: values are compressed with a dictionary trained on others, as `litepack columns`
//! does it, and the rows that result are put into pages.

use std::sync::Arc;
use std::time::Instant;

use litepack_btree::{Tree, TreeKind};
use litepack_codec::{Dictionary, Encoder, Samples as Training};
use litepack_database::Result;
use litepack_database::bytes::reader;
use litepack_database::error::Context;
use litepack_io::interrupt::{self, Halt};
use litepack_io::parallel::parallel;
use litepack_io::random::SplitMix64;
use serde::Serialize;

use super::Predicted;
use crate::account::Scale;
use crate::column::ColumnSample;
use crate::rebuild::{changed, vacuumed};
use crate::sample::{Samples, TreeSample};
use crate::schema::{Schema, TableSchema};

const CANNOT_COMPRESS: &str = "cannot compress a sample";

/// As the defaults of `litepack columns enable` are: the level, and the size of a dictionary.
const LEVEL: i32 = 19;
const RATIO: f64 = 0.01;
const LARGEST: f64 = (256 << 10) as f64;
const SMALLEST: f64 = 5000.0;
/// Sample for each byte of dictionary.
const TRAINED: usize = 16;
/// Bytes that are compressed to measure.
const TRIAL: usize = 128 << 10;
/// Bytes that compression adds to a row: the id of the dictionary and its serial type.
const ROW: f64 = 5.0;
/// Pages of the tables that go with compressed columns, and of their indexes.
const PAGES: f64 = 14.0;
/// Columns that are tried, the largest first.
const TRIED: usize = 6;
/// A column has to save this share of the file.
const WORTHWHILE: f64 = 0.02;
/// The possible error of the rules, as a share.
const UNSURE: f64 = 0.04;

/// A column that is worth compressing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Compressible {
    /// The table.
    pub table: String,
    /// The column.
    pub column: String,
    /// About the bytes that its values take now.
    pub bytes: u64,
    /// About what they would take, without what is added to each row.
    pub compressed_bytes: u64,
}

/// The result of compressing columns.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    /// `None` if no column is worth it.
    pub(crate) size: Option<Predicted>,
    pub(crate) chosen: Vec<Compressible>,
    /// Why a large column was not tried.
    pub(crate) refused: Option<String>,
    /// The size after VACUUM alone.
    pub(crate) vacuumed: f64,
}

/// A column that was tried.
struct Trial {
    tree: usize,
    field: usize,
    ratio: f64,
    dictionary: f64,
    bytes: f64,
}

/// Predicts the size.
pub(crate) fn predict(
    samples: &Samples,
    trees: &[Tree],
    schema: &Schema,
    scale: &Scale,
    deadline: Instant,
) -> Result<Columns> {
    let page = f64::from(scale.page_size);
    let now: Vec<f64> = (0..trees.len())
        .map(|tree| vacuumed(&samples.trees[tree], scale.rows(tree), scale.overflow(tree)))
        .collect();
    let pages: f64 = now.iter().sum();
    let mut columns = Columns {
        // Less than there is now, or else VACUUM does nothing.
        vacuumed: ((pages + samples.pointer_maps as f64) * page).min(scale.size as f64),
        ..Columns::default()
    };
    let mut tried = Vec::new();
    let mut candidates = candidates(samples, trees, schema, scale, &mut columns.refused);
    candidates.sort_by(|a, b| b.2.total_cmp(&a.2));
    candidates.truncate(TRIED);
    let mut began = false;
    for together in candidates.chunks(reader::threads()) {
        if began && Instant::now() > deadline {
            break;
        }
        began = true;
        let results = parallel(together, |(tree, field, bytes)| {
            compressed(&samples.trees[*tree].columns[*field], *bytes)
        });
        for ((tree, field, bytes), result) in together.iter().zip(results) {
            let Some((ratio, dictionary)) = result? else {
                continue;
            };
            let saved = bytes * (1.0 - ratio) - scale.rows(*tree) * ROW - dictionary;
            if saved > WORTHWHILE * scale.size as f64 {
                tried.push(Trial {
                    tree: *tree,
                    field: *field,
                    ratio,
                    dictionary,
                    bytes: *bytes,
                });
            }
        }
    }
    if tried.is_empty() {
        return Ok(columns);
    }
    let mut size = columns.vacuumed + PAGES * page;
    for (tree, now) in now.iter().enumerate() {
        let of: Vec<&Trial> = tried.iter().filter(|trial| trial.tree == tree).collect();
        if of.is_empty() {
            continue;
        }
        let sample = &samples.trees[tree];
        let is_index = is_index(&trees[tree], schema);
        let smaller = smaller(sample, &of);
        let then = changed(
            sample,
            *now,
            scale.rows(tree),
            scale.usable,
            is_index,
            smaller,
        );
        size += (then - now) * page;
        size += of.iter().map(|trial| trial.dictionary).sum::<f64>();
    }
    columns.chosen = (tried.iter())
        .map(|trial| {
            let (table, column) = name(&trees[trial.tree], schema, trial.field);
            Compressible {
                table,
                column,
                bytes: trial.bytes as u64,
                compressed_bytes: (trial.bytes * trial.ratio) as u64,
            }
        })
        .collect();
    let unsure = if samples.whole { UNSURE } else { 2.0 * UNSURE };
    columns.size = Some(Predicted::new(size, 0.0, unsure));
    Ok(columns)
}

/// The size of a row with some columns compressed, as if each row had the same share in them.
fn smaller(tree: &TreeSample, trials: &[&Trial]) -> impl Fn(u64, u32) -> (u64, u32) {
    let all: u64 = tree.columns.iter().map(|column| column.bytes).sum();
    let share: f64 = (trials.iter())
        .map(|trial| {
            let bytes = tree.columns[trial.field].string_bytes as f64;
            bytes / all.max(1) as f64 * (1.0 - trial.ratio)
        })
        .sum();
    // The bytes added, less a byte of the serial type of a value that becomes short.
    let short = |len: f64| len < 58.0;
    let more: f64 = (trials.iter())
        .map(|trial| {
            let mean = tree.columns[trial.field].mean();
            ROW - f64::from(u8::from(short(mean * trial.ratio) && !short(mean)))
        })
        .sum();
    let payload: u64 = tree.sizes.iter().map(|(payload, _)| payload).sum();
    let body = all as f64 / tree.cells.max(1) as f64;
    let mean = payload as f64 / tree.sizes.len().max(1) as f64;
    // The header of the record stays.
    let header = (mean - body).max(0.0);
    let most = 5 * trials.len() as u64;
    move |payload, before| {
        let body = (payload as f64 - header).max(0.0);
        let left = header + body * (1.0 - share) + more;
        let payload = (left.round() as u64).min(payload + most);
        let short = u32::from(payload < 128);
        (payload, before.min(before.saturating_sub(short)).max(2))
    }
}

/// The share that compression leaves of a column's bytes, and the bytes of its dictionary; `None` if it would have
/// none.
fn compressed(column: &ColumnSample, bytes: f64) -> Result<Option<(f64, f64)>> {
    let len = (bytes * RATIO).min(LARGEST);
    let kept = &column.kept.values;
    if len < SMALLEST || kept.len() < 16 {
        return Ok(None);
    }
    // All over the column, as much as the dictionary needs. One value in eight is kept back to measure.
    let wanted = len as usize * TRAINED;
    let every = (column.kept.bytes / wanted.max(1)).max(1);
    let (held_out, rest): (Vec<_>, Vec<_>) =
        kept.iter().enumerate().partition(|(at, _)| at % 8 == 0);
    let mut training: Vec<&[u8]> = (rest.into_iter().enumerate())
        .filter(|(at, _)| at % every == 0)
        .map(|(_, (_, value))| &**value)
        .collect();
    let held_out: Vec<&[u8]> = held_out.into_iter().map(|(_, value)| &**value).collect();
    // Maintenance samples at random; zstd trains on the first of them, and tries it on the last.
    let mut random = SplitMix64::new(0);
    for at in (1..training.len()).rev() {
        training.swap(at, random.below(at as u64 + 1) as usize);
    }
    let Some(dictionary) = trained(&training, len as usize)
        .map_err(litepack_store::Error::from)
        .context(CANNOT_COMPRESS)?
    else {
        return Ok(None);
    };
    // The values that a dictionary is trained on get smaller by it than others do, and they are many.
    let trained = (len * TRAINED as f64 / bytes).min(0.875);
    let own = left(&training, &dictionary, TRIAL / 2)?;
    let others = left(&held_out, &dictionary, TRIAL)?;
    let ratio = own * trained + others * (1.0 - trained);
    Ok((ratio < 1.0).then_some((ratio, dictionary.bytes().len() as f64)))
}

fn trained(values: &[&[u8]], len: usize) -> std::result::Result<Option<Dictionary>, Halt> {
    let mut training = Training::default();
    for value in values {
        training.push(value)?;
    }
    Arc::new(training).train(len)
}

/// The share of values, of about so many bytes from all over them, that compression leaves.
fn left(values: &[&[u8]], dictionary: &Dictionary, about: usize) -> Result<f64> {
    let bytes: usize = values.iter().map(|value| value.len()).sum();
    let step = bytes.div_ceil(about).max(1);
    let some: Vec<&[u8]> = values.iter().copied().step_by(step).collect();
    let before: usize = some.iter().map(|value| value.len()).sum();
    Ok(encoded(&some, dictionary)? as f64 / before.max(1) as f64)
}

fn encoded(values: &[&[u8]], dictionary: &Dictionary) -> Result<usize> {
    let (mut encoder, mut out) = (Encoder::with_columnar(LEVEL, false), Vec::new());
    for value in values {
        let encoded = encoder.encode(value, Some(dictionary), &mut out);
        (encoded.map_err(Halt::from))
            .and_then(|_| Ok(interrupt::check()?))
            .map_err(litepack_store::Error::from)
            .context(CANNOT_COMPRESS)?;
    }
    Ok(out.len())
}

/// Tree, field and bytes of the columns that could be compressed.
fn candidates(
    samples: &Samples,
    trees: &[Tree],
    schema: &Schema,
    scale: &Scale,
    refused: &mut Option<String>,
) -> Vec<(usize, usize, f64)> {
    let mut found = Vec::new();
    for (at, tree) in trees.iter().enumerate() {
        let Some(table) = schema.tables.get(&tree.name) else {
            continue;
        };
        if tree.kind != TreeKind::Table || tree.name.starts_with("sqlite_") {
            continue;
        }
        for (field, column) in samples.trees[at].columns.iter().enumerate() {
            let bytes = column.string_bytes as f64 * scale.of(at);
            if bytes * RATIO < SMALLEST || bytes < 2.0 * WORTHWHILE * scale.size as f64 {
                continue;
            }
            match objection(table, schema, &tree.name, field) {
                None => found.push((at, field, bytes)),
                Some(why) => {
                    let (table, column) = name(tree, schema, field);
                    let (table, column) = (
                        litepack_database::printable(&table),
                        litepack_database::printable(&column),
                    );
                    refused.get_or_insert(format!("column {column} of table {table} {why}"));
                }
            }
        }
    }
    found
}

/// Why a column cannot be compressed, as `litepack columns enable` says it.
fn objection(
    table: &TableSchema,
    schema: &Schema,
    name: &str,
    field: usize,
) -> Option<&'static str> {
    let at = *table.fields.get(field)?;
    let column = &table.columns[at];
    let key = (name.to_lowercase(), column.name.to_lowercase());
    let unique = (schema.indexes_of(name))
        .filter(|(_, index)| index.origin == "u")
        .any(|(_, index)| {
            let mut keys = index.fields.iter().filter(|field| field.is_key);
            keys.any(|field| field.column == Some(at))
        });
    let strict =
        table.strict && !["blob", "any"].contains(&column.declared.to_ascii_lowercase().as_str());
    if !table.has_key() {
        Some("cannot be compressed, as the table has no primary key")
    } else if column.key > 0 {
        Some("is part of the primary key, which has to stay plain")
    } else if column.hidden != 0 {
        Some("is a generated column")
    } else if strict {
        Some("is in a STRICT table, which allows no compressed value in it")
    } else if unique {
        Some("is part of a UNIQUE constraint")
    } else if schema.foreign.contains(&key) {
        Some("is part of a foreign key")
    } else {
        None
    }
}

fn name(tree: &Tree, schema: &Schema, field: usize) -> (String, String) {
    let column = schema.tables.get(&tree.name).and_then(|table| {
        let at = *table.fields.get(field)?;
        Some(table.columns[at].name.clone())
    });
    (tree.name.clone(), column.unwrap_or_default())
}

/// Whether its pages are those of an index: indexes, and tables WITHOUT ROWID.
pub(crate) fn is_index(tree: &Tree, schema: &Schema) -> bool {
    let table = schema.tables.get(&tree.name);
    tree.kind == TreeKind::Index || table.is_some_and(|table| table.without_rowid)
}
