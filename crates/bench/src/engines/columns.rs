//! Compressed columns: a plain SQLite file in which one column is compressed row by row, by Litepack
//! or by sqlite-zstd. The SQL is the same for both.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use litepack_peers::sqlite_zstd as peer;
use litepack_testdata::logs::Indexes;
use rusqlite::{Connection, OpenFlags};
use serde_json::json;

use super::Engine;
use crate::dataset::Dataset;

/// Compressed columns, of data that is one table with all its text in one column.
pub struct Columns {
    /// The extension of sqlite-zstd, if the functions are to be its own.
    peer: Option<PathBuf>,
}

impl Columns {
    /// As reports call it.
    pub const NAME: &'static str = "litepack columns";

    /// Litepack's functions.
    pub fn litepack() -> Result<Self> {
        litepack::register()?;
        Ok(Self { peer: None })
    }

    /// The functions of sqlite-zstd, which is built if it has to be.
    pub fn sqlite_zstd() -> Result<Self> {
        let peer = Some(peer::extension()?);
        Ok(Self { peer })
    }
}

impl Engine for Columns {
    fn name(&self) -> &'static str {
        if self.peer.is_some() {
            peer::NAME
        } else {
            Self::NAME
        }
    }

    /// Indexes on the column would have to read what is compressed.
    fn takes(&self, data: Dataset) -> bool {
        matches!(data, Dataset::Titles | Dataset::JsonLogs(Indexes::Without))
    }

    fn loaders(&self) -> &'static [&'static str] {
        &["enable, maintain, VACUUM"]
    }

    fn load(&self, _loader: &str, source: &Path, target: &Path) -> Result<()> {
        std::fs::copy(source, target)?;
        let conn = self.connect(target)?;
        let config = config(&conn)?;
        conn.query_row("select zstd_enable_transparent(?)", [config], |_| Ok(()))?;
        let maintain = "select zstd_incremental_maintenance(null, 1)";
        let left: i64 = conn.query_row(maintain, [], |row| row.get(0))?;
        ensure!(left == 0, "maintenance without a limit did not finish");
        conn.execute_batch("vacuum")?;
        Ok(())
    }

    fn connect(&self, path: &Path) -> Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
        let conn = Connection::open_with_flags(self.uri(path), flags)?;
        if let Some(extension) = &self.peer {
            peer::load(&conn, extension)?;
        }
        Ok(conn)
    }
}

/// The best level that both document, and one dictionary for all rows.
fn config(conn: &Connection) -> Result<String> {
    let only = "select name from sqlite_schema where type = 'table'";
    let table: String = conn.query_row(only, [], |row| row.get(0))?;
    let config = json!({
        "table": table, "column": "data", "compression_level": 19, "dict_chooser": "'all'"
    });
    Ok(config.to_string())
}
