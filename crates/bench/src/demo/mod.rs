//! `make demo`: the same database plain and packed, the same questions to both, side by side.
//!
//! It works in a temporary folder and leaves nothing behind. Every answer is compared, and the
//! unpacked file is compared with the original byte for byte; a difference is an error.

mod questions;

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use comfy_table::{Cell, CellAlignment, LineStyle, Table, presets};
use litepack_testdata::titles;
use rusqlite::Connection;

use crate::command;
use crate::engines::{
    Engine, Journal, Litepack, Plain, Synchronous, litepack_command, stored_bytes,
};
use questions::Question;

const ROWS: u64 = 300_000;
const SEED: u64 = 1;

/// Shows everything; an error if an answer or a byte differs.
pub fn run() -> Result<()> {
    let litepack = Litepack::new()?;
    let command = litepack_command()?;
    let folder = tempfile::tempdir()?;
    let (original, plain, packed, unpacked) = (
        folder.path().join("titles.db"),
        folder.path().join("plain.db"),
        folder.path().join("packed.db"),
        folder.path().join("unpacked.db"),
    );

    step("Making a database", || make(&original))?;
    let pack = step("litepack pack titles.db packed.db", || {
        child(&command, "pack", &original, &packed)
    })?;
    let unpack = step("litepack unpack packed.db unpacked.db", || {
        child(&command, "unpack", &packed, &unpacked)
    })?;
    ensure!(
        std::fs::read(&original)? == std::fs::read(&unpacked)?,
        "the unpacked file differs from the original"
    );
    std::fs::copy(&original, &plain)?;
    let sizes = [stored_bytes(&original), stored_bytes(&packed)];

    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()));
    table.set_header(["", "plain SQLite", "Litepack", ""]);
    table.add_row(line(
        "size on disk",
        sizes.map(megabytes),
        "",
        sizes.map(|size| size as f64),
    ));
    let ask_both = || -> Result<Vec<(Question, [Duration; 2])>> {
        let connections = [
            Plain.open(&plain, Journal::Delete, Synchronous::Full)?,
            litepack.open(&packed, Journal::Delete, Synchronous::Full)?,
        ];
        questions::ALL
            .into_iter()
            .map(|question| compare(question, &connections))
            .collect()
    };
    let answers = step_with("Asking both the same", ask_both)?.0;
    for (question, times) in &answers {
        table.add_row(line(
            question.title,
            times.map(milliseconds),
            "time",
            times.map(|time| time.as_secs_f64()),
        ));
    }
    println!("\n{table}");
    println!(
        "All {} answers are equal. The unpacked file equals the original, byte for byte.",
        answers.len()
    );
    println!(
        "{} rows of JSON, {} → {} ({:.1} times smaller), packed in {:.1} s, unpacked in {:.1} s.",
        ROWS,
        megabytes(sizes[0]),
        megabytes(sizes[1]),
        sizes[0] as f64 / sizes[1] as f64,
        pack.as_secs_f64(),
        unpack.as_secs_f64(),
    );
    Ok(())
}

/// Rows of JSON with an index on an expression over them.
fn make(path: &Path) -> Result<()> {
    let conn = Connection::open(path)?;
    titles::create(&conn, ROWS, SEED)?;
    conn.execute_batch("create index title_year on title(data ->> '$.startYear')")?;
    conn.close().map_err(|(_, error)| error)?;
    Ok(())
}

/// Asks both three times, in turns; gives the middle one of the times.
fn compare(question: Question, connections: &[Connection; 2]) -> Result<(Question, [Duration; 2])> {
    let mut times = [vec![], vec![]];
    for _ in 0..3 {
        let mut answers = Vec::new();
        for (conn, times) in connections.iter().zip(&mut times) {
            let start = Instant::now();
            answers.push((question.ask)(conn)?);
            times.push(start.elapsed());
        }
        ensure!(
            answers[0] == answers[1],
            "the answers to “{}” differ: plain SQLite says {}, Litepack {}",
            question.title,
            answers[0],
            answers[1],
        );
    }
    let middle = times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    Ok((question, middle))
}

fn child(program: &Path, verb: &str, from: &Path, to: &Path) -> Result<()> {
    command::run(Command::new(program).arg(verb).args([from, to])).map(|_| ())
}

/// Says what it does and how long that took.
fn step(title: &str, work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    Ok(step_with(title, work)?.1)
}

fn step_with<T>(title: &str, work: impl FnOnce() -> Result<T>) -> Result<(T, Duration)> {
    let mut out = std::io::stdout();
    if out.is_terminal() {
        write!(out, "{title:<42} ...")?;
        out.flush()?;
    }
    let start = Instant::now();
    let done = work();
    let took = start.elapsed();
    let back = if out.is_terminal() { "\r" } else { "" };
    writeln!(out, "{back}{title:<42} {:.1} s", took.as_secs_f64())?;
    Ok((done?, took))
}

/// One line of the table, with Litepack's share of plain SQLite's figure.
fn line(title: &str, shown: [String; 2], of: &str, values: [f64; 2]) -> Vec<Cell> {
    let ratio = format!("{:.2} × {of}", values[1] / values[0].max(1e-9));
    let [plain, packed] = shown;
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    vec![
        Cell::new(title),
        right(plain),
        right(packed),
        right(ratio.trim_end().into()),
    ]
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_question_has_an_answer_and_the_same_twice() {
        let make = || {
            let conn = Connection::open_in_memory().unwrap();
            titles::create(&conn, 5_000, SEED).unwrap();
            conn.execute_batch("create index title_year on title(data ->> '$.startYear')")
                .unwrap();
            conn
        };
        let connections = [make(), make()];
        for question in questions::ALL {
            compare(question, &connections).unwrap();
        }
    }

    #[test]
    fn a_different_answer_is_an_error() {
        let make = |seed| {
            let conn = Connection::open_in_memory().unwrap();
            titles::create(&conn, 5_000, seed).unwrap();
            conn
        };
        assert!(compare(questions::ALL[0], &[make(1), make(2)]).is_err());
    }
}
