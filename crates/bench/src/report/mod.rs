//! The results of a run, and the forms of the report: a terminal table, JSON, Markdown with charts.

mod charts;
mod json;
mod markdown;
pub mod name;
mod summary;
mod terminal;
mod words;
mod wrap;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use crate::dataset::Size;
use crate::machine::Machine;
use crate::rows::Row;

pub use charts::{draw as draw_charts, write as write_charts};
pub use json::{read as read_json, write as write_json};
pub use markdown::write as write_markdown;
pub use terminal::table;
pub use words::{grouped, number};
pub use wrap::wrapped;

/// The reason why a workload has no figures or lacks some, if the user ended the run.
pub const INTERRUPTED: &str = "the run was interrupted";

/// All that a run found.
#[derive(Serialize, Deserialize)]
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
    pub missing: Vec<(String, String)>,
    /// Each workload with its rows.
    pub sections: Vec<Section>,
}

/// The results of one workload.
#[derive(Serialize, Deserialize)]
pub struct Section {
    /// The workload's short name.
    pub workload: String,
    /// One sentence on how it is measured.
    pub about: String,
    /// Rows that are compared with each other, plain SQLite first.
    pub groups: Vec<Vec<Row>>,
}

impl Report {
    /// How thorough the run was.
    pub fn kind(&self) -> &'static str {
        if self.quick { "quick run" } else { "full run" }
    }

    /// That of a quick run, for tests.
    #[cfg(test)]
    fn of(sections: Vec<Section>) -> Report {
        let folder = tempfile::tempdir().unwrap();
        Report {
            machine: Machine::look(folder.path()).unwrap(),
            size: Size {
                rows: 1,
                scale_factor: 1.0,
            },
            quick: true,
            rounds: 1,
            missing: vec![("absent".into(), "not here".into())],
            sections,
        }
    }

    /// Takes over what an earlier run measured, except the workloads that this one measures anew (`anew` says so),
    /// those that failed and those that were interrupted.
    ///
    /// # Errors
    /// The earlier run was on another machine, by another program or on other data.
    pub fn take_over(&mut self, earlier: Self, anew: impl Fn(&str) -> bool) -> Result<()> {
        ensure!(
            self.machine.is_like(&earlier.machine)
                && self.size == earlier.size
                && (self.quick, self.rounds) == (earlier.quick, earlier.rounds),
            "the earlier run was on another machine, by another program or on other data"
        );
        let (interrupted, missing): (Vec<_>, Vec<_>) = earlier
            .missing
            .into_iter()
            .partition(|(_, reason)| reason == INTERRUPTED);
        let in_part = |name: &str| interrupted.iter().any(|(what, _)| what == name);
        self.sections = earlier.sections;
        self.sections.retain(|section| {
            !anew(&section.workload)
                && !in_part(&section.workload)
                && section
                    .groups
                    .iter()
                    .flatten()
                    .all(|row| row.failure.is_none())
        });
        self.add_missing(missing.into_iter().filter(|(what, _)| !anew(what)));
        Ok(())
    }

    /// Whether a workload is measured.
    pub fn has(&self, workload: &str) -> bool {
        self.sections
            .iter()
            .any(|section| section.workload == workload)
    }

    /// Adds what could not be measured, each once.
    pub fn add_missing(&mut self, missing: impl IntoIterator<Item = (String, String)>) {
        self.missing.extend(missing);
        self.missing.sort();
        self.missing.dedup();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn report(workloads: &[(&str, Option<&str>)]) -> Report {
        let folder = tempfile::tempdir().unwrap();
        let section = |(workload, failure): &(&str, Option<&str>)| Section {
            workload: (*workload).into(),
            about: "How.".into(),
            groups: vec![vec![Row {
                engine: "plain",
                failure: failure.map(Into::into),
                ..Row::EMPTY
            }]],
        };
        Report {
            machine: Machine::look(folder.path()).unwrap(),
            size: Size {
                rows: 1,
                scale_factor: 1.0,
            },
            quick: false,
            rounds: 1,
            missing: Vec::new(),
            sections: workloads.iter().map(section).collect(),
        }
    }

    #[test]
    fn a_run_goes_on_with_what_an_earlier_one_left_whole() {
        let mut earlier = report(&[("a", None), ("b", Some("no")), ("c", None), ("d", None)]);
        earlier.missing = vec![
            ("c".into(), INTERRUPTED.into()),
            ("engine".into(), "not here".into()),
        ];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        assert!(read_json(&path).unwrap().is_none());
        write_json(&earlier, &path).unwrap();
        let again = || read_json(&path).unwrap().unwrap();
        let mut now = report(&[]);
        now.take_over(again(), |name| name == "d").unwrap();
        let has = ["a", "b", "c", "d"].map(|name| now.has(name));
        assert_eq!(has, [true, false, false, false]);
        assert_eq!(now.missing, [("engine".into(), "not here".into())]);
        assert_eq!(now.rows().next().unwrap().engine, "plain");

        let mut other = report(&[]);
        other.size.rows = 2;
        assert!(other.take_over(again(), |_| false).is_err());
        std::fs::write(&path, "{}").unwrap();
        assert!(read_json(&path).is_err());
    }
}
