//! The content of a database, as one number for each attached database.
//!
//! Two databases with the same schema text and the same rows have the same content, in whatever
//! order the rows are stored; a changed value, row or schema entry changes it.

use std::hash::{DefaultHasher, Hash, Hasher};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

/// One number for each of the databases asked about.
pub type Content = Vec<u64>;

/// The content of the databases `schemas` ("main", "aux") of a connection.
pub fn content_of(db: &Connection, schemas: &[&str]) -> rusqlite::Result<Content> {
    schemas.iter().map(|schema| database(db, schema)).collect()
}

fn database(db: &Connection, schema: &str) -> rusqlite::Result<u64> {
    let entries = format!(
        "SELECT type, name, tbl_name, sql FROM {schema}.sqlite_schema \
         WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    );
    let mut sum = rows(db, &entries)?;
    let tables = format!(
        "SELECT name FROM {schema}.sqlite_schema \
         WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
    );
    let mut statement = db.prepare(&tables)?;
    let names: Vec<String> = statement
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for name in names {
        let all = format!("SELECT * FROM {schema}.\"{}\"", name.replace('"', "\"\""));
        let mut hasher = DefaultHasher::new();
        (name, rows(db, &all)?).hash(&mut hasher);
        sum = sum.wrapping_add(hasher.finish());
    }
    Ok(sum)
}

fn rows(db: &Connection, sql: &str) -> rusqlite::Result<u64> {
    let mut statement = db.prepare(sql)?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    let mut sum = 0u64;
    while let Some(row) = rows.next()? {
        sum = sum.wrapping_add(hash_row(row, columns)?);
    }
    Ok(sum)
}

fn hash_row(row: &Row<'_>, columns: usize) -> rusqlite::Result<u64> {
    let mut hasher = DefaultHasher::new();
    for column in 0..columns {
        match row.get_ref(column)? {
            ValueRef::Null => 0u8.hash(&mut hasher),
            ValueRef::Integer(value) => (1u8, value).hash(&mut hasher),
            ValueRef::Real(value) => (2u8, value.to_bits()).hash(&mut hasher),
            ValueRef::Text(value) => (3u8, value).hash(&mut hasher),
            ValueRef::Blob(value) => (4u8, value).hash(&mut hasher),
        }
    }
    Ok(hasher.finish())
}
