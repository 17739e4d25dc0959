//! The answers of `litepack_info` and `litepack_check`, which the command prints.

use litepack_store::{CheckReport, Damage, Info};
use serde_json::{Map, Value, json};

/// The report on a file as a JSON object; docs/reference/json.md lists the fields.
pub fn info_json(info: &Info) -> Value {
    let codecs: Map<String, Value> = info
        .codecs
        .iter()
        .map(|(name, units, bytes)| (name.clone(), json!({"units": units, "stored_bytes": bytes})))
        .collect();
    let ratio = info.logical_bytes as f64 / info.file_bytes.max(1) as f64;
    let counted = |value: Value| match info.is_counted {
        true => value,
        false => Value::Null,
    };
    let mut report = json!({
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
        "map_bytes": counted(info.map_bytes.into()),
        "items": info.items,
        "item_bytes": counted(info.item_bytes.into()),
        "item_tree_bytes": counted(info.item_tree_bytes.into()),
        "references": counted(info.references.into()),
        "references_save_bytes": counted(info.references_save.into()),
        "catalog_bytes": info.catalog_bytes,
        "prefetch_segment_bytes": info.prefetch_segment_bytes,
        "free_list_bytes": counted(info.free_list_bytes.into()),
        "free_bytes": info.free_bytes,
        "unaccounted_bytes": counted(info.unaccounted_bytes().into()),
        "dictionaries": info.dictionaries,
        "dictionary_memory_bytes": info.dictionary_memory,
        "codecs": counted(codecs.into()),
        "damage": match info.damage.is_empty() {
            true => counted(json!([])),
            false => damage_json(&info.damage),
        },
    });
    if info.padding > 0 {
        report["padding"] = info.padding.into();
    }
    report
}

/// Pieces of damage as a JSON array.
pub fn damage_json(damage: &[Damage]) -> Value {
    damage
        .iter()
        .map(|d| json!({"what": d.what, "offset": d.offset.0, "why": d.why}))
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

/// The report on an archive as a JSON object; docs/reference/json.md lists the fields. The page size is that of the
/// database in it, if there is one.
pub fn archive_info_json(info: &litepack_archive::Info, page_size: Option<u32>) -> Value {
    let ratio = info.size as f64 / info.stored.max(1) as f64;
    json!({
        "format": "zstd seekable",
        "page_size": page_size,
        "pages": page_size.map(|size| info.size / u64::from(size)),
        "logical_bytes": info.size,
        "file_bytes": info.stored,
        "ratio": (ratio * 100.0).round() / 100.0,
        "frames": info.frames,
        "largest_frame": info.largest_frame,
        "frame_bytes": info.frame_bytes,
        "seek_table_bytes": info.table_bytes,
        "other_bytes": info.other_bytes(),
        "checksums": info.checksums,
    })
}

/// "ok", or one line for each damaged frame.
pub fn archive_check_text(report: &litepack_archive::Report) -> String {
    if report.is_ok() {
        return "ok".into();
    }
    let lines: Vec<String> = report.damage.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// The damage of an archive by an error, in the terms of [`damage_json`]: the structure, its offset, the defect.
pub fn archive_damage(error: &litepack_archive::Error) -> (String, u64, String) {
    match error {
        litepack_archive::Error::Frame {
            number,
            offset,
            why,
        } => (format!("frame {number}"), *offset, why.to_string()),
        other => ("archive".into(), 0, other.to_string()),
    }
}
