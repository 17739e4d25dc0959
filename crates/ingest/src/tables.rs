//! The tables of a database of logs: created if there are none, and refused if they are not exactly ours. SQL of a
//! stranger's schema never runs: tables with triggers or computed columns are refused.

use std::collections::HashSet;

use litepack_btree::quote;
use litepack_database::Result;
use litepack_database::error::{Context, refuse};
use litepack_database::files::schema::{self, ColumnSchema};
use litepack_database::files::source::distrust;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension};

use super::row::Columns;

const BOOKS: [(&str, &str); 2] = [
    (
        "litepack_sources",
        "CREATE TABLE litepack_sources(id INTEGER PRIMARY KEY, path TEXT, format TEXT, header BLOB, device INTEGER, \
         inode INTEGER, head BLOB, offset INTEGER, before BLOB, lines INTEGER, unparsed INTEGER, read_at TEXT)",
    ),
    (
        "litepack_unparsed",
        "CREATE TABLE litepack_unparsed(id INTEGER PRIMARY KEY, source_id INTEGER, offset INTEGER, length INTEGER, \
         line, why TEXT, read_at TEXT)",
    ),
];

/// The columns of the table of lines, as far as it exists, after all tables were found to be ours or free.
pub(super) fn existing(connection: &Connection, table: &str) -> Result<Vec<String>> {
    distrust(connection).context("cannot open the database")?;
    for off in [
        DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER,
        DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW,
    ] {
        connection
            .set_db_config(off, false)
            .context("cannot open the database")?;
    }
    let mut found = 0;
    for (name, sql) in BOOKS {
        match object(connection, name)? {
            None => {}
            Some((kind, text)) if kind == "table" && text == sql => found += 1,
            Some(_) => refuse!(
                "the database has something named {name} that `litepack ingest` did not make"
            ),
        }
    }
    let names = [table, BOOKS[0].0, BOOKS[1].0];
    for name in names {
        let sql = "select name from main.sqlite_schema where type = 'trigger' and lower(tbl_name) = lower(?1)";
        let trigger: Option<String> = connection
            .query_row(sql, [name], |row| row.get(0))
            .optional()
            .context("cannot read the schema")?;
        if let Some(trigger) = trigger {
            refuse!(
                "the table {name} has a trigger, {}; drop it first",
                litepack_database::printable(&trigger)
            );
        }
    }
    let Some((kind, sql)) = object(connection, table)? else {
        return Ok(Vec::new());
    };
    let columns = schema::columns(connection, "main", table).context("cannot read the schema")?;
    let plain = |c: &ColumnSchema| c.hidden == 0 && c.key == 0 && !c.has_default && !c.not_null;
    let ours = found == BOOKS.len()
        && kind == "table"
        && sql.eq_ignore_ascii_case(&created(table, columns.iter().map(|column| &column.name)))
        && columns.iter().all(plain)
        && !has_unique_index(connection, table).context("cannot read the schema")?;
    if !ours || columns.len() < 3 {
        refuse!(
            "the database has a table {table} that `litepack ingest` did not make; name another with --table"
        );
    }
    Ok(columns.into_iter().map(|column| column.name).collect())
}

/// The statement that made a table of ours, as SQLite keeps it: columns that were added stand behind the others.
/// A table with a type, a constraint or a check has another one.
fn created<'a>(table: &str, columns: impl Iterator<Item = &'a String>) -> String {
    let list: Vec<String> = columns.map(|name| quote(name)).collect();
    format!("CREATE TABLE {}({})", quote(table), list.join(", "))
}

/// A row that breaks it would be refused, or replace another.
fn has_unique_index(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    let sql = "select exists (select 1 from pragma_index_list(?1, 'main') where \"unique\")";
    connection.query_row(sql, [table], |row| row.get(0))
}

fn object(connection: &Connection, name: &str) -> Result<Option<(String, String)>> {
    let sql =
        "select type, coalesce(sql, '') from main.sqlite_schema where lower(name) = lower(?1)";
    let found = connection.query_row(sql, [name], |row| Ok((row.get(0)?, row.get(1)?)));
    found.optional().context("cannot read the schema")
}

/// Creates what is missing of tables and columns.
pub(super) fn create(
    connection: &Connection,
    table: &str,
    columns: &mut Columns,
) -> rusqlite::Result<()> {
    let name = quote(table);
    let names = columns.names();
    if columns.missing().len() == names.len() {
        for (book, sql) in BOOKS {
            let sql = sql.replacen("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1);
            connection.execute_batch(&sql)?;
            debug_assert!(sql.contains(book));
        }
        let list: Vec<String> = names.iter().map(|name| quote(name)).collect();
        connection.execute_batch(&format!("create table main.{name}({})", list.join(", ")))?;
    } else {
        // Another program may have added some of them.
        let known = schema::columns(connection, "main", table)?.into_iter();
        let known: HashSet<String> = known
            .map(|column| column.name.to_ascii_lowercase())
            .collect();
        for column in columns.missing() {
            if known.contains(&column.to_ascii_lowercase()) {
                continue;
            }
            let column = quote(column);
            connection.execute_batch(&format!("alter table main.{name} add column {column}"))?;
        }
    }
    columns.set_created(columns.names().len());
    Ok(())
}

/// The statement that stores a row, with a parameter for each column.
pub(super) fn insert(table: &str, columns: &Columns) -> String {
    let names: Vec<String> = columns.names().iter().map(|name| quote(name)).collect();
    let parameters: Vec<String> = (1..=names.len()).map(|n| format!("?{n}")).collect();
    format!(
        "insert into main.{}({}) values ({})",
        quote(table),
        names.join(", "),
        parameters.join(", ")
    )
}
