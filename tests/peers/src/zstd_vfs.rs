//! sqlite_zstd_vfs, which packed files are compared with: the VFS `zstd` in the published package of
//! GenomicSQLite, fetched with pip and run in the `sqlite3` shell.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rusqlite::{Connection, LoadExtensionGuard};

use crate::{fetched_by_pip, folder, output_of};

/// As reports call it.
pub const NAME: &str = "sqlite_zstd_vfs";
const PACKAGE: &str = "genomicsqlite";
const VERSION: &str = "0.9.4";

/// The library, fetched if it is not there yet, after a trial of loading it.
///
/// # Errors
/// Without pip, the package registry or the `sqlite3` shell, and where the package brings no
/// library that this system can load.
pub fn library() -> Result<PathBuf> {
    let folder = folder(&format!("{NAME}-{VERSION}"))?;
    let name = format!("lib{PACKAGE}{}", std::env::consts::DLL_SUFFIX);
    let library = folder.join(PACKAGE).join(name);
    if !library.is_file() {
        fetched_by_pip(&folder, PACKAGE, VERSION).context("cannot be fetched")?;
        ensure!(
            library.is_file(),
            "its package has no library for this system"
        );
    }
    run(&library, ":memory:", "select 1").context("cannot be loaded")?;
    Ok(library)
}

/// Runs a statement on a database in a shell of its own: once loaded, the library adds itself to
/// every connection of its process.
///
/// # Errors
/// The shell's.
pub fn run(library: &Path, database: &str, sql: &str) -> Result<()> {
    output_of(
        Command::new("sqlite3")
            .args(["-batch", "-bail", "-cmd"])
            .arg(format!(".load \"{}\"", library.display()))
            .args([database, sql])
            .stdin(Stdio::null()),
    )?;
    Ok(())
}

/// Gives this process the VFS `zstd`; it stays when the connection is closed.
///
/// # Errors
/// SQLite's.
pub fn load(conn: &Connection, library: &Path) -> Result<()> {
    #[allow(unsafe_code)]
    // SAFETY: the library was fetched by `library` as the published package of an extension, and was loaded there.
    unsafe {
        let _guard = LoadExtensionGuard::new(conn)?;
        conn.load_extension(library, None::<&str>)?;
    }
    Ok(())
}
