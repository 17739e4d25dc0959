//! Recompresses frames with the present dictionaries and level.
//!
//! Like maintenance it works in short steps that may be interrupted. Every row can be read at any time, because old
//! dictionaries stay until [`crate::unused`] finds no row that needs them.

use std::time::Instant;

use crate::batch::{BatchCompressor, Task};
use crate::column::{Column, Row, Which};
use crate::compress_pending::{Change, Limits, write};
use crate::dictionary::{Kept, NO_DICTIONARY};
use crate::frame::{Decompressor, Form};
use crate::group::{Decision, Groups, dictionary};
use crate::sampler::stored_len;
use crate::sql::{OwnedValue, Result, Sql};
use crate::state::State;
use crate::transaction::{Quiet, atomically};

/// So many bytes are held decoded, and the value that goes beyond it.
const PLAIN_MAX: usize = 32 << 20;

/// Reads the frames of a column.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    decompressor: Decompressor,
    dictionaries: Kept<i64>,
}

impl Frames {
    /// The content of a row: of its frame, or of the value if it is stored as it is.
    pub(crate) fn content<'a>(
        &'a mut self,
        db: &impl Sql,
        column: &Column,
        row: &'a Row,
    ) -> Result<Option<&'a [u8]>> {
        let (Some(id), OwnedValue::Blob(frame)) = (row.dictionary, &row.stored) else {
            return Ok(column.content(&row.stored));
        };
        if id != NO_DICTIONARY && self.dictionaries.get(&id).is_none() {
            self.dictionaries.add(id, &dictionary(db, id)?);
        }
        let dictionary = self.dictionaries.get(&id).map(|found| &**found);
        let plain =
            self.decompressor
                .decompress(frame, dictionary, Form::Compact, db.length_limit());
        plain
            .map(Some)
            .map_err(|error| error.context(format!("{}, dictionary {id}", column.name())))
    }
}

/// Recompresses the frames of a column, from where the last call stopped. True if it stopped at the time limit.
///
/// # Errors
/// SQLite's, and damage; what was done before stays done.
pub fn recompress(db: &impl Sql, table: &str, column: &str, limits: &Limits) -> Result<bool> {
    let column = Column::get(db, table, column)?;
    let _quiet = Quiet::new(db)?;
    let mut compressor = BatchCompressor::new(column.config.compression_level);
    let mut groups = Groups::default();
    let mut frames = Frames::default();
    let mut state = State::load(db, &column)?;
    loop {
        let after = state.recompressed();
        let rows = column.read(db, Which::Compressed, after.as_ref())?;
        let mut rest = &rows[..];
        loop {
            let plain = decode(db, &column, rest, &mut groups, &mut frames)?;
            let (done, later) = rest.split_at(plain.rows);
            rest = later;
            let changes = changes(&column, plain.found, &mut compressor)?;
            state.set_recompressed(done.last().map(|row| &row.key));
            let over = limits.over() || rows.is_empty();
            let started = Instant::now();
            if over || !changes.is_empty() {
                atomically(db, || write(db, &column, &changes, &state))?;
            }
            if over {
                return Ok(!rows.is_empty());
            }
            limits.pause(db, started.elapsed())?;
            if rest.is_empty() {
                break;
            }
        }
    }
}

/// A frame, what it holds and what becomes of it.
struct Plain<'a> {
    row: &'a Row,
    old: i64,
    content: Vec<u8>,
    decision: Decision,
}

/// The content of the first rows of a batch.
struct Decoded<'a> {
    rows: usize,
    found: Vec<Plain<'a>>,
}

/// Decodes as many rows as memory is for, at least one if there is one: a small frame may hold much.
fn decode<'a>(
    db: &impl Sql,
    column: &Column,
    rows: &'a [Row],
    groups: &mut Groups,
    frames: &mut Frames,
) -> Result<Decoded<'a>> {
    let (mut done, mut bytes, mut found) = (0, 0, Vec::new());
    for row in rows {
        if bytes > PLAIN_MAX {
            break;
        }
        done += 1;
        // Without a dictionary of today, or left alone today: it stays as it is.
        let decision = groups.decide(db, row.group.as_deref())?;
        let (Some(old), Some(decision)) = (row.dictionary, decision) else {
            continue;
        };
        if decision.marker().is_none() {
            continue;
        }
        if let Some(content) = frames.content(db, column, row)? {
            bytes += content.len();
            found.push(Plain {
                row,
                old,
                content: litepack_io::memory::copy(content)?,
                decision,
            });
        }
    }
    Ok(Decoded { rows: done, found })
}

/// The changes to write to rows.
fn changes<'a>(
    column: &Column,
    plain: Vec<Plain<'a>>,
    compressor: &mut BatchCompressor,
) -> Result<Vec<Change<'a>>> {
    let tasks: Vec<Task<'_>> = plain
        .iter()
        .map(|plain| Task {
            content: &plain.content,
            dictionary: plain.decision.dictionary(),
        })
        .collect();
    let new = compressor.compress(&tasks)?;
    drop(tasks);
    let changes = std::iter::zip(plain, new);
    Ok(changes
        .filter_map(|(plain, frame)| change(column, plain, frame))
        .collect())
}

fn change<'a>(column: &Column, plain: Plain<'a>, frame: Vec<u8>) -> Option<Change<'a>> {
    let id = plain.decision.marker()?;
    let before = plain.row.stored.as_value().bytes().map_or(0, <[u8]>::len);
    // With the same dictionary only what gets smaller is worth a write; with another one every row,
    // so that the old one can go.
    if id == plain.old && frame.len() >= before {
        return None;
    }
    let (stored, dictionary) = if stored_len(frame.len(), id) < plain.content.len() {
        (OwnedValue::Blob(frame), Some(id))
    } else {
        (column.value(plain.content), None)
    };
    Some(Change {
        row: plain.row,
        stored,
        dictionary,
    })
}
