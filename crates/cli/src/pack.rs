//! `litepack pack`: a plain SQLite database becomes a packed file.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use litepack::{DEFAULT_LEVEL, DICTIONARY_SIZES, LEVELS, Level, PACK_LEVEL, PackOptions};

use crate::job::{interruptible, summary};
use crate::keys;
use crate::output::tell;

/// Creates a packed file from a plain SQLite database.
#[derive(clap::Args)]
#[command(
    override_usage = "litepack pack [--fast | --best | --level N] [--encrypt] [--force] SRC DST\n       \
                      litepack pack [--fast | --best | --level N] [--encrypt] --in-place FILE"
)]
pub struct Arguments {
    /// The plain database.
    src: PathBuf,
    /// The packed file to create.
    #[arg(required_unless_present = "in_place")]
    dst: Option<PathBuf>,
    /// Replace the database itself, which must not be in use.
    #[arg(long, conflicts_with_all = ["dst", "force"])]
    in_place: bool,
    /// Replace DST if it exists.
    #[arg(long)]
    force: bool,
    /// Level 3, as SQLite's own writes: less time, and text some 5 % larger.
    #[arg(long, conflicts_with_all = ["best", "level"])]
    fast: bool,
    /// Smallest file, in ten to forty times the time: level 19 and longer dictionaries.
    #[arg(long, conflicts_with = "level")]
    best: bool,
    /// zstd level, from 1 (fast) to 19 (small).
    #[arg(long, value_name = "N", default_value_t = PACK_LEVEL, value_parser = level)]
    level: Level,
    /// Do not lay pages out by column (to see what the columnar layout saves).
    #[arg(long)]
    no_columnar: bool,
    /// Longest dictionary for a table or index: 0 for none, or 4096 to 1048576.
    #[arg(long, value_name = "BYTES", value_parser = dictionary_size)]
    dictionary_size: Option<usize>,
    /// Store zeros for free pages: smaller, and no longer bit for bit.
    #[arg(long)]
    drop_free_pages: bool,
    /// Encrypt the packed file, with a key that is given or asked for.
    #[arg(long)]
    encrypt: bool,
    #[command(flatten)]
    key: keys::KeyOptions,
    #[command(flatten)]
    padding: keys::PaddingOption,
    /// Do not store text once that several pages have in common. For files that are read from a web server.
    #[arg(long)]
    no_references: bool,
}

fn dictionary_size(text: &str) -> Result<usize, String> {
    let (min, max) = (DICTIONARY_SIZES.start(), DICTIONARY_SIZES.end());
    let found = text.parse().ok();
    found
        .filter(|len| *len == 0 || DICTIONARY_SIZES.contains(len))
        .ok_or_else(|| format!("neither 0 nor between {min} and {max}"))
}

/// A level on the command line.
pub fn level(text: &str) -> Result<Level, String> {
    let found = text.parse().ok().filter(|level| LEVELS.contains(level));
    found.ok_or_else(|| format!("not between {} and {}", LEVELS.start(), LEVELS.end()))
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<()> {
    let options = PackOptions {
        level: match arguments.fast {
            true => DEFAULT_LEVEL,
            false => arguments.level,
        },
        best: arguments.best,
        columnar: !arguments.no_columnar,
        dictionary_size: arguments.dictionary_size,
        drop_free_pages: arguments.drop_free_pages,
        references: !arguments.fast && !arguments.no_references,
        replace: arguments.force,
    };
    let key = match arguments.encrypt {
        true => {
            let target = arguments.dst.as_ref().unwrap_or(&arguments.src);
            Some(arguments.padding.of(arguments.key.of_new(target)?)?)
        }
        false => {
            arguments.padding.expect_none("--encrypt")?;
            arguments.key.expect_none("--encrypt").map(|()| None)?
        }
    };
    let started = Instant::now();
    let job = keys::with(key, interruptible);
    let (shown, sizes) = match &arguments.dst {
        Some(dst) => (dst, litepack::pack(&arguments.src, dst, &options, &job)?),
        None => {
            let file = &arguments.src;
            (file, litepack::pack_in_place(file, &options, &job)?)
        }
    };
    tell!("{}", summary(shown, sizes, started));
    Ok(())
}
