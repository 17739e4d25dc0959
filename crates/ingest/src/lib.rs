//! Reads logs into a database, each line once: the command `litepack ingest` as a function. It is there on Unix only.
//!
//! [`Job`] and [`Error`] are those of the crate `litepack`.
//!
//! ```text
//! lib.rs     options, report, and the order in which sources are read
//! batch.rs   one transaction: lines become rows, and the offset goes with them
//! follow.rs  goes on as files grow and are rotated         preview.rs  what would come of sources
//! source.rs  a source and how it is recognised     input.rs  bytes of a file or stream     lines.rs  its lines
//! format/    what a line says                      row.rs    values and columns            tables.rs the schema
//! compressed.rs  what a file is by its first bytes
//! ```
#![forbid(unsafe_code)]
#![cfg(unix)]

mod batch;
mod compressed;
mod follow;
mod format;
mod input;
mod lines;
mod preview;
mod row;
mod source;
mod tables;

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use litepack_btree::quote;
use litepack_database::error::{Context, refuse};
use litepack_database::files::bound::{Bound, endless, read_schema};
use litepack_database::files::patterns::expand;
use litepack_database::files::replacement::Replacement;
use litepack_database::job::{Step, Unit};
use litepack_database::{Error, Job, Result};
use rusqlite::{Connection, OpenFlags};
use serde::Serialize;

use self::format::Format;
use self::format::time::{Stamp, Times, text};
pub use self::preview::{Preview, preview_ingest};
use self::row::Columns;
use self::source::Source;

/// The state that an interrupted call leaves, for its error.
const KEPT: &str = "what was read is kept, and the next run goes on from there";
/// How long another writer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// Names of tables are not longer.
const TABLE_MAX: usize = 64;
/// As much as is kept of a longer one.
const LINE_MIN: usize = 4096;
/// Less than is read ahead.
const LINE_MAX: usize = 2 << 20;
/// A table has at most 2000 columns in SQLite as it is usually built.
const COLUMNS_MAX: usize = 1900;

/// Options of [`ingest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestOptions {
    /// The table of the lines.
    pub table: String,
    /// A name, such as `json`, `combined` or `syslog` ([all](https://github.com/litepack/litepack/blob/main/docs/logs.md)),
    /// or a pattern as nginx (`log_format`) or Apache (`LogFormat`) has it; by default the first lines of each source
    /// tell.
    pub format: Option<String>,
    /// Times are Unix seconds; else text, such as `2026-11-24T10:43:55Z`.
    pub integer_times: bool,
    /// Lines are kept as JSON in one column.
    pub json_column: bool,
    /// Columns with an index. The time has one in any case.
    pub indexes: Vec<String>,
    /// At most so many columns are made of names in lines; values of other names go into the column `extra`, as JSON.
    pub max_columns: usize,
    /// Lines longer than this many bytes are not parsed, and only their beginning is kept.
    pub max_line: usize,
    /// Rows older than this are deleted.
    pub keep: Option<Duration>,
    /// Goes on as files grow, until it is stopped.
    pub follow: bool,
}

impl Default for IngestOptions {
    fn default() -> IngestOptions {
        IngestOptions {
            table: "logs".to_owned(),
            format: None,
            integer_times: false,
            json_column: false,
            indexes: Vec::new(),
            max_columns: 100,
            max_line: 1 << 20,
            keep: None,
            follow: false,
        }
    }
}

impl IngestOptions {
    fn check(&self) -> Result<()> {
        let lower = self.table.to_ascii_lowercase();
        if lower.is_empty() || lower.len() > TABLE_MAX || lower.contains('\0') {
            refuse!("a table's name has 1 to {TABLE_MAX} bytes");
        }
        if lower.starts_with("sqlite_") || lower.starts_with("litepack_") {
            refuse!("tables whose names begin with sqlite_ or litepack_ are not for logs");
        }
        if self.max_columns > COLUMNS_MAX {
            refuse!("at most {COLUMNS_MAX} columns are possible");
        }
        if !(LINE_MIN..=LINE_MAX).contains(&self.max_line) {
            refuse!("the longest line to parse is not between {LINE_MIN} and {LINE_MAX} bytes");
        }
        if let Some(format) = &self.format {
            Format::new(format)?;
        }
        Ok(())
    }
}

