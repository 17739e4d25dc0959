//! The same as JSON: raw numbers in seconds, operations per second and bytes.

use std::path::Path;

use anyhow::{Context, Result};

use super::Report;

/// Writes the report to a file, at once or not at all.
///
/// # Errors
/// The file cannot be written.
pub fn write(report: &Report, path: &Path) -> Result<()> {
    let beside = path.with_added_extension("part");
    std::fs::write(&beside, serde_json::to_string_pretty(report)? + "\n")
        .and_then(|()| std::fs::rename(&beside, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The report that [`write()`] left in a file; none if there is no such file.
///
/// # Errors
/// The file cannot be read, or holds something else.
pub fn read(path: &Path) -> Result<Option<Report>> {
    let text = match std::fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.with_context(|| format!("cannot read {}", path.display()))?,
    };
    serde_json::from_slice(&text)
        .map(Some)
        .with_context(|| format!("{} is no report of this program", path.display()))
}
