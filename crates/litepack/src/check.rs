//! Reads everything in a packed file and reports damage.

use std::path::Path;

use litepack_database::bytes::reader;
use litepack_database::bytes::wal::LogDamage;
use litepack_database::error::{Context, cannot_read};
use litepack_database::files::source::Source;
use litepack_database::files::{leftovers, not_applied};
use litepack_store::{Error as StoreError, Store, WAL_SUFFIX};
use serde::Serialize;

use crate::{Error, Job, Result, register};

/// The result of [`check`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct CheckReport {
    /// Whether there is no damage.
    pub ok: bool,
    /// Units read and decoded.
    pub units: u64,
    /// Nodes of the page map read.
    pub nodes: u64,
    /// Bytes that belong to nothing and are not free; harmless.
    pub lost_bytes: u64,
    /// The damage, a hundred pieces at most.
    pub damage: Vec<Damage>,
}

/// A piece of damage. Its [`Display`](std::fmt::Display) is one line of text.
#[derive(Clone, Debug, Serialize)]
pub struct Damage {
    /// The structure: "page 17", "page map node", "frame 3", "WAL".
    pub what: String,
    /// Its byte offset in the file, of a WAL in that of the WAL.
    pub offset: u64,
    /// The defect.
    pub why: String,
    #[serde(skip)]
    line: String,
}

impl Damage {
    pub(crate) fn new(what: String, offset: u64, why: String, line: String) -> Damage {
        Damage {
            what,
            offset,
            why,
            line,
        }
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.line)
    }
}

impl From<litepack_store::Damage> for Damage {
    fn from(found: litepack_store::Damage) -> Damage {
        let line = found.to_string();
        Damage::new(found.what, found.offset.0, found.why, line)
    }
}

impl From<LogDamage> for Damage {
    fn from(found: LogDamage) -> Damage {
        let (what, LogDamage { offset, why, .. }) = ("WAL".to_owned(), found);
        let line = format!("{what}: byte {offset} of the file {WAL_SUFFIX}: {why}");
        Damage::new(what, offset, why, line)
    }
}

/// Reads everything in a packed file, and in its WAL if there is one. Damage is part of the result, not an error. A
/// warning names files that a killed command left beside it.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let packed = place.path().join("packed.db");
/// # litepack::open(&packed)?.execute_batch("create table t(x)")?;
/// let report = litepack::check(&packed, &litepack::Job::default())?;
/// for damage in &report.damage {
///     eprintln!("{damage}");
/// }
/// assert!(report.ok);
/// # Ok(()) }
/// ```
///
/// # Errors
/// If the file is not a packed file or cannot be read, or the job is stopped.
pub fn check(file: impl AsRef<Path>, job: &Job<'_>) -> Result<CheckReport> {
    let file = file.as_ref();
    register()?;
    let mut source = Source::open(file, false)?;
    source.expect_packed()?;
    let unlocked = source.unlock(job.key());
    if let Err(Error::Store {
        source: StoreError::Damaged(damage),
        ..
    }) = unlocked
    {
        // Nor can anything be read without the places of the key.
        return Ok(CheckReport {
            damage: vec![damage.into()],
            ..CheckReport::default()
        });
    }
    unlocked?;
    source.hold_for_report(job)?;
    leftovers::tell(source.path(), job);
    not_applied::tell(source.opened(), job);
    let report = job.listening(|| report(&source, job));
    job.check()?;
    let report = match report {
        // Nothing can be read below such damage, so it is all there is to tell.
        Err(StoreError::Damaged(damage)) => litepack_store::CheckReport {
            damage: vec![damage],
            ..litepack_store::CheckReport::default()
        },
        report => report.with_context(|| cannot_read(file))?,
    };
    let of_wal = source.wal_damage(job)?.map(Damage::from);
    let is_ok = report.is_ok() && of_wal.is_none();
    let of_file = report.damage.into_iter().map(Damage::from);
    Ok(CheckReport {
        ok: is_ok,
        units: report.units,
        nodes: report.nodes,
        lost_bytes: report.lost_bytes,
        damage: of_file.chain(of_wal).collect(),
    })
}

fn report(source: &Source, job: &Job<'_>) -> litepack_store::Result<litepack_store::CheckReport> {
    let mut store = Store::open(source.file(), reader::options(source.unlocked()))?;
    store.refresh()?;
    // An error here comes again from the check, which reports it.
    let info = store.info().unwrap_or_default();
    let unit_size = u64::from(info.unit_size);
    let step = job.bytes("checking", info.stored_units * unit_size);
    store.check(&mut |done| {
        step.set(done * unit_size);
        job.go_on()
    })
}
