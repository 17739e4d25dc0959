//! `litepack archive extract`: an archive becomes the plain database that is in it, bit for bit.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use litepack_archive::{Archive, Source};

use super::{compare, file, open};
use crate::content::{CHUNK, Content};
use crate::interrupt;
use crate::progress::{Progress, summary};
use crate::replace::{Replacement, is_same_file};

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
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<()> {
    let started = Instant::now();
    interrupt::watch()?;
    let shown = &arguments.archive;
    let (file, before) = file(shown)?;
    let mut archive = open(&file).with_context(|| format!("cannot read {}", shown.display()))?;
    if is_same_file(&arguments.db, shown) {
        let name = arguments.db.display();
        bail!("{name} is the archive itself; give the database another name");
    }
    let target = Replacement::of(&arguments.db, shown, arguments.force)?;
    let mut output = BufWriter::with_capacity(CHUNK, target.file());
    write(&mut archive, &mut output).with_context(|| {
        let (from, to) = (shown.display(), arguments.db.display());
        format!("cannot extract {from} to {to}")
    })?;
    drop(output);
    let mut content = Content::plain(target.file(), &arguments.db)?;
    compare(&mut archive, &mut content)?;
    interrupt::check()?;
    target.publish(&before)?;
    let size = archive.size();
    eprintln!("{}", summary(&arguments.db, before.len(), size, started));
    Ok(())
}

fn write(archive: &mut Archive<impl Source>, output: &mut impl Write) -> Result<()> {
    let progress = Progress::new("extracting", archive.size());
    let mut buf = vec![0; CHUNK];
    let mut offset = 0;
    while offset < archive.size() {
        interrupt::check()?;
        let n = archive.read_at(offset, &mut buf)?;
        output.write_all(&buf[..n])?;
        offset += n as u64;
        progress.add(n as u64);
    }
    output.flush()?;
    Ok(())
}
