//! Compresses again what is compressed already: with the dictionaries and the level of today.
//!
//! As maintenance does it, in short steps that may be interrupted; every row can be read at each
//! moment, because old dictionaries stay until [`crate::unused`] finds no row that needs them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use litepack_codec::Dictionary;

use crate::column::{Column, Row, Which};
use crate::crew::{Crew, Task};
use crate::dictionary::NO_DICTIONARY;
use crate::frame::{Decompressor, Form};
use crate::group::{Decision, Groups, dictionary};
use crate::maintain::{Change, Limits, write};
use crate::sql::{OwnedValue, Result, Sql};
use crate::state::State;
use crate::survey::stored_len;
use crate::transaction::{Quiet, atomically};

/// Reads the frames of a column.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    decompressor: Decompressor,
    dictionaries: HashMap<i64, Arc<Dictionary>>,
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
        if id != NO_DICTIONARY && !self.dictionaries.contains_key(&id) {
            self.dictionaries.insert(id, dictionary(db, id)?);
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

/// Compresses the frames of a column again, from where the last call stopped. True if the time was
/// over first.
///
/// # Errors
/// SQLite's, and damage; what was done before stays done.
pub fn recompress(db: &impl Sql, table: &str, column: &str, limits: &Limits) -> Result<bool> {
    let column = Column::get(db, table, column)?;
    let _quiet = Quiet::new(db)?;
    let mut crew = Crew::new(column.config.compression_level);
    let mut groups = Groups::default();
    let mut frames = Frames::default();
    let mut state = State::load(db, &column)?;
    loop {
        let after = state.recompressed();
        let rows = column.read(db, Which::Compressed, after.as_ref())?;
        state.set_recompressed(rows.last().map(|row| &row.key));
        let changes = changes(db, &column, &rows, &mut crew, &mut groups, &mut frames)?;
        let over = limits.over() || rows.is_empty();
        let started = Instant::now();
        if over || !changes.is_empty() {
            atomically(db, || write(db, &column, &changes, &state))?;
        }
        if over {
            return Ok(!rows.is_empty());
        }
        limits.pause(db, started.elapsed())?;
    }
}

/// A frame, what it holds and what becomes of it.
struct Plain<'a> {
    row: &'a Row,
    old: i64,
    content: Vec<u8>,
    decision: Decision,
}

/// What is to be written of a batch.
fn changes<'a>(
    db: &impl Sql,
    column: &Column,
    rows: &'a [Row],
    crew: &mut Crew,
    groups: &mut Groups,
    frames: &mut Frames,
) -> Result<Vec<Change<'a>>> {
    let mut plain = Vec::new();
    for row in rows {
        // Without a dictionary of today, or left alone today: it stays as it is.
        let decision = groups.decide(db, row.group.as_deref())?;
        let (Some(old), Some(decision)) = (row.dictionary, decision) else {
            continue;
        };
        if decision.marker().is_none() {
            continue;
        }
        if let Some(content) = frames.content(db, column, row)? {
            plain.push(Plain {
                row,
                old,
                content: content.to_vec(),
                decision,
            });
        }
    }
    let tasks: Vec<Task<'_>> = plain
        .iter()
        .map(|plain| Task {
            content: &plain.content,
            dictionary: plain.decision.dictionary(),
        })
        .collect();
    let new = crew.compress(&tasks)?;
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
