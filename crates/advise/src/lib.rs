//! Says what takes the space of a database, what each way to keep it would save, and what else would help, from a
//! sample of its pages and in seconds: the command `litepack advise` as a function.
//!
//! ```text
//! pages.rs     pages, read without locks            schema.rs    names of tables, columns and indexes
//! sample.rs    leaves, parsed                       column.rs    what is seen of a column
//! kind.rs      what a value looks like              json.rs      keys of JSON
//! account.rs   from the sample to the whole         rebuild.rs   pages after VACUUM
//! left.rs      what the file keeps of them          copies.rs    full-text tables with a copy of a table
//! modes/       sizes of the ways to keep it         recommend.rs which way
//! findings.rs, column_findings.rs, sql.rs           what else helps, and the SQL for it
//! html.rs, treemap.rs                               the report as a page
//! ```
#![forbid(unsafe_code)]

mod account;
mod column;
mod column_findings;
mod copies;
mod findings;
mod html;
mod json;
mod kind;
mod left;
mod modes;
mod rebuild;
mod recommend;
mod sample;
mod schema;
mod sql;
mod treemap;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use litepack::Info;
use litepack_btree::{Encoding, PageOwnership, TreeKind};
use litepack_database::bytes::pages::Pages;
use litepack_database::error::{Context, refuse};
use litepack_database::files::origin::Origin;
use litepack_database::files::replacement::Replacement;
use litepack_database::job::Unit;
use litepack_database::names::{Suffixes, is_same_file, with_suffix};
use litepack_database::{Job, Result, register};
use litepack_engine::FileKind;
use serde::Serialize;
use time::OffsetDateTime;

use account::Scale;
use findings::Evidence;
use left::Left;
use modes::packed::Deadlines;
use recommend::Vacuumed;
use sample::Samples;
use schema::Schema;

pub use account::{ColumnReport, Overhead, TreeReport};
pub use findings::Finding;
pub use kind::Kind;
pub use modes::Predicted;
pub use modes::columns::Compressible;
pub use recommend::{Otherwise, Recommendation};

/// How long it may take: for a gigabyte, for each further one, and at most.
const SECONDS: f64 = 4.0;
const SECONDS_MORE: f64 = 1.0;
const SECONDS_MAX: f64 = 13.0;
/// No report may take longer.
const DAY: f64 = 86400.0;

/// Options of [`advise`].
#[derive(Clone, Debug, PartialEq)]
pub struct AdviseOptions {
    /// Write the report as a page of HTML into this file.
    pub html: Option<PathBuf>,
    /// Replace that file if it exists.
    pub replace: bool,
    /// Read at most about this many bytes of tables and indexes, one of [`SAMPLES`]. More makes the predictions surer,
    /// if there is time for it.
    pub sample_bytes: u64,
    /// About how many seconds it may take; by default as few as the documentation of [`advise`] says. More makes the
    /// predictions surer on a machine that is slow or does other work.
    pub seconds: Option<f64>,
}

/// The sizes that a sample may have.
pub const SAMPLES: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 30;

impl Default for AdviseOptions {
    fn default() -> AdviseOptions {
        AdviseOptions {
            html: None,
            replace: false,
            sample_bytes: 64 << 20,
            seconds: None,
        }
    }
}

/// The report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The database, as it was named.
    #[serde(serialize_with = "litepack_database::names::printable::as_text")]
    pub database: PathBuf,
    /// The version of Litepack that made the report.
    pub version: &'static str,
    /// When it was made, as `2026-11-24T10:43:55Z`.
    pub made_at: String,
    /// `plain`, `packed` or `archive`.
    pub kind: &'static str,
    /// Bytes of the file, and of the part of its WAL that counts.
    pub file_bytes: u64,
    /// The same of the WAL.
    pub wal_bytes: u64,
    /// Bytes of the database that is in it: all its pages.
    pub database_bytes: u64,
    /// Bytes of a page.
    pub page_size: u32,
    /// Whether the size of `packed`, and `packed_bytes` of tables and indexes, are real ones of a packed file.
    pub is_measured: bool,
    /// Whether all pages of tables and indexes were read, and not a sample.
    pub is_whole: bool,
    /// Bytes of tables and indexes that were read.
    pub sampled_bytes: u64,
    /// Pages that could not be read or made no sense: damaged, or written at that moment.
    pub bad_pages: u64,
    /// Tables and indexes, the largest first.
    pub trees: Vec<TreeReport>,
    /// Bytes of pages that are free.
    pub free_bytes: u64,
    /// Bytes of the pointer map, which auto_vacuum needs.
    pub pointer_map_bytes: u64,
    /// Bytes of pages that no table or index accounts for.
    pub other_bytes: u64,
    /// The ways to keep it.
    pub modes: Vec<Mode>,
    /// Other changes that help, the largest saving first.
    pub findings: Vec<Finding>,
    /// Which way to choose.
    pub recommendation: Recommendation,
    /// How long it took.
    pub seconds: f64,
}

