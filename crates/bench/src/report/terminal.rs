//! The table for a terminal: a heading for each work and its data, a line for each engine.

use comfy_table::{Cell, CellAlignment, Table, presets};

use super::{Report, words};
use crate::rows::Row;

/// The machine, then all rows.
pub fn table(report: &Report) -> String {
    let mut out = String::new();
    for (label, text) in report.machine.lines() {
        out += &format!("{label:<12} {text}\n");
    }
    for (name, reason) in &report.missing {
        out += &format!("not measured: {name} ({reason})\n");
    }
    // One table, so that all columns line up; the headings go between its lines.
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "journal+sync",
        "cache",
        "engine",
        "median",
        "min – max",
        "to plain",
        "",
        "file afterwards",
    ]);
    table.add_rows(report.rows().map(cells));
    let mut lines = table.lines();
    let mut last = None;
    out += &format!("\n{}\n", lines.next().unwrap_or_default().trim_end());
    for (row, line) in report.rows().zip(lines) {
        let heading = (&row.title, &row.data);
        if last != Some(heading) {
            out += &format!("\n{} · {}\n", row.title, row.data);
            last = Some(heading);
        }
        out += &format!("{}\n", line.trim_end());
        if let Some(failure) = words::failure(row) {
            out += &format!("   ^ {failure}\n");
        }
    }
    out
}

fn cells(row: &Row) -> [Cell; 8] {
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    [
        Cell::new(words::durability(row)),
        Cell::new(row.cache.name()),
        Cell::new(words::engine(row)),
        right(words::median(row)),
        right(words::spread(row)),
        right(words::to_plain(row)),
        Cell::new(words::verdict(row)),
        right(words::file(row)),
    ]
}
