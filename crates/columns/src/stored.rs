//! The reads of a database that its user did not ask for by name: stored columns of ordinary tables.
//!
//! A view, a virtual table or a generated column computes what it gives, in words of the one who made the
//! file. Dictionaries are read while a query runs, in which such words could call for a dictionary
//! again, and so on until the stack is used up.

use crate::head::Head;
use crate::sql::{Error, Result, Sql, Statement, Value};
use litepack_btree::quote;

/// The tables that compression keeps in a database, with the columns it uses of them.
const HELPERS: [(&str, &[&str]); 5] = [
    ("_zstd_dicts", &["id", "chooser_key", "dict"]),
    ("_zstd_configs", &["id", "config"]),
    (
        "_litepack_objects",
        &["table_name", "type", "name", "original", "made"],
    ),
    ("_litepack_maintenance", &["config", "state"]),
    ("_litepack_dictionaries", &["id"]),
];

/// The object that a name stands for in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedObject {
    /// Nothing.
    Nothing,
    /// An ordinary table that has all columns asked for, each of them stored.
    Table,
    /// Anything else.
    Other,
}

/// The kind of object that `table` is in the database `schema`.
///
/// # Errors
/// SQLite's.
pub(crate) fn find(
    db: &impl Sql,
    schema: &str,
    table: &str,
    columns: &[&str],
) -> Result<NamedObject> {
    find_then(db, schema, table, columns, Ok)
}

/// The same; until `then` is done, no other connection can make anything else of it.
///
/// # Errors
/// SQLite's, and those of `then`.
pub(crate) fn find_then<T>(
    db: &impl Sql,
    schema: &str,
    table: &str,
    columns: &[&str],
    then: impl FnOnce(NamedObject) -> Result<T>,
) -> Result<T> {
    // The text is what SQLite knows the table by; what else the row says may be untrue.
    let sql = format!(
        "select sql from {}.sqlite_schema where name = ?1 collate nocase and type in ('table', 'view')",
        quote(schema)
    );
    let mut statement = db.prepare(&sql)?;
    statement.bind(1, Value::from(table))?;
    if !statement.step()? {
        return then(NamedObject::Nothing);
    }
    let text = statement.column(0).text().unwrap_or_default();
    // The statement stays where it is meanwhile, and with it the lock on what was read.
    let is_ordinary = Head::of(&text).is_some_and(|head| head.is("table", table))
        && has_stored(db, schema, table, columns)?;
    then(if is_ordinary {
        NamedObject::Table
    } else {
        NamedObject::Other
    })
}

/// Whether an ordinary table has all these columns, each of them stored.
fn has_stored(db: &impl Sql, schema: &str, table: &str, columns: &[&str]) -> Result<bool> {
    let mut stored: Vec<String> = Vec::new();
    let pragma = format!("pragma {}.table_xinfo({})", quote(schema), quote(table));
    db.rows(&pragma, &[], |row| {
        if row.column(6).integer() == Some(0) {
            stored.extend(row.column(1).text());
        }
        Ok(())
    })?;
    let is_stored = |name: &&str| stored.iter().any(|known| known.eq_ignore_ascii_case(name));
    Ok(columns.iter().all(is_stored))
}

/// Whether the main database has this table of ours.
///
/// # Errors
/// That something else has its name, and SQLite's.
pub(crate) fn has_helper(db: &impl Sql, table: &str) -> Result<bool> {
    let columns = HELPERS.iter().find(|(name, _)| *name == table);
    let columns = columns.map_or(&[][..], |(_, columns)| columns);
    match find(db, "main", table, columns)? {
        NamedObject::Nothing => Ok(false),
        NamedObject::Table => Ok(true),
        NamedObject::Other => Err(not_ordinary(table, columns)),
    }
}

/// Checks that every table of ours that there is in the main database is a table.
///
/// # Errors
/// That one is not, and SQLite's.
pub(crate) fn expect_helpers(db: &impl Sql) -> Result<()> {
    HELPERS
        .iter()
        .try_for_each(|(table, _)| has_helper(db, table).map(|_| ()))
}

/// Checks that the main database has an ordinary table with these stored columns.
///
/// # Errors
/// That it has not, and SQLite's.
pub(crate) fn expect(db: &impl Sql, table: &str, columns: &[&str]) -> Result<()> {
    match find(db, "main", table, columns)? {
        NamedObject::Table => Ok(()),
        _ => Err(not_ordinary(table, columns)),
    }
}

fn not_ordinary(table: &str, columns: &[&str]) -> Error {
    Error::corrupt(format!(
        "{table} is not an ordinary table with the stored columns {}: this file may have been made to deceive, \
         or someone changed its schema by hand",
        columns.join(", ")
    ))
}
