//! The report of a run: tables for a terminal and for docs/integers.md, and charts.

mod charts;
mod figures;
mod grid;
mod markdown;
mod tables;

pub use charts::draw;
pub use markdown::write as write_markdown;

use crate::study::Study;

/// All tables, for a terminal.
pub fn text(study: &Study) -> String {
    let mut out = String::new();
    for (label, words) in &study.machine {
        out += &format!("{label:<12} {words}\n");
    }
    for missing in &study.missing {
        out += &format!("not measured: {missing}\n");
    }
    for (_, grids) in tables::all(study) {
        for grid in grids {
            out += &format!("\n{}", grid.text());
        }
    }
    out
}
