//! Restores the plain SQLite database from a packed file, bit for bit.

use std::path::Path;

use litepack_database::bytes::reader;
use litepack_database::error::{Context, cannot_read, cannot_write};
use litepack_database::files::replacement::Replacement;
use litepack_database::files::source::Source;
use litepack_database::names::identity::Identity;
use litepack_io::storage::Storage;

use crate::{Job, Result, Sizes, register};

/// Options of [`unpack`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnpackOptions {
    /// Replace the target if it exists.
    pub replace: bool,
}

/// Restores the plain SQLite database from a packed file, as it is committed when this begins. Others may go on reading
/// the packed file, and in WAL mode writing.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let (packed, plain) = (place.path().join("packed.db"), place.path().join("plain.db"));
/// # litepack::open(&packed)?.execute_batch("create table t(x); insert into t values (1)")?;
/// use litepack::{Job, UnpackOptions};
///
/// litepack::unpack(&packed, &plain, &UnpackOptions::default(), &Job::default())?;
/// let rows: u32 = rusqlite::Connection::open(&plain)?.query_row("select count(*) from t", [], |row| row.get(0))?;
/// assert_eq!(rows, 1);
/// # Ok(()) }
/// ```
///
/// # Errors
/// If the source is not a packed file, is damaged or in use, the target exists, or reading or writing fails. Then
/// everything is as it was before.
pub fn unpack(
    source: impl AsRef<Path>,
    target: impl AsRef<Path>,
    options: &UnpackOptions,
    job: &Job<'_>,
) -> Result<Sizes> {
    let mut source = open(source.as_ref(), false, job)?;
    let target = Replacement::of(target.as_ref(), source.path(), options.replace, job)?;
    source.hold(job)?;
    let (before, like) = (source.metadata()?.len(), source.rights()?);
    let after = write_and_compare(&source, &target, job)?;
    target.publish(&like, job)?;
    Ok(Sizes { before, after })
}

/// Replaces a packed file by the plain database in it. No other program may have it open.
///
/// # Errors
/// As [`unpack`].
pub fn unpack_in_place(file: impl AsRef<Path>, job: &Job<'_>) -> Result<Sizes> {
    unpack_in_place_of(file, None, job)
}

/// The same, of the file that the caller has looked at.
///
/// # Errors
/// As [`unpack`].
#[doc(hidden)]
pub fn unpack_in_place_of(
    file: impl AsRef<Path>,
    looked_at: Option<Identity>,
    job: &Job<'_>,
) -> Result<Sizes> {
    let mut source = open(file.as_ref(), true, job)?;
    source.hold_alone(job)?;
    source.expect_identity(looked_at)?;
    let target = Replacement::in_place(&source)?;
    let before = source.metadata()?;
    source.warn_of_links(&before, job);
    let after = write_and_compare(&source, &target, job)?;
    let len = before.len();
    target.publish_over(source, job)?;
    Ok(Sizes { before: len, after })
}

fn open(shown: &Path, writable: bool, job: &Job<'_>) -> Result<Source> {
    register()?;
    let mut source = Source::open(shown, writable)?;
    source.expect_packed()?;
    source.unlock(job.key())?;
    // Says more about a file that cannot be opened than SQLite would.
    let options = reader::options(source.unlocked());
    reader::open(source.file(), &options).with_context(|| cannot_read(shown))?;
    Ok(source)
}

/// Writes the database in a locked file, and returns its length.
fn write_and_compare(source: &Source, target: &Replacement, job: &Job<'_>) -> Result<u64> {
    let name = source.shown();
    let packed = source.bytes();
    let size = reader::size(packed).with_context(|| cannot_read(name))?;
    job.shares(&[("unpacking", 1.5), ("verifying", 1.0), ("syncing", 1.0)]);
    let step = job.bytes("unpacking", size);
    let plain = target.file();
    let cannot = || cannot_write(target.name());
    Storage::truncate(plain, size).with_context(cannot)?;
    reader::read_all(packed, name, job, &step, |offset, bytes| {
        Storage::write_at(plain, bytes, offset).with_context(cannot)
    })?;
    drop(step);
    let named = (plain.into(), target.name());
    reader::compare((packed, name), named, job)?;
    job.check()?;
    Ok(size)
}
