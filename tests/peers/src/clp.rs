//! clp-s, which databases of logs are compared with: the program of the published package of CLP, fetched with pip.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::{fetched_by_pip, folder, output_of};

/// As reports call it.
pub const NAME: &str = "clp-s";
const PACKAGE: &str = "yscope-clp-core";
const VERSION: &str = "0.12.1b0";

/// The program, fetched if it is not there yet, after a trial of running it.
///
/// # Errors
/// Without pip or the package registry, and where the package brings no program that this system can run.
pub fn program() -> Result<PathBuf> {
    let folder = folder(&format!("{NAME}-{VERSION}"))?;
    let program = folder.join("yscope_clp_core/bin/clp-s");
    if !program.is_file() {
        fetched_by_pip(&folder, PACKAGE, VERSION).context("cannot be fetched")?;
        ensure!(
            program.is_file(),
            "its package has no program for this system"
        );
    }
    output_of(Command::new(&program).arg("--help")).context("cannot be run")?;
    Ok(program)
}

/// Makes an archive, a folder that does not exist, of a file of JSON lines.
///
/// # Errors
/// The program's.
pub fn compress(program: &Path, json: &Path, archive: &Path) -> Result<()> {
    let mut command = Command::new(program);
    output_of(command.arg("c").args([archive, json]).stdin(Stdio::null()))?;
    Ok(())
}

/// The bytes of all files of an archive.
///
/// # Errors
/// If it cannot be read.
pub fn bytes(archive: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(archive)? {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => self::bytes(&entry.path())?,
            false => entry.metadata()?.len(),
        };
    }
    Ok(bytes)
}
