//! Putting a new file in place of a name: either the whole new file is there, synced, or everything is
//! as it was before, with nothing left behind.
//!
//! The content is written to a temporary file beside the target, `.NAME.litepack-XXXXXX`, which is
//! deleted unless [`Replacement::publish`] renames it. Only `kill -9` or a power loss can leave such
//! a file; it may then be deleted.
//!
//! For an object in a store (`s3://bucket/key`) it is a file without a name in the directory for temporary files, which
//! is uploaded when all of it is there.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{Context, refuse};
use crate::files::names::{PACKED, PLAIN, is_same_file, remove_wal, with_suffix};
use crate::files::object;
use crate::files::source::{Source, applied};
use crate::{Error, Job, Result};

/// A file on its way to its name.
pub(crate) struct Replacement {
    content: Content,
    target: PathBuf,
    overwrite: bool,
    /// The caller sees to it that no database of that name is in use.
    is_held: bool,
}

enum Content {
    Beside(NamedTempFile),
    /// To be uploaded to a URL.
    Object(String, File),
}

impl Replacement {
    /// For a file that is not `source`; an existing one is replaced only if `replace` says so.
    pub(crate) fn of(target: &Path, source: &Path, replace: bool) -> Result<Replacement> {
        let name = target.display();
        if let Some(url) = object::url(target)? {
            object::expect_absent(url, replace)?;
            let unnamed = tempfile::tempfile();
            let temp = std::env::temp_dir();
            return Ok(Replacement {
                content: Content::Object(
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
                // What a link leads to is replaced, not the link.
                target.canonicalize().unwrap_or_else(|_| target.to_owned())
            }
            Err(_) => target.to_owned(),
        };
        vacate(&target)?;
        let mut replacement = Replacement::beside(target, replace)?;
        replacement.is_held = false;
        Ok(replacement)
    }

    /// For the file `target` itself, which the caller has locked.
    pub(crate) fn in_place(target: &Path) -> Result<Replacement> {
        Replacement::beside(target.to_owned(), true)
    }

    /// For a name, whatever there is now.
    pub(crate) fn beside(target: PathBuf, overwrite: bool) -> Result<Replacement> {
        let mut prefix = OsString::from(".");
        let Some(name) = target.file_name() else {
            refuse!("the target has no file name");
        };
        prefix.push(name);
        prefix.push(".litepack-");
        let temp = tempfile::Builder::new()
            .prefix(&prefix)
            .tempfile_in(directory(&target))
            .map_err(without_path)
            .with_context(|| format!("cannot write to {}", directory(&target).display()))?;
        Ok(Replacement {
            content: Content::Beside(temp),
            target,
            overwrite,
            is_held: true,
        })
    }

    /// The temporary file.
    pub(crate) fn file(&self) -> &File {
        match &self.content {
            Content::Beside(temp) => temp.as_file(),
            Content::Object(_, file) => file,
        }
    }

    /// The name that it is to have.
    pub(crate) fn name(&self) -> &Path {
        &self.target
    }

    /// Where the temporary file is, for what writes files by their name; `None` if it has no name.
    #[cfg(feature = "catalog")]
    pub(crate) fn beside_path(&self) -> Option<&Path> {
        match &self.content {
            Content::Beside(temp) => Some(temp.path()),
            Content::Object(..) => None,
        }
    }

    /// Gives the file the permissions of `like` and its name, and returns once that would survive a
    /// power loss.
    pub(crate) fn publish(self, like: &Metadata, job: &Job<'_>) -> Result<()> {
        let name = self.target.display();
        let temp = match self.content {
            Content::Beside(temp) => temp,
            Content::Object(url, file) => {
                return object::upload(&url, &file, self.overwrite, job);
            }
        };
        adopt(temp.as_file(), like);
        temp.as_file()
            .sync_all()
            .with_context(|| format!("cannot write {name}"))?;
        // The old file may have been opened meanwhile. From here on it is locked.
        let mut old = if self.is_held {
            None
        } else {
            vacate(&self.target)?
        };
        if let Some(old) = &mut old {
            old.drop_wal()?;
        }
        if self.overwrite {
            temp.persist(&self.target)
                .with_context(|| format!("cannot replace {name}"))?;
        } else {
            temp.persist_noclobber(&self.target)
                .with_context(|| format!("cannot create {name}"))?;
        }
        sync_directory(&directory(&self.target))
            .with_context(|| format!("{name} is written but may not survive a power loss"))?;
        if let Some(old) = old {
            old.retire();
        }
        Ok(())
    }
}

/// Sees to it that nothing of another database is beside the new file. It is an error if there is a journal, or a WAL
/// with something in it, or if somebody has the database open in WAL mode: he would go on with his WAL beside the new
/// file. Who has opened such a database and not read it yet would do so, too, and is not seen; so it has to be retired
/// when it is replaced. It is returned, held, and its empty WAL goes with it.
fn vacate(target: &Path) -> Result<Option<Source>> {
    if let Some(beside) = PLAIN.pending(target).or(PACKED.pending(target)) {
        return Err(applied(&beside));
    }
    let wals = [PLAIN, PACKED].map(|suffixes| with_suffix(target, suffixes.wal));
    let wal = wals.into_iter().find(|wal| wal.exists());
    if !target.exists() {
        return remove_wal(target).map(|()| None);
    }
    let alone = Source::open(target, true).and_then(|mut old| {
        old.expect_database()?;
        if wal.is_none() && !old.is_wal() {
            return Ok(None);
        }
        old.hold_alone()?;
        Ok(Some(old))
    });
    match (alone, wal) {
        (Err(told @ (Error::InUse { .. } | Error::Refused(_))), _) => Err(told),
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

fn directory(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
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

#[cfg(unix)]
fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(not(unix))]
fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
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
        let new = || Replacement::of(&target, Path::new(""), true);
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
        let new = || Replacement::of(&target, Path::new(""), true);
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

    /// As [`Replacement::of`], and the file was opened after that.
    fn new_beside(target: &Path, like: &Metadata) -> Result<()> {
        let mut replacement = Replacement::beside(target.to_owned(), true)?;
        replacement.is_held = false;
        replacement.publish(like, &Job::default())
    }
}
