//! File sizes: what each data set takes on disk.

use anyhow::Result;

use super::Workload;
use crate::data::dataset::Dataset;
use crate::engines::stored_bytes;
use crate::lab::{Lab, Turn};
use crate::rows::{Cache, Row, Unit, compare};

/// Makes each data set's database with each engine.
pub struct Sizes;

impl Workload for Sizes {
    fn name(&self) -> &'static str {
        "sizes"
    }

    fn about(&self) -> &'static str {
        "The bytes of the file after `litepack pack`, beside those of the plain file it was made from."
    }

    fn run(&self, lab: &Lab) -> Result<Vec<Vec<Row>>> {
        Dataset::ALL
            .iter()
            .map(|data| run_data(lab, *data))
            .collect()
    }
}

fn run_data(lab: &Lab, data: Dataset) -> Result<Vec<Row>> {
    let mut contestants: Vec<Result<u64>> = lab
        .engines
        .ready
        .iter()
        .map(|engine| Ok(stored_bytes(&lab.prepared(&**engine, data)?)))
        .collect();
    let turns = lab.take_turns("File sizes", 1, &mut contestants, |bytes, _| {
        Ok(Turn {
            value: *bytes as f64,
            answer: 0,
        })
    });
    let mut rows: Vec<Row> = lab
        .engines
        .ready
        .iter()
        .zip(turns)
        .map(|(engine, turns)| Row {
            workload: "sizes",
            title: "File size".into(),
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
