//! A database that is packed in place, and whose original is kept under another name.
//!
//! The original is kept as a copy, not as another name of the old file. A program that has the old file open, and that
//! no lock shows, must not go on in it; so the old file is made unreadable, as always when a file is replaced. Some file
//! systems share the copy's blocks with the old file; the others need room for both while this goes on.
//!
//! Both are in one directory, which stays open: see `database/files/directory.rs`. Nothing is done by a path to it.
//!
//! Until the packed file takes the name, the database has it. A call that is killed in between leaves both: the next one
//! finds that the copy is equal, and takes it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};

use litepack_database::error::{Context, cannot_read, cannot_write, refuse, replaced};
use litepack_database::files::content::{CHUNK, DatabaseBytes};
use litepack_database::files::directory::{Directory, holding};
use litepack_database::files::durable;
use litepack_database::files::held::Held;
use litepack_database::files::itself;
use litepack_database::files::leftovers;
use litepack_database::files::replacement::Replacement;
use litepack_database::files::source::Source;
use litepack_database::names::identity::Identity;

use crate::{Error, Job, Result, register};

/// Bytes that are copied between two looks whether to stop.
const AT_ONCE: u64 = 16 << 20;

/// An original that was kept. The file stays open, and no other one is taken for it.
#[derive(Debug)]
pub struct Original {
    name: PathBuf,
    directory: Directory,
    file: Held,
}

impl Original {
    /// Opens it.
    ///
    /// # Errors
    /// If it is not an ordinary file, or cannot be read.
    pub fn open(name: &Path) -> Result<Original> {
        let file = itself::open(name, false).with_context(|| cannot_read(name))?;
        let file = Held::new(file);
        let (directory, _) = holding(&file, name)?;
        Ok(Original {
            name: name.to_owned(),
            directory,
            file,
        })
    }

    /// Its name.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Removes it if a database, plain or packed, has exactly its bytes, and will have them after a power loss. Whether
    /// that is so.
    ///
    /// # Errors
    /// If one of them cannot be read, or the database is in use or the original itself.
    pub fn remove_if_equal(&self, database: &Path, job: &Job<'_>) -> Result<bool> {
        register()?;
        let mut source = Source::open(database, false)?;
        source.expect_database()?;
        source.unlock(job.key())?;
        source.hold(job)?;
        if Identity::of_file(source.file()) == Identity::of_file(&self.file) {
            refuse!("{} is its own original", database.display());
        }
        if !equal(&source, (&self.file, &self.name), job)? {
            return Ok(false);
        }
        self.remove_beside(source.file(), source.path())?;
        Ok(true)
    }

    /// Removes it, if a file that was found to hold the same, or what is newer, has its name in the same directory, and
    /// keeps it in a power loss.
    ///
    /// # Errors
    /// If one of them has its name no more, or the file cannot be made durable.
    pub fn remove_beside(&self, database: &File, path: &Path) -> Result<()> {
        durable::sync(database)
            .and_then(|()| durable::sync_directory(&self.directory))
            .with_context(|| format!("cannot make {} durable", path.display()))?;
        for (file, path) in [(database, path), (&self.file, &self.name)] {
            let name = path.file_name();
            if !name.is_some_and(|name| self.directory.has(file, name)) {
                return Err(replaced(path));
            }
        }
        remove_leftovers(&self.name);
        let name = self.name.file_name().unwrap_or_default();
        durable::remove(&self.directory, name)
            .and_then(|()| durable::sync_directory(&self.directory))
            .with_context(|| format!("cannot remove {}", self.name.display()))
    }
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
    directory: Directory,
    name: OsString,
    /// If this call made it.
    new: Option<File>,
    database: OsString,
    original: Option<Identity>,
}

impl Kept {
    /// Keeps a database that is held alone, under a name beside it.
    pub(crate) fn of(source: &Source, name: &OsStr, job: &Job<'_>) -> Result<Kept> {
        let (directory, database) = holding(source.file(), source.path())?;
        let new = match directory.is_taken(name) {
            true => {
                take(source, &directory, name, job)?;
                None
            }
            false => copy(source, &directory, name, job)?,
        };
        Ok(Kept {
            name: name.to_owned(),
            new,
            database: database.to_owned(),
            original: Identity::of_file(source.file()),
            directory,
        })
    }

    /// Removes it again, if the database has its name still.
    pub(crate) fn withdraw(self) {
        // If that cannot be told, it stays.
        let named = self.directory.identity(&self.database);
        let is_there = self.original.is_some() && named == self.original;
        if is_there && (self.new).is_some_and(|new| self.directory.has(&new, &self.name)) {
            let _ = self.directory.remove(&self.name);
        }
    }
}

/// Takes the copy that a killed call has left, if it is equal and nobody else can write it.
fn take(source: &Source, directory: &Directory, own: &OsStr, job: &Job<'_>) -> Result<()> {
    let name = &*directory.path().join(own);
    let shown = name.display();
    if !name.symlink_metadata().is_ok_and(|found| found.is_file()) {
        refuse!("{shown} is not an ordinary file");
    }
    let file = itself::open(name, false).with_context(|| cannot_read(name))?;
    let file = Held::new(file);
    if !directory.has(&file, own) {
        return Err(replaced(name));
    }
    if !equal(source, (&file, name), job)? {
        return Err(Error::Exists {
            path: name.to_owned(),
        });
    }
    if !is_ours(source, &file)? {
        refuse!(
            "{shown} belongs to somebody else than the database, or has other names (hard links)"
        );
    }
    let rights = source.rights()?;
    rights
        .give(&file)
        .and_then(|()| durable::sync(&file))
        .and_then(|()| durable::sync_directory(directory))
        .with_context(|| cannot_write(name))?;
    if !directory.has(&file, own) {
        return Err(replaced(name));
    }
    remove_leftovers(name);
    Ok(())
}

