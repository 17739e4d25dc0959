//! What is left of a command that was killed, and of SQLite beside a file that is replaced.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::Path;

pub use litepack_replace::leftovers::{beside, create, is_one};

use crate::Result;
use crate::error::Context;
use crate::files::directory::Directory;
use crate::files::durable;
use crate::job::Job;
use crate::names::{PACKED, PLAIN};

/// Names them in warnings.
pub fn tell(target: &Path, job: &Job<'_>) {
    for leftover in beside(target) {
        job.warn(&format!(
            "{} is left from a command that was killed; it may be deleted",
            leftover.path().display()
        ));
    }
}

/// Removes the WAL of a database, packed or not, and its index, if they are there. Whether there was one.
pub fn remove_wal(directory: &Directory, database: &OsStr) -> Result<bool> {
    let mut found = false;
    for suffix in [PLAIN.wal, PACKED.wal, "-shm"] {
        let mut name = database.to_owned();
        name.push(suffix);
        match durable::remove(directory, &name) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => {
                let path = directory.path().join(&name);
                removed.with_context(|| format!("cannot remove {}", path.display()))?;
                found = true;
            }
        }
    }
    Ok(found)
}
