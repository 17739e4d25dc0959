//! `litepack archive create`: a database, plain or packed, becomes an archive.
//!
//! The archive holds the bytes of the database after a checkpoint, and is compared with them, byte by byte, before it
//! gets its name.

use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use litepack_archive::{
    Created, DEFAULT_FRAME_SIZE, DEFAULT_LEVEL, Error, FRAME_SIZES, LEVELS, Settings,
};

use super::{compare, open};
use crate::content::Content;
use crate::interrupt;
use crate::progress::{Progress, summary};
use crate::reader;
use crate::replace::{Replacement, is_same_file};
use crate::source::Source;

/// Creates an archive from a plain database or a packed file.
#[derive(clap::Args)]
pub struct Arguments {
    /// The database.
    db: PathBuf,
    /// The archive to create; by convention the name of the database plus .zst.
    out: PathBuf,
    /// Replace OUT if it exists.
    #[arg(long)]
    force: bool,
    /// zstd level, from 1 (fast) to 22 (small). The read speed does not depend on it.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_LEVEL, value_parser = level)]
    level: i32,
    /// Bytes of the database in a frame, rounded up to whole pages. A read decompresses at least one frame: larger
    /// frames make the archive smaller and reads of single rows slower.
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_FRAME_SIZE, value_parser = frame_size)]
    frame_size: u32,
}

fn level(text: &str) -> Result<i32, String> {
    let found = text.parse().ok().filter(|level| LEVELS.contains(level));
    found.ok_or_else(|| format!("not between {} and {}", LEVELS.start(), LEVELS.end()))
}

fn frame_size(text: &str) -> Result<u32, String> {
    let found = text.parse().ok().filter(|size| FRAME_SIZES.contains(size));
    found.ok_or_else(|| {
        let (min, max) = (FRAME_SIZES.start(), FRAME_SIZES.end());
        format!("not between {min} and {max}")
    })
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<()> {
    let started = Instant::now();
    interrupt::watch()?;
    litepack_rusqlite::register().map_err(anyhow::Error::msg)?;
    let mut source = Source::open(&arguments.db, false)?;
    source.expect_database()?;
    if is_same_file(&arguments.out, source.path()) {
        let name = arguments.out.display();
        bail!("{name} is the database itself; give the archive another name");
    }
    let target = Replacement::of(&arguments.out, source.path(), arguments.force)?;
    source.hold()?;
    if let Some(missing) = source.missing_bytes() {
        bail!(
            "{} is truncated: {missing} bytes are missing",
            source.shown().display()
        );
    }
    let before = source.metadata()?;
    let mut content = Content::of(&source)?;
    let name = source.shown().display().to_string();
    let warning = litepack_engine::warning(&name, content.size(), |at, buf| {
        anyhow::Ok(content.read_at(buf, at)? == buf.len())
    })?;
    if let Some(warning) = warning {
        eprintln!("{warning}");
    }
    let mut output = BufWriter::with_capacity(1 << 20, target.file());
    let created = fill(&mut content, &mut output, arguments)?;
    drop(output);
    let mut archive = open(target.file())?;
    compare(&mut archive, &mut content)?;
    drop(archive);
    interrupt::check()?;
    target.publish(&before)?;
    let line = summary(&arguments.out, created.size, created.stored, started);
    eprintln!("{line}");
    Ok(())
}

/// Writes the archive.
fn fill(
    content: &mut Content<'_>,
    output: &mut impl Write,
    arguments: &Arguments,
) -> Result<Created> {
    let settings = Settings {
        frame_size: arguments.frame_size,
        level: arguments.level,
        threads: reader::threads(),
    };
    let bar = Progress::new("archiving", content.size());
    let mut progress = |done| {
        bar.set(done);
        match interrupt::check() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    };
    let created = litepack_archive::create(&mut content.reader(), output, &settings, &mut progress);
    match created {
        Err(Error::Stopped) => interrupt::check().and_then(|()| bail!("stopped")),
        created => created.with_context(|| format!("cannot write {}", arguments.out.display())),
    }
}
