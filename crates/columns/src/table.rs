//! A table as SQLite describes it, and which of its columns are compressed.
//!
//! A table with compressed columns is read through its backing table, but described as users see it.

use crate::config::Config;
use crate::head::Head;
use crate::sql::{Error, Result, Sql, Statement, Value};
use crate::stored::{self, NamedObject};
use crate::tokens::Text;
use litepack_btree::quote;

/// How a column is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// As SQLite does.
    Ordinary,
    /// Compressed, and decoded by a generated column.
    Compressed,
    /// Compressed by sqlite-zstd: decoded in the view, as text or as a blob.
    Foreign {
        /// Whether it is decoded as text.
        is_text: bool,
    },
}

/// A column as users see it.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    /// Its name.
    pub(crate) name: String,
    /// Its declared type; empty without one.
    pub(crate) declared: String,
    /// Its default, as SQL.
    pub(crate) default: Option<String>,
    /// Its collation, when one is declared.
    pub(crate) collation: Option<String>,
    /// Whether it is a generated column of the user's.
    pub(crate) generated: bool,
    /// How it is stored.
    pub(crate) storage: Storage,
}

/// A column of the primary key.
#[derive(Clone, Debug)]
pub(crate) struct KeyColumn {
    /// Its name.
    pub(crate) name: String,
    /// The collation of the key's index, if there is one.
    pub(crate) collation: Option<String>,
}

/// A table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// The name users know.
    pub(crate) name: String,
    /// The table that has the rows: [`backing`] of the name once a column is compressed.
    pub(crate) physical: String,
    /// The `CREATE TABLE` text of the physical table.
    pub(crate) sql: String,
    /// Columns users see, in order.
    pub(crate) columns: Vec<Column>,
    /// The primary key, in order.
    pub(crate) key: Vec<KeyColumn>,
    /// Whether a column of the key can be NULL (SQLite allows that for historical reasons).
    pub(crate) nullable_key: bool,
    /// A name for the rowid, where there is one that is not a column.
    pub(crate) rowid: Option<&'static str>,
    /// Whether types are enforced.
    pub(crate) strict: bool,
    /// The text of the view, once a column is compressed.
    pub(crate) view: String,
}

/// The backing table of a table.
pub(crate) fn backing(table: &str) -> String {
    format!("_{table}_zstd")
}

/// The table that a backing table belongs to, by its name.
pub(crate) fn fronting(backing: &str) -> Option<&str> {
    backing.strip_prefix('_')?.strip_suffix("_zstd")
}

/// The column that tells how a row's value of `column` is stored.
pub(crate) fn dict_column(column: &str) -> String {
    format!("_{column}_dict")
}

/// The generated column that decodes `column`.
pub(crate) fn plain_column(column: &str) -> String {
    format!("_{column}_plain")
}

/// Whether a declared type has TEXT affinity (`Some(true)`), BLOB affinity (`Some(false)`) or another.
pub(crate) fn affinity(declared: &str) -> Option<bool> {
    let declared = declared.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| declared.contains(word));
    if has(&["int"]) {
        None
    } else if has(&["char", "clob", "text"]) {
        Some(true)
    } else if has(&["blob"]) {
        Some(false)
    } else {
        None
    }
}

impl Table {
    /// Reads a table of the main database, by the name users know.
    ///
    /// # Errors
    /// Says why it is no table whose columns can be compressed.
    pub(crate) fn read(db: &impl Sql, name: &str) -> Result<Table> {
        let found = db.row(
            "select type, name, sql from main.sqlite_schema
             where type in ('table', 'view') and name = ?1 collate nocase",
            &[Value::from(name)],
            |row| {
                let text = |index| row.column(index).text().unwrap_or_default();
                Ok((text(0), text(1), text(2)))
            },
        )?;
        let Some((kind, name, sql)) = found else {
            return Err(Error::new(format!(
                "no such table in the main database: {name}; for an attached database, open it on its own"
            )));
        };
        if is_internal(db, &name)? {
            return Err(Error::new(format!(
                "{name} is an internal table; name the table it belongs to"
            )));
        }
        if kind == "table" {
            return Table::describe(db, &name, &name, sql, &[], "");
        }
        if configs(db, &name)?.is_empty() || !is_there(db, &backing(&name))? {
            return Err(Error::new(format!(
                "{name} is a view; compress columns of the tables it selects from"
            )));
        }
        Table::behind(db, &name, &sql)
    }

