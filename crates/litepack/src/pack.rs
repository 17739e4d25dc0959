//! Creates a packed file from a plain SQLite database.
//!
//! The packed file holds the bytes of the database as they are after a checkpoint, and is compared with them, byte by
//! byte, before it gets its name.

use std::fs::File;
use std::ops::RangeInclusive;
use std::path::Path;

use litepack_codec::{DictId, LEVELS, Level};
use litepack_engine::plan::{self, Effort, Plan};
use litepack_io::storage::ReadAt;
use litepack_store::{DEFAULT_LEVEL, Listed, Options, Store, Unit};
use serde::Serialize;

use crate::error::{Context, cannot_read, refuse};
use crate::files::reader::{self, CHUNK};
use crate::files::replacement::Replacement;
use crate::files::source::Source;
use crate::job::Step;
use crate::{Error, Job, Result};

/// The lengths that a limit on dictionaries may have.
pub const DICTIONARY_SIZES: RangeInclusive<usize> = 4 << 10..=1 << 20;

/// Options of [`pack`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackOptions {
    /// zstd level, from 1 (fast) to 19 (small).
    pub level: Level,
    /// Smallest file, in ten times the time: level 19 and longer dictionaries, whatever `level` says.
    pub best: bool,
    /// Lay pages out by column. Switch it off to compare.
    pub columnar: bool,
    /// Longest dictionary for a table or index: 0 for none, or one of [`DICTIONARY_SIZES`].
    pub dictionary_size: Option<usize>,
    /// Replace the target if it exists.
    pub replace: bool,
}

impl Default for PackOptions {
    fn default() -> Self {
        PackOptions {
            level: DEFAULT_LEVEL,
            best: false,
            columnar: true,
            dictionary_size: None,
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
            true => Effort::best(*LEVELS.end(), reader::threads()),
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

/// Creates a packed file from a plain SQLite database. Others may continue to read the database.
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
    let effort = options.effort()?;
    let mut source = Source::open(source.as_ref(), false)?;
    source.expect_plain()?;
    let target = Replacement::of(target.as_ref(), source.path(), options.replace)?;
    source.hold()?;
    source.expect_whole()?;
    let before = source.metadata()?;
    let after = fill_and_compare(&source, &target, effort, job)?;
    target.publish(&before, job)?;
    Ok(Sizes {
        before: before.len(),
        after,
    })
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
    let effort = options.effort()?;
    let mut source = Source::open(file.as_ref(), true)?;
    source.expect_plain()?;
    source.hold_alone()?;
    let target = Replacement::in_place(source.path())?;
    source.expect_whole()?;
    let before = source.metadata()?;
    source.warn_of_links(&before, job);
    let after = fill_and_compare(&source, &target, effort, job)?;
    source.drop_wal()?;
    target.publish(&before, job)?;
    source.retire();
    Ok(Sizes {
        before: before.len(),
        after,
    })
}

/// Packs a locked database, and returns the length of the packed file.
fn fill_and_compare(
    source: &Source,
    target: &Replacement,
    effort: Effort,
    job: &Job<'_>,
) -> Result<u64> {
    let (file, len) = (source.file(), source.metadata()?.len());
    let name = source.shown().display().to_string();
    let warning = litepack_engine::warning(&name, len, |at, buf| {
        let read = ReadAt::read_at(file, buf, at).with_context(|| cannot_read(source.shown()))?;
        Ok::<_, Error>(read == buf.len())
    })?;
    if let Some(warning) = warning {
        job.warn(&warning);
    }
    let step = job.bytes("packing", len);
    fill(source, target.file(), effort, job, &step)?;
    drop(step);
    let plain = (source.file(), source.shown());
    reader::compare((target.file(), target.name()), plain, job)?;
    job.check()?;
    ReadAt::len(target.file()).context("cannot read the new file")
}

/// Writes a locked database into an empty file, as one commit.
pub(crate) fn fill(
    source: &Source,
    packed: &File,
    effort: Effort,
    job: &Job<'_>,
    step: &Step<'_>,
) -> Result<()> {
    let size = source.metadata()?.len();
    let options = Options {
        level: effort.level,
        columnar: effort.columnar,
        ..reader::options()
    };
    let unit = source.page_size().map_or(4096, |size| size.max(4096)) as usize;
    let cannot_read = || cannot_read(source.shown());
    let cannot = || "cannot write the packed file".to_owned();
    let mut store = Store::open(packed, options).with_context(cannot)?;
    if size == 0 {
        // The first write makes the file a packed one; the database in it is still empty.
        store.write(0, &vec![0; unit]).with_context(cannot)?;
        store.truncate(0).with_context(cannot)?;
    }
    let mut plain = Plain(source.file());
    let plan = job.listening(|| Plan::make(size, unit as u32, effort, Vec::new(), &mut plain));
    job.check()?;
    let plan = plan
        .map_err(litepack_store::Error::from)
        .with_context(cannot)?;
    let dictionaries = plan.dictionary_lens();
    let dictionaries = dictionaries
        .map_err(litepack_store::Error::from)
        .with_context(cannot)?;
    let front = plan.front(size / unit as u64, &dictionaries);
    store.fill_in_order(front).with_context(cannot)?;
    let mut numbers = Vec::new();
    for Listed {
        dictionary,
        signatures,
        ..
    } in plan.planned()
    {
        let added = store.add_dictionary(dictionary, signatures.clone());
        numbers.push(added.with_context(cannot)?);
    }
    let mut buf = vec![0; CHUNK as usize];
    let mut offset = 0;
    while offset < size {
        job.check()?;
        let wanted = CHUNK.min(size - offset) as usize;
        let n = source.file().read_at(&mut buf[..wanted], offset);
        if n.with_context(cannot_read)? != wanted {
            refuse!(
                "{} became shorter while it was read",
                source.shown().display()
            );
        }
        // One unit at a time: the first write tells the store how long a unit is.
        for part in buf[..wanted].chunks(unit) {
            let dictionary = plan.dictionary_of(Unit::holding(offset, unit as u32));
            let number = dictionary.map_or(0, |index| numbers[index]);
            store
                .write_with(offset, part, number)
                .with_context(cannot)?;
            offset += part.len() as u64;
        }
        step.add(wanted as u64);
    }
    plan.finish(&mut store).with_context(cannot)?;
    store.flush_both_slots().with_context(cannot)?;
    store.close();
    Ok(())
}

/// The plain database, to plan dictionaries for.
struct Plain<'a>(&'a File);

impl plan::Source for Plain<'_> {
    fn read(&mut self, offset: u64, buf: &mut [u8]) -> bool {
        ReadAt::read_at(self.0, buf, offset).is_ok_and(|n| n == buf.len())
    }

    fn dictionary_of(&mut self, _: Unit) -> DictId {
        0
    }
}
