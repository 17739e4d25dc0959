//! `litepack archive extract`: an archive becomes the plain database that is in it, bit for bit.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use litepack::archive::{ExtractOptions, extract};

use crate::job::{interruptible, summary};
use crate::keys;
use crate::output::tell;

/// Extracts the plain SQLite database from an archive, as `zstd -d` does.
#[derive(clap::Args)]
pub struct Arguments {
    /// The archive.
    archive: PathBuf,
    /// The plain database to create.
    db: PathBuf,
    /// Replace DB if it exists.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    key: keys::KeyOptions,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<()> {
    let job = arguments.key.job(&arguments.archive, interruptible)?;
    let started = Instant::now();
    let options = ExtractOptions {
        replace: arguments.force,
    };
    let (archive, db) = (&arguments.archive, &arguments.db);
    let sizes = extract(archive, db, &options, &job)?;
    tell!("{}", summary(db, sizes, started));
    Ok(())
}
