//! Creates a packed file from a plain SQLite database.
//!
//! The packed file holds the bytes of the database as they are after a checkpoint, and is compared with them, byte by
//! byte, before it gets its name.

use std::ffi::OsStr;
use std::fs::File;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use litepack_cipher::Key;
use litepack_codec::{DictId, LEVELS, Level};
use litepack_database::bytes::reader;
use litepack_database::bytes::snapshot::Bytes;
use litepack_database::bytes::unlocked::Unlocked;
use litepack_database::error::{Context, cannot_read, cannot_write, refuse};
use litepack_database::files::content::DatabaseBytes;
use litepack_database::files::object;
use litepack_database::files::replacement::Replacement;
use litepack_database::files::source::Source;
use litepack_database::job::{Step, Unit};
use litepack_database::names::identity::Identity;
use litepack_engine::plan::{self, Effort};
use litepack_engine::{FileKind, Watch};
use litepack_io::storage::ReadAt;
use litepack_store::{Options, Store, Unit as DataUnit};
use serde::Serialize;

use crate::keep::Kept;
use crate::{Error, Job, Result};

pub use litepack_engine::plan::PACK_LEVEL;

/// The lengths that a limit on dictionaries may have.
pub const DICTIONARY_SIZES: RangeInclusive<usize> = 4 << 10..=1 << 20;

/// Options of [`pack`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackOptions {
    /// zstd level, from 1 (fast) to 19 (small).
    pub level: Level,
    /// Smallest file, in ten to forty times the time: level 19 and longer dictionaries, whatever `level` says.
    pub best: bool,
    /// Lay pages out by column. Switch it off to compare.
    pub columnar: bool,
    /// Longest dictionary for a table or index: 0 for none, or one of [`DICTIONARY_SIZES`].
    pub dictionary_size: Option<usize>,
    /// Store zeros for free pages, which take no space. The file is then not the database bit for bit: what `unpack`
    /// gives has zeros in those pages.
    pub drop_free_pages: bool,
    /// Store text that several pages have in common once. Switch it off for a file that is to be read from a web server:
    /// each page that such a page refers to is one more request.
    pub references: bool,
    /// Replace the target if it exists.
    pub replace: bool,
}

impl Default for PackOptions {
    fn default() -> Self {
        PackOptions {
            level: PACK_LEVEL,
            best: false,
            columnar: true,
            dictionary_size: None,
            drop_free_pages: false,
            references: true,
            replace: false,
        }
    }
}

impl PackOptions {
    /// The effort of packing, on all processors.
    pub(crate) fn effort(&self) -> Result<Effort> {
        if !LEVELS.contains(&self.level) {
            refuse!(
                "the level is not between {} and {}",
                LEVELS.start(),
                LEVELS.end()
            );
        }
        let ordinary = match self.best {
            true => {
                let best = Effort::best(*LEVELS.end(), reader::threads());
                // Where lengths are limited, so are those of long ones.
                let long_max = match self.dictionary_size {
                    None => best.long_max,
                    Some(_) => 0,
                };
                Effort { long_max, ..best }
            }
            false => Effort::ordinary(self.level, reader::threads()),
        };
        let len_max = self.dictionary_size.unwrap_or(ordinary.len_max);
        if len_max != 0 && !DICTIONARY_SIZES.contains(&len_max) {
            let (min, max) = (DICTIONARY_SIZES.start(), DICTIONARY_SIZES.end());
            refuse!("the size of dictionaries is neither 0 nor between {min} and {max}");
        }
        Ok(Effort {
            columnar: self.columnar,
            len_max,
            notes_max: if self.references {
                ordinary.notes_max
            } else {
                0
            },
            groups: ordinary.groups && self.references,
            ..ordinary
        })
    }
}

/// The lengths of a file before and after, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sizes {
    /// Of the source.
    pub before: u64,
    /// Of the target.
    pub after: u64,
}

