//! `litepack advise`: says what takes the space of a database, and what would help.

mod text;

use std::path::PathBuf;

use anyhow::Result;
use litepack_advise::{AdviseOptions, SAMPLES, advise};

use crate::job::interruptible;
use crate::keys;
use crate::output::{json, print};

/// Says what takes the space of a database, what packing it would save, and what else would help.
///
/// The database is only read, without a lock, so others may write it meanwhile. Of a large one a sample is read, in
/// seconds.
#[derive(clap::Args)]
pub struct Arguments {
    /// The database: plain, packed or archive.
    db: PathBuf,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
    /// Write the report as a page of HTML as well.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace the page if it exists.
    #[arg(long, requires = "html")]
    force: bool,
    /// Read at most about this many MiB of tables and indexes.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = sample_mb)]
    sample_mb: u64,
    #[command(flatten)]
    key: keys::KeyOptions,
}

fn sample_mb(text: &str) -> Result<u64, String> {
    let (min, max) = (SAMPLES.start() >> 20, SAMPLES.end() >> 20);
    let found = text.parse().ok().filter(|mb| (min..=max).contains(mb));
    found.ok_or_else(|| format!("not between {min} and {max}"))
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<()> {
    let options = AdviseOptions {
        html: arguments.html.clone(),
        replace: arguments.force,
        sample_bytes: arguments.sample_mb << 20,
        ..AdviseOptions::default()
    };
    let job = arguments.key.job(&arguments.db, interruptible)?;
    let report = advise(&arguments.db, &options, &job)?;
    if arguments.json {
        json(serde_json::to_value(&report)?)?;
    } else {
        print(text::of(&report))?;
    }
    Ok(())
}