impl Report {
    /// Takes over what a packed file and its trees really take.
    fn measure(&mut self, info: &Info) {
        self.is_measured = true;
        let real = (info.content.trees.iter())
            .map(|(tree, share)| ((tree.kind, tree.name.as_str()), share.stored))
            .collect::<HashMap<_, _>>();
        for tree in &mut self.trees {
            let kind = match tree.kind {
                "index" => TreeKind::Index,
                _ => TreeKind::Table,
            };
            if let Some(stored) = real.get(&(kind, tree.name.as_str())) {
                tree.pack_into(*stored);
            }
        }
        for mode in self.modes.iter_mut().filter(|mode| mode.name == "packed") {
            mode.size = Some(Predicted::exactly(info.file.file_bytes));
            mode.command = String::new();
            "as it is now".clone_into(&mut mode.note);
        }
    }

    /// The findings that make the file smaller, and those that make queries faster and take room for it.
    pub fn findings_by_use(&self) -> (Vec<&Finding>, Vec<&Finding>) {
        (self.findings.iter()).partition(|finding| !finding.is_for_speed())
    }

    /// The name of the file, as it may be shown.
    pub fn shown_name(&self) -> String {
        let name = self
            .database
            .file_name()
            .unwrap_or(self.database.as_os_str());
        litepack_database::printable(&name.to_string_lossy())
    }
}

/// A way to keep the database.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mode {
    /// `packed`, `packed best`, `columns` or `archive`.
    pub name: &'static str,
    /// How large it would be; `None` if it cannot be.
    pub size: Option<Predicted>,
    /// How it is made; empty if it cannot be, or if a name in it cannot be shown safely.
    pub command: String,
    /// A note on it, for people.
    pub note: String,
    /// The columns that would be compressed.
    pub columns: Vec<Compressible>,
}

/// Says what takes the space of a database, what packing, compressed columns and archiving would save, and what else
/// would help. The database is only read, without a lock on it, and others may write it meanwhile. Of a large one a
/// sample is read: at most 5 seconds for a gigabyte and 15 for ten, on a machine that does nothing else.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let app = place.path().join("app.db");
/// # rusqlite::Connection::open(&app)?.execute_batch("create table t(x); insert into t values (1)")?;
/// use litepack::Job;
/// use litepack_advise::{AdviseOptions, advise};
///
/// let report = advise(&app, &AdviseOptions::default(), &Job::default())?;
/// println!("{}: {}", report.recommendation.mode, report.recommendation.reason);
/// # Ok(()) }
/// ```
///
/// # Errors
/// If it is not a database or cannot be read, or the job is stopped, or the page cannot be written.
pub fn advise(
    database: impl AsRef<Path>,
    options: &AdviseOptions,
    job: &Job<'_>,
) -> Result<Report> {
    let shown = database.as_ref();
    if !SAMPLES.contains(&options.sample_bytes) {
        let (least, most) = (SAMPLES.start() >> 20, SAMPLES.end() >> 20);
        refuse!("a sample is between {least} and {most} MiB");
    }
    register()?;
    let origin = Origin::open(shown, job.key())?;
    let page = Target::of(options, &origin)?;
    let report = listening(&origin, shown, options, None, job)?;
    page.write(&report, &origin, job)?;
    Ok(report)
}

/// As [`advise`] for a packed file, but with what the file and its tables and indexes really take, by [`litepack::info`].
///
/// # Errors
/// If it is not a database or cannot be read, or the job is stopped, or the page cannot be written.
pub fn advise_packed(
    file: impl AsRef<Path>,
    info: &Info,
    options: &AdviseOptions,
    job: &Job<'_>,
) -> Result<Report> {
    let shown = file.as_ref();
    register()?;
    let origin = Origin::open(shown, job.key())?;
    let page = Target::of(options, &origin)?;
    let mut report = listening(&origin, shown, options, Some(info), job)?;
    report.measure(info);
    page.write(&report, &origin, job)?;
    Ok(report)
}

/// Where the page goes, if there is to be one.
struct Target<'a>(Option<(Replacement, &'a Path)>);

