//! Packed files: the VFS linked into this program, the library that packs, and the `litepack` command beside it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use litepack::{Job, PackOptions};
use rusqlite::Connection;

use super::{Engine, file_uri};
use crate::command::run;

/// The loader that runs the command.
pub(super) const COMMAND_LOADER: &str = "litepack pack";
const VACUUM_LOADER: &str = "VACUUM INTO vfs=litepack";
const BEST_LOADER: &str = "litepack pack --best";

/// Packed files.
pub struct Litepack {
    best: bool,
}

/// The `litepack` command that was built together with this program.
pub fn command() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program.parent().context("this program is in no folder")?;
    // Cargo puts tests one folder below.
    let above = folder.parent().filter(|_| folder.ends_with("deps"));
    let command = above
        .unwrap_or(folder)
        .join("litepack")
        .with_extension(std::env::consts::EXE_EXTENSION);
    ensure!(
        command.is_file(),
        "there is no litepack command beside this program; \
         build it with the same profile, `cargo build --profile dist -p litepack-cli`"
    );
    Ok(command)
}

impl Litepack {
    /// As reports call it.
    pub const NAME: &'static str = "litepack";
    /// As reports call it with the option for small files.
    pub const BEST: &'static str = "litepack --best";

    /// No option set. Makes the VFS known to SQLite, once and for all connections of the process.
    pub fn new() -> Result<Self> {
        litepack::register()?;
        Ok(Self { best: false })
    }

    /// As small as it gets.
    pub fn best() -> Result<Self> {
        litepack::register()?;
        Ok(Self { best: true })
    }
}

impl Engine for Litepack {
    fn name(&self) -> &'static str {
        if self.best { Self::BEST } else { Self::NAME }
    }

    fn loaders(&self) -> &'static [&'static str] {
        if self.best {
            &[BEST_LOADER]
        } else {
            &[COMMAND_LOADER, VACUUM_LOADER]
        }
    }

    fn load(&self, loader: &str, source: &Path, target: &Path) -> Result<()> {
        if loader == VACUUM_LOADER {
            Connection::open(source)?.execute("vacuum into ?", [self.uri(target)])?;
            return Ok(());
        }
        let mut pack = Command::new(command()?);
        pack.arg("pack")
            .args((loader == BEST_LOADER).then_some("--best"))
            .args([source, target]);
        run(&mut pack).map(|_| ())
    }

    /// As the command does it, in this process.
    fn prepare(&self, source: &Path, target: &Path) -> Result<()> {
        let options = PackOptions {
            best: self.best,
            ..PackOptions::default()
        };
        litepack::pack(source, target, &options, &Job::default())?;
        Ok(())
    }

    fn uri(&self, path: &Path) -> String {
        format!("{}?vfs=litepack", file_uri(path))
    }
}
