//! `litepack maintain`: makes a used packed file about as small as a fresh one, while others read and write.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use litepack::{Level, MaintainOptions};

use crate::job::{interruptible, summary};
use crate::keys;
use crate::limits::Limits;
use crate::output::tell;
use crate::pack::level;

/// Makes a used packed file about as small as a fresh one.
///
/// Trains new dictionaries where they pay, recompresses outdated pages, puts pages in order, and returns free space to
/// the file system. Other programs may read and write meanwhile; beside one that writes in WAL mode it does less.
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
    #[command(flatten)]
    key: keys::KeyOptions,
}

/// Runs the command. False if there is more to do.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let options = MaintainOptions {
        limits: arguments.limits.parse()?,
        level: arguments.level,
    };
    let job = arguments.key.job(&arguments.database, interruptible)?;
    let started = Instant::now();
    let maintained = litepack::maintain(&arguments.database, &options, &job)?;
    let outlook = if maintained.more { ", more to do" } else { "" };
    if maintained.nothing_to_do {
        tell!("{}: nothing to do", arguments.database.display());
        return Ok(true);
    }
    let summary = summary(&arguments.database, maintained.sizes, started);
    tell!("{summary}{outlook}");
    Ok(!maintained.more)
}
