//! Putting a new file in place of a name: either the whole new file is there, synced, or everything is
//! as it was before, with nothing left behind.
//!
//! The content is written to a temporary file beside the target, which is deleted unless [`Replacement::publish`] renames
//! it. Only `kill -9` or a power loss can leave such a file; the next command for the same target deletes it.
//!
//! Both names are in one directory, which is opened once: see `directory.rs`.
//!
//! For an object in a store (`s3://bucket/key`) it is a file without a name in the directory for temporary files, which
//! is uploaded when all of it is there.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{Context, refuse, replaced};
use crate::files::attributes;
use crate::files::directory::{Directory, directory, holding, replaced_directory};
use crate::files::durable;
use crate::files::leftovers::{self, remove_wal};
use crate::files::object;
use crate::files::rights::Rights;
use crate::files::source::{Source, applied};
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
    Beside(NamedTempFile, Directory),
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
        let directory = open_directory(&target)?;
        vacate(&directory, &target, job)?;
        let mut replacement = Replacement::within(directory, target, replace)?;
        replacement.is_held = false;
        Ok(replacement)
    }

    /// For a database itself, which the caller has locked. It is an error if the new file could not have its owner.
    pub fn in_place(old: &Source) -> Result<Replacement> {
        let (directory, _) = holding(old.file(), old.path())?;
        let replacement = Replacement::within(directory, old.path().to_owned(), true)?;
        let rights = old.rights()?;
        if rights.give_owner(replacement.file()).is_err() {
            let (name, (user, group)) = (old.shown().display(), rights.owner());
            refuse!(
                "{name} belongs to user {user} and group {group}, and the new file would not: you may not give it to them"
            );
        }
        Ok(replacement)
    }

    /// For a name, whatever there is now.
    pub fn beside(target: PathBuf, overwrite: bool) -> Result<Replacement> {
        let directory = open_directory(&target)?;
        Replacement::within(directory, target, overwrite)
    }

    /// For a name in a directory that is open.
    pub fn within(directory: Directory, target: PathBuf, overwrite: bool) -> Result<Replacement> {
        let name = file_name(&target)?;
        for leftover in leftovers::beside(&target) {
            // It is as harmless as it was.
            let _ = leftover.remove();
        }
        let temp = leftovers::create(directory.path(), name)
            .map_err(without_path)
            .with_context(|| cannot_write_to(directory.path()))?;
        if !directory.has(temp.as_file(), file_name(temp.path())?) {
            return Err(replaced_directory(directory.path()));
        }
        Ok(Replacement {
            content: Unpublished::Beside(temp, directory),
            target,
            overwrite,
            is_held: true,
        })
    }

    /// The temporary file.
    pub fn file(&self) -> &File {
        match &self.content {
            Unpublished::Beside(temp, _) => temp.as_file(),
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
            Unpublished::Beside(temp, _) => {
                // There was none, or SQLite would say that it cannot lock the file.
                let _ = temp.as_file().unlock();
                Some(temp.path())
            }
            Unpublished::Object(..) => None,
        }
    }

    /// Gives the file these rights, as far as that is allowed, and its name, and returns once that would survive a power
    /// loss.
    pub fn publish(self, rights: &Rights, job: &Job<'_>) -> Result<()> {
        self.replace(None, &Like::AtMost(rights), job).map(drop)
    }

    /// The same with all that is noted of another file. It is an error if it cannot have the same rights. Returns the file.
    pub fn publish_like(self, other: &File, job: &Job<'_>) -> Result<Option<File>> {
        self.replace(None, &Like::All(other), job)
    }

    /// The same in place of a database that is held alone: its WAL goes, and who waits for it is told.
    pub fn publish_over(self, old: Source, job: &Job<'_>) -> Result<()> {
        self.replace(Some(old), &Like::Old, job).map(drop)
    }

    fn replace(self, old: Option<Source>, like: &Like<'_>, job: &Job<'_>) -> Result<Option<File>> {
        let name = self.target.display();
        let (temp, directory) = match self.content {
            Unpublished::Beside(temp, directory) => (temp, directory),
            Unpublished::Object(url, file) => {
                return object::upload(&url, &file, self.overwrite, job).map(|()| None);
            }
        };
        let same = match like {
            Like::AtMost(_) => None,
            Like::All(other) => Some(*other),
            Like::Old => old.as_ref().map(Source::file),
        };
        let rights = match (like, same) {
            (Like::AtMost(rights), _) => rights.give_at_most(temp.as_file()),
            (_, Some(same)) => Rights::of(same).and_then(|rights| rights.give(temp.as_file())),
            (_, None) => Ok(()),
        };
        rights.with_context(|| format!("cannot give {name} its owner and permissions"))?;
        if let Some(same) = same {
            attributes::copy(same, temp.as_file());
        }
        let step = job.step("syncing", Unit::Tasks, None);
        durable::sync(temp.as_file()).with_context(|| format!("cannot write {name}"))?;
        drop(step);
        job.check()?;
        // The old file may have been opened meanwhile. From here on it is locked.
        let mut old = match old {
            None if !self.is_held => vacate(&directory, &self.target, job)?,
            old => old,
        };
        let to = file_name(&self.target)?;
        if let Some(old) = &mut old {
            if !directory.has(old.file(), to) {
                return Err(replaced(&self.target));
            }
            old.drop_wal(&directory, to)?;
        }
        let (new, path) = temp.into_parts();
        let from = file_name(&path)?;
        if !directory.has(&new, from) {
            refuse!("the new file for {name} was replaced by another one meanwhile; try again");
        }
        if cfg!(windows) {
            // There a file that SQLite has open can neither be replaced nor removed. So it is closed, and if another
            // program opens it before it gets its new content, that is an error and it stays as it is.
            old = None;
        }
        durable::rename(&directory, from, to, self.overwrite).with_context(|| {
            let what = if self.overwrite { "replace" } else { "create" };
            format!("cannot {what} {name}")
        })?;
        // There is no file of that name any more.
        let _ = path.keep();
        durable::sync_directory(&directory)
            .with_context(|| format!("{name} is written but may not survive a power loss"))?;
        if let Some(old) = old {
            old.retire();
        }
        Ok(Some(new))
    }
}

