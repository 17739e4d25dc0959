//! `litepack unpack`: a packed file becomes the plain SQLite database that is in it, bit for bit.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use litepack_store::Disk;

use crate::interrupt;
use crate::progress::{Progress, summary};
use crate::reader;
use crate::replace::Replacement;
use crate::source::Source;

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
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<()> {
    let started = Instant::now();
    interrupt::watch()?;
    litepack_rusqlite::register().map_err(anyhow::Error::msg)?;
    let mut source = Source::open(&arguments.src, arguments.in_place)?;
    source.expect_packed()?;
    let named = || format!("cannot read {}", arguments.src.display());
    // Says more about a file that cannot be opened than SQLite would.
    reader::open(source.file(), &reader::options()).with_context(named)?;
    let target = match &arguments.dst {
        Some(dst) => {
            let target = Replacement::of(dst, source.path(), arguments.force)?;
            source.hold()?;
            target
        }
        None => {
            source.hold_alone()?;
            Replacement::in_place(source.path())?
        }
    };
    let before = source.metadata()?;
    if arguments.in_place {
        source.warn_of_links(&before);
    }
    let size = reader::open(source.file(), &reader::options())
        .with_context(named)?
        .size();
    let progress = Progress::new("unpacking", size);
    let plain = target.file();
    Disk::truncate(plain, size)?;
    reader::read_all(source.file(), &progress, |offset, bytes| {
        Disk::write_at(plain, bytes, offset).context("cannot write the new file")
    })?;
    drop(progress);
    reader::compare(source.file(), plain, source.shown())?;
    interrupt::check()?;
    let shown = arguments.dst.as_deref().unwrap_or(&arguments.src);
    if arguments.in_place {
        source.drop_wal()?;
        target.publish(&before)?;
        source.retire();
    } else {
        target.publish(&before)?;
    }
    eprintln!("{}", summary(shown, before.len(), size, started));
    Ok(())
}
