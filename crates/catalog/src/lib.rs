//! Writes a catalog: which files there are, and between which values their columns are, so that readers need not open
//! files that have nothing for them. It is the command `litepack catalog` as a function, on Unix only.
//!
//! ```text
//! lib.rs       options, report; which files are read again     find.rs    the files that paths and URLs name
//! identity.rs  which version of a file it is                   bounds.rs  values that a column is between
//! look.rs      what is in one file                             book.rs    the catalog itself, a database
//! access.rs    how servers are asked
//! ```
//! A reader leaves a file out only if its identity is the one in the catalog. So a catalog that is old, or lacks files,
//! costs time and never a row.
#![forbid(unsafe_code)]
#![cfg(unix)]

mod access;
mod book;
mod bounds;
mod find;
mod identity;
mod look;

use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use litepack::Access;
use litepack_database::bytes::reader::threads;
use litepack_database::error::{Context as _, refuse};
use litepack_database::files::rights::Rights;
use litepack_database::job::Unit;
use litepack_database::names::is_same_file;
use litepack_database::{Error, Job, Result};
use litepack_io::parallel::parallel;
use serde::Serialize;

use self::book::{Book, File};
use self::find::Shard;
use self::look::Looker;

/// Files on servers that are read at once: what they take is waiting.
const REMOTE_THREADS: usize = 16;

/// Options of [`catalog`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogOptions {
    /// Columns, as `TABLE.COLUMN`, that are looked at as well as those for which an index has the answer. They may cost a
    /// scan of the table.
    pub columns: Vec<String>,
    /// How to ask web servers. Connections of this process that are opened later use it as well.
    pub access: Access,
}

/// The result of [`catalog`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cataloged {
    /// Files that are in the catalog now.
    pub files: usize,
    /// Those that were read, because they are new or have changed.
    pub read: usize,
    /// Those that are as they were.
    pub unchanged: usize,
    /// Files that were in the catalog and are not there any more, or are not named any more.
    pub removed: usize,
    /// Those that could not be read. They are in the catalog as such, and readers try them.
    pub unreadable: Vec<Unreadable>,
    /// Those of which something was left out now, for want of a collation or a function. Of that, the catalog says
    /// nothing, and readers do not skip these files for it.
    pub incomplete: Vec<Incomplete>,
}

/// A file of [`Cataloged`] of which something was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Incomplete {
    /// Its path as in the catalog, or its URL.
    pub path: String,
    /// The tables and columns, each with the reason.
    pub left_out: Vec<String>,
}

/// A file of [`Cataloged`] that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// Its path as in the catalog, or its URL.
    pub path: String,
    /// Why.
    pub error: String,
}

/// Writes the catalog `target` of databases: plain, packed or archives. A path is a file, a pattern, a directory (its
/// files `*.db`), the URL of a file, or `s3://bucket/prefix/` (its objects `*.db`). An existing catalog is replaced;
/// files that have not changed since are not read again.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let (logs, target) = (place.path(), place.path().join("logs.catalog"));
/// # litepack::open(logs.join("a.db"))?.execute_batch("create table log(id integer primary key)")?;
/// use litepack::Job;
/// use litepack_catalog::{CatalogOptions, catalog};
///
/// let done = catalog(&[logs], &target, &CatalogOptions::default(), &Job::default())?;
/// assert_eq!((done.files, done.read), (1, 1));
/// let done = catalog(&[logs], &target, &CatalogOptions::default(), &Job::default())?;
/// assert_eq!((done.files, done.unchanged), (1, 1));
/// # Ok(()) }
/// ```
///
/// # Errors
/// A path that names nothing, a target that is there and is no catalog, or cannot be written. Files that cannot be read
/// are no errors.
pub fn catalog(
    paths: &[impl AsRef<Path>],
    target: &Path,
    options: &CatalogOptions,
    job: &Job<'_>,
) -> Result<Cataloged> {
    litepack_database::register()?;
    let before = Book::read(target)?;
    let paths: Vec<&Path> = paths.iter().map(AsRef::as_ref).collect();
    // Listing needs the certificates; which origins get headers is known after it.
    access::apply(&options.access, std::iter::empty())?;
    let shards = find::find(&paths, target, job)?;
    let urls = shards.iter().filter(|shard| shard.is_remote());
    access::apply(&options.access, urls.map(|shard| shard.path.as_str()))?;
    let looker = Looker::new(target, options, &before, job)?;
    let (files, unchanged) = look_at_all(&shards, &looker, job)?;
    // Columns of files already known were accepted before.
    let mut asked = options.columns.iter().filter(|_| unchanged == 0);
    if let Some(missing) = asked.find(|name| !is_in(name, &files)) {
        refuse!("no file has a column {missing}; it is written TABLE.COLUMN");
    }
    let report = Cataloged {
        files: files.len(),
        read: files.len() - unchanged,
        unchanged,
        removed: before.without(&files),
        unreadable: files.iter().filter_map(unreadable).collect(),
        incomplete: files.iter().filter_map(incomplete).collect(),
    };
    // Another program may have written a file under this name meanwhile.
    Book::read(target)?;
    Book::of(files, options.columns.clone()).write(target, like_all(&shards), job)?;
    Ok(report)
}