/// Creates a packed file from a plain SQLite database, as it is committed when this begins. Others may go on reading it,
/// and in WAL mode writing.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let (app, packed) = (place.path().join("app.db"), place.path().join("packed.db"));
/// # rusqlite::Connection::open(&app)?.execute_batch("create table t(x); insert into t values (1)")?;
/// use litepack::{Job, PackOptions};
///
/// let sizes = litepack::pack(&app, &packed, &PackOptions::default(), &Job::default())?;
/// println!("{} -> {} bytes", sizes.before, sizes.after);
/// # Ok(()) }
/// ```
///
/// # Errors
/// If the source is not a plain database or is in use, the target exists, or reading or writing fails. Then everything
/// is as it was before.
pub fn pack(
    source: impl AsRef<Path>,
    target: impl AsRef<Path>,
    options: &PackOptions,
    job: &Job<'_>,
) -> Result<Sizes> {
    let mut effort = options.effort()?;
    if object::url(target.as_ref())?.is_some() {
        // Who reads it from there would have to fetch a long dictionary first.
        // And each base of a unit is one more request.
        effort.long_max = 0;
        effort.notes_max = 0;
        effort.groups = false;
    }
    let mut source = Source::open(source.as_ref(), false)?;
    source.expect_plain()?;
    let target = Replacement::of(target.as_ref(), source.path(), options.replace, job)?;
    source.hold(job)?;
    source.expect_whole()?;
    if options.drop_free_pages {
        source.drop_free_pages(job)?;
    }
    let like = source.rights()?;
    let sizes = fill_and_compare(&source, &target, effort, job)?;
    target.publish(&like, job)?;
    Ok(sizes)
}

/// Replaces a plain SQLite database by a packed file. No other program may have it open.
///
/// # Errors
/// As [`pack`].
pub fn pack_in_place(
    file: impl AsRef<Path>,
    options: &PackOptions,
    job: &Job<'_>,
) -> Result<Sizes> {
    in_place(file.as_ref(), None, options, job)
}

/// The same, and what the database was is then beside it under the name `kept`. If a file has that name already,
/// it has to be equal to the database. The database has to be the file that the caller has looked at.
///
/// # Errors
/// As [`pack`].
#[doc(hidden)]
pub fn pack_in_place_keeping(
    file: impl AsRef<Path>,
    looked_at: Option<Identity>,
    kept: &OsStr,
    options: &PackOptions,
    job: &Job<'_>,
) -> Result<Sizes> {
    in_place(file.as_ref(), Some((kept, looked_at)), options, job)
}

fn in_place(
    file: &Path,
    kept: Option<(&OsStr, Option<Identity>)>,
    options: &PackOptions,
    job: &Job<'_>,
) -> Result<Sizes> {
    let effort = options.effort()?;
    let mut source = Source::open(file, true)?;
    source.expect_plain()?;
    source.hold_alone(job)?;
    source.expect_identity(kept.and_then(|(_, looked_at)| looked_at))?;
    let target = Replacement::in_place(&source)?;
    source.expect_whole()?;
    if options.drop_free_pages {
        source.drop_free_pages(job)?;
    }
    source.warn_of_links(&source.metadata()?, job);
    let sizes = fill_and_compare(&source, &target, effort, job)?;
    let kept = kept
        .map(|(name, _)| Kept::of(&source, name, job))
        .transpose()?;
    let replaced = target.publish_over(source, job);
    if let (Err(_), Some(kept)) = (&replaced, kept) {
        kept.withdraw();
    }
    replaced.map(|()| sizes)
}

/// Packs a database that is held, and returns the lengths of both.
fn fill_and_compare(
    source: &Source,
    target: &Replacement,
    effort: Effort,
    job: &Job<'_>,
) -> Result<Sizes> {
    let bytes = source.bytes();
    let len = ReadAt::len(&bytes).with_context(|| cannot_read(source.shown()))?;
    let name = source.shown().display().to_string();
    let warning = litepack_engine::warning(&name, len, |at, buf| {
        let read = ReadAt::read_at(&bytes, buf, at).with_context(|| cannot_read(source.shown()))?;
        Ok::<_, Error>(read == buf.len())
    })?;
    if let Some(warning) = warning {
        job.warn(&warning);
    }
    let packed = (target.file(), target.name());
    fill(DatabaseBytes::of(source)?, packed, effort, job.key(), job)?;
    let (file, name) = packed;
    let unlocked = Unlocked::of(file, FileKind::Packed, job.key(), name)?;
    let packed = Bytes {
        unlocked: unlocked.as_ref(),
        ..file.into()
    };
    let plain = (bytes, source.shown());
    reader::compare((packed, name), plain, job)?;
    job.check()?;
    Ok(Sizes {
        before: len,
        after: ReadAt::len(file).with_context(|| cannot_read(name))?,
    })
}

