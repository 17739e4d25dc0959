//! The catalog itself: a plain SQLite database that other programs can query, and its content in memory.
//!
//! docs/reference/command.md lists its tables. It is written whole, beside its name, and then gets it.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::Duration;

use litepack_database::error::{Context, refuse};
use litepack_database::files::bound::Bound;
use litepack_database::files::origin::connect;
use litepack_database::files::replacement::Replacement;
use litepack_database::files::rights::Rights;
use litepack_database::{Error, Job, Result};
use rusqlite::types::Value;
use rusqlite::{Connection, params};

/// `LPct`, by which a catalog is told from other databases.
const APPLICATION_ID: i64 = 0x4c50_6374;
/// Reading one takes no longer.
const TIME: Duration = Duration::from_secs(3600);
/// Of the tables below.
const VERSION: i64 = 1;

const SCHEMA: &str = "
    CREATE TABLE chosen(name TEXT PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE files(
        id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, identity TEXT NOT NULL, size INTEGER NOT NULL,
        format TEXT, page_size INTEGER, encoding TEXT, schema_hash TEXT, error TEXT);
    CREATE TABLE tables(
        file INTEGER NOT NULL REFERENCES files, name TEXT NOT NULL, rows INTEGER NOT NULL,
        PRIMARY KEY(name, file)) WITHOUT ROWID;
    CREATE TABLE columns(
        file INTEGER NOT NULL REFERENCES files, \"table\" TEXT NOT NULL, name TEXT NOT NULL,
        least, greatest, nulls INTEGER NOT NULL, PRIMARY KEY(\"table\", name, file)) WITHOUT ROWID;";

/// A catalog.
#[derive(Default)]
pub(super) struct Book {
    chosen: Vec<String>,
    files: BTreeMap<String, File>,
}

/// A file in a catalog.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct File {
    /// Relative to the catalog if it is below, else absolute; or a URL.
    pub(super) path: String,
    pub(super) identity: String,
    pub(super) size: u64,
    /// Its content, or why that is not known.
    pub(super) content: std::result::Result<FileSummary, String>,
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FileSummary {
    pub(super) format: String,
    pub(super) page_size: i64,
    pub(super) encoding: String,
    pub(super) schema_hash: String,
    pub(super) tables: Vec<TableSummary>,
    /// Objects in the file and not here, and why. Said when the file is read, and not kept.
    pub(super) left_out: Vec<String>,
}

/// A table of a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TableSummary {
    pub(super) name: String,
    pub(super) rows: i64,
    pub(super) columns: Vec<ColumnSummary>,
}

/// Between which values a column is; NULL is not known.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ColumnSummary {
    pub(super) name: String,
    pub(super) least: Value,
    pub(super) greatest: Value,
    pub(super) nulls: i64,
}

impl FileSummary {
    /// Whether it has a column that is written `TABLE.COLUMN`.
    pub(super) fn has(&self, full: &str) -> bool {
        let is_it = |table: &TableSummary, column: &ColumnSummary| {
            format!("{}.{}", table.name, column.name).eq_ignore_ascii_case(full)
        };
        let mut tables = self.tables.iter();
        tables.any(|table| table.columns.iter().any(|column| is_it(table, column)))
    }
}

impl Book {
    pub(super) fn of(files: Vec<File>, mut chosen: Vec<String>) -> Book {
        chosen.sort_unstable();
        chosen.dedup();
        let by_path = |file: File| (file.path.clone(), file);
        Book {
            chosen,
            files: files.into_iter().map(by_path).collect(),
        }
    }

    /// The entry of a file of this version, if the same columns were looked at. One that could not be read is read
    /// again: another program may have locked it.
    pub(super) fn known(&self, path: &str, identity: &str, chosen: &[String]) -> Option<&File> {
        let file = self.files.get(path)?;
        let is_same = file.identity == identity && file.content.is_ok();
        let had = chosen.iter().all(|name| self.chosen.contains(name));
        (is_same && had && self.chosen.iter().all(|name| chosen.contains(name))).then_some(file)
    }

    /// How many of its files are not among these.
    pub(super) fn without(&self, files: &[File]) -> usize {
        let now: HashSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let gone = self
            .files
            .keys()
            .filter(|path| !now.contains(path.as_str()));
        gone.count()
    }

    /// The catalog in a file; an empty one if there is no file.
    ///
    /// # Errors
    /// A file that is no catalog, or one of a later version.
    pub(super) fn read(path: &Path) -> Result<Book> {
        let name = path.display();
        if litepack_database::files::object::url(path)?.is_some() {
            refuse!("a catalog is written to a file; upload it when it is there");
        }
        if path.symlink_metadata().is_err() {
            return Ok(Book::default());
        }
        if !path.is_file() {
            refuse!("{name} is not an ordinary file");
        }
        let absolute = super::absolute(path)?;
        let uri = format!(
            "{}?mode=ro",
            litepack_database::names::uri::of_path(&absolute)
        );
        let number = |connection: &Connection, pragma: &str| {
            connection.query_row(&format!("PRAGMA main.{pragma}"), [], |row| {
                row.get::<_, i64>(0)
            })
        };
        let len = path.metadata().map_or(0, |found| found.len());
        let opened = connect(&uri).and_then(|mut connection| {
            let bound = Bound::of(&mut connection, len, TIME)?;
            let id = number(&connection, "application_id")?;
            Ok((
                number(&connection, "user_version")?,
                id,
                (connection, bound),
            ))
        });
        match opened {
            Ok((VERSION, APPLICATION_ID, (connection, bound))) => {
                let anew = "delete this catalog, and it is made anew";
                let found = has_own_tables(&connection).and_then(|has| match has {
                    true => read(&connection).map(Some),
                    false => Ok(None),
                });
                match bound.told(found) {
                    Ok(Some(book)) => Ok(book),
                    Ok(None) => refuse!("{name} has other tables than a catalog; {anew}"),
                    Err(error) => {
                        let error = Error::of_sqlite(path, error).in_one_line();
                        refuse!("{error}; {anew}")
                    }
                }
            }
            Ok((version, APPLICATION_ID, _)) => refuse!(
                "{name} is a catalog of version {version}, and this Litepack knows version {VERSION}; \
                 take another name, or a newer Litepack"
            ),
            _ => refuse!("{name} exists and is not a catalog; take another name"),
        }
    }

    /// Puts the catalog in place of a file. A new one gets the permissions of `like`: it says of the files what is in
    /// them.
    pub(super) fn write(&self, path: &Path, like: Option<Rights>, job: &Job<'_>) -> Result<()> {
        let replacement = Replacement::of(path, Path::new(""), true, job)?;
        let own = Rights::of(replacement.file());
        let own = own.with_context(|| format!("cannot write {}", path.display()))?;
        let like = Rights::at(path).or(like).unwrap_or(own);
        if let Some(beside) = replacement.beside_path() {
            let written = Connection::open(beside).and_then(|connection| self.fill(connection));
            written.with_context(|| format!("cannot write {}", path.display()))?;
        }
        job.check()?;
        replacement.publish(&like, job)
    }

    fn fill(&self, mut connection: Connection) -> rusqlite::Result<()> {
        // It has no name yet, and is synced before it gets one.
        connection.execute_batch(&format!(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
            PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};"
        ))?;
        let transaction = connection.transaction()?;
        transaction.execute_batch(SCHEMA)?;
        for name in &self.chosen {
            transaction.execute("INSERT INTO chosen VALUES(?1)", [name])?;
        }
        for (number, file) in self.files.values().enumerate() {
            insert(&transaction, number as i64, file)?;
        }
        transaction.commit()?;
        connection.close().map_err(|(_, error)| error)
    }
}

