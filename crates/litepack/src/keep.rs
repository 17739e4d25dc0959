//! A database that is packed in place, and whose original is kept under another name.
//!
//! The original is kept as a copy, not as another name of the old file. A program that has the old file open, and that
//! no lock shows, must not go on in it; so the old file is made unreadable, as always when a file is replaced. Some file
//! systems share the copy's blocks with the old file; the others need room for both while this goes on.
//!
//! Until the packed file takes the name, the database has it. A call that is killed in between leaves both: the next one
//! finds that the copy is equal, and takes it.

use std::fs::{File, Metadata};
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};

use litepack_database::error::{Context, cannot_read, cannot_write, refuse};
use litepack_database::files::attributes;
use litepack_database::files::content::{CHUNK, DatabaseBytes};
use litepack_database::files::held::Held;
use litepack_database::files::leftovers;
use litepack_database::files::replacement::Replacement;
use litepack_database::files::source::{Source, open_file};

use crate::{Error, Job, Result, register};

/// Bytes that are copied between two looks whether to stop.
const AT_ONCE: u64 = 16 << 20;

/// Whether a database, plain or packed, has exactly the bytes of a plain file.
///
/// # Errors
/// If one of them cannot be read, or the database is in use.
pub fn is_equal(
    database: impl AsRef<Path>,
    plain: impl AsRef<Path>,
    job: &Job<'_>,
) -> Result<bool> {
    register()?;
    let mut source = Source::open(database.as_ref(), false)?;
    source.expect_database()?;
    source.unlock(job.key())?;
    source.hold(job)?;
    let plain = plain.as_ref();
    let (file, _) = open_file(plain, false)?;
    equal(&source, (&file, plain), job)
}

fn equal(source: &Source, (plain, name): (&File, &Path), job: &Job<'_>) -> Result<bool> {
    let mut one = DatabaseBytes::of(source)?;
    let mut other = DatabaseBytes::plain(plain, name)?;
    if one.size() != other.size() {
        return Ok(false);
    }
    let step = job.bytes("comparing", one.size());
    let (mut left, mut right) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut offset = 0;
    while offset < one.size() {
        job.check()?;
        let n = one.read_at(&mut left, offset)?;
        if other.read_at(&mut right, offset)? != n || left.get(..n) != right.get(..n) {
            return Ok(false);
        }
        offset += n as u64;
        step.add(n as u64);
    }
    Ok(true)
}

/// The original under its other name.
pub(crate) struct Kept {
    name: PathBuf,
    /// Whether this call made it.
    is_new: bool,
    database: PathBuf,
    original: Metadata,
}

impl Kept {
    /// Keeps a database that is held alone.
    pub(crate) fn of(source: &Source, name: &Path, job: &Job<'_>) -> Result<Kept> {
        let kept = |is_new| {
            Ok(Kept {
                name: name.to_owned(),
                is_new,
                database: source.path().to_owned(),
                original: source.metadata()?,
            })
        };
        if let Ok(found) = name.symlink_metadata() {
            let shown = name.display();
            if !found.is_file() {
                refuse!("{shown} is not an ordinary file");
            }
            let file = File::open(name).with_context(|| cannot_read(name))?;
            let file = Held::new(file);
            if !equal(source, (&file, name), job)? {
                return Err(Error::Exists {
                    path: name.to_owned(),
                });
            }
            remove_leftovers(name);
            return kept(false);
        }
        let copy = Replacement::beside(name.to_owned(), false)?;
        fill(source, copy.file(), job).with_context(|| cannot_write(name))?;
        if !equal(source, (copy.file(), name), job)? {
            return Err(Error::Mismatch(format!(
                "{} is not what was written to it",
                name.display()
            )));
        }
        let like = source.metadata()?;
        attributes::copy(source.file(), copy.file());
        copy.publish(&like, job)?;
        kept(true)
    }

    /// Removes it again, if the database has its name still.
    pub(crate) fn withdraw(self) {
        let is_there = self.database.symlink_metadata();
        if self.is_new && is_there.is_ok_and(|found| is_same(&found, &self.original)) {
            let _ = std::fs::remove_file(self.name);
        }
    }
}

/// Removes what killed calls left of copies of this name.
pub fn remove_leftovers(kept: &Path) {
    for leftover in leftovers::beside(kept) {
        // It is as harmless as it was.
        let _ = leftover.remove();
    }
}

