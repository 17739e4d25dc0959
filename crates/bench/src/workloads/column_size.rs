//! The size of a file of which one column is compressed.

use anyhow::Result;

use super::{Workload, sizes};
use crate::dataset::Dataset;
use crate::engines::{Group, stored_bytes};
use crate::lab::Lab;
use crate::rows::{Row, compare};

/// Makes the titles' database with each engine.
pub struct ColumnSize;

impl Workload for ColumnSize {
    fn name(&self) -> &'static str {
        "columns-size"
    }

    fn about(&self) -> &'static str {
        "The bytes of the file after enabling, maintenance and VACUUM. \
         Aim: at most 0.25 × the size."
    }

    fn group(&self) -> Group {
        Group::Columns
    }

    fn run(&self, lab: &Lab) -> Result<Vec<Vec<Row>>> {
        let data = Dataset::Titles;
        let mut rows = Vec::new();
        for engine in lab.engines(self.group()) {
            let bytes = lab
                .prepared(&**engine, data)
                .map(|path| stored_bytes(&path));
            rows.push(sizes::row(
                self.name(),
                "Compressed column: file size",
                data.title(lab.scale.size),
                engine.name(),
                bytes,
            ));
        }
        compare(&mut rows);
        Ok(vec![rows])
    }
}
