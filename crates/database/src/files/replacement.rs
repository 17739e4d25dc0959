//! Putting a new file in place of a name: either the whole new file is there, synced, or everything is
//! as it was before, with nothing left behind.
//!
//! The content is written to a temporary file beside the target, which is deleted unless [`Replacement::publish`] renames
//! it. Only `kill -9` or a power loss can leave such a file; the next command for the same target deletes it.
//!
//! For an object in a store (`s3://bucket/key`) it is a file without a name in the directory for temporary files, which
//! is uploaded when all of it is there.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{Context, refuse};
use crate::files::attributes;
use crate::files::durable;
use crate::files::leftovers::{self, directory, remove_wal};
use crate::files::object;
use crate::files::source::{Source, applied, has_name};
use crate::job::Unit;
use crate::names::{PACKED, PLAIN, is_same_file, with_suffix};
use crate::{Error, Job, Result};

/// A file on its way to its name.
pub struct Replacement {
    content: Unpublished,
    target: PathBuf,
    overwrite: bool,
    /// The caller sees to it that no database of that name is in use.
    is_held: bool,
}

enum Unpublished {
    Beside(NamedTempFile),
    /// To be uploaded to a URL.
    Object(String, File),
}

impl Replacement {
    /// For a file that is not `source`; an existing one is replaced only if `replace` says so.
    pub fn of(target: &Path, source: &Path, replace: bool, job: &Job<'_>) -> Result<Replacement> {
        let name = target.display();
        if let Some(url) = object::url(target)? {
            object::expect_absent(url, replace)?;
            let unnamed = tempfile::tempfile();
            let temp = std::env::temp_dir();
            return Ok(Replacement {
                content: Unpublished::Object(
                    url.to_owned(),
                    unnamed.with_context(|| format!("cannot write to {}", temp.display()))?,
                ),
                target: target.to_owned(),
                overwrite: replace,
                is_held: true,
            });
        }
        let target = match target.symlink_metadata() {
            Ok(_) => {
                if is_same_file(target, source) {
                    return Err(Error::SameFile {
                        path: target.to_owned(),
                    });
                }
                if target.is_dir() {
                    refuse!("{name} is a directory");
                }
                if !replace {
                    return Err(Error::Exists {
                        path: target.to_owned(),
                    });
                }
                if !target.is_file() && target.exists() {
                    refuse!("{name} is not an ordinary file");
                }
                // The file that a link leads to is replaced, not the link.
                target.canonicalize().unwrap_or_else(|_| target.to_owned())
            }
            Err(_) => target.to_owned(),
        };
        vacate(&target, job)?;
        let mut replacement = Replacement::beside(target, replace)?;
        replacement.is_held = false;
        Ok(replacement)
    }

    /// For the file `target` itself, which the caller has locked.
    pub fn in_place(target: &Path) -> Result<Replacement> {
        Replacement::beside(target.to_owned(), true)
    }

    /// For a name, whatever there is now.
    pub fn beside(target: PathBuf, overwrite: bool) -> Result<Replacement> {
        let Some(name) = target.file_name() else {
            refuse!("the target has no file name");
        };
        for leftover in leftovers::beside(&target) {
            // It is as harmless as it was.
            let _ = leftover.remove();
        }
        let temp = leftovers::create(&directory(&target), name)
            .map_err(without_path)
            .with_context(|| format!("cannot write to {}", directory(&target).display()))?;
        Ok(Replacement {
            content: Unpublished::Beside(temp),
            target,
            overwrite,
            is_held: true,
        })
    }

    /// The temporary file.
    pub fn file(&self) -> &File {
        match &self.content {
            Unpublished::Beside(temp) => temp.as_file(),
            Unpublished::Object(_, file) => file,
        }
    }

    /// The name that it is to have.
    pub fn name(&self) -> &Path {
        &self.target
    }

    /// Where the temporary file is, for SQLite to write; `None` if it has no name. It is not locked any more.
    pub fn beside_path(&self) -> Option<&Path> {
        match &self.content {
            Unpublished::Beside(temp) => {
                // There was none, or SQLite would say that it cannot lock the file.
                let _ = temp.as_file().unlock();
                Some(temp.path())
            }
            Unpublished::Object(..) => None,
        }
    }

    /// Gives the file the permissions of `like` and its name, and returns once that would survive a
    /// power loss.
    pub fn publish(self, like: &Metadata, job: &Job<'_>) -> Result<()> {
        self.replace(None, like, job)
    }

