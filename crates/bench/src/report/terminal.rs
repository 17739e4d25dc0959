//! The table for a terminal.

use comfy_table::{Cell, CellAlignment, Table, presets};

use super::{Report, words};

/// All rows, a line between workloads.
pub fn table(report: &Report) -> String {
    let mut out = String::new();
    for (label, text) in report.machine.lines() {
        out += &format!("{label:<12} {text}\n");
    }
    for (name, reason) in &report.missing {
        out += &format!("not measured: {name} ({reason})\n");
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "work",
        "data",
        "journal+sync",
        "cache",
        "engine",
        "median",
        "min – max",
        "to plain",
        "",
    ]);
    for row in report.rows() {
        let first = row.to_plain.is_none() && row.failure.is_none();
        let once = |text: String| if first { text } else { String::new() };
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        table.add_row([
            Cell::new(once(row.title.clone())),
            Cell::new(once(row.data.clone())),
            Cell::new(words::durability(row)),
            Cell::new(row.cache.name()),
            Cell::new(words::engine(row)),
            right(words::median(row)),
            right(words::spread(row)),
            right(words::to_plain(row)),
            Cell::new(words::verdict(row)),
        ]);
    }
    out + &table.to_string()
}
