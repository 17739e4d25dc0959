//! File sizes: what each data set takes on disk.

use anyhow::Result;

use super::Workload;
use crate::data::dataset::Dataset;
use crate::engines::{Group, stored_bytes};
use crate::lab::{Lab, Turn};
use crate::rows::{Cache, Row, Unit, compare};

/// Makes each data set's database with each engine.
pub struct Sizes {
    name: &'static str,
    about: &'static str,
    title: &'static str,
    group: Group,
    data: &'static [Dataset],
}

/// Whole files.
pub const FILES: Sizes = Sizes {
    name: "sizes",
    about: "The bytes of the file after `litepack pack`, beside those of the plain file it was made from.",
    title: "File size",
    group: Group::Files,
    data: &Dataset::ALL,
};

/// The same file with one column compressed.
pub const COLUMNS: Sizes = Sizes {
    name: "columns-size",
    about: "The bytes of the file after enabling, maintenance and VACUUM. \
        Aim: at most 0.25 × the size.",
    title: "Compressed column: file size",
    group: Group::Columns,
    data: &[Dataset::Titles],
};

impl Workload for Sizes {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn group(&self) -> Group {
        self.group
    }

    fn run(&self, lab: &Lab) -> Result<Vec<Vec<Row>>> {
        self.data
            .iter()
            .map(|data| self.run_data(lab, *data))
            .collect()
    }
}

impl Sizes {
    fn run_data(&self, lab: &Lab, data: Dataset) -> Result<Vec<Row>> {
        let engines = lab.engines(self.group);
        let mut contestants: Vec<Result<u64>> = engines
            .iter()
            .map(|engine| Ok(stored_bytes(&lab.prepared(&**engine, data)?)))
            .collect();
        let turns = lab.take_turns(self.title, 1, &mut contestants, |bytes, _| {
            Ok(Turn {
                value: *bytes as f64,
                answer: 0,
            })
        });
        let mut rows: Vec<Row> = engines
            .iter()
            .zip(turns)
            .map(|(engine, turns)| Row {
                workload: self.name,
                title: self.title.into(),
                data: data.title(lab.size),
                engine: engine.name(),
                way: None,
                setting: None,
                cache: Cache::Irrelevant,
                unit: Unit::Bytes,
                values: turns.values,
                summary: None,
                to_plain: None,
                file_bytes: None,
                failure: turns.failure,
            })
            .collect();
        compare(&mut rows);
        Ok(rows)
    }
}
