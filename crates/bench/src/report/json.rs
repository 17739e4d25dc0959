//! The same as JSON: raw numbers in seconds, operations per second and bytes.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;

use super::Report;

/// Writes the report to a file.
pub fn write(report: &Report, path: &Path) -> Result<()> {
    let missing: Vec<_> = report
        .missing
        .iter()
        .map(|(engine, reason)| json!({ "engine": engine, "reason": reason }))
        .collect();
    let document = json!({
        "machine": report.machine,
        "titles": report.size.rows,
        "tpch_scale_factor": report.size.scale_factor,
        "quick": report.quick,
        "rounds": report.rounds,
        "missing": missing,
        "rows": report.rows().collect::<Vec<_>>(),
    });
    std::fs::write(path, serde_json::to_string_pretty(&document)? + "\n")
        .with_context(|| format!("cannot write {}", path.display()))
}
