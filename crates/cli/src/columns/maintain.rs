//! `litepack columns maintain`: compresses what is not compressed yet, while others go on working.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;

use crate::database::Database;
use crate::interrupt::Interrupted;
use crate::limits::Limits;
use crate::progress::{Progress, summary};

/// Compresses the rows that are not compressed yet.
#[derive(clap::Args)]
#[command(after_help = "It can be stopped at any time; the next call continues from there.")]
pub struct Arguments {
    /// The database, plain or packed.
    database: PathBuf,
    #[command(flatten)]
    limits: Limits,
    /// Run VACUUM afterwards, which makes the file smaller and blocks writers.
    #[arg(long)]
    vacuum: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<()> {
    arguments.limits.check()?;
    let started = Instant::now();
    let database = Database::open(&arguments.database)?;
    database.expect_columns()?;
    let before = database.not_compressed()?;
    let more = compress(&database, &arguments.limits, before).map_err(say_what_is_kept)?;
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
fn compress(database: &Database, limits: &Limits, rows: u64) -> Result<bool> {
    let progress = Progress::of_rows("compressing", rows);
    let call = |seconds, load| {
        let call = "select zstd_incremental_maintenance(?1, ?2)";
        database.value(call, [seconds, load])
    };
    limits.work(call, || {
        if progress.is_shown() {
            progress.set(rows.saturating_sub(database.not_compressed()?));
        }
        Ok(())
    })
}

fn say_what_is_kept(error: anyhow::Error) -> anyhow::Error {
    if error.is::<Interrupted>() {
        Interrupted("interrupted; the rows compressed so far stay compressed").into()
    } else {
        error
    }
}