    /// The same in place of a database that is held alone: its WAL goes, and who waits for it is told.
    pub fn publish_over(self, old: Source, like: &Metadata, job: &Job<'_>) -> Result<()> {
        self.replace(Some(old), like, job)
    }

    fn replace(self, old: Option<Source>, like: &Metadata, job: &Job<'_>) -> Result<()> {
        let name = self.target.display();
        let temp = match self.content {
            Unpublished::Beside(temp) => temp,
            Unpublished::Object(url, file) => {
                return object::upload(&url, &file, self.overwrite, job);
            }
        };
        adopt(temp.as_file(), like);
        if let Some(old) = &old {
            attributes::copy(old.file(), temp.as_file());
        }
        let step = job.step("syncing", Unit::Tasks, None);
        durable::sync(temp.as_file()).with_context(|| format!("cannot write {name}"))?;
        drop(step);
        job.check()?;
        // The old file may have been opened meanwhile. From here on it is locked.
        let mut old = match old {
            None if !self.is_held => vacate(&self.target, job)?,
            old => old,
        };
        if let Some(old) = &mut old {
            if !has_name(old.file(), &self.target) {
                refuse!("{name} was replaced by another file meanwhile; try again");
            }
            old.drop_wal()?;
        }
        if self.overwrite {
            temp.persist(&self.target)
                .with_context(|| format!("cannot replace {name}"))?;
        } else {
            temp.persist_noclobber(&self.target)
                .with_context(|| format!("cannot create {name}"))?;
        }
        durable::named(&self.target);
        durable::sync_directory(&directory(&self.target))
            .with_context(|| format!("{name} is written but may not survive a power loss"))?;
        if let Some(old) = old {
            old.retire();
        }
        Ok(())
    }
}

/// Sees to it that nothing of another database is beside the new file. It is an error if there is a journal, or a WAL
/// with something in it. It is an error, too, if a program has the database open in WAL mode, for it would go on with
/// its WAL beside the new file. A program that has opened such a database and not read it yet would do so, too, and is
/// not seen; so the old database has to be retired when it is replaced. It is returned, held, and its empty WAL goes
/// with it.
fn vacate(target: &Path, job: &Job<'_>) -> Result<Option<Source>> {
    if let Some(beside) = PLAIN.pending(target).or(PACKED.pending(target)) {
        return Err(applied(&beside));
    }
    let wals = [PLAIN, PACKED].map(|suffixes| with_suffix(target, suffixes.wal));
    let wal = wals.into_iter().find(|wal| wal.exists());
    if !target.exists() {
        return remove_wal(target).map(|_| None);
    }
    let alone = Source::open(target, true).and_then(|mut old| {
        old.expect_database()?;
        if old.is_encrypted() && old.unlock(job.key()).is_err() {
            let name = target.display();
            refuse!(
                "{name} is encrypted with another key, so it cannot be told whether it is in use; remove it first"
            );
        }
        if wal.is_none() && !old.is_wal() {
            return Ok(None);
        }
        old.hold_alone(job)?;
        Ok(Some(old))
    });
    match (alone, wal) {
        (Err(told @ (Error::InUse { .. } | Error::Refused(_) | Error::Interrupted { .. })), _) => {
            Err(told)
        }
        // It cannot be told.
        (Err(_), Some(wal)) => {
            let (name, wal) = (target.display(), wal.display());
            refuse!("{wal} exists: {name} may be open in WAL mode; close it, or remove {wal}")
        }
        (Err(_), None) => Ok(None),
        (Ok(old), _) => Ok(old),
    }
}

/// The error without the temporary file's name, which means nothing to the user.
fn without_path(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::NotFound => io::Error::new(error.kind(), "there is no such directory"),
        kind @ (ErrorKind::PermissionDenied
        | ErrorKind::ReadOnlyFilesystem
        | ErrorKind::StorageFull) => kind.into(),
        _ => error,
    }
}

/// Takes over owner and permissions, as far as we are allowed to: never a reason to fail.
#[cfg(unix)]
fn adopt(file: &File, like: &Metadata) {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let _ = fchown(file, Some(like.uid()), Some(like.gid()));
    let mode = std::fs::Permissions::from_mode(like.mode() & 0o777);
    let _ = file.set_permissions(mode);
}