fn fill(source: &Source, mut copy: &File, job: &Job<'_>) -> Result<()> {
    let len = source.metadata()?.len();
    let step = job.bytes("keeping", len);
    let mut from = source.file();
    from.rewind().with_context(|| cannot_read(source.shown()))?;
    loop {
        job.check()?;
        // The system shares blocks where it can.
        let mut part = std::io::Read::take(from, AT_ONCE);
        let n = std::io::copy(&mut part, &mut copy).context("cannot copy the original")?;
        if n == 0 {
            break;
        }
        step.add(n);
    }
    copy.flush().context("cannot copy the original")
}

#[cfg(unix)]
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Where that cannot be told it stays: it is in nobody's way.
#[cfg(not(unix))]
fn is_same(_: &Metadata, _: &Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PackOptions, Progress, Stop, pack_in_place_keeping};
    use std::sync::atomic::{AtomicU32, Ordering};

    fn database(place: &Path) -> PathBuf {
        let path = place.join("a.db");
        let db = rusqlite::Connection::open(&path).unwrap();
        db.execute_batch(
            "create table t(x); insert into t select 'some text that is there more than once' \
             from (with recursive n(i) as (select 1 union all select i+1 from n where i<2000) select i from n)",
        )
        .unwrap();
        path
    }

    fn names(place: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(place).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_original_is_kept_and_nobody_goes_on_in_it() {
        let place = tempfile::tempdir().unwrap();
        let (path, kept) = (database(place.path()), place.path().join("kept"));
        let before = std::fs::read(&path).unwrap();
        // Open and idle: no lock shows it. Without a journal SQLite does not see either that the name is another file's.
        let idle = rusqlite::Connection::open(&path).unwrap();
        idle.execute_batch("pragma journal_mode=memory").unwrap();
        let count = "select count(*) from t";
        idle.query_row(count, [], |_| Ok(())).unwrap();
        pack_in_place_keeping(&path, &kept, &PackOptions::default(), &Job::default()).unwrap();
        let lost = idle.execute_batch("insert into t values ('lost')");
        let lost = lost.unwrap_err().to_string();
        assert!(lost.contains("not a database"), "{lost}");
        assert!(std::fs::read(&kept).unwrap() == before);
        assert!(is_equal(&path, &kept, &Job::default()).unwrap());
        let db = crate::open(&path).unwrap();
        db.execute_batch("insert into t values (1)").unwrap();
        drop(db);
        assert!(!is_equal(&path, &kept, &Job::default()).unwrap());
        assert_eq!(names(place.path()), ["a.db", "kept"]);
    }

    /// As if it was killed between the two names.
    #[test]
    fn an_equal_copy_is_taken_and_no_other_file_is_touched() {
        let place = tempfile::tempdir().unwrap();
        let (path, kept) = (database(place.path()), place.path().join("kept"));
        let before = std::fs::read(&path).unwrap();
        let mut other = before.clone();
        *other.last_mut().unwrap() ^= 1;
        std::fs::write(&kept, &other).unwrap();
        let pack = || pack_in_place_keeping(&path, &kept, &PackOptions::default(), &Job::default());
        assert!(matches!(pack(), Err(Error::Exists { .. })));
        assert!(std::fs::read(&path).unwrap() == before && std::fs::read(&kept).unwrap() == other);
        std::fs::write(&kept, &before).unwrap();
        pack().unwrap();
        assert!(std::fs::read(&kept).unwrap() == before);
        assert_eq!(names(place.path()), ["a.db", "kept"]);
    }

    /// Stopped when the copy has its name, and the packed file not yet.
    #[test]
    fn a_copy_is_not_left_if_the_database_is_not_replaced() {
        let place = tempfile::tempdir().unwrap();
        let (path, kept) = (database(place.path()), place.path().join("kept"));
        let before = std::fs::read(&path).unwrap();
        let (stop, synced, seen) = (Stop::default(), AtomicU32::new(0), AtomicU32::new(0));
        let watch = |progress: Progress<'_>| {
            let is_sync = matches!(
                progress,
                Progress::Began {
                    step: "syncing",
                    ..
                }
            );
            if is_sync && synced.fetch_add(1, Ordering::SeqCst) == 1 {
                seen.store(u32::from(kept.exists()), Ordering::SeqCst);
                stop.stop();
            }
        };
        let job = Job::default().with_stop(&stop).with_progress(&watch);
        let stopped =
            pack_in_place_keeping(&path, &kept, &PackOptions::default(), &job).unwrap_err();
        assert!(stopped.is_interrupted(), "{stopped}");
        assert_eq!(seen.into_inner(), 1);
        assert!(std::fs::read(&path).unwrap() == before);
        assert_eq!(names(place.path()), ["a.db"]);
    }
}
