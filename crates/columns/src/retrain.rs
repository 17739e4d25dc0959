//! New dictionaries for a column whose data has changed since it got the present ones.
//!
//! Rows are not changed: they still use the dictionaries they were compressed with, which lose their
//! chooser key but stay. New rows, and old ones when they are recompressed, use the new dictionaries.

use crate::column::{Column, Which};
use crate::dictionary::{NO_DICTIONARY_KEY, ensure_tables, save};
use crate::recompress::Frames;
use crate::sampler::{Sampler, Verdict};
use crate::sql::{Result, Sql, Statement, Value};
use crate::state::{State, note_dictionary};
use crate::transaction::{atomically, lock};

/// Trains a dictionary for every group of the column that is large enough, and returns how many.
///
/// # Errors
/// SQLite's, and damage; then nothing has changed.
pub fn retrain(db: &impl Sql, table: &str, column: &str) -> Result<usize> {
    let column = Column::get(db, table, column)?;
    let mut sampler = Sampler::new(&column.config);
    let mut frames = Frames::default();
    let mut position = None;
    loop {
        let rows = column.read(db, Which::All, position.as_ref())?;
        for row in &rows {
            let group = row.group.as_deref();
            if let Some(group) = group.filter(|group| *group != NO_DICTIONARY_KEY)
                && let Some(content) = frames.content(db, &column, row)?
            {
                sampler.add(group, content);
            }
        }
        match rows.into_iter().next_back() {
            Some(last) => position = Some(last.key),
            None => break,
        }
    }
    let mut trained = Vec::new();
    for verdict in sampler.verdicts() {
        if let (group, Verdict::Dictionary(bytes)) = verdict? {
            trained.push((group, bytes));
        }
    }
    if trained.is_empty() {
        return Ok(0);
    }
    atomically(db, || {
        lock(db)?;
        ensure_tables(db)?;
        let mut state = State::load(db, &column)?;
        // Rows left alone so far get another chance.
        state.restart();
        state.set_recompressed(None);
        state.save(db, &column)?;
        for (group, bytes) in &trained {
            replace(db, group, bytes)?;
        }
        Ok(trained.len())
    })
}

/// Makes `bytes` the dictionary of a group, and takes its present one out of use.
fn replace(db: &impl Sql, group: &str, bytes: &[u8]) -> Result<()> {
    let key = Value::from(group);
    let sql = "select id from main._zstd_dicts where chooser_key = ?1";
    let present = db.row(sql, &[key], |row| Ok(row.column(0).integer()))?;
    if let Some(Some(id)) = present {
        note_dictionary(db, id)?;
        let sql = "update main._zstd_dicts set chooser_key = null where id = ?1";
        db.run(sql, &[Value::Integer(id)])?;
    }
    let id = save(db, Some(group), bytes)?;
    note_dictionary(db, id)
}
