//! What is tried instead of the user's database: a copy of all of it if it is small enough, else of a part of each of
//! its tables, as plain files in a directory that goes with this value.
//!
//! All copies are what `VACUUM INTO` makes: tables in order, pages full. The same for every page size.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use indicatif::HumanBytes;
use litepack_archive::DEFAULT_BUDGET;
use rusqlite::Connection;
use tempfile::TempDir;

use super::origin::{Facts, Origin};
use super::part;
use crate::progress::Progress;
use crate::{header, interrupt};

/// Copies of the sample that are there at the same time: as it was taken, one for each of four page sizes, and a
/// candidate.
const COPIES: u64 = 6;
/// Room for what SQLite and rounding add.
const SLACK: u64 = 16 << 20;

/// The copies.
pub struct Sample {
    directory: TempDir,
    /// Bytes of a page of the user's database, which is the page size of the plain file that all is compared with.
    pub page_size: u32,
    /// Bytes in use in the user's database.
    pub whole: u64,
    /// Whether all of the database was copied.
    pub is_whole: bool,
    /// What was left out, and why.
    pub left_out: Vec<String>,
}

impl Sample {
    /// Copies at most about `budget` bytes.
    pub fn take(origin: &Origin, budget: u64) -> Result<Sample> {
        let Facts {
            page_size, used, ..
        } = origin.facts()?;
        let directory = directory(origin, used.min(budget) * COPIES + SLACK)?;
        let mut sample = Sample {
            directory,
            page_size,
            whole: used,
            is_whole: used <= budget,
            left_out: Vec::new(),
        };
        let _progress = Progress::without_end("sampling");
        let first = sample.plain(page_size);
        if sample.is_whole {
            vacuum(&origin.uri(), origin, page_size, &first)?;
        } else {
            let part = sample.path("part.db");
            sample.left_out = part::copy(origin, budget, &part)?;
            vacuum(&header::uri_of(&part), origin, page_size, &first)?;
            std::fs::remove_file(&part).context("cannot remove a temporary file")?;
        }
        origin.expect_unchanged()?;
        Ok(sample)
    }

    /// Makes the copy for another page size.
    pub fn add(&self, origin: &Origin, page_size: u32) -> Result<()> {
        let copy = self.plain(page_size);
        if copy.exists() {
            return Ok(());
        }
        let first = header::uri_of(&self.plain(self.page_size));
        vacuum(&first, origin, page_size, &copy)
    }

    /// The name of the plain copy with this page size.
    pub fn plain(&self, page_size: u32) -> PathBuf {
        self.path(&format!("plain-{page_size}.db"))
    }

    /// A name in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Bytes of the plain copy that all is compared with.
    pub fn bytes(&self) -> Result<u64> {
        let found = self.plain(self.page_size).metadata();
        Ok(found.context("cannot read the sample")?.len())
    }

    /// The cache in MiB that is to the sample what the default one is to the database.
    pub fn cache_mb(&self) -> Result<u64> {
        let share = self.bytes()? as f64 / self.whole.max(1) as f64;
        let mb = (DEFAULT_BUDGET >> 20) as f64 * share.min(1.0);
        Ok((mb.round() as u64).max(1))
    }
}

/// A temporary directory with so many bytes free: where all temporary files go, or else beside the database.
fn directory(origin: &Origin, bytes: u64) -> Result<TempDir> {
    let beside = origin.path().parent().unwrap_or(Path::new("."));
    let usual = std::env::temp_dir();
    for place in [&usual, beside] {
        if fs4::available_space(place).is_ok_and(|free| free >= bytes) {
            let made = tempfile::Builder::new()
                .prefix(".litepack-tune-")
                .tempdir_in(place);
            if let Ok(made) = made {
                return Ok(made);
            }
        }
    }
    bail!(
        "neither {} nor {} has {} free and can be written; set TMPDIR to a directory that has, or \
         take a smaller sample with --sample-mb",
        usual.display(),
        beside.display(),
        HumanBytes(bytes)
    )
}

/// Writes a plain copy of a database, with a page size. `origin` is what errors are about.
fn vacuum(uri: &str, origin: &Origin, page_size: u32, copy: &Path) -> Result<()> {
    let encoding = origin.facts()?.encoding;
    let copied = || {
        // What is copied is attached to a connection of its own, so that the copy is opened by the host's VFS.
        let connection = Connection::open(":memory:")?;
        interrupt::stop(&connection);
        connection.pragma_update(None, "encoding", encoding)?;
        connection.execute("ATTACH ?1 AS source", [uri])?;
        let set = format!("PRAGMA source.page_size={page_size}");
        connection.query_row(&set, [], |_| Ok(())).or_else(no_row)?;
        connection.execute("VACUUM source INTO ?1", [header::uri_of(copy)])?;
        Ok(())
    };
    interrupt::check()?;
    let done = copied();
    done.map_err(|error| origin.explain(&error))
}

/// Some pragmas answer and some do not.
fn no_row(error: rusqlite::Error) -> rusqlite::Result<()> {
    match error {
        rusqlite::Error::QueryReturnedNoRows => Ok(()),
        error => Err(error),
    }
}
