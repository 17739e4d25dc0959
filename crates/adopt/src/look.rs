//! What is known of one database: its state, whose it is, what packing would save, and what is in the way. It is only
//! read, without a lock.

use std::fs::File;
use std::path::{Path, PathBuf};

use litepack_advise::{AdviseOptions, SAMPLES, advise};
use litepack_database::bytes::header;
use litepack_database::error::{Context as _, cannot_read};
use litepack_database::files::held::Held;
use litepack_database::files::source::open_file;
use litepack_database::names::printable::as_text;
use litepack_database::{Error, Job};
use litepack_engine::FileKind;
use litepack_io::storage::ReadAt as _;
use serde::{Serialize, Serializer};

use crate::find::is_database;
use crate::programs::{self, Opens};
use crate::{database_of, kept, obstacle};

/// As much time as one database is worth among many.
const SECONDS: f64 = 0.4;
/// Where the number that a program gives its databases is in the header.
const APPLICATION_ID: usize = 68;

/// What was done with a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is plain, and no original is kept.
    Plain,
    /// It is packed, and the original is kept.
    Adopted,
    /// It is packed, and no original is kept.
    Packed,
    /// It is plain, and an original is kept: it was undone with newer rows, packing was interrupted, or a program has put
    /// another database in its place.
    PlainBesideOriginal,
    /// An original is kept, and the database is not there, or is no database any more.
    OriginalAlone,
}

/// The report on one database. docs/reference/json.md lists its fields when serialised.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// The file.
    #[serde(serialize_with = "as_text")]
    pub file: PathBuf,
    /// What was done with it.
    pub state: State,
    /// Bytes of the file.
    pub bytes: u64,
    /// The program whose it is, if that is known.
    pub program: Option<&'static str>,
    /// Whether that opens packed files.
    pub opens: Option<Opens>,
    /// How, or what to do instead.
    pub how: Option<&'static str>,
    /// About how many bytes it would be packed; `None` if it is packed, or that cannot be told.
    pub packed_bytes: Option<u64>,
    /// Whether that is worth it.
    pub is_worthwhile: bool,
    /// The original that is kept.
    #[serde(serialize_with = "as_text_if_any")]
    pub kept: Option<PathBuf>,
    /// Why it is not packed in place; `None` if it can be.
    pub obstacle: Option<String>,
    /// Why not all of this is known.
    pub error: Option<String>,
}

/// Looks at a database.
///
/// # Errors
/// If the file cannot be opened, or the job is stopped. What cannot be read of the database is part of the report.
pub fn look(path: &Path, job: &Job<'_>) -> Result<Found, Error> {
    let (file, _) = open_file(path, false)?;
    let (kind, bytes, id) = begin(&file, path)?;
    drop(file);
    let original = kept(path);
    let original = original.symlink_metadata().is_ok().then_some(original);
    let state = match (kind, &original) {
        (FileKind::Packed, Some(_)) => State::Adopted,
        (FileKind::Packed, None) => State::Packed,
        (_, Some(_)) => State::PlainBesideOriginal,
        (_, None) if is_alone(path) => State::OriginalAlone,
        (_, None) => State::Plain,
    };
    let report = report(path, job);
    job.check()?;
    let (report, error) = match report {
        Ok(report) => (Some(report), None),
        Err(error) => (None, Some(error.in_one_line())),
    };
    let tables = report.as_ref().map(|report| {
        let tables = report.trees.iter().filter(|tree| tree.kind == "table");
        tables.map(|tree| tree.name.as_str()).collect::<Vec<_>>()
    });
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let program = programs::of(&real, id, tables.as_deref().unwrap_or_default());
    let is_plain = kind == FileKind::Plain;
    let packed = report.as_ref().filter(|_| is_plain).and_then(|report| {
        let mode = report.modes.iter().find(|mode| mode.name == "packed")?;
        Some(mode.size?.bytes)
    });
    let recommends = |report: &litepack_advise::Report| report.recommendation.mode == "packed";
    Ok(Found {
        file: path.to_owned(),
        state,
        bytes,
        program: program.map(|program| program.name),
        opens: program.map(|program| program.opens),
        how: program.map(|program| program.how),
        packed_bytes: packed,
        is_worthwhile: is_plain && report.as_ref().is_some_and(recommends),
        kept: original,
        obstacle: is_plain.then(|| obstacle::of(path, program)).flatten(),
        error,
    })
}

fn as_text_if_any<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => as_text(path, serializer),
        None => serializer.serialize_none(),
    }
}

/// The kind of a file, its length, and the number of the program that made it.
fn begin(file: &Held, path: &Path) -> Result<(FileKind, u64, u32), Error> {
    let file: &File = file;
    let cannot = || cannot_read(path);
    let kind = header::kind(file).with_context(cannot)?;
    let len = file.metadata().with_context(cannot)?.len();
    let mut head = [0; APPLICATION_ID + 4];
    let read = file.read_at(&mut head, 0).with_context(cannot)?;
    let id = head.last_chunk().copied().map_or(0, u32::from_be_bytes);
    let has_id = kind == FileKind::Plain && read == head.len();
    Ok((kind, len, if has_id { id } else { 0 }))
}

/// Whether this is the original of what is not there, or is no database.
pub(crate) fn is_alone(path: &Path) -> bool {
    database_of(path).is_some_and(|database| match is_database(&database) {
        Ok(is_one) => !is_one,
        // One that may not be read is told of by itself.
        Err(_) => !database
            .symlink_metadata()
            .is_ok_and(|found| found.is_file()),
    })
}

fn report(path: &Path, job: &Job<'_>) -> Result<litepack_advise::Report, Error> {
    let options = AdviseOptions {
        sample_bytes: *SAMPLES.start(),
        seconds: Some(SECONDS),
        ..AdviseOptions::default()
    };
    advise(path, &options, job)
}
