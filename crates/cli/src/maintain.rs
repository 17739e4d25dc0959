//! `litepack maintain`: makes a used packed file about as small as a fresh one, while others read and write.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use litepack_codec::Level;

use crate::database::Database;
use crate::interrupt::Interrupted;
use crate::limits::Limits;
use crate::pack::level;
use crate::progress::{Progress, summary};

/// Makes a used packed file about as small as a fresh one.
///
/// Trains new dictionaries where they pay, recompresses outdated pages, puts pages in order, and returns free space to
/// the file system. Other programs may read and write meanwhile.
#[derive(clap::Args)]
#[command(
    after_help = "It can be stopped at any time; what was done is kept. Exit code 1: stopped at the time limit."
)]
pub struct Arguments {
    /// The packed file.
    database: PathBuf,
    #[command(flatten)]
    limits: Limits,
    /// zstd level for all pages, from 1 to 19 [default: the highest level used in the file].
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
