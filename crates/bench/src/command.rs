//! Other programs, run to their end.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Runs it without input, and returns what it wrote to standard output.
///
/// # Errors
/// If it cannot be run, or ends with an error: what it wrote to standard error.
pub(crate) fn run(command: &mut Command) -> Result<Vec<u8>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    ensure!(
        done.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&done.stderr).trim()
    );
    Ok(done.stdout)
}
