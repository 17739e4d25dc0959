//! Programs and data of others that Litepack is compared with: fetched as they published them at
//! first use, kept in the target directory, never linked with anything of ours.
#![deny(unsafe_code)]

pub mod clp;
pub mod sqlite_zstd;
pub mod zstd_vfs;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Where a peer is kept.
fn folder(name: &str) -> Result<PathBuf> {
    Ok(target_directory()?.join("peers").join(name))
}

/// The output of a program; an error with the last line it complained in if it fails.
fn output_of(command: &mut Command) -> Result<Vec<u8>> {
    let program = command.get_program().to_owned();
    let program = Path::new(&program).file_name().unwrap_or(&program);
    let program = program.to_string_lossy();
    let output = command
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let line = words.lines().rfind(|line| !line.trim().is_empty());
        bail!("{program}: {}", line.unwrap_or("failed").trim());
    }
    Ok(output.stdout)
}

/// Unpacks a package of this version into a folder.
fn fetched_by_pip(folder: &Path, package: &str, version: &str) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    output_of(
        Command::new("python3")
            .args(["-m", "pip", "install", "--quiet"])
            .args(["--disable-pip-version-check", "--no-deps", "--target"])
            .arg(folder)
            .arg(format!("{package}=={version}"))
            .stdin(Stdio::null()),
    )?;
    Ok(())
}

/// Where cargo put this program: cargo marks the directory.
fn target_directory() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    program
        .ancestors()
        .find(|folder| folder.join("CACHEDIR.TAG").exists())
        .map(Path::to_owned)
        .context("this program is not in cargo's target directory")
}
