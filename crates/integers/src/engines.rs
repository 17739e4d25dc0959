//! Plain SQLite and Litepack, and the `sqlite3` shell.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use litepack_bench::engines::{Engine, Engines, Group, Litepack, file_uri};
use rusqlite::{Connection, OpenFlags};

/// Plain SQLite, Litepack as it comes, and Litepack's smallest files.
///
/// # Errors
/// Litepack's.
pub fn engines() -> Result<Vec<Box<dyn Engine>>> {
    let engines = Engines::of(Group::Sizes, false);
    if let Some((name, reason)) = engines.missing.first() {
        bail!("{name}: {reason}");
    }
    Ok(engines.ready)
}

/// Where a new database is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A plain file.
    Plain,
    /// A packed file, no option set.
    Packed,
    /// A packed file whose pages are written at level 19: what `--best` is for a file that is packed, not written.
    Packed19,
}

impl Target {
    /// All.
    pub const ALL: [Self; 3] = [Self::Plain, Self::Packed, Self::Packed19];

    /// As reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Packed => "litepack",
            Self::Packed19 => "litepack, level=19",
        }
    }

    /// The URI of a file.
    pub fn uri(self, path: &Path) -> String {
        let file = file_uri(path);
        match self {
            Self::Plain => file,
            Self::Packed => format!("{file}?vfs=litepack"),
            Self::Packed19 => format!("{file}?vfs=litepack&level=19"),
        }
    }

    /// Makes a database in this process.
    ///
    /// # Errors
    /// SQLite's.
    pub fn create(self, path: &Path) -> Result<Connection> {
        // Makes the VFS known to SQLite.
        Litepack::new()?;
        Ok(Connection::open_with_flags(
            self.uri(path),
            OpenFlags::default(),
        )?)
    }
}

/// The `sqlite3` shell, with Litepack's extension.
pub struct Shell {
    extension: PathBuf,
    /// Its version.
    pub version: String,
}

impl Shell {
    /// Looks for both; the extension is beside this program.
    ///
    /// # Errors
    /// Says what is missing.
    pub fn find() -> Result<Self> {
        let output = Command::new("sqlite3").arg("--version").output();
        let output = output.context("there is no sqlite3 shell (apt-get install sqlite3)")?;
        let version = String::from_utf8_lossy(&output.stdout);
        let version = version.split(' ').next().unwrap_or_default().into();
        let program = std::env::current_exe()?;
        let name = format!(
            "{}litepack{}",
            std::env::consts::DLL_PREFIX,
            std::env::consts::DLL_SUFFIX
        );
        let extension = program.with_file_name(name);
        ensure!(
            extension.is_file(),
            "there is no {} beside this program (cargo build --profile dist -p litepack-extension)",
            extension.display()
        );
        let shell = Self { extension, version };
        shell
            .run(&["select 1"])
            .context("the sqlite3 shell cannot load the extension")?;
        Ok(shell)
    }

    /// Runs commands, each a line.
    ///
    /// # Errors
    /// The shell's error message.
    pub fn run(&self, commands: &[&str]) -> Result<()> {
        let output = Command::new("sqlite3")
            .args(["-batch", "-bail", "-cmd"])
            .arg(format!(".load '{}'", self.extension.display()))
            .arg(":memory:")
            .args(commands)
            .stdin(Stdio::null())
            .output()?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success() && complaint.is_empty(),
            "sqlite3: {}",
            complaint.trim()
        );
        Ok(())
    }
}
