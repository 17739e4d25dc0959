//! sqlite_zstd_vfs with its defaults. Its files are made by a process of its own, and are opened in one:
//! its library changes every connection of the process that loads it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use litepack_peers::zstd_vfs;
use rusqlite::{Connection, OpenFlags};

use super::{Engine, file_uri};

/// Files in which a SQLite database holds the compressed pages of another.
pub struct ZstdVfs {
    library: PathBuf,
}

impl ZstdVfs {
    /// Fetches the library if it has to be.
    pub fn new() -> Result<Self> {
        let library = zstd_vfs::library()?;
        Ok(Self { library })
    }
}

impl Engine for ZstdVfs {
    fn name(&self) -> &'static str {
        zstd_vfs::NAME
    }

    fn loaders(&self) -> &'static [&'static str] {
        &["VACUUM INTO vfs=zstd"]
    }

    fn load(&self, _loader: &str, source: &Path, target: &Path) -> Result<()> {
        let target = self.uri(target).replace('\'', "''");
        let sql = format!("vacuum into '{target}'");
        zstd_vfs::run(&self.library, &file_uri(source), &sql)
    }

    fn uri(&self, path: &Path) -> String {
        format!("{}?vfs=zstd", file_uri(path))
    }

    /// Only in a [child](crate::child), where nothing else is measured.
    fn connect(&self, path: &Path) -> Result<Connection> {
        zstd_vfs::load(&Connection::open_in_memory()?, &self.library)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
        Ok(Connection::open_with_flags(self.uri(path), flags)?)
    }
}
