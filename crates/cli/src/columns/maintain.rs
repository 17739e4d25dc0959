//! `litepack columns maintain`: compresses what is not compressed yet, while others go on working.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;

use crate::job::{interruptible, summary};
use crate::keys;
use crate::limits::Limits;
use crate::output::tell;

/// Compresses the rows that are not compressed yet.
#[derive(clap::Args)]
#[command(
    after_help = "It can be stopped at any time; the next call continues from there. Exit code 1: stopped at the time \
                  limit."
)]
pub struct Arguments {
    /// The database, plain or packed.
    database: PathBuf,
    #[command(flatten)]
    limits: Limits,
    /// Run VACUUM afterwards, which makes the file smaller and blocks writers.
    #[arg(long)]
    vacuum: bool,
    #[command(flatten)]
    key: keys::KeyOptions,
}

/// Runs the command. False if there is more to do.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let limits = arguments.limits.parse()?;
    let database = &arguments.database;
    let job = arguments.key.job(database, interruptible)?;
    let started = Instant::now();
    let done = litepack::columns::maintain(database, &limits, arguments.vacuum, &job)?;
    let outlook = if done.more { "more to do" } else { "done" };
    let (rows, left, seconds) = (done.compressed, done.left, started.elapsed().as_secs_f64());
    let name = database.display();
    tell!("{name}: {rows} rows compressed, {left} are not, {outlook}, {seconds:.1} s");
    if let Some(sizes) = done.vacuumed {
        tell!("{}", summary(database, sizes, started));
    }
    Ok(!done.more)
}
