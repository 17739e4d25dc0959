//! `litepack tune`: compares formats and settings on a copy of a database, or of a part of it, and recommends one.

mod text;

use std::path::PathBuf;

use anyhow::Result;
use litepack_tune::{TuneOptions, tune};

use crate::job::interruptible;
use crate::output::{json, print};

/// Smallest and largest sample, in MiB.
const SAMPLE_MB: std::ops::RangeInclusive<u64> = 1..=1 << 20;

/// Compares page sizes, levels and frame sizes on a copy of a database, and recommends one.
///
/// The database is only read. A small one is copied whole, of a larger one a part of each table.
#[derive(clap::Args)]
pub struct Arguments {
    /// The database: plain, packed or archive.
    db: PathBuf,
    /// SQL statements to measure, separated by semicolons; a repeated one counts twice [default: generated from the
    /// schema].
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
    /// Draw sizes and times as SVG.
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,
    /// Replace the chart if it exists.
    #[arg(long, requires = "chart")]
    force: bool,
    /// Copy at most about this many MiB of the database.
    #[arg(long, value_name = "MIB", default_value_t = 128, value_parser = sample_mb)]
    sample_mb: u64,
}

fn sample_mb(text: &str) -> Result<u64, String> {
    let found = text.parse().ok().filter(|mb| SAMPLE_MB.contains(mb));
    let (min, max) = (SAMPLE_MB.start(), SAMPLE_MB.end());
    found.ok_or_else(|| format!("not between {min} and {max}"))
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<()> {
    let options = TuneOptions {
        queries: arguments.queries.clone(),
        sample_bytes: arguments.sample_mb << 20,
        chart: arguments.chart.clone(),
        replace: arguments.force,
    };
    let report = tune(&arguments.db, &options, &interruptible())?;
    if arguments.json {
        json(serde_json::to_value(&report)?)?;
    } else {
        print(text::of(&report))?;
    }
    Ok(())
}
