//! The databases below a directory, by what their files begin with, whatever they are called.
//!
//! Links are not followed, and neither are directories of another file system: there are `/proc`, and servers that do not
//! answer. Only ordinary files are opened. Memory does not grow with the number of files.

use std::fs::{ReadDir, read_dir};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use litepack_database::bytes::header;
use litepack_database::error::{Context as _, cannot_read};
use litepack_database::files::held::Held;
use litepack_database::files::{itself, leftovers};
use litepack_database::{Error, Job};
use litepack_engine::FileKind;

use crate::database_of;
use crate::look::is_alone;

/// Directories in one another that are gone into. Each is open meanwhile.
const DEPTH_MAX: usize = 200;

/// What was left out, and why.
pub type Missed<'a> = &'a mut dyn FnMut(&Path, &Why);

/// Why something was left out.
#[derive(Debug, thiserror::Error)]
pub enum Why {
    /// It is on another file system, which is searched if it is named.
    #[error("another file system; name it to have it searched")]
    Elsewhere,
    /// There is no end to it.
    #[error("too many directories in one another")]
    TooDeep,
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(#[from] io::Error),
}

/// Calls `each` for every database below a directory: plain and packed ones, and originals without a database beside them.
///
/// # Errors
/// If the directory cannot be read, the job is stopped, or `each` fails.
pub fn find<E: From<Error>>(
    path: &Path,
    job: &Job<'_>,
    missed: Missed<'_>,
    mut each: impl FnMut(&Path) -> Result<(), E>,
) -> Result<(), E> {
    let cannot = || cannot_read(path);
    let device = path.metadata().with_context(cannot)?.dev();
    let mut open: Vec<(PathBuf, ReadDir)> =
        vec![(path.to_owned(), read_dir(path).with_context(cannot)?)];
    while let Some((directory, entries)) = open.last_mut() {
        job.check()?;
        let entry = match entries.next() {
            None => {
                open.pop();
                continue;
            }
            Some(Ok(entry)) => entry,
            Some(Err(error)) => {
                missed(directory, &error.into());
                open.pop();
                continue;
            }
        };
        let path = entry.path();
        let kind = match entry.file_type() {
            Ok(kind) => kind,
            Err(error) => {
                missed(&path, &error.into());
                continue;
            }
        };
        if kind.is_dir() {
            let same = path.symlink_metadata().map(|found| found.dev() == device);
            match same {
                Ok(true) if open.len() < DEPTH_MAX => match read_dir(&path) {
                    Ok(entries) => open.push((path, entries)),
                    Err(error) => missed(&path, &error.into()),
                },
                Ok(true) => missed(&path, &Why::TooDeep),
                Ok(false) => missed(&path, &Why::Elsewhere),
                Err(error) => missed(&path, &error.into()),
            }
        } else if kind.is_file() {
            match is_wanted(&path) {
                Ok(true) => each(&path)?,
                Ok(false) => {}
                Err(error) => missed(&path, &error.into()),
            }
        }
    }
    Ok(())
}

/// Whether a file is a database to report: an original is reported with its database, if that is there.
fn is_wanted(path: &Path) -> io::Result<bool> {
    if path.file_name().is_some_and(leftovers::is_one) {
        return Ok(false);
    }
    Ok((database_of(path).is_none() || is_alone(path)) && is_database(path)?)
}

/// Whether a file is a database, plain or packed.
pub(crate) fn is_database(path: &Path) -> io::Result<bool> {
    let file = itself::open(path, false)?;
    let kind = header::kind(&file)?;
    let is_one = matches!(kind, FileKind::Plain | FileKind::Packed);
    if is_one {
        // The caller may have it open, too.
        drop(Held::new(file));
    }
    Ok(is_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_content_and_not_by_name_and_only_what_is_there() {
        let place = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let database = |path: &Path| {
            let db = rusqlite::Connection::open(path).unwrap();
            db.execute_batch("create table t(x)").unwrap();
        };
        std::fs::create_dir_all(path("a/b")).unwrap();
        for name in [
            "a/History",
            "a/b/x.db",
            "kept.db",
            "gone.db.litepack-original",
            "text.db.litepack-original",
        ] {
            database(&path(name));
        }
        database(&path("kept.db.litepack-original"));
        database(&other.path().join("far.db"));
        std::fs::write(path("text.db"), "no database").unwrap();
        std::fs::write(path("empty.db"), "").unwrap();
        std::os::unix::fs::symlink(other.path(), path("link")).unwrap();
        std::os::unix::fs::symlink(other.path().join("far.db"), path("far.db")).unwrap();
        std::os::unix::fs::symlink(place.path(), path("a/circle")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path("pipe.db"),
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        let mut found = Vec::new();
        let mut missed = |path: &Path, why: &Why| panic!("{}: {why}", path.display());
        find(place.path(), &Job::default(), &mut missed, |path| {
            found.push(path.strip_prefix(place.path()).unwrap().to_owned());
            Ok::<_, Error>(())
        })
        .unwrap();
        found.sort();
        let wanted = [
            "a/History",
            "a/b/x.db",
            "gone.db.litepack-original",
            "kept.db",
            "text.db.litepack-original",
        ];
        assert_eq!(found, wanted.map(PathBuf::from));
    }
}
