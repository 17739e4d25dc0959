//! `litepack maintain`: makes a packed file as small again as a fresh one, while others go on working.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use litepack_codec::Level;

use crate::database::Database;
use crate::interrupt::{self, Interrupted};
use crate::pack::level;
use crate::progress::{Progress, summary};

/// A call does not take longer, so that progress can be shown.
const CALL: Duration = Duration::from_millis(250);

/// Gives a packed file the dictionaries it would get today, stores pages again that deserve it, and gives
/// free space back.
#[derive(clap::Args)]
#[command(
    after_help = "It can be stopped at any time; what was done is kept. Exit code 1: the time was over first."
)]
pub struct Arguments {
    /// The packed database.
    database: PathBuf,
    /// Stop after so many seconds.
    #[arg(long)]
    seconds: Option<f64>,
    /// Keep others from writing at most this share of the time, above 0 up to 1.
    #[arg(long, default_value_t = 1.0)]
    load: f64,
    /// zstd level for all pages, from 1 to 19; without it the highest level of the file so far.
    #[arg(long, value_name = "N", value_parser = level)]
    level: Option<Level>,
}

/// Runs the command. False if there is more to do.
pub fn run(arguments: &Arguments) -> Result<bool> {
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
    let before = database.len()?;
    let more = maintain(&database, arguments, started).map_err(|error| {
        if error.is::<Interrupted>() {
            Interrupted("interrupted; what was done is kept").into()
        } else {
            error
        }
    })?;
    let after = database.len()?;
    let outlook = if more { ", more to do" } else { "" };
    let summary = summary(&arguments.database, before, after, started);
    eprintln!("{summary}{outlook}");
    Ok(!more)
}

/// Calls the SQL function until all is done or the time is over; true if there is more to do.
fn maintain(database: &Database, arguments: &Arguments, started: Instant) -> Result<bool> {
    let time = arguments
        .seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let progress = Progress::without_end("maintaining");
    loop {
        let left = time.map(|time| time.saturating_sub(started.elapsed()));
        let seconds = left.map_or(CALL, |left| left.min(CALL)).as_secs_f64();
        let call = "select litepack_maintain(?1, ?2, ?3)";
        let more: bool = database.value(call, (seconds, arguments.load, arguments.level))?;
        interrupt::check()?;
        if !more || left.is_some_and(|left| left <= CALL) {
            return Ok(more);
        }
        if progress.is_shown() {
            progress.set(database.len()?);
        }
    }
}