impl<'a> Target<'a> {
    /// An error if that would take the place of the database, or of what SQLite keeps beside it.
    fn of(options: &'a AdviseOptions, origin: &Origin) -> Result<Target<'a>> {
        let Some(path) = &options.html else {
            return Ok(Target(None));
        };
        let name = path.file_name().unwrap_or_default();
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let folder = folder.unwrap_or(Path::new(".")).canonicalize();
        let real = folder.map_or(path.clone(), |folder| folder.join(name));
        let beside = Suffixes::of(origin.kind()).all();
        for suffix in ["", "-shm"].into_iter().chain(beside) {
            let own = with_suffix(origin.path(), suffix);
            if own == real || is_same_file(&own, path) {
                refuse!("{} is part of the database", path.display());
            }
        }
        let page = Replacement::of(path, origin.path(), options.replace, &Job::default())?;
        Ok(Target(Some((page, path))))
    }

    fn write(self, report: &Report, origin: &Origin, job: &Job<'_>) -> Result<()> {
        let Some((page, path)) = self.0 else {
            return Ok(());
        };
        let text = html::of(report)?;
        use std::io::Write as _;
        let written = page.file().write_all(text.as_bytes());
        written.with_context(|| format!("cannot write {}", path.display()))?;
        page.publish(&origin.rights()?, job)
    }
}

/// The time that there is, and shares of it.
struct Time {
    begun: Instant,
    seconds: f64,
}

impl Time {
    fn new(bytes: u64, wanted: Option<f64>) -> Time {
        let more = (bytes as f64 / 1e9 - 1.0).max(0.0) * SECONDS_MORE;
        let wanted = wanted.filter(|seconds| seconds.is_finite());
        let seconds = wanted.unwrap_or((SECONDS + more).min(SECONDS_MAX));
        Time {
            begun: Instant::now(),
            seconds: seconds.clamp(0.0, DAY),
        }
    }

