//! The content of one file: its tables, how many rows they have, and between which values their columns are.
//!
//! The file may come from a stranger. Nothing in its schema runs but expressions of columns, under
//! `trusted_schema=OFF`; views and virtual tables are left alone.

use std::hash::Hasher as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use litepack_btree::quote;
use litepack_database::error::{Context, refuse};
use litepack_database::files::bound::Bound;
use litepack_database::files::origin::{Origin, connect};
use litepack_database::files::schema::columns;
use litepack_database::{Error, Job, Result, printable};
use litepack_engine::FileKind;
use rusqlite::{Connection, ErrorCode};
use twox_hash::XxHash3_64;

use super::book::{Book, ColumnSummary, File, FileSummary, TableSummary};
use super::find::Shard;
use super::identity::{self, Identity};
use super::{CatalogOptions, absolute, bounds, text_of};

/// Why an encrypted file is not looked at.
const ENCRYPTED: &str = "it is encrypted, and a catalog is not: it would have values of it";

/// A file that is written all the time is given up after so many attempts.
const ATTEMPTS: usize = 3;
/// Tables of a file that are looked at.
const TABLES_MAX: i64 = 10_000;
/// So often is a page read, with the columns that the user has named.
const SCANS: u64 = 4;
/// Bytes of the database in a byte of a packed file or archive, before the structure of a local one is looked at, and at
/// most for one on a server.
const LOCAL_RATIO: u64 = 16;
const REMOTE_RATIO: u64 = 1024;
/// How long a file may take, and how many of its bytes take a second more.
const LOCAL_TIME: Duration = Duration::from_secs(10);
const LOCAL_SPEED: u64 = 10 << 20;
/// The same for one that is looked at a second time.
const PATIENCE: Duration = Duration::from_secs(600);
const PATIENT_SPEED: u64 = 100_000;
const REMOTE_TIME: Duration = Duration::from_secs(300);
const REMOTE_SPEED: u64 = 50_000;

/// Looks at files.
pub(super) struct Looker<'a> {
    /// To which paths in the catalog are relative.
    directory: PathBuf,
    options: &'a CatalogOptions,
    before: &'a Book,
    job: &'a Job<'a>,
}