    /// Reads a table with compressed columns through its backing table, whether the view is there or
    /// not. `view` is its text; only that of sqlite-zstd matters.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn behind(db: &impl Sql, name: &str, view: &str) -> Result<Table> {
        let physical = backing(name);
        let sql = schema_text(db, "table", &physical)?;
        Table::describe(db, name, &physical, sql, &configs(db, name)?, view)
    }

    /// As [`Table::read`], for a table that must have compressed columns.
    ///
    /// # Errors
    /// Also when it has none.
    pub(crate) fn compressed(db: &impl Sql, name: &str) -> Result<Table> {
        let table = Table::read(db, name)?;
        if table.is_compressed() {
            Ok(table)
        } else {
            Err(Error::new(format!(
                "table {name} has no compressed columns; use ordinary SQL"
            )))
        }
    }

    fn describe(
        db: &impl Sql,
        name: &str,
        physical: &str,
        sql: String,
        configs: &[Config],
        view: &str,
    ) -> Result<Table> {
        if !Head::of(&sql).is_some_and(|head| head.is("table", physical)) {
            return Err(Error::new(if is_virtual(&sql) {
                format!(
                    "{physical} is a virtual table, whose rows are stored by its module; compress a column of an \
                     ordinary table"
                )
            } else {
                format!("{physical} is no table, by its text in the schema")
            }));
        }
        let text = Text::new(&sql);
        let mut rows = Vec::new();
        db.rows(
            &format!("pragma main.table_xinfo({})", quote(physical)),
            &[],
            |row| {
                rows.push((
                    row.column(1).text().unwrap_or_default(),
                    row.column(2).text().unwrap_or_default(),
                    row.column(3).integer() == Some(1),
                    row.column(4).text(),
                    row.column(5).integer().unwrap_or_default(),
                    row.column(6).integer().unwrap_or_default(),
                ));
                Ok(())
            },
        )?;
        let is_column = |wanted: &str| rows.iter().any(|row| row.0.eq_ignore_ascii_case(wanted));
        let is_helper = |wanted: &str| {
            configs.iter().any(|config| {
                [dict_column(&config.column), plain_column(&config.column)]
                    .iter()
                    .any(|helper| helper.eq_ignore_ascii_case(wanted))
            })
        };
        let (without_rowid, strict) = options(&text);
        let key_index = key_index(db, physical)?;
        let mut key: Vec<_> = rows.iter().filter(|row| row.4 > 0).collect();
        key.sort_by_key(|row| row.4);
        let nullable_key = !without_rowid && !key_index.is_empty() && key.iter().any(|row| !row.2);
        let key = key
            .iter()
            .map(|row| KeyColumn {
                name: row.0.clone(),
                collation: key_index
                    .iter()
                    .find(|(column, _)| *column == row.0)
                    .map(|(_, collation)| collation.clone()),
            })
            .collect();
        let rowid = ["rowid", "_rowid_", "oid"]
            .into_iter()
            .find(|name| !without_rowid && !is_column(name));
        let columns = rows
            .iter()
            .filter(|row| !is_helper(&row.0))
            .map(|row| Column {
                collation: collation(&text, &row.0),
                storage: if !configs
                    .iter()
                    .any(|c| c.column.eq_ignore_ascii_case(&row.0))
                {
                    Storage::Ordinary
                } else if is_column(&plain_column(&row.0)) {
                    Storage::Compressed
                } else {
                    Storage::Foreign {
                        is_text: decoded_as_text(view, &row.0)
                            .unwrap_or(affinity(&row.1) == Some(true)),
                    }
                },
                name: row.0.clone(),
                declared: row.1.clone(),
                default: row.3.clone(),
                generated: row.5 > 1,
            })
            .collect();
        Ok(Table {
            name: name.to_string(),
            physical: physical.to_string(),
            sql,
            columns,
            key,
            nullable_key,
            rowid,
            strict,
            view: view.to_string(),
        })
    }

    /// Whether a column is compressed, so that users see a view.
    pub(crate) fn is_compressed(&self) -> bool {
        self.name != self.physical
    }

    /// The column of this name.
    ///
    /// # Errors
    /// When there is none, with the names there are.
    pub(crate) fn column(&self, name: &str) -> Result<&Column> {
        self.columns
            .iter()
            .find(|column| column.name.eq_ignore_ascii_case(name))
            .ok_or_else(|| {
                let names: Vec<&str> = self.columns.iter().map(|c| c.name.as_str()).collect();
                Error::new(format!(
                    "table {} has no column {name}; its columns are {}",
                    self.name,
                    names.join(", ")
                ))
            })
    }

    /// The columns that are compressed.
    pub(crate) fn compressed_columns(&self) -> impl Iterator<Item = &Column> {
        self.columns
            .iter()
            .filter(|column| column.storage != Storage::Ordinary)
    }

    /// The columns a row can be given values for.
    pub(crate) fn writable(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| !column.generated)
    }

    /// Whether other tables, or this one, refer to it by foreign keys.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn is_referenced(&self, db: &impl Sql) -> Result<bool> {
        let mut tables = Vec::new();
        db.rows(
            "select name from main.sqlite_schema where type = 'table'",
            &[],
            |row| {
                tables.push(row.column(0).text().unwrap_or_default());
                Ok(())
            },
        )?;
        for table in tables {
            let mut found = false;
            db.rows(
                &format!("pragma main.foreign_key_list({})", quote(&table)),
                &[],
                |row| {
                    let parent = row.column(2).text().unwrap_or_default();
                    found |= parent.eq_ignore_ascii_case(&self.physical);
                    Ok(())
                },
            )?;
            if found {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The text of an object of the main database.
///
/// # Errors
/// SQLite's, or that it does not exist.
pub(crate) fn schema_text(db: &impl Sql, kind: &str, name: &str) -> Result<String> {
    db.row(
        "select sql from main.sqlite_schema where type = ?1 and name = ?2 collate nocase",
        &[Value::from(kind), Value::from(name)],
        |row| Ok(row.column(0).text().unwrap_or_default()),
    )?
    .ok_or_else(|| Error::new(format!("no such {kind}: {name}")))
}

/// The configurations of a table's columns.
fn configs(db: &impl Sql, table: &str) -> Result<Vec<Config>> {
    let all = Config::all(db)?.into_iter().map(|(_, config)| config);
    Ok(all
        .filter(|config| config.table.eq_ignore_ascii_case(table))
        .collect())
}

fn is_internal(db: &impl Sql, name: &str) -> Result<bool> {
    let lower = name.to_ascii_lowercase();
    if ["sqlite_", "_litepack_"]
        .iter()
        .any(|start| lower.starts_with(start))
        || ["_zstd_dicts", "_zstd_configs"].contains(&lower.as_str())
    {
        return Ok(true);
    }
    let configs = Config::all(db)?;
    Ok(configs
        .iter()
        .any(|(_, config)| backing(&config.table).eq_ignore_ascii_case(name)))
}

/// Whether a table is WITHOUT ROWID, and whether it is STRICT.
fn options(text: &Text) -> (bool, bool) {
    let Some((_, close)) = text.body() else {
        return (false, false);
    };
    let has = |word: &str| text.0.iter().skip(close).any(|token| token.is(word));
    (has("without"), has("strict"))
}

/// Columns and collations of the index of the primary key; none where the key is the rowid.
fn key_index(db: &impl Sql, table: &str) -> Result<Vec<(String, String)>> {
    let mut index = None;
    db.rows(
        &format!("pragma main.index_list({})", quote(table)),
        &[],
        |row| {
            if row.column(3).text().as_deref() == Some("pk") {
                index = row.column(1).text();
            }
            Ok(())
        },
    )?;
    let mut columns = Vec::new();
    if let Some(index) = index {
        db.rows(
            &format!("pragma main.index_xinfo({})", quote(&index)),
            &[],
            |row| {
                if row.column(5).integer() == Some(1) {
                    columns.push((
                        row.column(2).text().unwrap_or_default(),
                        row.column(4).text().unwrap_or_default(),
                    ));
                }
                Ok(())
            },
        )?;
    }
    Ok(columns)
}

/// The collation that a `CREATE TABLE` text declares for a column.
fn collation(text: &Text, column: &str) -> Option<String> {
    let (parts, _) = text.body()?;
    let part = parts
        .into_iter()
        .find(|part| text.token(part.start).names(column) && !text.is_constraint(part.start))?;
    let (mut depth, mut found) = (0, None);
    for index in part {
        let token = text.token(index);
        if token.is("(") {
            depth += 1;
        } else if token.is(")") {
            depth -= 1;
        } else if depth == 0 && token.is("collate") {
            found = text
                .solid(index + 1)
                .and_then(|name| text.token(name).name());
        }
    }
    found
}

/// The second argument of the call that decodes `column` in a view of sqlite-zstd's.
fn decoded_as_text(view: &str, column: &str) -> Option<bool> {
    let text = Text::new(view);
    (0..text.0.len()).find_map(|call| {
        if !text.token(call).is("zstd_decompress_col") {
            return None;
        }
        let (arguments, _) = text.list(text.keyword(call + 1, "(")?)?;
        let name = arguments.first()?.start;
        let is_text = arguments.get(1)?.start;
        text.token(name)
            .names(column)
            .then(|| text.token(is_text).text != "0")
    })
}

fn is_there(db: &impl Sql, table: &str) -> Result<bool> {
    Ok(stored::find(db, "main", table, &[])? != NamedObject::Nothing)
}

/// Whether a text creates a virtual table.
pub(crate) fn is_virtual(sql: &str) -> bool {
    let text = Text::new(sql);
    text.keyword(0, "create")
        .and_then(|create| text.keyword(create + 1, "virtual"))
        .is_some()
}