    /// When a share of the time is over, but not before `least` of it from now: what was slow does not take all of the
    /// time of what comes after it.
    fn until(&self, share: f64, least: f64) -> Instant {
        let after =
            |since: Instant, share: f64| since + Duration::from_secs_f64(self.seconds * share);
        after(self.begun, share).max(after(Instant::now(), least))
    }
}

/// Reading and compressing look for an interrupt by themselves: pages then cannot be read, and samples are short.
fn listening(
    origin: &Origin,
    shown: &Path,
    options: &AdviseOptions,
    info: Option<&Info>,
    job: &Job<'_>,
) -> Result<Report> {
    let report = job.listening(|| report(origin, shown, options, info, job));
    job.check()?;
    report
}

fn report(
    origin: &Origin,
    shown: &Path,
    options: &AdviseOptions,
    info: Option<&Info>,
    job: &Job<'_>,
) -> Result<Report> {
    let sample = options.sample_bytes;
    let step = job.step("reading", Unit::Tasks, None);
    let mut pages = Pages::open(origin.opened())?;
    let time = Time::new(pages.size, options.seconds);
    job.check()?;

    step.at("dictionaries");
    let plan = modes::packed::plan(&mut pages)?;
    let Some(owners) = plan.owners() else {
        refuse!("{} is not a SQLite database", shown.display());
    };
    job.check()?;
    step.at("schema");
    let schema = Schema::read(&mut pages, owners, job)?;
    job.check()?;
    step.at("tables and indexes");
    let samples = Samples::take(&mut pages, owners, sample, time.until(0.5, 0.12));
    let scale = Scale::new(&samples, &pages.header);
    job.check()?;
    let copies = copies::find(
        &mut pages,
        owners.trees(),
        &schema,
        &samples,
        time.until(0.55, 0.05),
    );
    job.check()?;
    step.at("archive");
    let archive = modes::archive::predict(&mut pages, sample, time.until(0.6, 0.08))?;
    job.check()?;
    step.at("columns");
    let trees = owners.trees();
    let columns = modes::columns::predict(&samples, trees, &schema, &scale, time.until(0.7, 0.1))?;
    job.check()?;
    step.at("packed");
    let deadlines = Deadlines {
        ordinary: time.until(0.8, 0.12),
        best: time.until(1.0, 0.25),
    };
    let packed = modes::packed::predict(&mut pages, &plan, owners, sample, &deadlines)?;
    job.check()?;

    let (kind, bad) = (origin.kind(), bad(&samples, owners, &pages));
    let file_bytes = origin.metadata().len();
    let left = Left::new(kind, file_bytes, pages.size, trees, &packed, info);
    let evidence = Evidence {
        samples: &samples,
        trees,
        schema: &schema,
        scale: &scale,
        packed: &packed,
        left: &left,
        copies: &copies,
        utf8: pages.header.encoding == Encoding::Utf8,
        bad,
        places: (trees.iter().enumerate())
            .filter(|(_, tree)| tree.kind == TreeKind::Index)
            .map(|(at, tree)| (tree.name.as_str(), at))
            .collect(),
    };
    let page_size = u64::from(pages.header.page_size);
    let free = samples.free * page_size;
    let vacuumed = Vacuumed {
        unused: free + evidence.orphaned() as u64,
        bytes: columns.vacuumed as u64,
    };
    let findings = findings::all(&evidence);
    let reports = account::trees(&samples, trees, &schema, &scale, &packed);
    let modes = ways(shown, kind, &packed, archive, columns);
    let maps = samples.pointer_maps * page_size;
    let counted: u64 = reports.iter().map(|tree| tree.bytes).sum();
    let database = command_path(shown).and_then(|path| sql::in_shell(&path));
    let database = database.as_deref();
    Ok(Report {
        database: shown.to_owned(),
        version: env!("CARGO_PKG_VERSION"),
        made_at: now(),
        kind: match kind {
            FileKind::Packed => "packed",
            FileKind::Zstd => "archive",
            _ => "plain",
        },
        file_bytes: file_bytes + pages.wal_bytes(),
        wal_bytes: pages.wal_bytes(),
        database_bytes: pages.size,
        page_size: pages.header.page_size,
        is_measured: false,
        is_whole: samples.whole,
        sampled_bytes: samples.trees.iter().map(|tree| tree.read).sum::<u64>() * page_size,
        bad_pages: bad,
        recommendation: recommend::choose(pages.size, kind, &vacuumed, database, &modes, &reports),
        trees: reports,
        free_bytes: free,
        pointer_map_bytes: maps,
        other_bytes: pages.size.saturating_sub(counted + free + maps),
        modes,
        findings,
        seconds: time.begun.elapsed().as_secs_f64(),
    })
}

fn bad(samples: &Samples, owners: &PageOwnership, pages: &Pages<'_>) -> u64 {
    let leaves: u64 = samples.trees.iter().map(|tree| tree.bad).sum();
    leaves + owners.damaged() + pages.failed
}

/// A path in a command, where a name that begins like an option is none.
fn command_path(shown: &Path) -> Option<String> {
    let path = shown.to_str()?;
    Some(match path.starts_with('-') {
        true => format!("./{path}"),
        false => path.to_owned(),
    })
}

/// The time, in UTC.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = since
        .ok()
        .and_then(|since| i64::try_from(since.as_secs()).ok());
    let now = seconds.and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    let now = now.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (date, (hour, minute, second)) = (now.date(), now.to_hms());
    format!("{date}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The ways to keep it, and how each is made.
fn ways(
    shown: &Path,
    kind: FileKind,
    packed: &modes::packed::Packed,
    archive: Predicted,
    columns: modes::columns::Columns,
) -> Vec<Mode> {
    let path = command_path(shown);
    let in_shell = |suffix: &str| sql::in_shell(&format!("{}{suffix}", path.as_ref()?));
    let db = in_shell("");
    let made = |how: &str, suffix: &str| {
        let command = db.as_ref().zip(in_shell(suffix));
        let command = command.filter(|_| kind == FileKind::Plain);
        command.map_or(String::new(), |(db, new)| {
            format!("litepack {how} {db} {new}")
        })
    };
    let mode = |name, size, command, note: &str| Mode {
        name,
        size,
        command,
        note: note.to_owned(),
        columns: Vec::new(),
    };
    let enable = || {
        let db = db.as_ref()?;
        let each = columns.chosen.iter().map(|chosen| {
            let (table, column) = (
                sql::in_shell(&chosen.table)?,
                sql::in_shell(&chosen.column)?,
            );
            Some(format!(
                "litepack columns enable -- {db} {table} {column}\n"
            ))
        });
        let each = each.collect::<Option<String>>()?;
        Some(format!("{each}litepack columns maintain --vacuum {db}"))
    };
    let enable = enable().filter(|_| columns.size.is_some());
    let note = match (&columns.size, columns.refused) {
        (Some(_), _) => "an ordinary SQLite file; the tables become views".to_owned(),
        (None, Some(why)) => format!("no column can be compressed to advantage: {why}"),
        (None, None) => "no column is large enough, or would get much smaller".to_owned(),
    };
    vec![
        mode(
            "packed",
            Some(packed.ordinary),
            made("pack", ".packed"),
            "read and written by SQLite with the extension, opened with vfs=litepack",
        ),
        mode(
            "packed best",
            Some(packed.best),
            made("pack --best", ".packed"),
            "the same, made in about ten times the time",
        ),
        Mode {
            name: "columns",
            size: columns.size,
            command: enable.unwrap_or_default(),
            note,
            columns: columns.chosen,
        },
        mode(
            "archive",
            Some(archive),
            made("archive create", ".zst"),
            "read-only; any zstd decompresses it",
        ),
    ]
}
