//! The named data sets that workloads ask for, at the size of the run.

use std::path::{Path, PathBuf};

use litepack_testdata::logs::{Indexes, Layout};
use litepack_testdata::real::{self, agent, attachments, flights, packages, places};
use litepack_testdata::{GENERATION, blobs, logs, make_once, titles, tpch};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

/// The seed of all generated data.
pub const SEED: u64 = 20_250_510;

/// How much data a run uses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Size {
    /// Titles; logs have half as many rows.
    pub rows: u64,
    /// TPC-H.
    pub scale_factor: f64,
}

/// One kind of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dataset {
    /// [`titles`]
    Titles,
    /// The same in pages of 1 KiB.
    SmallPages,
    /// [`logs`] as columns.
    Logs(Indexes),
    /// [`logs`] as JSON.
    JsonLogs(Indexes),
    /// [`tpch`]
    Tpch,
    /// [`blobs`]
    Blobs,
    /// [`agent`], of files of the machine.
    Agent,
    /// [`packages`], of the machine's.
    Packages,
    /// [`flights`], from a package registry.
    Flights,
    /// [`places`]
    Places,
    /// [`attachments`], of files of the machine.
    Attachments,
}

impl Dataset {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Titles,
        Self::SmallPages,
        Self::Logs(Indexes::Without),
        Self::Logs(Indexes::With),
        Self::JsonLogs(Indexes::Without),
        Self::JsonLogs(Indexes::With),
        Self::Tpch,
        Self::Blobs,
        Self::Agent,
        Self::Packages,
        Self::Flights,
        Self::Places,
        Self::Attachments,
    ];

    /// The data's name in reports.
    pub fn title(self, size: Size) -> String {
        let indexed = |indexes| {
            if indexes == Indexes::With {
                ", 4 indexes"
            } else {
                ""
            }
        };
        match self {
            Self::Titles => format!("titles, {} rows of JSON", size.rows),
            Self::SmallPages => format!("titles, {} rows of JSON, pages of 1 KiB", size.rows),
            Self::Logs(indexes) => {
                format!(
                    "logs, {} rows in columns{}",
                    size.rows / 2,
                    indexed(indexes)
                )
            }
            Self::JsonLogs(indexes) => {
                format!("logs, {} rows of JSON{}", size.rows / 2, indexed(indexes))
            }
            Self::Tpch => format!("TPC-H, scale factor {}", size.scale_factor),
            Self::Blobs => format!("random blobs, {} rows", blob_rows(size)),
            Self::Agent => format!("an agent's sessions, {} of files", megabytes(text(size))),
            Self::Packages => format!("package lists, {}", megabytes(text(size))),
            Self::Flights => "flights of a year".into(),
            Self::Places => format!("a browser's history, {} places", size.rows / 8),
            Self::Attachments => format!("attachments, {} of files", megabytes(text(size))),
        }
    }

    /// Whether it is made of what the machine or a package registry has, which may be too little.
    pub fn is_found(self) -> bool {
        matches!(
            self,
            Self::Agent | Self::Packages | Self::Flights | Self::Attachments
        )
    }

    fn file_name(self, size: Size) -> String {
        let name: String = self
            .title(size)
            .chars()
            .map(|c| {
                if c.is_alphanumeric() || c == '.' {
                    c
                } else {
                    '-'
                }
            })
            .collect();
        format!(
            "{}-g{GENERATION}.db",
            name.replace("--", "-").to_lowercase()
        )
    }

    /// The plain database in `folder`, made if it is not there yet.
    pub fn find_or_make(self, folder: &Path, size: Size) -> anyhow::Result<PathBuf> {
        let path = folder.join(self.file_name(size));
        make_once(&path, |conn| {
            if self == Self::SmallPages {
                conn.execute_batch("pragma page_size = 1024")?;
            }
            self.create(conn, folder, size)
        })?;
        Ok(path)
    }

    fn create(self, conn: &Connection, folder: &Path, size: Size) -> anyhow::Result<()> {
        let lines = size.rows / 2;
        let text = text(size);
        let created = match self {
            Self::Agent => agent::create(conn, &real::text_files(text)?, SEED),
            Self::Packages => packages::create(conn, &real::stanzas(text)?),
            Self::Flights => return flights::create(conn, &flights::fetch(folder)?),
            Self::Places => places::create(conn, size.rows / 8, SEED),
            Self::Attachments => {
                let (files, texts) = (real::compressed_files(text)?, real::text_files(text / 8)?);
                attachments::create(conn, &files, &texts, SEED)
            }
            Self::Titles | Self::SmallPages => titles::create(conn, size.rows, SEED),
            Self::Logs(indexes) => logs::create(conn, lines, SEED, Layout::Columns, indexes),
            Self::JsonLogs(indexes) => logs::create(conn, lines, SEED, Layout::Json, indexes),
            Self::Tpch => tpch::create(conn, size.scale_factor),
            Self::Blobs => blobs::create(conn, blob_rows(size), SEED),
        };
        Ok(created?)
    }
}

/// Bytes of text and files for databases that are made of those.
fn text(size: Size) -> usize {
    size.rows as usize * 30
}

fn megabytes(bytes: usize) -> String {
    format!("{} MB", bytes / 1_000_000)
}

fn blob_rows(size: Size) -> u64 {
    (size.rows / 500).max(50)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_file_is_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let size = Size {
            rows: 200,
            scale_factor: 0.01,
        };
        let path = Dataset::Titles.find_or_make(folder.path(), size).unwrap();
        let made = std::fs::metadata(&path).unwrap().modified().unwrap();
        assert_eq!(
            Dataset::Titles.find_or_make(folder.path(), size).unwrap(),
            path
        );
        assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), made);
    }

    #[test]
    fn small_pages_are_small() {
        let folder = tempfile::tempdir().unwrap();
        let size = Size {
            rows: 200,
            scale_factor: 0.01,
        };
        for (data, expected) in [(Dataset::Titles, 4096), (Dataset::SmallPages, 1024)] {
            let conn = Connection::open(data.find_or_make(folder.path(), size).unwrap()).unwrap();
            let found: u32 = conn
                .query_row("pragma page_size", [], |row| row.get(0))
                .unwrap();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn every_data_set_has_its_own_file() {
        let size = Size {
            rows: 200,
            scale_factor: 0.01,
        };
        let names: std::collections::HashSet<_> = Dataset::ALL
            .iter()
            .map(|data| data.file_name(size))
            .collect();
        assert_eq!(names.len(), Dataset::ALL.len());
    }
}
