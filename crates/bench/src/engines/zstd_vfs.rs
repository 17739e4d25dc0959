//! sqlite_zstd_vfs with its defaults. Its files are made in a process of its own; nothing here opens
//! them yet, so that it takes part where sizes alone are compared.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use rusqlite::Connection;

use super::{Engine, file_uri};
use crate::peers::zstd_vfs;

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

    fn connect(&self, _path: &Path) -> Result<Connection> {
        bail!("only the size of its files is measured")
    }
}
