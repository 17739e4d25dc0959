//! `litepack unpack`: a packed file becomes the plain SQLite database that is in it, bit for bit.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use litepack::UnpackOptions;

use crate::job::{interruptible, summary};
use crate::keys;
use crate::output::tell;

/// Restores the plain SQLite database from a packed file, bit for bit.
#[derive(clap::Args)]
#[command(override_usage = "litepack unpack [--force] SRC DST\n       \
                      litepack unpack --in-place FILE")]
pub struct Arguments {
    /// The packed file.
    src: PathBuf,
    /// The plain database to create.
    #[arg(required_unless_present = "in_place")]
    dst: Option<PathBuf>,
    /// Replace the packed file itself, which must not be in use.
    #[arg(long, conflicts_with_all = ["dst", "force"])]
    in_place: bool,
    /// Replace DST if it exists.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    key: keys::KeyOptions,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<()> {
    let job = arguments.key.job(&arguments.src, interruptible)?;
    let started = Instant::now();
    let options = UnpackOptions {
        replace: arguments.force,
    };
    let (shown, sizes) = match &arguments.dst {
        Some(dst) => (dst, litepack::unpack(&arguments.src, dst, &options, &job)?),
        None => {
            let file = &arguments.src;
            (file, litepack::unpack_in_place(file, &job)?)
        }
    };
    tell!("{}", summary(shown, sizes, started));
    Ok(())
}
