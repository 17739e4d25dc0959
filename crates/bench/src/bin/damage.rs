//! `damage`: damages the same database as each engine keeps it, and tells what a reader gets.
//!
//! The table goes to standard output, progress to standard error. Exit code 1 if Litepack gave a wrong answer, crashed
//! or hung.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use litepack_bench::damage::{ENGINES, Harm, Order, engine, obey, table, try_engine};

/// Damages databases of Litepack and of others, and tells what a reader gets.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// Trials of each kind of damage
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    trials: u32,
    /// Rows of the database, of some 215 bytes
    #[arg(long, default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(1000..))]
    rows: u64,
    /// Seed of data and damage
    #[arg(long, default_value_t = 20_261_128)]
    seed: u64,
    /// Only this engine (may be given several times) [default: all that can be had]
    #[arg(long, value_parser = ENGINES)]
    engine: Vec<String>,
    /// Renew the table in docs/damage.md
    #[arg(long)]
    write_docs: bool,
    /// Do one thing with one file, as a child of this program
    #[arg(long, hide = true, num_args = 3)]
    order: Option<Vec<String>>,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    if let Some([order, name, file]) = options.order.as_deref() {
        obey(serde_json::from_str::<Order>(order)?, name, Path::new(file))?;
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("seed {}", options.seed);
    let folder = tempfile::tempdir()?;
    let mut columns = Vec::new();
    let is_asked =
        |name: &&str| options.engine.is_empty() || options.engine.iter().any(|one| one == name);
    for name in ENGINES.into_iter().filter(is_asked) {
        if let Err(why) = engine(name) {
            eprintln!("{name} is left out: {why:#}");
            continue;
        }
        let all = u64::from(options.trials) * Harm::ALL.len() as u64;
        let style = ProgressStyle::with_template("{msg:20} {wide_bar} {pos}/{len} {eta}")?;
        let progress = ProgressBar::new(all).with_style(style).with_message(name);
        let task = (options.rows, options.trials, options.seed);
        let column = try_engine(name, task, folder.path(), &mut || progress.inc(1))?;
        progress.finish_and_clear();
        columns.push(column);
    }
    let text = table(&columns);
    println!("{text}");
    if options.write_docs {
        write_docs(&text, &options)?;
    }
    let ours = columns
        .iter()
        .filter(|one| one.engine.starts_with("Litepack"));
    let is_well = |ends: litepack_bench::damage::Ends| ends.silent() == 0 && ends.lost() == 0;
    Ok(match ours.map(|column| column.total()).all(is_well) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Puts the table between its marks.
fn write_docs(table: &str, options: &Options) -> Result<()> {
    const BEGIN: &str = "<!-- table -->\n";
    const END: &str = "<!-- end of table -->";
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/damage.md");
    let text = std::fs::read_to_string(&path)?;
    let marks = text.find(BEGIN).zip(text.find(END));
    let (begin, end) = marks.with_context(|| format!("no marks in {}", path.display()))?;
    let (head, tail) = (&text[..begin + BEGIN.len()], &text[end..]);
    let Options {
        trials, rows, seed, ..
    } = options;
    let how = format!("{rows} rows, {trials} trials of each kind for each engine, seed {seed}:");
    std::fs::write(&path, format!("{head}\n{how}\n\n{table}\n\n{tail}"))?;
    Ok(())
}
