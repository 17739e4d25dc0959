//! The reasons why a column cannot be compressed, and what to do instead; checked before anything is changed.

use crate::chooser::objection;
use crate::config::Config;
use crate::sql::{Error, Result, Sql, Statement, Value};
use crate::table::{Column, Storage, Table, affinity, backing, dict_column, plain_column};
use crate::view::trigger_name;
use litepack_btree::quote;

/// How many rows a chooser is tried on.
const TRIED: usize = 1000;

/// Checks that a column of a table can be compressed.
///
/// # Errors
/// The reason why not.
pub(crate) fn column(db: &impl Sql, table: &Table, column: &Column) -> Result<()> {
    let (name, of) = (&column.name, &table.name);
    let refuse = |why: String| Err(Error::new(format!("column {name} of table {of} {why}")));
    if column.storage != Storage::Ordinary {
        return refuse(
            "is already compressed; litepack_configure_column changes its configuration".into(),
        );
    }
    if column.generated {
        return refuse("is a generated column; compress the columns it is made from".into());
    }
    if table.key.is_empty() {
        return Err(Error::new(format!(
            "table {of} has no primary key, by which its rows could be found through a view; \
             create it anew with one, such as id integer primary key"
        )));
    }
    if table.key.iter().any(|key| key.name == *name) {
        return refuse("is part of the primary key, which has to stay plain".into());
    }
    if table.strict && !["blob", "any"].contains(&column.declared.to_ascii_lowercase().as_str()) {
        return refuse(format!(
            "is {} in a STRICT table, which allows no compressed value in it; declare it BLOB or ANY",
            column.declared
        ));
    }
    if is_unique(db, table, name)? {
        return refuse(
            "is part of a UNIQUE constraint, which would compare compressed values; \
             use CREATE UNIQUE INDEX instead of the constraint"
                .into(),
        );
    }
    if let Some(child) = foreign_key(db, table, name)? {
        return refuse(format!(
            "is part of a foreign key of table {child}, which would compare compressed values; \
             leave it plain, or remove the foreign key"
        ));
    }
    names(db, table, column)
}

/// Checks that the chooser is an expression over the table, without side effects, that gives text or NULL.
///
/// # Errors
/// An error that says what is wrong with the chooser.
pub(crate) fn chooser(db: &impl Sql, table: &Table, config: &Config) -> Result<()> {
    let chooser = &config.dict_chooser;
    let refuse = |why: &str| {
        Err(Error::new(format!(
            "dict_chooser {chooser} is not a SQL expression over the columns of table {}: {why}; \
             use 'a', quotes included, for one dictionary, or '[nodict]' for none",
            table.name
        )))
    };
    if let Some(why) = objection(db, chooser)? {
        return refuse(&why);
    }
    let physical = quote(&table.physical);
    // Aggregates are no expression of a row: WHERE does not take them.
    let prepared = db.prepare(&format!(
        "select 1 from main.{physical} where (\n{chooser}\n) is null"
    ));
    if let Err(error) = prepared {
        return refuse(&error.message);
    }
    let found = db.row(
        &format!(
            "select typeof(chosen) from (select (\n{chooser}\n) as chosen from main.{physical} limit {TRIED})
             where typeof(chosen) not in ('text', 'null')"
        ),
        &[],
        |row| Ok(row.column(0).text().unwrap_or_default()),
    );
    match found {
        Ok(None) => Ok(()),
        Ok(Some(kind)) => refuse(&format!(
            "it gives {kind} where text or NULL is needed, cast(... as text) makes text of it"
        )),
        Err(error) => refuse(&error.message),
    }
}

/// Whether a column's values are decoded as text: by its declared type, or by most values there are.
///
/// # Errors
/// SQLite's.
pub(crate) fn is_text(db: &impl Sql, table: &Table, column: &Column) -> Result<bool> {
    if let Some(is_text) = affinity(&column.declared) {
        return Ok(is_text);
    }
    let name = quote(&column.name);
    let counts = db.row(
        &format!(
            "select sum(typeof(x) = 'text'), sum(typeof(x) = 'blob')
             from (select {name} as x from main.{} where {name} is not null limit 10000)",
            quote(&table.physical)
        ),
        &[],
        |row| {
            let count = |index| row.column(index).integer().unwrap_or_default();
            Ok((count(0), count(1)))
        },
    )?;
    let (texts, blobs) = counts.unwrap_or_default();
    if texts == blobs {
        return Ok(column.declared.to_ascii_lowercase().contains("json"));
    }
    Ok(texts > blobs)
}

fn is_unique(db: &impl Sql, table: &Table, column: &str) -> Result<bool> {
    let mut indexes = Vec::new();
    db.rows(
        &format!("pragma main.index_list({})", quote(&table.physical)),
        &[],
        |row| {
            if row.column(3).text().as_deref() == Some("u") {
                indexes.push(row.column(1).text().unwrap_or_default());
            }
            Ok(())
        },
    )?;
    let mut found = false;
    for index in indexes {
        db.rows(
            &format!("pragma main.index_info({})", quote(&index)),
            &[],
            |row| {
                found |= row.column(2).text().as_deref() == Some(column);
                Ok(())
            },
        )?;
    }
    Ok(found)
}

/// The table that declares a foreign key with this column, on either side.
fn foreign_key(db: &impl Sql, table: &Table, column: &str) -> Result<Option<String>> {
    let mut children = Vec::new();
    db.rows(
        "select name from main.sqlite_schema where type = 'table'",
        &[],
        |row| {
            children.push(row.column(0).text().unwrap_or_default());
            Ok(())
        },
    )?;
    for child in children {
        let own = child == table.physical;
        let mut found = false;
        db.rows(
            &format!("pragma main.foreign_key_list({})", quote(&child)),
            &[],
            |row| {
                let is = |index, name: &str| {
                    let text = row.column(index).text().unwrap_or_default();
                    text.eq_ignore_ascii_case(name)
                };
                found |= own && is(3, column) || is(2, &table.physical) && is(4, column);
                Ok(())
            },
        )?;
        if found {
            return Ok(Some(child));
        }
    }
    Ok(None)
}

/// Names that will be needed must be free.
fn names(db: &impl Sql, table: &Table, column: &Column) -> Result<()> {
    let taken = |name: &str| {
        Err(Error::new(format!(
            "the name {name} is taken, and needed to compress column {} of table {}; rename what has it",
            column.name, table.name
        )))
    };
    for helper in [dict_column(&column.name), plain_column(&column.name)] {
        if table
            .columns
            .iter()
            .any(|c| c.name.eq_ignore_ascii_case(&helper))
        {
            return taken(&helper);
        }
    }
    if table.is_compressed() {
        return Ok(());
    }
    let mut needed = vec![backing(&table.name), crate::enable::rebuilt(&table.name)];
    needed.extend(["insert", "update", "delete"].map(|event| trigger_name(&table.name, event)));
    for name in needed {
        let found = db.row(
            "select 1 from main.sqlite_schema where name = ?1 collate nocase",
            &[Value::from(name.as_str())],
            |_| Ok(()),
        )?;
        if found.is_some() {
            return taken(&name);
        }
    }
    Ok(())
}
