//! The databases tried instead of the user's: a copy of all of it if it is small enough, else of a part of each of its
//! tables, as plain files in a directory that goes with this value.
//!
//! All copies are what `VACUUM INTO` makes: tables in order, pages full. The same for every page size.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use litepack_database::error::{Context, refuse};
use litepack_database::files::origin::{Facts, Origin};
use litepack_database::job::Unit;
use litepack_database::names::uri::of_path;
use litepack_database::{Error, Job, Result};
use litepack_io::cache::DEFAULT_BUDGET_OF_MANY;
use rusqlite::{Connection, ErrorCode};
use tempfile::TempDir;

use super::part;

/// Copies of the sample that are there at the same time: as it was taken, one for each of four page sizes, and a
/// candidate.
const COPIES: u64 = 6;
/// Room for what SQLite and rounding add.
const SLACK: u64 = 16 << 20;

/// The copies.
pub(crate) struct Sample {
    directory: TempDir,
    /// Bytes of a page of the user's database, which is the page size of the plain file that all is compared with.
    pub(crate) page_size: u32,
    /// Bytes in use in the user's database.
    pub(crate) whole: u64,
    /// Whether all of the database was copied.
    pub(crate) is_whole: bool,
    /// The objects left out, and why.
    pub(crate) left_out: Vec<String>,
}

impl Sample {
    /// Copies at most about `budget` bytes.
    pub(crate) fn take(origin: &Origin, budget: u64, job: &Job<'_>) -> Result<Sample> {
        let Facts {
            page_size, used, ..
        } = origin.facts(job)?;
        // Where all temporary files go, or else beside the database.
        let places = [std::env::temp_dir(), origin.directory()];
        let directory = directory(&places, used.min(budget) * COPIES + SLACK)?;
        let mut sample = Sample {
            directory,
            page_size,
            whole: used,
            is_whole: used <= budget,
            left_out: Vec::new(),
        };
        let step = job.step("sampling", Unit::Tasks, None);
        let first = sample.plain(page_size);
        if sample.is_whole {
            match vacuum(&origin.uri(), origin, page_size, &first, job) {
                // It needs a collation or a function that this program does not have. The rest makes a sample.
                Err(Error::Sqlite { error, .. })
                    if error.sqlite_error_code() == Some(ErrorCode::Unknown) =>
                {
                    sample.is_whole = false;
                    std::fs::remove_file(&first).or_else(not_there)?;
                }
                done => done?,
            }
        }
        if !sample.is_whole {
            let part = sample.path("part.db");
            sample.left_out = part::copy(origin, budget, &part, job, &step)?;
            vacuum(&of_path(&part), origin, page_size, &first, job)?;
            std::fs::remove_file(&part).context("cannot remove a temporary file")?;
        }
        origin.expect_unchanged()?;
        Ok(sample)
    }

    /// Makes the copy for another page size.
    pub(crate) fn add(&self, origin: &Origin, page_size: u32, job: &Job<'_>) -> Result<()> {
        let copy = self.plain(page_size);
        if copy.exists() {
            return Ok(());
        }
        let first = of_path(&self.plain(self.page_size));
        vacuum(&first, origin, page_size, &copy, job)
    }

    /// The name of the plain copy with this page size.
    pub(crate) fn plain(&self, page_size: u32) -> PathBuf {
        self.path(&format!("plain-{page_size}.db"))
    }

    /// A name in the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Bytes of the plain copy that all is compared with.
    pub(crate) fn bytes(&self) -> Result<u64> {
        let found = self.plain(self.page_size).metadata();
        Ok(found.context("cannot read the sample")?.len())
    }

    /// The cache in MiB that is to the sample what the default one is to the database.
    pub(crate) fn cache_mb(&self) -> Result<u64> {
        let share = self.bytes()? as f64 / self.whole.max(1) as f64;
        let mb = (DEFAULT_BUDGET_OF_MANY >> 20) as f64 * share.min(1.0);
        Ok((mb.round() as u64).max(1))
    }
}

/// A temporary directory in the first of these places that has so many bytes free.
fn directory(places: &[PathBuf], bytes: u64) -> Result<TempDir> {
    for place in places {
        if fs4::available_space(place).is_ok_and(|free| free >= bytes) {
            let mut made = tempfile::Builder::new();
            if let Ok(made) = made.prefix(".litepack-tune-").tempdir_in(place) {
                return Ok(made);
            }
        }
    }
    let places: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
    refuse!(
        "there are not {} MiB that can be written in {}; set TMPDIR to a directory that has them, or take \
         a smaller sample with --sample-mb",
        bytes >> 20,
        places.join(" or ")
    )
}

/// Writes a plain copy of a database, with a page size. `origin` is what errors are about.
fn vacuum(uri: &str, origin: &Origin, page_size: u32, copy: &Path, job: &Job<'_>) -> Result<()> {
    let encoding = origin.facts(job)?.encoding;
    let copied = || {
        // The source is attached to a connection of its own, so that the copy is opened by the host's VFS.
        let connection = Connection::open(":memory:")?;
        let _interrupts = job.interrupts(&connection);
        connection.pragma_update(None, "encoding", encoding)?;
        connection.execute("ATTACH ?1 AS source", [uri])?;
        let set = format!("PRAGMA source.page_size={page_size}");
        connection.query_row(&set, [], |_| Ok(())).or_else(no_row)?;
        connection.execute("VACUUM source INTO ?1", [of_path(copy)])?;
        Ok(())
    };
    job.check()?;
    let done = copied();
    done.map_err(|error| origin.explain(error))
}

fn not_there(error: std::io::Error) -> Result<()> {
    match error.kind() {
        ErrorKind::NotFound => Ok(()),
        _ => Err(error).context("cannot remove a temporary file"),
    }
}

/// Some pragmas answer and some do not.
fn no_row(error: rusqlite::Error) -> rusqlite::Result<()> {
    match error {
        rusqlite::Error::QueryReturnedNoRows => Ok(()),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_files_are_where_there_is_room() {
        let place = TempDir::new().unwrap();
        let places = [place.path().join("missing"), place.path().to_owned()];
        let made = directory(&places, 1).unwrap();
        assert_eq!(made.path().parent(), Some(place.path()));
        let error = directory(&places, u64::MAX).unwrap_err().to_string();
        assert!(error.contains("missing or "), "{error}");
        assert!(error.contains("--sample-mb"), "{error}");
    }
}