impl<'a> Looker<'a> {
    pub(super) fn new(
        target: &Path,
        options: &'a CatalogOptions,
        before: &'a Book,
        job: &'a Job<'a>,
    ) -> Result<Looker<'a>> {
        let mut directory = absolute(target)?;
        directory.pop();
        Ok(Looker {
            directory,
            options,
            before,
            job,
        })
    }

    /// The entry of a file, and whether it was known.
    ///
    /// # Errors
    /// [`Error::Interrupted`]. A defect of the file is a part of the answer.
    pub(super) fn look(&self, shard: &Shard) -> Result<(File, bool)> {
        let path = self.name(shard)?;
        let mut identity = shard.listed.clone();
        let known = |identity: &Identity| {
            self.before
                .known(&path, &identity.text, &self.options.columns)
        };
        if let Some(known) = identity.as_ref().and_then(known) {
            return Ok((known.clone(), true));
        }
        let found = match shard.is_remote() {
            true => self.remote(&shard.path, &mut identity, known),
            false => self.local(Path::new(&shard.path), &mut identity, known),
        };
        // A statement that is interrupted may say so in other words.
        self.job.check()?;
        let content = match found {
            Ok(Looked::Known(file)) => return Ok((file, true)),
            Ok(Looked::Content(content)) => Ok(content),
            Err(error) => Err(error.in_one_line()),
        };
        let identity = identity.unwrap_or_else(|| identity::of_object(0, ""));
        let file = File {
            path,
            identity: identity.text,
            size: identity.size,
            content,
        };
        Ok((file, false))
    }

    /// How a file is called in the catalog: so that both can be moved together, if it is below.
    fn name(&self, shard: &Shard) -> Result<String> {
        if shard.is_remote() {
            return Ok(shard.path.clone());
        }
        let path = Path::new(&shard.path);
        let below = path.strip_prefix(&self.directory).unwrap_or(path);
        Ok(text_of(below)?.to_owned())
    }

    fn local<'b>(
        &self,
        path: &Path,
        identity: &mut Option<Identity>,
        known: impl Fn(&Identity) -> Option<&'b File>,
    ) -> Result<Looked> {
        let which =
            || identity::of_file(path).with_context(|| litepack_database::error::cannot_read(path));
        for _ in 0..ATTEMPTS {
            let before = which()?;
            if let Some(file) = known(&before) {
                return Ok(Looked::Known(file.clone()));
            }
            identity::wait_until_distinct(path);
            let before = which()?;
            *identity = Some(before.clone());
            let origin = Origin::open(path, None).map_err(|error| match error {
                Error::Encrypted { .. } => Error::Refused(ENCRYPTED.into()),
                error => error,
            })?;
            let mut connection = origin.connect().map_err(|error| origin.explain(error))?;
            let format = match origin.kind() {
                FileKind::Packed => "packed",
                FileKind::Zstd => "archive",
                _ => "plain",
            };
            let bound = local_bound(&mut connection, before.size, origin.kind());
            let bound = bound.map_err(|error| origin.explain(error))?;
            let mut content = self.content(&connection, format).map_err(Ok);
            if content.is_err() && bound.is_exceeded() {
                // It may have been compressed very well, or this machine may be slow. The connection still holds its
                // lock, as the transaction has not ended.
                let patience = PATIENCE + Duration::from_secs(before.size / PATIENT_SPEED);
                let until = Instant::now().checked_add(patience);
                content = match origin.expect_trees_held(self.job, until) {
                    Ok(()) => self
                        .content_again(&mut connection, format, patience)
                        .map_err(Ok),
                    Err(error) => Err(Err(error)),
                };
            }
            drop(connection);
            if which()? == before {
                let told = |error: std::result::Result<_, Error>| match error {
                    Ok(error) => origin.explain(error),
                    Err(error) => error,
                };
                return content.map(Looked::Content).map_err(told);
            }
        }
        refuse!("it is written all the time; run this again when it is not");
    }

    fn remote<'b>(
        &self,
        url: &str,
        identity: &mut Option<Identity>,
        known: impl Fn(&Identity) -> Option<&'b File>,
    ) -> Result<Looked> {
        let cannot = |error| Error::of_sqlite(Path::new(url), error);
        let uri =
            litepack_database::remote_uri(url).with_context(|| format!("cannot open {url}"))?;
        let mut connection = match connect(&uri) {
            Ok(connection) => connection,
            Err(error) => {
                // Says what is wrong, which SQLite does not.
                litepack::remote_info(url, &self.options.access, None)?;
                return Err(cannot(error));
            }
        };
        let report: String = connection
            .query_row("PRAGMA litepack_remote", [], |row| row.get(0))
            .map_err(cannot)?;
        let report: serde_json::Value = serde_json::from_str(&report)
            .map_err(|error| Error::Refused(format!("{url}: {error}")))?;
        let text = |field: &str| report[field].as_str().unwrap_or_default();
        let size = report["size"].as_u64().unwrap_or_default();
        let opened = identity::of_object(size, text("validator"));
        *identity = Some(opened.clone());
        if let Some(file) = known(&opened) {
            return Ok(Looked::Known(file.clone()));
        }
        let cipher = connection.query_row("PRAGMA cipher", [], |_| Ok(()));
        if cipher.is_ok() {
            refuse!("{ENCRYPTED}");
        }
        let bound = remote_bound(&mut connection, size, text("kind")).map_err(cannot)?;
        let content = bound.told(self.content(&connection, text("kind")));
        content.map(Looked::Content).map_err(cannot)
    }

    /// The same, after an attempt that was stopped.
    fn content_again(
        &self,
        connection: &mut Connection,
        format: &str,
        patience: Duration,
    ) -> rusqlite::Result<FileSummary> {
        let bound = Bound::of(connection, u64::MAX, patience)?;
        let content = connection
            .execute_batch("ROLLBACK")
            .and_then(|()| self.content(connection, format));
        bound.told(content)
    }

    /// The content of a database, as a catalog tells it, of one commit. Objects that need a collation or a function
    /// which this program does not have are left out, and listed as such.
    fn content(&self, connection: &Connection, format: &str) -> rusqlite::Result<FileSummary> {
        let _interrupts = self.job.interrupts(connection);
        connection.execute_batch("BEGIN")?;
        let schema_hash = schema_hash(connection)?;
        let encoding: String = connection.query_row("PRAGMA encoding", [], |row| row.get(0))?;
        let is_utf8 = encoding == "UTF-8";
        let names = rows(
            connection,
            // Virtual tables have no root page.
            "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND rootpage > 0
                AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name LIMIT ?1",
            [TABLES_MAX],
        )?;
        let (mut tables, mut left_out) = (Vec::new(), Vec::new());
        for name in names {
            let shown = printable(&name);
            match or_left_out(self.table(connection, name, is_utf8, &mut left_out))? {
                Ok(table) => tables.push(table),
                Err(why) => left_out.push(format!("table {shown}: {why}")),
            }
        }
        Ok(FileSummary {
            format: format.to_owned(),
            page_size: connection.query_row("PRAGMA main.page_size", [], |row| row.get(0))?,
            encoding,
            schema_hash,
            tables,
            left_out,
        })
    }

    fn table(
        &self,
        connection: &Connection,
        name: String,
        is_utf8: bool,
        left_out: &mut Vec<String>,
    ) -> rusqlite::Result<TableSummary> {
        let source = format!("main.{}", quote(&name));
        let rows = count(connection, &source)?;
        let indexed = indexed_columns(connection, &name)?;
        let mut chosen = self.chosen_columns(connection, &name)?;
        chosen.retain(|column| !indexed.contains(column));
        let all = indexed.iter().map(|column| (column, true));
        let mut columns = Vec::new();
        for (column, is_indexed) in all.chain(chosen.iter().map(|column| (column, false))) {
            match or_left_out(range(connection, &source, column, is_indexed, is_utf8))? {
                Ok(column) => columns.push(column),
                Err(why) => {
                    let (table, column) = (printable(&name), printable(column));
                    left_out.push(format!("column {table}.{column}: {why}"));
                }
            }
        }
        Ok(TableSummary {
            name,
            rows,
            columns,
        })
    }

    /// Columns of a table that the user has named. Names may have dots in them.
    fn chosen_columns(
        &self,
        connection: &Connection,
        table: &str,
    ) -> rusqlite::Result<Vec<String>> {
        if self.options.columns.is_empty() {
            return Ok(Vec::new());
        }
        let columns = columns(connection, "main", table)?;
        let columns = columns.into_iter().filter(|column| column.hidden != 1);
        let mut names: Vec<String> = columns.map(|column| column.name).collect();
        names.retain(|column| {
            let full = format!("{table}.{column}");
            self.options
                .columns
                .iter()
                .any(|chosen| chosen.eq_ignore_ascii_case(&full))
        });
        Ok(names)
    }
}

