//! SQLite as it is: the yardstick of every figure.

use std::path::Path;

use anyhow::{Context, Result};
use rusqlite::Connection;

use super::Engine;

/// Plain SQLite files.
pub struct Plain;

impl Plain {
    /// As reports call it.
    pub const NAME: &'static str = "plain";
}

impl Engine for Plain {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn loaders(&self) -> &'static [&'static str] {
        &["VACUUM INTO"]
    }

    fn load(&self, _loader: &str, source: &Path, target: &Path) -> Result<()> {
        let target = target.to_str().context("a path must be UTF-8")?;
        Connection::open(source)?.execute("vacuum into ?", [target])?;
        Ok(())
    }

    /// A copy, page by page what the source is, as `litepack pack` keeps it too.
    fn prepare(&self, source: &Path, target: &Path) -> Result<()> {
        std::fs::copy(source, target)?;
        Ok(())
    }
}
