//! `bench`: measures Litepack against plain SQLite and tells the result.
//!
//! The table goes to standard output, progress to standard error. Exit code 1 means that an
//! engine failed or gave a wrong answer, never that it was slow. An interrupted run reports what it has.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use litepack_bench::child;
use litepack_bench::dataset::Size;
use litepack_bench::engines::Group;
use litepack_bench::lab::{Lab, Scale, heed_interruptions};
use litepack_bench::machine::Machine;
use litepack_bench::report::{
    INTERRUPTED, Report, Section, draw_charts, read_json, table, write_charts, write_json,
    write_markdown,
};
use litepack_bench::workloads;

/// Measures Litepack against plain SQLite.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// Less data and fewer turns: under eight minutes
    #[arg(long)]
    quick: bool,
    /// Run only workloads whose name begins with PATTERN (may be given several times)
    #[arg(long, value_name = "PATTERN")]
    only: Vec<String>,
    /// Write all figures to FILE as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// TPC-H scale factor [default: 1, quick 0.1]
    #[arg(long, value_name = "FACTOR")]
    sf: Option<f64>,
    /// Rows of JSON titles; logs have half as many [default: 1000000, quick 100000]
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(2000..))]
    rows: Option<u64>,
    /// Folder for the databases; generated ones are kept for the next run [default: bench-data
    /// beside this program]
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// Write charts as SVG files into FOLDER
    #[arg(long, value_name = "FOLDER")]
    charts: Option<PathBuf>,
    /// Do a long run in parts: take over what FILE has, measure the rest (or what --only names, anew), and write FILE
    /// again after each workload
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Renew docs/benchmarks.md, its charts and docs/benchmarks from this run
    #[arg(long)]
    write_docs: bool,
    /// List the workloads and exit
    #[arg(long)]
    list: bool,
    /// Take a part in the work of another process
    #[arg(long, hide = true)]
    child: Option<String>,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    if let Some(part) = &options.child {
        child::run(part)?;
        return Ok(ExitCode::SUCCESS);
    }
    if options.list {
        for workload in workloads::all() {
            println!("{:<18} {}", workload.name(), workload.about());
        }
        return Ok(ExitCode::SUCCESS);
    }
    if cfg!(debug_assertions) {
        eprintln!("warning: this is a debug build; its figures mean nothing");
    }
    ensure!(
        !options.write_docs || options.only.is_empty() || options.resume.is_some(),
        "--write-docs needs all workloads: run without --only, or with --resume"
    );
    heed_interruptions()?;
    let report = run(&options)?;
    println!("{}", table(&report));
    if let Some(path) = &options.json {
        write_json(&report, path)?;
    }
    if let Some(folder) = &options.charts {
        write_charts(&draw_charts(&report)?, folder)?;
    }
    if options.write_docs {
        let unmeasured = report.missing.iter().find(|(_, why)| why == INTERRUPTED);
        if let Some((what, _)) = unmeasured.filter(|_| options.resume.is_some()) {
            bail!("{what} is not measured; run the same again to write the docs");
        }
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks.md");
        write_markdown(&report, &docs)?;
    }
    Ok(if report.is_sound() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn run(options: &Options) -> Result<Report> {
    let (rows, scale_factor, rounds) = if options.quick {
        (100_000, 0.1, 3)
    } else {
        (1_000_000, 1.0, 5)
    };
    let size = Size {
        rows: options.rows.unwrap_or(rows),
        scale_factor: options.sf.unwrap_or(scale_factor),
    };
    let folder = options.dir.clone().map_or_else(default_folder, Ok)?;
    let program = std::env::current_exe()?;
    let scale = Scale {
        size,
        quick: options.quick,
    };
    let mut lab = Lab::new(program, &folder, scale, rounds)?;
    let mut report = Report {
        machine: Machine::look(&folder)?,
        size,
        quick: options.quick,
        rounds,
        missing: Vec::new(),
        sections: Vec::new(),
    };
    let is_named = |name: &str| options.only.iter().any(|part| name.starts_with(part));
    if let Some(path) = &options.resume
        && let Some(earlier) = read_json(path)?
    {
        report
            .take_over(earlier, is_named)
            .with_context(|| format!("cannot go on with {}", path.display()))?;
    }

    let all = workloads::all();
    let order = |name: &str| all.iter().position(|work| work.name() == name);
    let chosen: Vec<_> = all
        .iter()
        .filter(|work| options.only.is_empty() || is_named(work.name()))
        .filter(|work| !report.has(work.name()))
        .collect();
    ensure!(
        options.only.is_empty() || !chosen.is_empty(),
        "no workload has such a name; --list shows all"
    );
    for group in [Group::Columns, Group::Sizes, Group::Apart] {
        if chosen.iter().any(|work| work.group() == group) {
            lab.add_peers(group);
        }
    }
    for workload in chosen {
        if lab.is_stopped() {
            break;
        }
        let groups = workload
            .run(&lab)
            .with_context(|| format!("in {}", workload.name()))?;
        report.sections.push(Section {
            workload: workload.name().into(),
            about: workload.about().into(),
            groups,
        });
        report
            .sections
            .sort_by_key(|section| order(&section.workload));
        report.add_missing(lab.missing());
        if let Some(path) = &options.resume {
            write_json(&report, path)?;
        }
    }
    lab.finish();
    if options.only.is_empty() || options.resume.is_some() {
        let unmeasured = all.iter().filter(|work| !report.has(work.name()));
        let unmeasured = unmeasured.map(|work| (work.name().into(), INTERRUPTED.into()));
        let unmeasured: Vec<_> = unmeasured.collect();
        report.add_missing(unmeasured);
    }
    Ok(report)
}

fn default_folder() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program.parent().context("this program is in no folder")?;
    Ok(folder.join("bench-data"))
}
