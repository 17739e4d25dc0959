//! Litepack: the VFS linked into this program, and the `litepack` command beside it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Error, Result, ensure};
use rusqlite::Connection;

use super::{Engine, file_uri};

/// The loader that runs the command.
pub(super) const COMMAND_LOADER: &str = "litepack pack";
const VACUUM_LOADER: &str = "VACUUM INTO vfs=litepack";
const BEST_LOADER: &str = "litepack pack --best";

/// Packed files.
pub struct Litepack {
    best: bool,
}

/// Registers the VFS with the SQLite of this program, once.
pub(super) fn register() -> Result<()> {
    static REGISTERED: OnceLock<Result<(), String>> = OnceLock::new();
    REGISTERED
        .get_or_init(litepack_rusqlite::register)
        .clone()
        .map_err(Error::msg)
}

/// The `litepack` command that was built together with this program.
pub fn command() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program.parent().context("this program is in no folder")?;
    let command = folder
        .join("litepack")
        .with_extension(std::env::consts::EXE_EXTENSION);
    ensure!(
        command.is_file(),
        "there is no litepack command beside this program; \
         build it with `cargo build --release -p litepack-cli`"
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
        register()?;
        Ok(Self { best: false })
    }

    /// As small as it gets.
    pub fn best() -> Result<Self> {
        register()?;
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
        let run = Command::new(command()?)
            .arg("pack")
            .args((loader == BEST_LOADER).then_some("--best"))
            .args([source, target])
            .stdin(Stdio::null())
            .output()
            .context("cannot run litepack")?;
        ensure!(
            run.status.success(),
            "litepack pack: {}",
            String::from_utf8_lossy(&run.stderr).trim()
        );
        Ok(())
    }

    /// With the command; in a build without one, by `VACUUM INTO`, which has no options.
    fn prepare(&self, source: &Path, target: &Path) -> Result<()> {
        let loader = if self.best {
            BEST_LOADER
        } else if command().is_ok() {
            COMMAND_LOADER
        } else {
            VACUUM_LOADER
        };
        self.load(loader, source, target)
    }

    fn uri(&self, path: &Path) -> String {
        format!("{}?vfs=litepack", file_uri(path))
    }
}
