//! Archives: seekable zstd files, made as `litepack archive create` makes them without options, and read in place.

use std::fs::File;
use std::io::BufWriter;
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::Result;
use litepack_archive::{Settings, create};
use rusqlite::Connection;

use super::{Engine, Journal, Synchronous, file_uri};

/// Archives, which are only read.
pub struct Archive;

impl Archive {
    /// As reports call it.
    pub const NAME: &'static str = "archive";

    /// Makes the VFS known to SQLite.
    pub fn new() -> Result<Self> {
        litepack::register()?;
        Ok(Self)
    }
}

impl Engine for Archive {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn loaders(&self) -> &'static [&'static str] {
        &["litepack archive create"]
    }

    fn load(&self, _loader: &str, source: &Path, target: &Path) -> Result<()> {
        let mut input = File::open(source)?;
        let mut output = BufWriter::new(File::create_new(target)?);
        let mut go_on = |_| ControlFlow::Continue(());
        create(&mut input, &mut output, &Settings::default(), &mut go_on)?;
        Ok(())
    }

    fn uri(&self, path: &Path) -> String {
        format!("{}?vfs=litepack", file_uri(path))
    }

    /// An archive is never written, so it has neither journal nor flushes.
    fn open(&self, path: &Path, _: Journal, _: Synchronous) -> Result<Connection> {
        self.connect(path)
    }
}
