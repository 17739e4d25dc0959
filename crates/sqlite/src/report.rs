//! What `litepack_info` and `litepack_check` answer, as text. The command prints the same.

use litepack_store::{CheckReport, Damage, Info};
use serde_json::{Map, Value, json};

/// The report on a file as a JSON object; docs/compatibility.md lists the fields.
pub fn info_json(info: &Info) -> Value {
    let codecs: Map<String, Value> = info
        .codecs
        .iter()
        .map(|(name, units, bytes)| (name.clone(), json!({"units": units, "stored_bytes": bytes})))
        .collect();
    let ratio = info.logical_bytes as f64 / info.file_bytes.max(1) as f64;
    json!({
        "format": litepack_store::VERSION,
        "commit": info.seq,
        "page_size": info.page_size,
        "unit_size": info.unit_size,
        "pages": info.logical_bytes / u64::from(info.page_size.max(1)),
        "logical_bytes": info.logical_bytes,
        "file_bytes": info.file_bytes,
        "ratio": (ratio * 100.0).round() / 100.0,
        "stored_units": info.stored_units,
        "stored_bytes": info.stored_bytes,
        "header_bytes": info.header_bytes,
        "map_bytes": info.map_bytes,
        "catalog_bytes": info.catalog_bytes,
        "free_list_bytes": info.free_list_bytes,
        "free_bytes": info.free_bytes,
        "unaccounted_bytes": info.unaccounted_bytes(),
        "dictionaries": info.dictionaries,
        "codecs": codecs,
        "damage": damage_json(&info.damage),
    })
}

/// Pieces of damage as a JSON array.
pub fn damage_json(damage: &[Damage]) -> Value {
    damage
        .iter()
        .map(|d| json!({"what": d.what, "offset": d.offset, "why": d.why}))
        .collect()
}

/// "ok", or one line for each piece of damage.
pub fn check_text(report: &CheckReport) -> String {
    if report.is_ok() {
        return "ok".into();
    }
    report
        .damage
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}