/// Writes a database that is held into an empty file, which has or gets a name, as one commit. With a key the file is
/// encrypted.
pub(crate) fn fill(
    content: DatabaseBytes<'_>,
    (packed, name): (&File, &Path),
    effort: Effort,
    key: Option<&Arc<Key>>,
    job: &Job<'_>,
) -> Result<()> {
    let filled = job.listening(|| fill_listening(content, (packed, name), effort, key, job));
    // An interrupt of the layers below is an error of theirs.
    job.check()?;
    filled
}

fn fill_listening(
    content: DatabaseBytes<'_>,
    (packed, name): (&File, &Path),
    effort: Effort,
    key: Option<&Arc<Key>>,
    job: &Job<'_>,
) -> Result<()> {
    let size = content.size();
    let options = Options {
        level: effort.level,
        columnar: effort.columnar,
        key: key.cloned(),
        ..reader::options(None)
    };
    let mut plain = Plain {
        content,
        failed: None,
    };
    let told = Told::new(size, effort, job);
    let mut store = Store::open(packed, options).with_context(|| cannot_write(name))?;
    let filled = litepack_engine::fill(&mut store, size, effort, &mut plain, &told);
    match (filled, plain.failed) {
        (Err(_), Some(unread)) => return Err(unread),
        (filled, _) => filled.with_context(|| cannot_write(name))?,
    }
    store.close();
    Ok(())
}

/// Says how far it is, and how long the rest takes.
struct Told<'a, 'b> {
    size: u64,
    effort: Effort,
    job: &'a Job<'b>,
    step: Mutex<Option<Step<'a>>>,
}

impl<'a, 'b> Told<'a, 'b> {
    fn new(size: u64, effort: Effort, job: &'a Job<'b>) -> Self {
        let told = Told {
            size,
            effort,
            job,
            step: Mutex::new(None),
        };
        // About as many as there will be.
        told.costs(match effort.len_max {
            0 => 0,
            _ => SAMPLE.min(size) * 2,
        });
        *told.step() = Some(job.step(CHOOSING, Unit::Tasks, None));
        told
    }

    fn costs(&self, tried: u64) {
        self.job.shares(&costs(self.size, tried, self.effort));
    }

    fn step(&self) -> MutexGuard<'_, Option<Step<'a>>> {
        self.step.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch for Told<'_, '_> {
    fn choosing(&self, done: u64, all: u64) {
        let mut step = self.step();
        if done == 0 && all > 0 {
            *step = None;
            self.costs(all);
            *step = Some(self.job.bytes(CHOOSING, all));
        } else if all == 0 {
            self.costs(0);
        } else if let Some(step) = &*step {
            step.set(done);
        }
    }

    fn filling(&self, more: u64) {
        let mut step = self.step();
        if more == 0 {
            *step = None;
            *step = Some(self.job.bytes("packing", self.size));
        } else if let Some(step) = &*step {
            step.add(more);
        }
    }
}

const CHOOSING: &str = "choosing";
/// Mostly so many bytes are tried.
const SAMPLE: u64 = 4 << 20;

/// The costs of the steps for a database of `size` bytes, of which `tried` are tried, in the time that it takes to
/// verify a byte. Measured at levels 1 to 19 with dictionaries.
fn costs(size: u64, tried: u64, effort: Effort) -> [(&'static str, f64); 4] {
    let encoding = 2.5 * 1.25_f64.powi(effort.level);
    let (size, tried) = (size as f64, tried as f64);
    [
        (CHOOSING, tried * (28.0 + encoding / 8.0)),
        ("packing", size * encoding),
        ("verifying", size),
        ("syncing", size * 0.3 + 1.0),
    ]
}

/// The database, and why it could not be read.
struct Plain<'a> {
    content: DatabaseBytes<'a>,
    failed: Option<Error>,
}

impl plan::Source for Plain<'_> {
    fn read(&mut self, offset: u64, buf: &mut [u8]) -> bool {
        match self.content.read_at(buf, offset) {
            Ok(n) => n == buf.len(),
            Err(error) => {
                self.failed = Some(error);
                false
            }
        }
    }

    fn dictionary_of(&mut self, _: DataUnit) -> DictId {
        0
    }
}
