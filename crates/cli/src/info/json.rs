//! The report for programs. docs/compatibility.md lists the fields.

use litepack_btree::TreeKind;
use litepack_codec::Codec;
use litepack_engine::content::{Other, Share};
use litepack_engine::report::info_json;
use serde_json::{Map, Value, json};

use super::Report;

/// What `litepack_info()` answers, and the tables and indexes.
pub fn of(report: &Report) -> Value {
    let mut all = info_json(&report.info);
    let content = &report.content;
    let trees = content.trees.iter().map(|(tree, share)| {
        let mut fields = share_json(share);
        fields["type"] = kind(tree.kind).into();
        fields["name"] = tree.name.clone().into();
        fields["table"] = tree.table.clone().into();
        fields
    });
    all["trees"] = trees.collect();
    let others = Other::ALL.iter().zip(&content.others);
    all["other_pages"] = others
        .map(|(other, share)| (other.name().replace([' ', '-'], "_"), share_json(share)))
        .collect::<Map<_, _>>()
        .into();
    let damage = content.damage.iter();
    all["page_damage"] = damage
        .map(|d| json!({"page": d.page, "whose": d.whose, "why": d.why}))
        .collect();
    all["page_damage_total"] = content.damaged.into();
    all
}

fn share_json(share: &Share) -> Value {
    let codecs: Map<String, Value> = Codec::ALL
        .iter()
        .zip(share.codecs)
        .filter(|(_, bytes)| *bytes > 0)
        .map(|(codec, bytes)| (codec.name().into(), bytes.into()))
        .collect();
    json!({
        "pages": share.pages,
        "plain_bytes": share.plain,
        "stored_bytes": share.stored,
        "codecs": codecs,
        "dictionary_bytes": share.dictionary,
    })
}

/// The word for it in `sqlite_schema`.
pub fn kind(kind: TreeKind) -> &'static str {
    match kind {
        TreeKind::Table => "table",
        TreeKind::Index => "index",
    }
}
