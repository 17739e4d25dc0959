//! `bench-integers`: measures what integers cost, and renews docs/integers.md.
//!
//! Tables go to standard output, progress to standard error. A measurement that cannot be made here is left out, with a
//! line that says why.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use litepack_bench::cold::Cold;
use litepack_bench::machine::Machine;
use litepack_integers::engines::{Shell, engines};
use litepack_integers::factors::Effort;
use litepack_integers::study::Study;
use litepack_integers::{beside, cases, factors, imports, pages, profile, report};

/// Measures what integers cost in SQLite, in packed files, in encodings of other formats and in Parquet.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// Fewer rows and fewer turns: under four minutes
    #[arg(long)]
    quick: bool,
    /// Run only this part (may be given several times)
    #[arg(long, value_name = "PART")]
    only: Vec<Part>,
    /// Rows of each table [default: 10000000, quick 500000]
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(5000..))]
    rows: Option<u64>,
    /// Write all figures to FILE as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure nothing: take the figures from FILE, which --json wrote
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "only", "rows", "json"])]
    from_json: Option<PathBuf>,
    /// Folder for the tables; the plain ones are kept for the next run [default: bench-data beside this program]
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// Folder for charts and flame graphs [default: integers in the folder for the tables]
    #[arg(long, value_name = "FOLDER")]
    charts: Option<PathBuf>,
    /// Renew docs/integers.md and docs/integers/ from this run
    #[arg(long, conflicts_with_all = ["only", "charts"])]
    write_docs: bool,
    /// The test case for this program's own run under callgrind
    #[arg(long, hide = true, requires = "counted_uri")]
    counted_case: Option<u32>,
    #[arg(long, hide = true)]
    counted_uri: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Arrays in each encoding
    Arrays,
    /// Whole pages of one column
    Pages,
    /// Test cases 1 to 4
    Reads,
    /// Test cases 5 and 6
    Imports,
    /// Beside Parquet
    Formats,
    /// Where the instructions go
    Profile,
}

fn main() -> Result<()> {
    let options = Options::parse();
    if let (Some(case), Some(uri)) = (options.counted_case, &options.counted_uri) {
        return profile::counted(case, uri);
    }
    if cfg!(debug_assertions) {
        eprintln!("warning: this is a debug build; its figures mean nothing");
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let folder = options.dir.clone().map_or_else(default_folder, Ok)?;
    let charts = match &options.charts {
        _ if options.write_docs => docs.join("integers"),
        Some(charts) => charts.clone(),
        None => folder.join("integers"),
    };
    let study = match &options.from_json {
        Some(path) => Study::read(path)?,
        None => run(&options, &folder, &charts)?,
    };
    println!("{}", report::text(&study));
    report::draw(&study, &charts)?;
    if let Some(path) = &options.json {
        study.write(path)?;
    }
    if options.write_docs {
        report::write_markdown(&study, &docs.join("integers.md"))?;
    }
    Ok(())
}

fn default_folder() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program.parent().context("this program is in no folder")?;
    Ok(folder.join("bench-data"))
}

/// How much is done.
struct Size {
    rows: u64,
    /// Turns of the cases that read, and of those that write.
    rounds: (u32, u32),
    effort: Effort,
    page_rows: usize,
    /// Rows of the tables that are read under callgrind.
    counted_rows: u64,
}

impl Size {
    fn of(options: &Options) -> Self {
        let (rows, rounds, large, time, page_rows, counted_rows) = if options.quick {
            (500_000, (5, 3), 1 << 15, 20, 100_000, 50_000)
        } else {
            (10_000_000, (7, 3), 1 << 17, 150, 400_000, 200_000)
        };
        Self {
            rows: options.rows.unwrap_or(rows),
            rounds,
            effort: Effort {
                large,
                time: Duration::from_millis(time),
            },
            page_rows,
            counted_rows,
        }
    }
}

