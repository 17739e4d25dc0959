//! Makes a used packed file about as small as a fresh one, while others read and write.

use std::path::Path;

use litepack_codec::{LEVELS, Level};
use litepack_database::error::refuse;
use litepack_database::job::Unit;
use serde::Serialize;

use crate::database::Database;
use crate::{Job, Limits, Result, Sizes};

/// Options of [`maintain`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MaintainOptions {
    /// Limits on time and load.
    pub limits: Limits,
    /// zstd level for all pages, from 1 to 19; by default the highest level used in the file.
    pub level: Option<Level>,
}

/// The result of maintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Maintained {
    /// The length of the file before and after.
    pub sizes: Sizes,
    /// Whether the time limit was reached with more to do.
    pub more: bool,
    /// Whether there was nothing to do: the file would not have become shorter, and was left as it was.
    pub nothing_to_do: bool,
}

/// Makes a used packed file about as small as a fresh one: trains new dictionaries where they pay, recompresses
/// outdated pages, puts pages in order, drops free pages, and returns free space. Others may read and write meanwhile. A
/// WAL is brought into the file first and emptied, as far as others let it without waiting.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let packed = place.path().join("packed.db");
/// # litepack::open(&packed)?.execute_batch("create table t(x)")?;
/// use std::time::Duration;
/// use litepack::{Job, Limits, MaintainOptions};
///
/// let limits = Limits { time: Some(Duration::from_secs(60)), load: 0.5 };
/// let options = MaintainOptions { limits, ..MaintainOptions::default() };
/// let maintained = litepack::maintain(&packed, &options, &Job::default())?;
/// assert!(!maintained.more);
/// # Ok(()) }
/// ```
///
/// # Errors
/// If the database cannot be opened or written. When it is interrupted, what was done is kept.
pub fn maintain(
    database: impl AsRef<Path>,
    options: &MaintainOptions,
    job: &Job<'_>,
) -> Result<Maintained> {
    options.limits.check()?;
    if options.level.is_some_and(|level| !LEVELS.contains(&level)) {
        refuse!(
            "the level is not between {} and {}",
            LEVELS.start(),
            LEVELS.end()
        );
    }
    let mut database = Database::open_packed(database.as_ref(), job)?;
    // As long as a log may lead back to a former state, free pages keep their content. What it stands on stays.
    database.checkpoint(job)?;
    let (before, commit) = (database.len()?, database.commit()?);
    let step = job.step("maintaining", Unit::Bytes, None);
    let call = |seconds, load| {
        let call = "select litepack_maintain(?1, ?2, ?3)";
        database.value(call, (seconds, load, options.level))
    };
    let shown = || {
        if step.is_watched() {
            step.set(database.len()?);
        }
        Ok(())
    };
    let more = options.limits.work(job, call, shown);
    let more = more.map_err(|error| error.keeping("what was done is kept"))?;
    let after = database.len()?;
    Ok(Maintained {
        sizes: Sizes { before, after },
        more,
        nothing_to_do: !more && database.commit()? == commit,
    })
}