/// The counts of [`ingest`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ingested {
    /// Lines that were read, without empty ones.
    pub lines: u64,
    /// Rows added to the table.
    pub rows: u64,
    /// Lines that went into `litepack_unparsed`.
    pub unparsed: u64,
    /// Of these, lines of which only the beginning was kept.
    pub cut: u64,
    /// Rows deleted because they were too old.
    pub deleted: u64,
    /// The sources in the order in which they were read.
    pub sources: Vec<IngestedSource>,
}

/// One source of [`Ingested`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct IngestedSource {
    /// As it was named; `-` is standard input.
    pub path: String,
    /// Its format, if lines were read.
    pub format: Option<String>,
    /// Lines that were read.
    pub lines: u64,
    /// Lines that were not parsed.
    pub unparsed: u64,
    /// A note on the format, where many of the first lines do not fit it.
    pub doubt: Option<String>,
    /// Bytes (decompressed) that were read in earlier runs.
    pub known_bytes: u64,
    /// Bytes of a half line at the end, which is left for the next run.
    pub half_line_bytes: u64,
    /// Lines that are parts of one whose rest has not come, and that wait for the next run.
    pub waiting: u64,
    /// Why it was not read to its end.
    pub error: Option<String>,
}

/// Reads logs into a database, which is created packed if it does not exist and a source can be read. A source is a
/// file (plain, or compressed by gzip, zstd, xz or bzip2), a pattern such as `logs/*.gz`, a named pipe, or `-`,
/// standard input. Lines read in an earlier call are not read again, also after the file was renamed or compressed.
/// Lines that are not of the format are kept in the table `litepack_unparsed`.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let (log, db) = (place.path().join("app.log"), place.path().join("logs.db"));
/// # std::fs::write(&log, "{\"time\":\"2026-11-24T10:00:00Z\",\"took\":3}\n")?;
/// use litepack::Job;
/// use litepack_ingest::{IngestOptions, ingest};
///
/// let ingested = ingest(&[&log], &db, &IngestOptions::default(), &Job::default())?;
/// assert_eq!(ingested.rows, 1);
/// let took: i64 = litepack::open(&db)?.query_row("select took from logs", [], |row| row.get(0))?;
/// assert_eq!(took, 3);
/// # Ok(()) }
/// ```
///
/// # Errors
/// If the options make no sense, or the database cannot be written or has tables of these names that are not ours. A
/// source that cannot be read does not end the call; its [`IngestedSource::error`] says why.
pub fn ingest(
    sources: &[impl AsRef<Path>],
    database: impl AsRef<Path>,
    options: &IngestOptions,
    job: &Job<'_>,
) -> Result<Ingested> {
    let database = database.as_ref();
    let mut session = Session::open(database, options, job)?;
    let patterns: Vec<&Path> = sources.iter().map(AsRef::as_ref).collect();
    let worked = match options.follow {
        true => session.follow(&patterns),
        false => session.read_all(&patterns).and_then(|()| session.tidy()),
    };
    match worked {
        // Following ends in no other way.
        Err(error) if error.is_interrupted() && options.follow => Ok(session.report),
        Err(error) => Err(error.keeping(KEPT)),
        Ok(()) => Ok(session.report),
    }
}

/// Opens the database, which is encrypted if there is a key.
fn open_file(database: &Path, job: &Job<'_>) -> Result<Connection> {
    litepack_database::open_with_key(database, OpenFlags::default(), job.key())
}

/// A database that is written, and what is known while it is.
struct Session<'a> {
    connection: Connection,
    kind: Kind,
    database: &'a Path,
    options: &'a IngestOptions,
    job: &'a Job<'a>,
    columns: Columns,
    /// Statements that go through a table end: the database may come from a stranger.
    bound: Bound,
    report: Ingested,
    step: Step<'a>,
    _interrupts: litepack_database::job::Interrupts,
}

/// The database that is written.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// The database.
    File,
    /// One in memory, until there is something to store: a source that cannot be read leaves no database.
    Draft,
    /// One in memory, for a look.
    Preview,
}

/// Unix seconds now.
fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs().cast_signed())
}

fn now_text() -> String {
    text(Stamp {
        seconds: now(),
        nanos: 0,
    })
    .unwrap_or_default()
}

