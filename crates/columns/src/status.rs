//! The rows of `litepack_columns()`: each compressed column, how much of it is compressed, and why the rest is not.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use crate::column::Column;
use crate::dictionary::{NO_DICTIONARY, NO_DICTIONARY_KEY};
use crate::group::{Decision, Groups};
use crate::sql::{Result, Sql, Statement, Value};
use crate::state::{Rows, State};
use litepack_btree::quote;

/// A JSON array with an object for each compressed column of the main database.
///
/// # Errors
/// SQLite's, and damage.
pub fn status(db: &impl Sql) -> Result<Json> {
    let columns = Column::all(db)?;
    let told: Result<Vec<Json>> = columns.iter().map(|column| tell(db, column)).collect();
    told.map(Json::Array)
}

/// Rows that have something in common.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    rows: i64,
    plain: i64,
    stored: i64,
}

impl std::ops::AddAssign for Sum {
    fn add_assign(&mut self, other: Sum) {
        self.rows += other.rows;
        self.plain += other.plain;
        self.stored += other.stored;
    }
}

fn tell(db: &impl Sql, column: &Column) -> Result<Json> {
    let (mut compressed, mut raw) = (Sum::default(), Sum::default());
    let mut dictionaries = Vec::new();
    let mut groups = Groups::default();
    for (id, sum) in frames(db, column)? {
        compressed += sum;
        if id != NO_DICTIONARY {
            dictionaries.push(dictionary(db, id, sum.rows)?);
        }
    }
    let state = State::load(db, column)?;
    let seen = state.complete && state.left == Rows::not_compressed(db, column)?;
    let mut reasons: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    not_compressed(db, column, |group, kind, sum| {
        raw += sum;
        let why = why(db, column, &state, seen, &mut groups, group, kind)?;
        let reason = reasons.entry(why).or_default();
        reason.0 += sum.rows;
        reason.1 += sum.plain;
        Ok(())
    })?;
    let reasons: Vec<Json> = reasons
        .into_iter()
        .map(|(why, (rows, bytes))| json!({"why": why, "rows": rows, "bytes": bytes}))
        .collect();
    let config = &column.config;
    Ok(json!({
        "table": config.table,
        "column": config.column,
        "type": if column.is_text { "text" } else { "blob" },
        "compression_level": config.compression_level,
        "dict_chooser": config.dict_chooser,
        "rows": compressed.rows + raw.rows,
        "rows_compressed": compressed.rows,
        "rows_not_compressed": raw.rows,
        "bytes_before": compressed.plain + raw.plain,
        "bytes_after": compressed.stored + raw.plain,
        "not_compressed": reasons,
        "dictionaries": dictionaries,
        "maintenance_due": !seen,
    }))
}

/// Frames by dictionary.
fn frames(db: &impl Sql, column: &Column) -> Result<Vec<(i64, Sum)>> {
    let marker = column.marker();
    // The limit keeps the lengths from being taken after sorting, with all values in the sorter.
    let sql = format!(
        "select id, count(*), sum(plain), sum(stored) from (select {marker} as id, \
         length(cast({} as blob)) as plain, length({}) as stored from {} \
         where +{marker} is not null limit -1) group by 1",
        column.plain(),
        quote(&column.config.column),
        column.backing()
    );
    let mut found = Vec::new();
    db.rows(&sql, &[], |row| {
        let number = |index| row.column(index).integer().unwrap_or_default();
        let sum = Sum {
            rows: number(1),
            plain: number(2),
            stored: number(3),
        };
        found.push((number(0), sum));
        Ok(())
    })?;
    Ok(found)
}

/// Calls `each` for the values stored as they are, by group and type.
fn not_compressed(
    db: &impl Sql,
    column: &Column,
    mut each: impl FnMut(Option<String>, &str, Sum) -> Result<()>,
) -> Result<()> {
    let sql = column.sum_raw();
    db.rows(&sql, &[], |row| {
        let number = |index| row.column(index).integer().unwrap_or_default();
        let sum = Sum {
            rows: number(2),
            plain: number(3),
            stored: number(3),
        };
        let kind = row.column(1).text().unwrap_or_default();
        each(row.column(0).text(), &kind, sum)
    })
}

/// Why rows of a group and a type are not compressed.
fn why(
    db: &impl Sql,
    column: &Column,
    state: &State,
    seen: bool,
    groups: &mut Groups,
    group: Option<String>,
    kind: &str,
) -> Result<String> {
    let expected = if column.is_text { "text" } else { "blob" };
    if kind == "null" {
        return Ok("NULL".into());
    }
    if kind != expected {
        return Ok(format!(
            "{kind} values in a column of {expected} stay as they are"
        ));
    }
    let Some(group) = group else {
        return Ok("dict_chooser gives NULL".into());
    };
    if let Some(left) = state.groups.get(&group) {
        return Ok(format!("group '{group}' is {}", left.why));
    }
    if !seen {
        return Ok("waiting for maintenance".into());
    }
    let has_dictionary = group == NO_DICTIONARY_KEY
        || matches!(groups.decide(db, Some(&group))?, Some(Decision::With(..)));
    Ok(if has_dictionary {
        "would not get smaller".into()
    } else {
        "there are too many groups: let dict_chooser make fewer".into()
    })
}

fn dictionary(db: &impl Sql, id: i64, rows: i64) -> Result<Json> {
    let sql = "select chooser_key, length(dict) from main._zstd_dicts where id = ?1";
    let found = db.row(sql, &[Value::Integer(id)], |row| {
        let bytes = row.column(1).integer();
        Ok(json!({"id": id, "group": row.column(0).text(), "bytes": bytes, "rows": rows}))
    })?;
    Ok(found.unwrap_or_else(|| json!({"id": id, "missing": true, "rows": rows})))
}
