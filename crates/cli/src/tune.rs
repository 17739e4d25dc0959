//! `litepack tune`: compares formats and settings on a copy of a database, or of a part of it, and recommends one.
//!
//! ```text
//! origin.rs      the user's database, only read     sample.rs, part.rs       the copy
//! queries.rs     those of the user                  workload.rs              or else some made from the schema
//! candidates.rs  what is tried                      measure.rs               how long queries take on it
//! pareto.rs      what is worth having               report.rs, chart.rs      for people and programs
//! ```

mod candidates;
mod chart;
mod measure;
mod origin;
mod pareto;
mod part;
mod queries;
mod report;
mod sample;
mod workload;

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use self::candidates::{Candidate, Form, first, other_levels, page_sizes};
use self::measure::{Measured, Pair, expect_same, mean};
use self::origin::Origin;
use self::queries::Query;
use self::report::Report;
use self::sample::Sample;
use crate::interrupt;
use crate::progress::Progress;
use crate::replace::Replacement;

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
    interrupt::watch()?;
    litepack_rusqlite::register().map_err(anyhow::Error::msg)?;
    let origin = Origin::open(&arguments.db)?;
    let chart = match &arguments.chart {
        Some(file) => Some(Replacement::of(file, origin.path(), arguments.force)?),
        None => None,
    };
    let sample = Sample::take(&origin, arguments.sample_mb << 20)?;
    let report = measure(&origin, sample, arguments)?;
    if let Some(chart) = chart {
        let svg = chart::of(&report)?;
        let written = chart.file().write_all(svg.as_bytes());
        written.context("cannot write the chart")?;
        chart.publish(origin.metadata())?;
    }
    if arguments.json {
        println!("{}", report::json(&report));
    } else {
        print!("{}", report::text(&report));
    }
    Ok(())
}

/// Makes and measures everything.
fn measure(origin: &Origin, sample: Sample, arguments: &Arguments) -> Result<Report> {
    let page_sizes = page_sizes(sample.page_size);
    let firsts: Vec<Candidate> = page_sizes.iter().flat_map(|size| first(*size)).collect();
    let progress = Progress::of_steps("tuning", firsts.len() as u64 + 1);
    progress.say("plain".into());
    for page_size in page_sizes {
        sample.add(origin, page_size)?;
    }
    let own = sample.page_size;
    let plain = Candidate {
        page_size: own,
        form: Form::Plain,
    };
    let measured = Measured::open(&sample.plain(own), sample.cache_mb()?)?;
    let queries = match &arguments.queries {
        Some(file) => queries::from_file(file, measured.connection())?,
        None => {
            let made = workload::of(measured.connection());
            made.with_context(|| origin.shown().display().to_string())?
        }
    };
    let mut trial = Trial {
        sample: &sample,
        queries: &queries,
        plain: &measured,
        times: Vec::new(),
        results: Vec::new(),
        progress: &progress,
    };
    for candidate in [plain].into_iter().chain(firsts) {
        trial.of(candidate)?;
    }
    let worth = pareto::front(&trial.results);
    let found: Vec<Candidate> = worth
        .iter()
        .map(|at| trial.results[*at].candidate)
        .collect();
    let others: Vec<Candidate> = found.into_iter().flat_map(other_levels).collect();
    progress.extend(others.len() as u64);
    for candidate in others {
        trial.of(candidate)?;
    }
    let (results, times) = (trial.results, trial.times);
    Ok(Report {
        database: arguments.db.clone(),
        kind: origin.kind(),
        page_size: own,
        whole: sample.whole,
        is_whole: sample.is_whole,
        left_out: sample.left_out.clone(),
        plain: times,
        queries,
        front: pareto::front(&results),
        recommended: pareto::recommended(&results, |_| true),
        recommended_written: pareto::recommended(&results, Candidate::is_written),
        results,
    })
}

/// The candidates so far.
struct Trial<'a> {
    sample: &'a Sample,
    queries: &'a [Query],
    plain: &'a Measured,
    /// Of the queries on the plain file, when it was compared with itself.
    times: Vec<Duration>,
    results: Vec<pareto::Result>,
    progress: &'a Progress,
}

impl Trial<'_> {
    /// Makes and measures one.
    fn of(&mut self, candidate: Candidate) -> Result<()> {
        let tried = || format!("on {}", candidate.name());
        self.progress.say(candidate.name());
        let started = Instant::now();
        let file = candidate.make(self.sample).with_context(tried)?;
        let seconds = started.elapsed().as_secs_f64();
        let bytes = file.metadata().with_context(tried)?.len();
        let measured = Measured::open(&file, self.sample.cache_mb()?).with_context(tried)?;
        let pairs = measure::run(self.plain, &measured, self.queries).with_context(tried)?;
        let is_plain = !candidate.is_compressed();
        expect_same(self.queries, &pairs, is_plain).with_context(tried)?;
        let ratio = |pair: &Pair| match is_plain {
            true => 1.0,
            false => pair.other.time.as_secs_f64() / pair.plain.time.as_secs_f64(),
        };
        if is_plain {
            self.times = pairs.iter().map(|pair| pair.plain.time).collect();
        }
        let ratios: Vec<f64> = pairs.iter().map(ratio).collect();
        self.results.push(pareto::Result {
            candidate,
            bytes,
            seconds,
            time: mean(&ratios),
            ratios,
        });
        self.progress.add(1);
        Ok(())
    }
}