/// The rights of a shard whose readers may read all the others, too. `None` if there is no such shard, or if one is on
/// a server: then only the owner can read the catalog.
fn like_all(shards: &[Shard]) -> Option<Rights> {
    let all: Vec<Rights> = shards.iter().map(Shard::rights).collect::<Option<_>>()?;
    let least = |one: &&Rights| all.iter().all(|other| one.are_at_most(other));
    all.iter().find(least).cloned()
}

/// The entry of each file, in the order of the shards, and how many of them are as they were.
fn look_at_all(shards: &[Shard], looker: &Looker<'_>, job: &Job<'_>) -> Result<(Vec<File>, usize)> {
    let step = job.step("reading", Unit::Tasks, Some(shards.len() as u64));
    let count = match shards.iter().any(Shard::is_remote) {
        true => REMOTE_THREADS,
        false => threads(),
    };
    let (next, unchanged) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let found: Mutex<Vec<(usize, File)>> = Mutex::default();
    let work = |_| -> Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(shard) = shards.get(number) else {
                return Ok(());
            };
            job.check()?;
            step.at(&litepack_database::printable(&shard.path));
            let (file, is_known) = looker.look(shard)?;
            unchanged.fetch_add(usize::from(is_known), Ordering::Relaxed);
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.push((number, file));
            step.add(1);
        }
    };
    let ended = parallel(0..count.min(shards.len()), work);
    ended.into_iter().collect::<Result<()>>()?;
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_unstable_by_key(|(number, _)| *number);
    let files = found.into_iter().map(|(_, file)| file).collect();
    Ok((files, unchanged.into_inner()))
}

/// Whether a file has a column of this name. It may be in one that cannot be read.
fn is_in(name: &str, files: &[File]) -> bool {
    files.iter().any(|file| match &file.content {
        Ok(content) => content.has(name) || !content.left_out.is_empty(),
        Err(_) => true,
    })
}

fn unreadable(file: &File) -> Option<Unreadable> {
    let error = file.content.as_ref().err()?;
    Some(Unreadable {
        path: file.path.clone(),
        error: error.clone(),
    })
}

fn incomplete(file: &File) -> Option<Incomplete> {
    let left_out = &file.content.as_ref().ok()?.left_out;
    (!left_out.is_empty()).then(|| Incomplete {
        path: file.path.clone(),
        left_out: left_out.clone(),
    })
}

/// An absolute path without `.` and `..`, as readers make it of what they are given. Links stay what they are; only where
/// `..` behind a link leads to another file than the text says, they are followed.
fn absolute(path: &Path) -> Result<PathBuf> {
    let plain = without_dots(path)?;
    // There may be thousands of files, and nearly all have none: then nothing has to be looked up.
    if !path.components().any(|part| part == Component::ParentDir) {
        return Ok(plain);
    }
    match path.canonicalize() {
        Ok(real) if !is_same_file(&plain, path) => Ok(real),
        _ => Ok(plain),
    }
}

fn without_dots(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path);
    let path = path.context("the working directory is not known")?;
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    Ok(plain)
}

/// A path as text, which is all that a catalog holds.
fn text_of(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| {
        let name = path.display();
        Error::Refused(format!(
            "the name of {name} is not UTF-8, and a catalog cannot hold it; rename it"
        ))
    })
}

#[cfg(test)]
mod tests;