/// Whether a file has the owner of the database, and one name.
#[cfg(unix)]
fn is_ours(source: &Source, file: &File) -> Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let found = file.metadata().context("cannot look at the copy")?;
    Ok(found.uid() == source.metadata()?.uid() && found.nlink() == 1)
}

#[cfg(not(unix))]
fn is_ours(_: &Source, _: &File) -> Result<bool> {
    Ok(true)
}

fn copy(
    source: &Source,
    directory: &Directory,
    own: &OsStr,
    job: &Job<'_>,
) -> Result<Option<File>> {
    let name = &*directory.path().join(own);
    let copy = Replacement::within(directory.clone(), name.to_owned(), false)?;
    fill(source, copy.file(), job).with_context(|| cannot_write(name))?;
    if !equal(source, (copy.file(), name), job)? {
        return Err(Error::Mismatch(format!(
            "{} is not what was written to it",
            name.display()
        )));
    }
    copy.publish_like(source.file(), job)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PackOptions, Progress, Sizes, Stop, pack_in_place_keeping};
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

    fn pack_keeping(path: &Path, job: &Job<'_>) -> Result<Sizes> {
        let options = PackOptions::default();
        pack_in_place_keeping(path, None, OsStr::new("kept"), &options, job)
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
        pack_keeping(&path, &Job::default()).unwrap();
        let lost = idle.execute_batch("insert into t values ('lost')");
        let lost = lost.unwrap_err().to_string();
        assert!(lost.contains("not a database"), "{lost}");
        assert!(std::fs::read(&kept).unwrap() == before);
        let db = crate::open(&path).unwrap();
        db.execute_batch("insert into t values (1)").unwrap();
        drop(db);
        let original = Original::open(&kept).unwrap();
        assert!(!original.remove_if_equal(&path, &Job::default()).unwrap());
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
        let pack = || pack_keeping(&path, &Job::default());
        assert!(matches!(pack(), Err(Error::Exists { .. })));
        assert!(std::fs::read(&path).unwrap() == before && std::fs::read(&kept).unwrap() == other);
        std::fs::write(&kept, &before).unwrap();
        pack().unwrap();
        assert!(std::fs::read(&kept).unwrap() == before);
        assert_eq!(names(place.path()), ["a.db", "kept"]);
    }

    /// Its owner could write into it, and so could who has another name of it.
    #[cfg(unix)]
    #[test]
    fn a_copy_that_somebody_else_may_write_is_not_taken() {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
        let place = tempfile::tempdir().unwrap();
        let (path, kept) = (database(place.path()), place.path().join("kept"));
        let before = std::fs::read(&path).unwrap();
        let pack = || pack_keeping(&path, &Job::default());
        std::fs::write(&kept, &before).unwrap();
        let refused = || {
            let why = pack().unwrap_err().to_string();
            assert!(why.contains("belongs to somebody else"), "{why}");
            assert!(std::fs::read(&path).unwrap() == before);
        };
        std::fs::hard_link(&kept, place.path().join("second")).unwrap();
        refused();
        std::fs::remove_file(place.path().join("second")).unwrap();
        // Only who may do everything can make one.
        if chown(&kept, Some(4711), None).is_ok() {
            refused();
            chown(&kept, Some(path.metadata().unwrap().uid()), None).unwrap();
        }
        std::fs::set_permissions(&kept, std::fs::Permissions::from_mode(0o666)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        pack().unwrap();
        let mode = kept.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    /// Of the file that was compared, and of the database that it was compared with.
    #[test]
    fn an_original_is_removed_beside_its_equal_and_no_other_file_is() {
        let place = tempfile::tempdir().unwrap();
        let (path, kept) = (database(place.path()), place.path().join("kept"));
        let copy = || std::fs::copy(&path, &kept).unwrap();
        let job = Job::default();
        copy();
        let original = Original::open(&kept).unwrap();
        std::fs::rename(&kept, place.path().join("moved")).unwrap();
        copy();
        let why = original
            .remove_if_equal(&path, &job)
            .unwrap_err()
            .to_string();
        assert!(why.contains("was replaced"), "{why}");
        let original = Original::open(&kept).unwrap();
        let why = original
            .remove_if_equal(&kept, &job)
            .unwrap_err()
            .to_string();
        assert!(why.contains("its own original"), "{why}");
        assert!(kept.exists());
        let source = File::open(&path).unwrap();
        std::fs::rename(&path, place.path().join("b.db")).unwrap();
        std::fs::write(&path, "other").unwrap();
        assert!(original.remove_beside(&source, &path).is_err() && kept.exists());
        std::fs::rename(place.path().join("b.db"), &path).unwrap();
        assert!(original.remove_if_equal(&path, &job).unwrap());
        assert_eq!(names(place.path()), ["a.db", "moved"]);
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
        let stopped = pack_keeping(&path, &job).unwrap_err();
        assert!(stopped.is_interrupted(), "{stopped}");
        assert_eq!(seen.into_inner(), 1);
        assert!(std::fs::read(&path).unwrap() == before);
        assert_eq!(names(place.path()), ["a.db"]);
    }
}