#[cfg(not(unix))]
fn adopt(_: &File, _: &Metadata) {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who has the old file open in WAL mode goes on with its WAL: the new one must not come beside it.
    #[test]
    fn a_database_that_is_open_is_not_replaced_even_if_it_is_opened_late() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("a.db");
        std::fs::write(&target, "old").unwrap();
        let new = || Replacement::of(&target, Path::new(""), true, &Job::default());
        let replacement = new().unwrap();
        let wal = with_suffix(&target, "-wal");
        for content in ["", "frames"] {
            std::fs::write(&wal, content).unwrap();
            let refused = new().err().unwrap().to_string();
            assert!(refused.contains("a.db-wal exists"), "{refused}");
        }
        let like = target.metadata().unwrap();
        let refused = replacement.publish(&like, &Job::default()).unwrap_err();
        assert!(refused.to_string().contains("a.db-wal exists"), "{refused}");
        assert_eq!(std::fs::read(&target).unwrap(), b"old");
        std::fs::remove_file(wal).unwrap();
        new().unwrap().publish(&like, &Job::default()).unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    }

    /// A reader that may not write leaves an empty WAL. That is none of one who has it open.
    #[test]
    fn an_empty_wal_that_was_left_behind_is_removed() {
        crate::register().unwrap();
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("a.db");
        let open = |flags| rusqlite::Connection::open_with_flags(&target, flags).unwrap();
        let write = || open(rusqlite::OpenFlags::default());
        write()
            .execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(a);")
            .unwrap();
        let read = || {
            let reader = open(rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY);
            let count = "SELECT count(*) FROM t";
            reader.query_row(count, [], |_| Ok(())).unwrap();
            reader
        };
        let like = target.metadata().unwrap();
        let new = || Replacement::of(&target, Path::new(""), true, &Job::default());
        let reader = read();
        assert!(matches!(new(), Err(Error::InUse { .. })));
        drop(reader);
        let wal = with_suffix(&target, "-wal");
        assert_eq!(wal.metadata().unwrap().len(), 0);
        let replacement = new().unwrap();
        // Once more while the command runs.
        let reader = read();
        let late = new_beside(&target, &like);
        assert!(matches!(late, Err(Error::InUse { .. })));
        drop(reader);
        assert!(wal.exists());
        replacement.publish(&like, &Job::default()).unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
        // A WAL without a database is not in use.
        std::fs::remove_file(&target).unwrap();
        std::fs::write(&wal, "").unwrap();
        new().unwrap().publish(&like, &Job::default()).unwrap();
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    }

    /// A power loss at any point leaves the old file, with or without its empty WAL, or the new one without a WAL. Of the
    /// changes of a directory since it was last synced any may be lost.
    #[test]
    fn a_power_loss_leaves_either_file_whole() {
        crate::register().unwrap();
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("a.db");
        let db = rusqlite::Connection::open(&target).unwrap();
        db.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(a);")
            .unwrap();
        drop(db);
        durable::notes::take();
        let mut source = Source::open(&target, true).unwrap();
        source.hold_alone(&Job::default()).unwrap();
        let replacement = Replacement::in_place(&target).unwrap();
        let like = target.metadata().unwrap();
        replacement
            .publish_over(source, &like, &Job::default())
            .unwrap();
        let steps = durable::notes::take();
        let steps: Vec<(&str, &str)> = steps.iter().map(|(step, name)| (*step, &**name)).collect();
        let begins = [("sync", ""), ("sync", ""), ("remove", "a.db-wal")];
        assert!(steps.starts_with(&begins), "{steps:?}");
        assert!(
            steps.ends_with(&[("name", "a.db"), ("sync directory", "")]),
            "{steps:?}"
        );
        let mut seen = std::collections::BTreeSet::new();
        for end in 0..=steps.len() {
            let done = &steps[..end];
            let synced = done.iter().rposition(|step| step.0 == "sync directory");
            let (certain, open) = done.split_at(synced.map_or(0, |at| at + 1));
            for kept in 0..1 << open.len() {
                let of_open = open.iter().enumerate();
                let survived = of_open
                    .filter(|(at, _)| kept >> at & 1 == 1)
                    .map(|(_, step)| step);
                let all: Vec<_> = certain.iter().chain(survived).collect();
                let is_new = all.contains(&&("name", "a.db"));
                let has_wal = !all.contains(&&("remove", "a.db-wal"));
                assert!(!(is_new && has_wal), "after {done:?}");
                seen.insert((is_new, has_wal));
            }
        }
        assert_eq!(seen.len(), 3, "{seen:?}");
    }

    /// As [`Replacement::of`], and the file was opened after that.
    fn new_beside(target: &Path, like: &Metadata) -> Result<()> {
        let mut replacement = Replacement::beside(target.to_owned(), true)?;
        replacement.is_held = false;
        replacement.publish(like, &Job::default())
    }
}