/// The columns of a table that exists, or of a new one.
fn columns(existing: &[String], options: &IngestOptions) -> Result<Columns> {
    let times = Times::new(options.integer_times);
    Columns::new(existing, options.max_columns, options.json_column, times)
}

impl<'a> Session<'a> {
    fn open(
        database: &'a Path,
        options: &'a IngestOptions,
        job: &'a Job<'a>,
    ) -> Result<Session<'a>> {
        if matches!(database.to_str(), Some("" | ":memory:")) {
            refuse!("the database has to be a file");
        }
        options.check()?;
        if database.exists() {
            return Session::new(
                open_file(database, job)?,
                Kind::File,
                database,
                options,
                job,
            );
        }
        let cannot = || format!("cannot open {}", database.display());
        Replacement::beside(database.to_owned(), false).with_context(cannot)?;
        Session::in_memory(Kind::Draft, database, options, job)
    }

    fn in_memory(
        kind: Kind,
        database: &'a Path,
        options: &'a IngestOptions,
        job: &'a Job<'a>,
    ) -> Result<Session<'a>> {
        let connection =
            Connection::open_in_memory().context("cannot open a database in memory")?;
        Session::new(connection, kind, database, options, job)
    }

    fn new(
        mut connection: Connection,
        kind: Kind,
        database: &'a Path,
        options: &'a IngestOptions,
        job: &'a Job<'a>,
    ) -> Result<Session<'a>> {
        let table = &options.table;
        // The file may come from a stranger, and its schema may have no end.
        read_schema(&mut connection).map_err(|error| Error::of_sqlite(database, error))?;
        connection
            .busy_timeout(PATIENCE)
            .context("cannot open the database")?;
        let existing = tables::existing(&connection, table)
            .with_context(|| format!("cannot use {}", database.display()))?;
        let mut columns = columns(&existing, options)?;
        let interrupts = job.interrupts(&connection);
        let bound = Bound::of(&mut connection, 0, Duration::MAX);
        let bound = bound.context("cannot open the database")?;
        bound.lift();
        if existing.is_empty() {
            let mut create = || {
                let create = connection.unchecked_transaction()?;
                tables::create(&create, table, &mut columns)?;
                create.commit()
            };
            create().map_err(|error| Error::of_sqlite(database, error))?;
        }
        Ok(Session {
            connection,
            kind,
            database,
            options,
            job,
            columns,
            bound,
            report: Ingested::default(),
            step: job.step("reading", Unit::Bytes, None),
            _interrupts: interrupts,
        })
    }

    /// Goes on in the file, which is made now. Nothing was stored before.
    fn settle(&mut self) -> Result<()> {
        if self.kind != Kind::Draft {
            return Ok(());
        }
        let connection = open_file(self.database, self.job)?;
        let real = Session::new(
            connection,
            Kind::File,
            self.database,
            self.options,
            self.job,
        )?;
        let report = std::mem::take(&mut self.report);
        *self = Session { report, ..real };
        Ok(())
    }

    /// Forgets what a transaction that failed would have added.
    fn reload(&mut self) -> Result<()> {
        let existing = tables::existing(&self.connection, &self.options.table)?;
        self.columns = columns(&existing, self.options)?;
        Ok(())
    }

    fn sqlite(&self, error: rusqlite::Error) -> Error {
        let told = self.bound.told::<()>(Err(error));
        Error::of_sqlite(self.database, told.err().unwrap_or_else(endless))
    }

    /// Until the bound is lifted, statements go through all pages of the database twice, and no further.
    fn bind(&self) -> rusqlite::Result<()> {
        const SCANS: u64 = 2;
        let sql = "select page_count * page_size from pragma_page_count, pragma_page_size";
        let bytes: i64 = self.connection.query_row(sql, [], |row| row.get(0))?;
        self.bound
            .renew(bytes.cast_unsigned().saturating_mul(SCANS));
        Ok(())
    }

    /// Reads every source to its end.
    fn read_all(&mut self, patterns: &[&Path]) -> Result<()> {
        for (path, is_named) in self.with_renamed(expand(patterns)?)? {
            match self.open_source(&path) {
                // It is not the file that was renamed.
                Ok(source) if !is_named && source.id.is_none() => {}
                Ok(mut source) => {
                    let known = source.stored;
                    let read = self.read_to_end(&mut source);
                    // An empty log is one.
                    if read.is_ok() {
                        self.settle()?;
                    }
                    self.note(&source, known, read)?;
                }
                Err(error) => self.failed(&path, error)?,
            }
        }
        Ok(())
    }

    fn open_source(&mut self, path: &Path) -> Result<Source> {
        if path.as_os_str() != "-" {
            let same = |other: &Path| {
                let (a, b) = (std::fs::metadata(path), std::fs::metadata(other));
                matches!((a, b), (Ok(a), Ok(b)) if source::identity(&a) == source::identity(&b))
            };
            if same(self.database) {
                refuse!("{} is the database itself", path.display());
            }
        }
        self.bind().map_err(|error| self.sqlite(error))?;
        let source = Source::open(&self.connection, path, self.options.max_line);
        self.bound.lift();
        match self.bound.is_exceeded() {
            true => Err(self.sqlite(endless())),
            false => source,
        }
    }

    /// Adds a source to the report.
    fn note(&mut self, source: &Source, known: u64, read: Result<()>) -> Result<()> {
        let error = match read {
            Err(error) if is_of_all(&error) => return Err(error),
            Err(error) => Some(error.in_one_line()),
            Ok(()) => None,
        };
        self.report.sources.push(IngestedSource {
            path: source.path.display().to_string(),
            format: source.format.as_ref().map(|(name, _)| name.clone()),
            lines: source.counted[0],
            unparsed: source.counted[1],
            doubt: source.doubt.clone(),
            known_bytes: known,
            half_line_bytes: source.lines.unfinished(),
            waiting: source
                .format
                .as_ref()
                .map_or(0, |(_, format)| format.waiting()),
            error,
        });
        Ok(())
    }

    fn failed(&mut self, path: &Path, error: Error) -> Result<()> {
        if is_of_all(&error) {
            return Err(error);
        }
        self.report.sources.push(IngestedSource {
            path: path.display().to_string(),
            error: Some(error.in_one_line()),
            ..IngestedSource::default()
        });
        Ok(())
    }

    /// Deletes what is too old, and creates indexes.
    fn tidy(&mut self) -> Result<()> {
        if self.kind != Kind::File {
            return Ok(());
        }
        // An index that cannot be made keeps no row too long.
        self.expire()?;
        let table = quote(&self.options.table);
        let mut missing = None;
        for name in std::iter::once("time").chain(self.options.indexes.iter().map(String::as_str)) {
            let names = self.columns.names();
            if !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                missing.get_or_insert(name);
                continue;
            }
            let index = quote(&format!("{}_{name}", self.options.table));
            let sql = format!(
                "create index if not exists main.{index} on {table}({})",
                quote(name)
            );
            let made = self
                .bind()
                .and_then(|()| self.connection.execute_batch(&sql));
            made.map_err(|error| self.sqlite(error))?;
        }
        match missing {
            Some(name) => refuse!("cannot create an index: there is no column {name:?}"),
            None => Ok(()),
        }
    }

    /// Deletes what is too old, 10,000 rows in a transaction.
    fn expire(&mut self) -> Result<()> {
        let Some(keep) = self.options.keep else {
            return Ok(());
        };
        let seconds = now().saturating_sub_unsigned(keep.as_secs());
        let Some(iso) = text(Stamp { seconds, nanos: 0 }) else {
            return Ok(());
        };
        let table = quote(&self.options.table);
        let times = format!(
            "delete from main.{table} where rowid in (select rowid from main.{table} \
             where (time < ?1 and typeof(time) in ('integer', 'real')) \
             or (time < ?2 and typeof(time) = 'text' and time glob '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T*Z') \
             limit 10000)"
        );
        let unparsed = "delete from main.litepack_unparsed where id in (select id from main.litepack_unparsed \
             where ?1 is not null and read_at < ?2 limit 10000)";
        for sql in [&times[..], unparsed] {
            loop {
                self.job.check()?;
                let deleted = self.bind();
                let deleted = deleted.and_then(|()| self.connection.execute(sql, (seconds, &iso)));
                let deleted = deleted.map_err(|error| self.sqlite(error))? as u64;
                self.report.deleted += deleted;
                if deleted == 0 {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Whether an error is not of one source alone.
fn is_of_all(error: &Error) -> bool {
    matches!(
        error,
        Error::Sqlite { .. } | Error::InUse { .. } | Error::Interrupted { .. }
    )
}