/// The rows of a table. An index is smaller, but may be in an order that this program does not know.
///
/// `FILTER` makes SQLite count row by row, where it can be stopped.
fn count(connection: &Connection, source: &str) -> rusqlite::Result<i64> {
    let sql = format!("SELECT count(*) FILTER (WHERE 1) FROM {source}");
    let rows = |sql: &str| connection.query_row(sql, [], |row| row.get(0));
    let counted = rows(&sql);
    let is_left_out = is_for_want(&counted);
    match is_left_out.then(|| rows(&format!("{sql} NOT INDEXED"))) {
        Some(again) if !is_for_want(&again) => again,
        _ => counted,
    }
}

/// Whether it cannot be done only by this program, for want of a collation or a function.
fn is_for_want<T>(done: &rusqlite::Result<T>) -> bool {
    let error = done.as_ref().err();
    error.and_then(rusqlite::Error::sqlite_error_code) == Some(ErrorCode::Unknown)
}

/// The reason why something was not done for want of a function or collation, in words.
fn or_left_out<T>(done: rusqlite::Result<T>) -> rusqlite::Result<std::result::Result<T, String>> {
    let is_left_out = is_for_want(&done);
    match done {
        Err(error) if is_left_out => Ok(Err(format!(
            "it needs a collation or a function of another program ({})",
            printable(&error.to_string())
        ))),
        done => done.map(Ok),
    }
}

