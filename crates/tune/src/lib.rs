//! Compares formats and settings on a copy of a database, or of a part of it, and recommends one: the command
//! `litepack tune` as a function.
//!
//! ```text
//! sample.rs, part.rs  the copy of the user's database
//! queries.rs     the user's queries                 workload.rs              queries generated from the schema
//! candidates.rs  formats and settings to try        measure.rs               times of queries
//! pareto.rs      the Pareto front                   report.rs, chart.rs      the report and the chart
//! ```
#![forbid(unsafe_code)]

mod candidates;
mod chart;
mod measure;
mod pareto;
mod part;
mod queries;
mod report;
mod sample;
mod workload;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use litepack_database::error::Context;
use litepack_database::files::origin::Origin;
use litepack_database::files::replacement::Replacement;
use litepack_database::job::{Step, Unit};
use litepack_database::{Job, Result, register};
use measure::{Measured, Pair, expect_same, mean};
use sample::Sample;

pub use candidates::{Candidate, Form};
pub use pareto::Outcome;
pub use queries::Query;
pub use report::Report;

use candidates::{first, other_levels, page_sizes};

/// Options of [`tune`].
#[derive(Clone, Debug)]
pub struct TuneOptions {
    /// A file of SQL statements to measure, separated by semicolons; a repeated one counts twice. By default they are
    /// generated from the schema.
    pub queries: Option<PathBuf>,
    /// Copy at most about this many bytes of the database.
    pub sample_bytes: u64,
    /// Draw sizes and times as SVG into this file.
    pub chart: Option<PathBuf>,
    /// Replace the chart if it exists.
    pub replace: bool,
}

impl Default for TuneOptions {
    fn default() -> Self {
        TuneOptions {
            queries: None,
            sample_bytes: 128 << 20,
            chart: None,
            replace: false,
        }
    }
}

/// Compares page sizes, levels and frame sizes on a copy of a database, and recommends one. The database, plain, packed
/// or an archive, is only read. A small one is copied whole, of a larger one a part of each table.
///
/// ```no_run
/// # fn main() -> litepack::Result<()> {
/// use litepack::Job;
/// use litepack_tune::{TuneOptions, tune};
///
/// let report = tune("app.db", &TuneOptions::default(), &Job::default())?;
/// match report.recommended {
///     Some(at) => println!("{}", report.results[at].candidate.name()),
///     None => println!("leave it as it is"),
/// }
/// # Ok(()) }
/// ```
///
/// # Errors
/// If the database cannot be read, there is no room for the copies, or a query fails.
pub fn tune(database: impl AsRef<Path>, options: &TuneOptions, job: &Job<'_>) -> Result<Report> {
    register()?;
    let database = database.as_ref();
    let origin = Origin::open(database, None).map_err(|error| match error {
        litepack::Error::Encrypted { path } => litepack::Error::Refused(format!(
            "{} is encrypted, and the copies that are measured are not; give a copy that is not encrypted",
            path.display()
        )),
        error => error,
    })?;
    origin.expect_trees(job)?;
    let chart = match &options.chart {
        Some(file) => Some(Replacement::of(file, origin.path(), options.replace, job)?),
        None => None,
    };
    let sample = Sample::take(&origin, options.sample_bytes, job)?;
    let report = measure(database, &origin, &sample, options, job)?;
    if let Some(chart) = chart {
        let svg = chart::of(&report)?;
        let written = std::io::Write::write_all(&mut chart.file(), svg.as_bytes());
        written.context("cannot write the chart")?;
        chart.publish(&origin.rights()?, job)?;
    }
    Ok(report)
}

/// Makes and measures everything.
fn measure(
    database: &Path,
    origin: &Origin,
    sample: &Sample,
    options: &TuneOptions,
    job: &Job<'_>,
) -> Result<Report> {
    let page_sizes = page_sizes(sample.page_size);
    let firsts: Vec<Candidate> = page_sizes.iter().flat_map(|size| first(*size)).collect();
    let step = job.step("tuning", Unit::Tasks, Some(firsts.len() as u64 + 1));
    step.at("plain");
    for page_size in page_sizes {
        sample.add(origin, page_size, job)?;
    }
    let own = sample.page_size;
    let plain = Candidate {
        page_size: own,
        form: Form::Plain,
    };
    let measured = Measured::open(&sample.plain(own), sample.cache_mb()?, job)?;
    let queries = match &options.queries {
        Some(file) => queries::from_file(file, measured.connection())?,
        None => {
            let made = workload::of(measured.connection());
            made.with_context(|| database.display().to_string())?
        }
    };
    let mut trial = Trial {
        sample,
        queries: &queries,
        plain: &measured,
        times: Vec::new(),
        results: Vec::new(),
        job,
        step: &step,
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
    step.extend(others.len() as u64);
    for candidate in others {
        trial.of(candidate)?;
    }
    let (results, times) = (trial.results, trial.times);
    Ok(Report {
        database: database.to_owned(),
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
    results: Vec<Outcome>,
    job: &'a Job<'a>,
    step: &'a Step<'a>,
}

impl Trial<'_> {
    /// Makes and measures one.
    fn of(&mut self, candidate: Candidate) -> Result<()> {
        let tried = || format!("on {}", candidate.name());
        self.step.at(&candidate.name());
        let started = Instant::now();
        let file = candidate.make(self.sample, self.job).with_context(tried)?;
        let seconds = started.elapsed().as_secs_f64();
        let bytes = file.metadata().with_context(tried)?.len();
        let measured =
            Measured::open(&file, self.sample.cache_mb()?, self.job).with_context(tried)?;
        let pairs =
            measure::run(self.plain, &measured, self.queries, self.job).with_context(tried)?;
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
        self.results.push(Outcome {
            candidate,
            bytes,
            seconds,
            time: mean(&ratios),
            ratios,
        });
        self.step.add(1);
        Ok(())
    }
}
