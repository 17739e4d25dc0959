//! What a run found, and the forms it is told in: a terminal table, JSON, Markdown with charts.

mod charts;
mod json;
mod markdown;
mod terminal;
mod words;
mod wrap;

use crate::dataset::Size;
use crate::machine::Machine;
use crate::rows::Row;

pub use charts::{draw as draw_charts, write as write_charts};
pub use json::write as write_json;
pub use markdown::write as write_markdown;
pub use terminal::table;
pub use words::{grouped, number};
pub use wrap::wrapped;

/// All that a run found.
pub struct Report {
    /// Where.
    pub machine: Machine,
    /// On how much data.
    pub size: Size,
    /// Whether the run was a quick one.
    pub quick: bool,
    /// How often each engine took its turn.
    pub rounds: u32,
    /// Engines that could not be measured, and why.
    pub missing: Vec<(&'static str, String)>,
    /// Each workload with its rows.
    pub sections: Vec<Section>,
}

/// What one workload found.
pub struct Section {
    /// One sentence on how it is measured.
    pub about: &'static str,
    /// Rows that are compared with each other, plain SQLite first.
    pub groups: Vec<Vec<Row>>,
}

impl Report {
    /// How thorough the run was.
    pub fn kind(&self) -> &'static str {
        if self.quick { "quick run" } else { "full run" }
    }

    /// Every row.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.sections
            .iter()
            .flat_map(|section| section.groups.iter().flatten())
    }

    /// Whether every engine did all its work and gave the right answers.
    pub fn is_sound(&self) -> bool {
        self.rows().all(|row| row.failure.is_none())
    }
}
