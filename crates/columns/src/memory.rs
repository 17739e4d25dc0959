//! The texts kept for undo: those that the table, its indexes and triggers had before a column was compressed, beside
//! those that were made of them.
//!
//! If a text is still as it was made, the original is restored byte for byte. If someone changed it since, and in a
//! database that sqlite-zstd wrote, the original is derived from the present text.

use crate::change::{Object, objects};
use crate::head;
use crate::sql::{Result, Sql, Statement, Value};
use crate::stored::has_helper;
use crate::table::{Table, backing, dict_column, plain_column};
use crate::tokens::Text;
use crate::triggers::named;
use crate::view;
use litepack_btree::quote;

const CREATE: &str = "create table if not exists main._litepack_objects(
    table_name text not null collate nocase,
    type text not null,
    name text not null,
    original text not null,
    made text not null,
    primary key(table_name, type, name)
)";

/// An object of a table: as it is, and as it was before compression.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    /// As it is.
    pub(crate) object: Object,
    /// The text it had, or would have, in a table without compressed columns.
    pub(crate) original: String,
}

/// The table, its indexes, its triggers, and the triggers of others that were changed for it.
///
/// # Errors
/// That a text is not that of the object it is kept for, and SQLite's.
pub(crate) fn recall(db: &impl Sql, table: &Table) -> Result<Vec<Remembered>> {
    let columns: Vec<&str> = table
        .compressed_columns()
        .map(|c| c.name.as_str())
        .collect();
    let mut texts = Vec::new();
    if has_helper(db, "_litepack_objects")? {
        db.rows(
            "select type, name, original, made from main._litepack_objects where table_name = ?1",
            &[Value::from(table.name.as_str())],
            |row| {
                let text = |index| row.column(index).text().unwrap_or_default();
                texts.push((text(0), text(1), text(2), text(3)));
                Ok(())
            },
        )?;
    }
    let mut all = Vec::new();
    for object in objects(db, &["table", "index", "trigger"])? {
        // Nothing is kept of a temporary object: that is the connection's own, and has more rights.
        let known = texts.iter().find(|(kind, name, ..)| {
            object.schema == "main" && *kind == object.kind && *name == object.name
        });
        let own = object.table.eq_ignore_ascii_case(&table.physical);
        if !own && known.is_none() || is_helper(table, &object) {
            continue;
        }
        let original = match known {
            Some((_, _, original, made)) if *made == object.sql => {
                let name = match object.kind.as_str() {
                    "table" => &table.name,
                    _ => &object.name,
                };
                let mut tables = vec![table.name.as_str()];
                if !own {
                    tables.push(&object.table);
                }
                head::expect(original, &object.kind, name, &tables).map_err(|error| {
                    error.context("a row of _litepack_objects, which can be deleted there")
                })?;
                original.clone()
            }
            _ => plain_text(&object.kind, &object.sql, Some(&table.name), &columns),
        };
        all.push(Remembered { object, original });
    }
    Ok(all)
}

/// Keeps these originals of objects that now have other texts.
///
/// # Errors
/// SQLite's.
pub(crate) fn remember(db: &impl Sql, table: &str, all: &[Remembered]) -> Result<()> {
    forget(db, table)?;
    db.run(CREATE, &[])?;
    let now = objects(db, &["table", "index", "trigger"])?;
    for Remembered { object, original } in all {
        let name = match object.kind.as_str() {
            "table" => backing(table),
            _ => object.name.clone(),
        };
        let made = now
            .iter()
            .find(|now| now.schema == "main" && now.kind == object.kind && now.name == name);
        let Some(made) = made else { continue };
        db.run(
            "insert into main._litepack_objects values(?1, ?2, ?3, ?4, ?5)",
            &[
                Value::from(table),
                Value::from(object.kind.as_str()),
                Value::from(name.as_str()),
                Value::from(original.as_str()),
                Value::from(made.sql.as_str()),
            ],
        )?;
    }
    Ok(())
}

/// Drops the texts of a table.
///
/// # Errors
/// SQLite's.
pub(crate) fn forget(db: &impl Sql, table: &str) -> Result<()> {
    if has_helper(db, "_litepack_objects")? {
        db.run(
            "delete from main._litepack_objects where table_name = ?1",
            &[Value::from(table)],
        )?;
    }
    Ok(())
}

/// The index that finds the rows to compress, the view and its triggers.
pub(crate) fn is_helper(table: &Table, object: &Object) -> bool {
    match object.kind.as_str() {
        "index" => {
            let text = Text::new(&object.sql);
            let first = text
                .on()
                .and_then(|on| text.keyword(on + 1, "("))
                .and_then(|open| text.solid(open + 1));
            first.is_some_and(|first| {
                table
                    .compressed_columns()
                    .any(|column| text.token(first).names(&dict_column(&column.name)))
            })
        }
        _ => view::is_own(table, object),
    }
}

/// The text of an object of a backing table without the compression of `columns`; for the table
/// `table` if that is given.
pub(crate) fn plain_text(kind: &str, sql: &str, table: Option<&str>, columns: &[&str]) -> String {
    let mut text = Text::new(sql);
    if kind == "table" {
        for column in columns {
            remove_part(&mut text, &dict_column(column));
            remove_part(&mut text, &plain_column(column));
        }
    }
    for at in 0..text.0.len() {
        if let Some(column) = columns
            .iter()
            .find(|c| text.token(at).names(&plain_column(c)))
        {
            text.replace(at, quote(column));
        } else if let Some(table) = table.filter(|table| text.token(at).names(&backing(table))) {
            text.replace(at, quote(table));
        }
    }
    let mut sql = text.to_string();
    for column in columns {
        sql = sql
            .replace(&format!(", {} = null", quote(&dict_column(column))), "")
            .replace(&named(column), "1");
    }
    sql
}

/// Removes a column, and the comma before it, from a `CREATE TABLE`.
fn remove_part(text: &mut Text, column: &str) {
    let Some((parts, _)) = text.body() else {
        return;
    };
    let part = parts
        .into_iter()
        .skip(1)
        .find(|part| text.token(part.start).names(column));
    if let Some(part) = part
        && let Some(comma) = text.before(part.start)
    {
        text.remove(comma..part.end);
    }
}
