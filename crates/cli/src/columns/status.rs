//! `litepack columns status`: what is compressed and what is not, for people or as JSON.

use std::path::PathBuf;

use anyhow::Result;
use indicatif::HumanBytes;
use litepack::columns::{Status, status};
use litepack::{Job, harmless_line, printable};

use crate::keys;
use crate::output::{json, line, print};

/// Reports what is compressed, how well, and why the rest is not.
#[derive(clap::Args)]
pub struct Arguments {
    /// Print a JSON array.
    #[arg(long)]
    json: bool,
    /// The database, plain or packed.
    database: PathBuf,
    #[command(flatten)]
    key: keys::KeyOptions,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<()> {
    let job = arguments.key.job(&arguments.database, Job::default)?;
    let columns = status(&arguments.database, &job)?;
    if arguments.json {
        json(serde_json::to_value(&columns)?)?;
    } else if columns.is_empty() {
        line("no compressed columns")?;
    } else {
        print(text(&columns))?;
    }
    Ok(())
}

fn text(columns: &[Status]) -> String {
    let heads = [
        "column",
        "level",
        "rows",
        "compressed",
        "before",
        "after",
        "ratio",
        "dictionaries",
    ];
    let mut table = vec![heads.map(String::from)];
    for column in columns {
        let dictionaries: u64 = column.dictionaries.iter().filter_map(|d| d.bytes).sum();
        let after = column.bytes_after + dictionaries;
        let ratio = column.bytes_before as f64 / after.max(1) as f64;
        table.push([
            name(column),
            column.compression_level.to_string(),
            column.rows.to_string(),
            column.rows_compressed.to_string(),
            HumanBytes(column.bytes_before).to_string(),
            HumanBytes(after).to_string(),
            format!("{ratio:.2}"),
            format!(
                "{}, {}",
                column.dictionaries.len(),
                HumanBytes(dictionaries)
            ),
        ]);
    }
    let mut text = aligned(&table);
    for column in columns {
        for reason in &column.not_compressed {
            text.push_str(&format!(
                "{}: {} rows, {} not compressed: {}\n",
                name(column),
                reason.rows,
                HumanBytes(reason.bytes),
                harmless_line(&reason.why)
            ));
        }
    }
    if columns.iter().any(|column| column.maintenance_due) {
        text.push_str("`litepack columns maintain` has something to do\n");
    }
    text
}

fn name(column: &Status) -> String {
    format!("{}.{}", printable(&column.table), printable(&column.column))
}

/// Lines of cells: the first to the left, the others to the right.
fn aligned<const N: usize>(table: &[[String; N]]) -> String {
    let width = |at: usize| {
        table
            .iter()
            .map(|line| line[at].chars().count())
            .max()
            .unwrap_or(0)
    };
    let line = |cells: &[String; N]| {
        let cells: Vec<String> = cells
            .iter()
            .enumerate()
            .map(|(at, cell)| match (at, width(at)) {
                (0, width) => format!("{cell:width$}"),
                (_, width) => format!("{cell:>width$}"),
            })
            .collect();
        cells.join("  ") + "\n"
    };
    table.iter().map(line).collect()
}