fn insert(connection: &Connection, id: i64, file: &File) -> rusqlite::Result<()> {
    let content = file.content.as_ref().ok();
    let mut insert =
        connection.prepare_cached("INSERT INTO files VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9)")?;
    insert.execute(params![
        id,
        file.path,
        file.identity,
        i64::try_from(file.size).unwrap_or(i64::MAX),
        content.map(|content| &content.format),
        content.map(|content| content.page_size),
        content.map(|content| &content.encoding),
        content.map(|content| &content.schema_hash),
        file.content.as_ref().err(),
    ])?;
    for table in content.iter().flat_map(|content| &content.tables) {
        let mut insert = connection.prepare_cached("INSERT INTO tables VALUES(?1,?2,?3)")?;
        insert.execute(params![id, table.name, table.rows])?;
        let mut insert =
            connection.prepare_cached("INSERT INTO columns VALUES(?1,?2,?3,?4,?5,?6)")?;
        for column in &table.columns {
            let ColumnSummary {
                name,
                least,
                greatest,
                nulls,
            } = column;
            insert.execute(params![id, table.name, name, least, greatest, nulls])?;
        }
    }
    Ok(())
}

/// Whether the tables are those of [`SCHEMA`]. Under their names there may be views, which run SQL of a stranger's
/// choice.
fn has_own_tables(connection: &Connection) -> rusqlite::Result<bool> {
    let tables = |connection: &Connection| -> rusqlite::Result<HashSet<String>> {
        let sql = "SELECT sql FROM main.sqlite_schema WHERE sql IS NOT NULL";
        let mut statement = connection.prepare(sql)?;
        let found = statement.query_map([], |row| row.get(0))?;
        found.collect()
    };
    let own = Connection::open_in_memory()?;
    own.execute_batch(SCHEMA)?;
    Ok(tables(connection)?.is_superset(&tables(&own)?))
}