/// What the new file has of another one.
enum Like<'a> {
    /// No more than these rights.
    AtMost(&'a Rights),
    /// All that is noted of it.
    All(&'a File),
    /// The same of the one that it replaces.
    Old,
}

/// Sees to it that nothing of another database is beside the new file. It is an error if there is a journal, or a WAL
/// with something in it. It is an error, too, if a program has the database open in WAL mode, for it would go on with
/// its WAL beside the new file. A program that has opened such a database and not read it yet would do so, too, and is
/// not seen; so the old database has to be retired when it is replaced. It is returned, held, and its empty WAL goes
/// with it.
fn vacate(directory: &Directory, target: &Path, job: &Job<'_>) -> Result<Option<Source>> {
    if let Some(beside) = PLAIN.pending(target).or(PACKED.pending(target)) {
        return Err(applied(&beside));
    }
    let wals = [PLAIN, PACKED].map(|suffixes| with_suffix(target, suffixes.wal));
    let wal = wals.into_iter().find(|wal| wal.exists());
    if !target.exists() {
        return remove_wal(directory, file_name(target)?).map(|_| None);
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

fn file_name(path: &Path) -> Result<&OsStr> {
    match path.file_name() {
        Some(name) => Ok(name),
        None => refuse!("the target has no file name"),
    }
}

/// The directory of a target, which is going to have a new file.
fn open_directory(target: &Path) -> Result<Directory> {
    file_name(target)?;
    Directory::of(target)
        .map_err(without_path)
        .with_context(|| cannot_write_to(&directory(target)))
}

fn cannot_write_to(directory: &Path) -> String {
    format!("cannot write to {}", directory.display())
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
        let like = rights(&target);
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
        let like = rights(&target);
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
        let replacement = Replacement::in_place(&source).unwrap();
        replacement.publish_over(source, &Job::default()).unwrap();
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

    fn rights(path: &Path) -> Rights {
        Rights::of(&File::open(path).unwrap()).unwrap()
    }

    /// What came meanwhile is another program's, and may be the only copy.
    #[cfg(unix)]
    #[test]
    fn a_file_that_took_the_name_meanwhile_is_not_replaced() {
        for by_link in [false, true] {
            let place = tempfile::tempdir().unwrap();
            let path = |name: &str| place.path().join(name);
            let db = rusqlite::Connection::open(path("a.db")).unwrap();
            db.execute_batch("CREATE TABLE t(a)").unwrap();
            drop(db);
            let mut source = Source::open(&path("a.db"), true).unwrap();
            source.hold_alone(&Job::default()).unwrap();
            let replacement = Replacement::in_place(&source).unwrap();
            match by_link {
                false => {
                    std::fs::write(path("b.db"), "precious").unwrap();
                    std::fs::rename(path("b.db"), path("a.db")).unwrap();
                }
                // The name is not that of the file any more, but a link's.
                true => {
                    std::fs::rename(path("a.db"), path("b.db")).unwrap();
                    std::os::unix::fs::symlink("b.db", path("a.db")).unwrap();
                }
            }
            let before = std::fs::read(path("a.db")).unwrap();
            let refused = replacement.publish_over(source, &Job::default());
            let refused = refused.unwrap_err().to_string();
            assert!(
                refused.contains("was replaced by another file"),
                "{refused}"
            );
            assert_eq!(std::fs::read(path("a.db")).unwrap(), before);
            let names = std::fs::read_dir(place.path()).unwrap().count();
            assert_eq!(names, 1 + usize::from(by_link));
        }
    }

    /// Who may write above the directory may have the names lead elsewhere, between the last check and the new name: to
    /// a database and a WAL of somebody else, and to a file that is called as the new one.
    #[cfg(unix)]
    #[test]
    fn nothing_is_done_in_a_directory_that_took_the_place_meanwhile() {
        crate::register().unwrap();
        for overwrite in [true, false] {
            let place = tempfile::tempdir().unwrap();
            let path = |name: &str| place.path().join(name);
            std::fs::create_dir(path("a")).unwrap();
            std::fs::create_dir(path("victim")).unwrap();
            std::fs::write(path("victim/a.db-wal"), "precious").unwrap();
            let swap = {
                let (a, moved, victim) = (path("a"), path("moved"), path("victim"));
                move |new: &Path| {
                    std::fs::write(victim.join(new.file_name().unwrap()), "forged").unwrap();
                    std::fs::rename(&a, moved).unwrap();
                    std::os::unix::fs::symlink("victim", a).unwrap();
                }
            };
            let replacement = if overwrite {
                std::fs::write(path("victim/a.db"), "precious").unwrap();
                let db = rusqlite::Connection::open(path("a/a.db")).unwrap();
                db.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(a)")
                    .unwrap();
                drop(db);
                let mut source = Source::open(&path("a/a.db"), true).unwrap();
                source.hold_alone(&Job::default()).unwrap();
                (Replacement::in_place(&source).unwrap(), Some(source))
            } else {
                (Replacement::beside(path("a/a.db"), false).unwrap(), None)
            };
            let (replacement, source) = replacement;
            let mut new: &File = replacement.file();
            std::io::Write::write_all(&mut new, b"new").unwrap();
            let Unpublished::Beside(temp, _) = &replacement.content else {
                panic!("it is a file");
            };
            let new = temp.path().to_owned();
            durable::notes::have(move || swap(&new));
            match source {
                Some(source) => replacement.publish_over(source, &Job::default()),
                None => {
                    let like = Rights::of(replacement.file()).unwrap();
                    replacement.publish(&like, &Job::default())
                }
            }
            .unwrap();
            assert_eq!(std::fs::read(path("moved/a.db")).unwrap(), b"new");
            let wal = std::fs::read(path("victim/a.db-wal")).unwrap();
            assert_eq!(wal, b"precious");
            let victim = std::fs::read(path("victim/a.db")).ok();
            assert_eq!(victim.as_deref(), overwrite.then_some(&b"precious"[..]));
        }
    }

    /// As above, right before the WAL of the old file is removed.
    #[cfg(unix)]
    #[test]
    fn no_wal_of_a_directory_that_took_the_place_is_removed() {
        crate::register().unwrap();
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        for folder in ["a", "victim"] {
            std::fs::create_dir(path(folder)).unwrap();
            let db = rusqlite::Connection::open(path(folder).join("a.db")).unwrap();
            db.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(a)")
                .unwrap();
        }
        std::fs::write(path("victim/a.db-wal"), "precious").unwrap();
        let mut source = Source::open(&path("a/a.db"), true).unwrap();
        source.hold_alone(&Job::default()).unwrap();
        let replacement = Replacement::in_place(&source).unwrap();
        std::fs::rename(path("a"), path("moved")).unwrap();
        std::os::unix::fs::symlink("victim", path("a")).unwrap();
        replacement.publish_over(source, &Job::default()).unwrap();
        assert_eq!(std::fs::read(path("moved/a.db")).unwrap(), b"");
        assert!(!path("moved/a.db-wal").exists());
        let wal = std::fs::read(path("victim/a.db-wal")).unwrap();
        assert_eq!(wal, b"precious");
    }

    /// Who may write in the directory may put it there.
    #[test]
    fn only_what_was_written_takes_the_name() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("a.db");
        let replacement = Replacement::beside(target.clone(), false).unwrap();
        let written = replacement.beside_path().unwrap().to_owned();
        let like = rights(&written);
        std::fs::rename(&written, place.path().join("other")).unwrap();
        std::fs::write(&written, "forged").unwrap();
        let refused = replacement.publish(&like, &Job::default()).unwrap_err();
        assert!(refused.to_string().contains("replaced by another one"));
        assert!(!target.exists());
    }

    /// As [`Replacement::of`], and the file was opened after that.
    fn new_beside(target: &Path, like: &Rights) -> Result<()> {
        let mut replacement = Replacement::beside(target.to_owned(), true)?;
        replacement.is_held = false;
        replacement.publish(like, &Job::default())
    }
}
