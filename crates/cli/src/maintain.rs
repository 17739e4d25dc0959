//! `litepack maintain`: makes a packed file as small again as a fresh one, while others go on working.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use litepack_codec::Level;

use crate::database::Database;
use crate::interrupt::Interrupted;
use crate::limits::Limits;
use crate::pack::level;
use crate::progress::{Progress, summary};

/// Gives a packed file the dictionaries it would get today, stores pages again that deserve it, and gives
/// free space back.
#[derive(clap::Args)]
#[command(
    after_help = "It can be stopped at any time; what was done is kept. Exit code 1: the time was over first."
)]
pub struct Arguments {
    /// The packed database.
    database: PathBuf,
    #[command(flatten)]
    limits: Limits,
    /// zstd level for all pages, from 1 to 19; without it the highest level of the file so far.
    #[arg(long, value_name = "N", value_parser = level)]
    level: Option<Level>,
}

/// Runs the command. False if there is more to do.
pub fn run(arguments: &Arguments) -> Result<bool> {
    arguments.limits.check()?;
    let started = Instant::now();
    let database = Database::open(&arguments.database)?;
    let before = database.len()?;
    let progress = Progress::without_end("maintaining");
    let call = |seconds, load| {
        let call = "select litepack_maintain(?1, ?2, ?3)";
        database.value(call, (seconds, load, arguments.level))
    };
    let shown = || {
        if progress.is_shown() {
            progress.set(database.len()?);
        }
        Ok(())
    };
    let more = arguments.limits.work(call, shown).map_err(|error| {
        if error.is::<Interrupted>() {
            Interrupted("interrupted; what was done is kept").into()
        } else {
            error
        }
    })?;
    drop(progress);
    let after = database.len()?;
    let outlook = if more { ", more to do" } else { "" };
    let summary = summary(&arguments.database, before, after, started);
    eprintln!("{summary}{outlook}");
    Ok(!more)
}
