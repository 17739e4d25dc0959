//! The report on an encrypted file without its key: what anyone can see of it.

use indicatif::HumanBytes;
use litepack::WithoutKey;
use serde_json::{Value, json};

/// The report for people.
pub fn text(report: &WithoutKey) -> String {
    let size = |bytes: u64| format!("{} ({bytes} bytes)", HumanBytes(bytes));
    let key = match report.costs {
        None => "raw, of 256 bits".to_owned(),
        Some(costs) => format!(
            "a passphrase; Argon2id with {} KiB, {} passes, lanes: {}",
            costs.memory, costs.passes, costs.lanes
        ),
    };
    let padding = match report.padding.bytes() {
        0 => "none".to_owned(),
        bytes => format!("to {bytes} bytes"),
    };
    [
        (
            "encrypted",
            format!("{}; more with its key", report.cipher.name()),
        ),
        ("key", key),
        ("padding", padding),
        ("database", size(report.logical_bytes)),
        ("packed file", size(report.file_bytes)),
        ("free space", size(report.free_bytes)),
        ("commit", report.seq.to_string()),
    ]
    .map(|(name, value)| format!("{name:11}  {value}\n"))
    .concat()
}

/// The same as JSON; docs/reference/json.md lists the fields.
pub fn json(report: &WithoutKey) -> Value {
    let derivation = match report.costs {
        None => json!({"name": "raw"}),
        Some(costs) => json!({
            "name": "Argon2id",
            "memory_kib": costs.memory,
            "passes": costs.passes,
            "lanes": costs.lanes,
        }),
    };
    json!({
        "encrypted": true,
        "cipher": report.cipher.name(),
        "derivation": derivation,
        "padding": report.padding.bytes(),
        "commit": report.seq,
        "logical_bytes": report.logical_bytes,
        "file_bytes": report.file_bytes,
        "stored_bytes": report.stored_bytes,
        "free_bytes": report.free_bytes,
    })
}