fn read(connection: &Connection) -> rusqlite::Result<Book> {
    let mut columns: BTreeMap<(i64, String), Vec<ColumnSummary>> = BTreeMap::new();
    each(
        connection,
        "SELECT file, \"table\", name, least, greatest, nulls FROM columns",
        |row| {
            columns
                .entry((row.get(0)?, row.get(1)?))
                .or_default()
                .push(ColumnSummary {
                    name: row.get(2)?,
                    least: row.get(3)?,
                    greatest: row.get(4)?,
                    nulls: row.get(5)?,
                });
            Ok(())
        },
    )?;
    let mut tables: BTreeMap<i64, Vec<TableSummary>> = BTreeMap::new();
    each(connection, "SELECT file, name, rows FROM tables", |row| {
        let (file, name): (i64, String) = (row.get(0)?, row.get(1)?);
        tables.entry(file).or_default().push(TableSummary {
            columns: columns.remove(&(file, name.clone())).unwrap_or_default(),
            name,
            rows: row.get(2)?,
        });
        Ok(())
    })?;
    let mut book = Book::default();
    each(connection, "SELECT name FROM chosen", |row| {
        book.chosen.push(row.get(0)?);
        Ok(())
    })?;
    let sql = "SELECT id, path, identity, size, format, page_size, encoding, schema_hash, error FROM files";
    each(connection, sql, |row| {
        let content = match row.get::<_, Option<String>>(8)? {
            Some(error) => Err(error),
            None => Ok(FileSummary {
                format: row.get(4)?,
                page_size: row.get(5)?,
                encoding: row.get(6)?,
                schema_hash: row.get(7)?,
                tables: tables.remove(&row.get(0)?).unwrap_or_default(),
                left_out: Vec::new(),
            }),
        };
        let file = File {
            path: row.get(1)?,
            identity: row.get(2)?,
            size: row.get::<_, i64>(3)?.try_into().unwrap_or_default(),
            content,
        };
        book.files.insert(file.path.clone(), file);
        Ok(())
    })?;
    Ok(book)
}

fn each(
    connection: &Connection,
    sql: &str,
    mut take: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        take(row)?;
    }
    Ok(())
}