/// Of a local file of this length. Of one that is compressed it allows for much, and what goes beyond is looked at.
fn local_bound(connection: &mut Connection, len: u64, kind: FileKind) -> rusqlite::Result<Bound> {
    let bytes = match kind {
        FileKind::Plain => len,
        _ => len.saturating_mul(LOCAL_RATIO),
    };
    let time = LOCAL_TIME + Duration::from_secs(len / LOCAL_SPEED);
    // A column without an index is a scan of its table.
    Bound::of(connection, bytes.saturating_mul(SCANS), time)
}

/// Of a file on a server: what goes beyond is taken for damage.
fn remote_bound(connection: &mut Connection, len: u64, kind: &str) -> rusqlite::Result<Bound> {
    let bytes = match kind {
        "plain" => len,
        _ => len.saturating_mul(REMOTE_RATIO),
    };
    let time = REMOTE_TIME + Duration::from_secs(len / REMOTE_SPEED);
    Bound::of(connection, bytes.saturating_mul(SCANS), time)
}

/// The entry of a file as known before, or its content.
enum Looked {
    Known(File),
    Content(FileSummary),
}

/// Columns whose least and greatest values are found by going down a tree: the INTEGER PRIMARY KEY, and the first column
/// of each index that has all rows, in the order of bytes.
fn indexed_columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    rows(
        connection,
        "SELECT name FROM pragma_table_xinfo(?1, 'main') WHERE pk = 1 AND type = 'INTEGER' COLLATE NOCASE
            AND (SELECT count(*) FROM pragma_table_xinfo(?1, 'main') WHERE pk > 0) = 1
            AND NOT EXISTS (SELECT 1 FROM pragma_index_list(?1, 'main') WHERE origin = 'pk')
        UNION
        SELECT part.name FROM pragma_index_list(?1, 'main') AS tree, pragma_index_xinfo(tree.name, 'main') AS part
            WHERE NOT tree.partial AND part.seqno = 0 AND part.cid >= 0 AND part.coll = 'BINARY'",
        [table],
    )
}

/// Between which values a column is. Without an index, all in one scan.
fn range(
    connection: &Connection,
    source: &str,
    column: &str,
    is_indexed: bool,
    is_utf8: bool,
) -> rusqlite::Result<ColumnSummary> {
    let name = quote(column);
    let value = format!("{name} COLLATE BINARY");
    let sql = match is_indexed {
        true => format!(
            "SELECT (SELECT min({value}) FROM {source}), (SELECT max({value}) FROM {source}),
                (SELECT count(*) FROM {source} WHERE {name} IS NULL)"
        ),
        false => {
            format!("SELECT min({value}), max({value}), count(*) - count({name}) FROM {source}")
        }
    };
    connection.query_row(&sql, [], |row| {
        Ok(ColumnSummary {
            name: column.to_owned(),
            least: bounds::least(row.get_ref(0)?, is_utf8),
            greatest: bounds::greatest(row.get_ref(1)?, is_utf8),
            nulls: row.get(2)?,
        })
    })
}

/// Tells whether two files have the same schema.
fn schema_hash(connection: &Connection) -> rusqlite::Result<String> {
    let sql = "SELECT type, name, tbl_name, sql FROM main.sqlite_schema ORDER BY type, name";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut hash = XxHash3_64::new();
    while let Some(row) = rows.next()? {
        for column in 0..4 {
            let part = row.get_ref(column)?.as_bytes_or_null()?.unwrap_or_default();
            hash.write(part);
            hash.write(&[0]);
        }
    }
    Ok(format!("{:016x}", hash.finish()))
}

fn rows(
    connection: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(sql)?;
    let names = statement.query_map(parameters, |row| row.get(0))?;
    names.collect()
}