fn run(options: &Options, folder: &Path, charts: &Path) -> Result<Study> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    std::fs::create_dir_all(charts).with_context(|| format!("cannot make {}", charts.display()))?;
    let scratch = tempfile::Builder::new()
        .prefix("integers-")
        .tempdir_in(folder)?;
    let scratch = scratch.path();
    let size = Size::of(options);
    let wanted = |part| options.only.is_empty() || options.only.contains(&part);
    let progress = ProgressBar::no_length().with_style(ProgressStyle::with_template(
        "{spinner} {elapsed_precise} {msg}",
    )?);
    progress.enable_steady_tick(Duration::from_millis(200));
    let say = |message: String| progress.set_message(message);

    let machine = Machine::look(folder)?.lines();
    let mut study = Study {
        machine: machine
            .into_iter()
            .map(|(label, words)| (label.into(), words))
            .collect(),
        quick: options.quick,
        rows: size.rows,
        large: size.effort.large,
        ..Study::default()
    };
    if wanted(Part::Arrays) {
        study.factors = factors::measure(size.effort, &say)?;
    }
    if wanted(Part::Pages) {
        study.pages = pages::measure(scratch, size.page_rows, size.effort.time, &say)?;
    }
    if wanted(Part::Profile) {
        match profile::find() {
            Ok(()) => count(scratch, charts, size.counted_rows, &mut study, &say)?,
            Err(reason) => study
                .missing
                .push(format!("where the instructions go: {reason:#}")),
        }
    }
    if wanted(Part::Reads) || wanted(Part::Formats) {
        let files = cases::prepare(engines()?, folder, scratch, size.rows, &say)?;
        if wanted(Part::Reads) {
            match Cold::find(scratch) {
                Ok(cold) => study.cold = Some(cold),
                Err(reason) => study.missing.push(format!("cold readings: {reason:#}")),
            }
            study.cases = cases::measure(&files, size.rounds.0, study.cold, &say)?;
        }
        if wanted(Part::Formats) {
            study.formats = beside::measure(&files, size.rows, size.effort.time, &say)?;
        }
    }
    if wanted(Part::Formats) {
        add_parquet(scratch, &size, &mut study, &say)?;
    }
    if wanted(Part::Imports) {
        let shell = match Shell::find() {
            Ok(shell) => {
                study
                    .machine
                    .push(("sqlite3 shell".into(), shell.version.clone()));
                Some(shell)
            }
            Err(reason) => {
                study
                    .missing
                    .push(format!("imports by the sqlite3 shell: {reason:#}"));
                None
            }
        };
        study.imports = imports::measure(scratch, size.rows, size.rounds.1, shell.as_ref(), &say)?;
    }
    progress.finish_and_clear();
    Ok(study)
}

/// Counts instructions and draws the flame graphs.
fn count(
    scratch: &Path,
    charts: &Path,
    rows: u64,
    study: &mut Study,
    say: &dyn Fn(String),
) -> Result<()> {
    let found = profile::measure(scratch, rows, say)?;
    study.profiles = found.profiles;
    for (target, stacks) in &found.stacks {
        let title = format!("Instructions of test cases 1 to 4, {target}");
        profile::draw(&charts.join(format!("flame-{target}.svg")), &title, stacks)?;
    }
    Ok(())
}

#[cfg(feature = "parquet")]
fn add_parquet(scratch: &Path, size: &Size, study: &mut Study, say: &dyn Fn(String)) -> Result<()> {
    let found = litepack_integers::parquet::measure(scratch, size.rows, size.effort.time, say)?;
    study.formats.extend(found);
    study
        .formats
        .sort_by(|one, other| one.table.cmp(&other.table));
    Ok(())
}

#[cfg(not(feature = "parquet"))]
fn add_parquet(
    _scratch: &Path,
    _size: &Size,
    study: &mut Study,
    _say: &dyn Fn(String),
) -> Result<()> {
    study
        .missing
        .push("Parquet: this program was built without the feature `parquet`".into());
    Ok(())
}
