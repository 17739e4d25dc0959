//! `litepack pack`: a plain SQLite database becomes a packed file.
//!
//! The packed file holds the bytes of the database after a checkpoint, and is compared with them, byte by byte, before
//! it gets its name.

use std::fs::File;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use litepack_codec::{DictId, LEVELS, Level};
use litepack_engine::plan::{self, Effort, Plan};
use litepack_store::{DEFAULT_LEVEL, Disk, Listed, Options, Store};

use crate::interrupt;
use crate::progress::{Progress, summary};
use crate::reader::{self, CHUNK};
use crate::replace::Replacement;
use crate::source::Source;

/// Shortest and longest dictionaries that someone may ask for.
const DICTIONARY_LEN: RangeInclusive<usize> = 4 << 10..=1 << 20;

/// Creates a packed file from a plain SQLite database.
#[derive(clap::Args)]
#[command(
    override_usage = "litepack pack [--best | --level N] [--force] SRC DST\n       \
                      litepack pack [--best | --level N] --in-place FILE"
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
    /// Smallest file, in ten times the time: level 19 and longer dictionaries.
    #[arg(long, conflicts_with = "level")]
    best: bool,
    /// zstd level, from 1 (fast) to 19 (small).
    #[arg(long, value_name = "N", default_value_t = DEFAULT_LEVEL, value_parser = level)]
    level: Level,
    /// Do not lay pages out by column (to see what the columnar layout saves).
    #[arg(long)]
    no_columnar: bool,
    /// Longest dictionary for a table or index: 0 for none, or 4096 to 1048576.
    #[arg(long, value_name = "BYTES", value_parser = dictionary_size)]
    dictionary_size: Option<usize>,
}

fn dictionary_size(text: &str) -> Result<usize, String> {
    let (min, max) = (DICTIONARY_LEN.start(), DICTIONARY_LEN.end());
    let found = text.parse().ok();
    found
        .filter(|len| *len == 0 || DICTIONARY_LEN.contains(len))
        .ok_or_else(|| format!("neither 0 nor between {min} and {max}"))
}

/// A level on the command line.
pub fn level(text: &str) -> Result<Level, String> {
    let found = text.parse().ok().filter(|level| LEVELS.contains(level));
    found.ok_or_else(|| format!("not between {} and {}", LEVELS.start(), LEVELS.end()))
}

impl Arguments {
    fn effort(&self) -> Effort {
        let ordinary = effort(self.best, self.level);
        Effort {
            columnar: !self.no_columnar,
            len_max: self.dictionary_size.unwrap_or(ordinary.len_max),
            ..ordinary
        }
    }
}

/// The effort of packing, on all processors; `level` counts only without `best`.
pub fn effort(best: bool, level: Level) -> Effort {
    if best {
        Effort::best(*LEVELS.end(), reader::threads())
    } else {
        Effort::ordinary(level, reader::threads())
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<()> {
    let started = Instant::now();
    interrupt::watch()?;
    let mut source = Source::open(&arguments.src, arguments.in_place)?;
    source.expect_plain()?;
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
    if let Some(missing) = source.missing_bytes() {
        bail!(
            "{} is truncated: {missing} bytes are missing",
            source.shown().display()
        );
    }
    let before = source.metadata()?;
    if arguments.in_place {
        source.warn_of_links(&before);
    }
    let file = source.file();
    let warning = litepack_engine::warning(
        &source.shown().display().to_string(),
        before.len(),
        |at, buf| anyhow::Ok(Disk::read_at(file, buf, at)? == buf.len()),
    )?;
    if let Some(warning) = warning {
        eprintln!("{warning}");
    }
    let progress = Progress::new("packing", before.len());
    fill(&source, target.file(), arguments.effort(), &progress)?;
    drop(progress);
    reader::compare(target.file(), source.file(), source.shown())?;
    interrupt::check()?;
    let after = Disk::len(target.file())?;
    let shown = arguments.dst.as_deref().unwrap_or(&arguments.src);
    if arguments.in_place {
        source.drop_wal()?;
        target.publish(&before)?;
        source.retire();
    } else {
        target.publish(&before)?;
    }
    eprintln!("{}", summary(shown, before.len(), after, started));
    Ok(())
}

/// Writes a database that nobody changes into an empty file as one commit.
pub fn fill(source: &Source, packed: &File, effort: Effort, progress: &Progress) -> Result<()> {
    let size = source.metadata()?.len();
    let options = Options {
        level: effort.level,
        columnar: effort.columnar,
        ..reader::options()
    };
    let unit = source.page_size().map_or(4096, |size| size.max(4096)) as usize;
    let cannot_read = || format!("cannot read {}", source.shown().display());
    let mut store = Store::open(packed, options)?;
    if size == 0 {
        // The first write makes the file a packed one; the database in it is still empty.
        store.write(0, &vec![0; unit])?;
        store.truncate(0)?;
    }
    let mut plain = Plain(source.file());
    let plan = Plan::make(size, unit as u32, effort, Vec::new(), &mut plain)?;
    let mut numbers = Vec::new();
    for Listed {
        dictionary, shapes, ..
    } in plan.planned()
    {
        numbers.push(store.add_dictionary(dictionary, shapes.clone())?);
    }
    let mut buf = vec![0; CHUNK as usize];
    let mut offset = 0;
    while offset < size {
        interrupt::check()?;
        let wanted = CHUNK.min(size - offset) as usize;
        let n = source.file().read_at(&mut buf[..wanted], offset);
        if n.with_context(cannot_read)? != wanted {
            bail!(
                "{} became shorter while it was read",
                source.shown().display()
            );
        }
        // One unit at a time: the first write tells the store how long a unit is.
        for part in buf[..wanted].chunks(unit) {
            let dictionary = plan.dictionary_of(offset / unit as u64);
            store.write_with(offset, part, dictionary.map_or(0, |index| numbers[index]))?;
            offset += part.len() as u64;
        }
        progress.add(wanted as u64);
    }
    plan.finish(&mut store)?;
    store.settle()?;
    store.close();
    Ok(())
}

/// The plain database, to plan dictionaries for.
struct Plain<'a>(&'a File);

impl plan::Source for Plain<'_> {
    fn read(&mut self, offset: u64, buf: &mut [u8]) -> bool {
        Disk::read_at(self.0, buf, offset).is_ok_and(|n| n == buf.len())
    }

    fn dictionary_of(&mut self, _: u64) -> DictId {
        0
    }
}
