//! `litepack columns maintain`: compresses what is not compressed yet, while others go on working.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::database::Database;
use crate::interrupt::{self, Interrupted};
use crate::progress::{Progress, summary};

/// A call does not take longer, so that progress can be shown.
const CALL: Duration = Duration::from_millis(250);

/// Compresses the rows that are not compressed yet.
#[derive(clap::Args)]
#[command(after_help = "It can be stopped at any time, and goes on from there the next time.")]
pub struct Arguments {
    /// The database, plain or packed.
    database: PathBuf,
    /// Stop after so many seconds.
    #[arg(long)]
    seconds: Option<f64>,
    /// Lock the database for writing at most this share of the time, above 0 up to 1.
    #[arg(long, default_value_t = 1.0)]
    load: f64,
    /// Make the file smaller afterwards; nobody can write meanwhile.
    #[arg(long)]
    vacuum: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments
        .seconds
        .is_some_and(|seconds| seconds.is_nan() || seconds < 0.0)
    {
        bail!("--seconds takes a number from 0 on");
    }
    if !(arguments.load > 0.0 && arguments.load <= 1.0) {
        bail!("--load takes a number above 0, at most 1");
    }
    let started = Instant::now();
    let database = Database::open(&arguments.database)?;
    database.expect_columns()?;
    let before = database.not_compressed()?;
    let more = compress(&database, arguments, started, before).map_err(say_what_is_kept)?;
    let left = database.not_compressed()?;
    let name = arguments.database.display();
    let outlook = if more { "more to do" } else { "done" };
    let done = before.saturating_sub(left);
    let seconds = started.elapsed().as_secs_f64();
    eprintln!("{name}: {done} rows compressed, {left} are not, {outlook}, {seconds:.1} s");
    if arguments.vacuum {
        let (started, before) = (Instant::now(), database.len()?);
        database
            .run("vacuum; pragma wal_checkpoint(truncate)")
            .map_err(say_what_is_kept)?;
        let after = database.len()?;
        eprintln!("{}", summary(&arguments.database, before, after, started));
    }
    Ok(())
}

/// Compresses until all is done or the time is over; true if there is more to do.
fn compress(
    database: &Database,
    arguments: &Arguments,
    started: Instant,
    rows: u64,
) -> Result<bool> {
    let time = arguments
        .seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let progress = Progress::of_rows("compressing", rows);
    loop {
        let left = time.map(|time| time.saturating_sub(started.elapsed()));
        let seconds = left.map_or(CALL, |left| left.min(CALL)).as_secs_f64();
        let call = "select zstd_incremental_maintenance(?1, ?2)";
        let more: bool = database.value(call, [seconds, arguments.load])?;
        interrupt::check()?;
        if !more || left.is_some_and(|left| left <= CALL) {
            return Ok(more);
        }
        if progress.is_shown() {
            progress.set(rows.saturating_sub(database.not_compressed()?));
        }
    }
}

fn say_what_is_kept(error: anyhow::Error) -> anyhow::Error {
    if error.is::<Interrupted>() {
        Interrupted("interrupted; the rows compressed so far stay compressed").into()
    } else {
        error
    }
}
