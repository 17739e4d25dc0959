//! All that a run found, as it is kept in JSON.

use std::path::Path;

use anyhow::{Context, Result};
use litepack_bench::cold::Cold;
use serde::{Deserialize, Serialize};

use crate::beside::Format;
use crate::cases::Cases;
use crate::factors::Factors;
use crate::imports::Import;
use crate::pages::Pages;
use crate::profile::Profile;

/// The figures of a run; a part that was not run has none.
#[derive(Default, Debug, Serialize, Deserialize)]
pub struct Study {
    /// Label and words about the machine and the versions.
    pub machine: Vec<(String, String)>,
    /// Whether the run was a quick one.
    pub quick: bool,
    /// Rows of each table.
    pub rows: u64,
    /// Measurements that could not be made, and why.
    pub missing: Vec<String>,
    /// How files got out of the cache.
    pub cold: Option<Cold>,
    /// Values of the long arrays.
    pub large: usize,
    /// Encodings of arrays.
    pub factors: Vec<Factors>,
    /// Whole pages.
    pub pages: Vec<Pages>,
    /// The cases that read, and the sizes of the tables.
    pub cases: Cases,
    /// The cases that write.
    pub imports: Vec<Import>,
    /// SQLite, packed files and Parquet.
    pub formats: Vec<Format>,
    /// Where the instructions go.
    pub profiles: Vec<Profile>,
}

impl Study {
    /// Reads what [`Self::write`] wrote.
    ///
    /// # Errors
    /// The file system's, and if it is no such file.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} is no study", path.display()))
    }

    /// Writes all figures.
    ///
    /// # Errors
    /// The file system's.
    pub fn write(&self, path: &Path) -> Result<()> {
        std::fs::write(path, serde_json::to_string_pretty(self)? + "\n")
            .with_context(|| format!("cannot write {}", path.display()))
    }
}
