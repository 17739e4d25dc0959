//! `litepack archive create`: a database, plain or packed, becomes an archive.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use litepack::archive::{
    CreateOptions, DEFAULT_FRAME_SIZE, DEFAULT_LEVEL, FRAME_SIZES, LEVELS, create,
};

use crate::job::{interruptible, summary};
use crate::keys;
use crate::output::tell;

/// Creates an archive from a plain database or a packed file. Without --encrypt it is not encrypted, even if the packed
/// file is.
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
    /// Encrypt the archive: with the key of DB, or if that is not encrypted, with the one that is given or asked for.
    #[arg(long)]
    encrypt: bool,
    #[command(flatten)]
    key: keys::KeyOptions,
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
    let options = CreateOptions {
        level: arguments.level,
        frame_size: arguments.frame_size,
        replace: arguments.force,
        encrypt: arguments.encrypt,
    };
    let (db, out) = (&arguments.db, &arguments.out);
    let key = match arguments.key.of(db)? {
        None if arguments.encrypt => Some(arguments.key.of_new(out)?),
        key => key,
    };
    let job = keys::with(key, interruptible);
    let started = Instant::now();
    let sizes = create(db, out, &options, &job)?;
    if !arguments.encrypt && litepack::is_encrypted(db)? {
        let out = out.display();
        tell!("warning: {out} is not encrypted: --encrypt makes an archive that is");
    }
    tell!("{}", summary(out, sizes, started));
    Ok(())
}
