//! `litepack salvage`: what is left of a damaged packed file becomes a plain database.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use litepack::{LostRows, SalvageOptions, Salvaged, harmless_line, printable_path};

use crate::job::interruptible;
use crate::keys;
use crate::output::{json, print, tell};

/// Gets what is left out of a damaged packed file, and says which rows are lost.
#[derive(clap::Args)]
#[command(after_help = "Exit code: 0 nothing is lost, 1 something is, 2 an error.")]
pub struct Arguments {
    /// The damaged packed file, which is only read.
    src: PathBuf,
    /// The plain database to create.
    dst: PathBuf,
    /// Take what is lost from another copy of SRC where it is the same there; more than one may be given.
    #[arg(long, value_name = "COPY")]
    from: Vec<PathBuf>,
    /// Replace DST if it exists.
    #[arg(long)]
    force: bool,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    key: keys::KeyOptions,
}

/// Runs the command, and says whether nothing is lost.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let job = arguments.key.job(&arguments.src, interruptible)?;
    let options = SalvageOptions {
        replace: arguments.force,
        from: arguments.from.clone(),
    };
    let found = litepack::salvage(&arguments.src, &arguments.dst, &options, &job)?;
    if arguments.json {
        json(serde_json::to_string_pretty(&found)?)?;
    } else {
        print(text(&found))?;
    }
    if !found.is_whole() {
        tell!(
            "litepack: {} is not all of the database: {} of {} pages are lost",
            printable_path(&arguments.dst),
            found.lost_pages,
            found.pages
        );
    }
    Ok(found.is_whole())
}

fn text(found: &Salvaged) -> String {
    let mut text = String::new();
    if found.is_whole() {
        text += "nothing is lost\n";
    }
    for damage in &found.damage {
        let _ = writeln!(text, "{damage}");
    }
    for lost in &found.tables {
        let _ = writeln!(text, "{}", rows(lost));
    }
    for index in &found.indexes {
        let _ = writeln!(text, "index {}: made anew", harmless_line(index));
    }
    for left_out in &found.left_out {
        let (index, why) = (harmless_line(&left_out.index), harmless_line(&left_out.why));
        let _ = writeln!(text, "index {index}: left out: {why}");
    }
    for empty in &found.empty {
        let (index, why) = (harmless_line(&empty.index), harmless_line(&empty.why));
        let _ = writeln!(
            text,
            "index {index} of a constraint is empty, and finds nothing: run REINDEX in your program first: {why}"
        );
    }
    if found.fell_back {
        text += "the newest commit is damaged or was cut off: this is the state before it\n";
    }
    if found.unassigned_pages > 0 {
        let pages = found.unassigned_pages;
        let _ = writeln!(
            text,
            "{pages} pages with rows of tables that cannot be told apart are left out"
        );
    }
    if found.had_auto_vacuum {
        text += "auto_vacuum is off now\n";
    }
    for problem in &found.problems {
        let _ = writeln!(text, "problem: {}", harmless_line(problem));
    }
    text
}

/// "table logs: rows with rowids 101 to 140, up to -5, from 900 on".
fn rows(lost: &LostRows) -> String {
    let range = |(after, to): &(Option<i64>, Option<i64>)| {
        let from = after.map(|after| after.saturating_add(1));
        match (from, to) {
            (Some(from), Some(to)) if from == *to => format!("{from}"),
            (Some(from), Some(to)) => format!("{from} to {to}"),
            (Some(from), None) => format!("from {from} on"),
            (None, Some(to)) => format!("up to {to}"),
            (None, None) => "all".into(),
        }
    };
    let mut parts: Vec<String> = lost.rowids.iter().map(range).collect();
    match (lost.more, parts.is_empty()) {
        (0, _) => {}
        (more, true) => parts.push(format!("of {more} parts of it, which has no rowids")),
        (more, false) => parts.push(format!("and {more} more ranges")),
    }
    let rowids = if lost.rowids.is_empty() {
        ""
    } else {
        " with rowids"
    };
    format!(
        "table {}: lost are rows{rowids} {}",
        harmless_line(&lost.table),
        parts.join(", ")
    )
}
