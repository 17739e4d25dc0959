//! The report for people: what the file is, then a line for each table, index, and other use of its bytes.

use comfy_table::{Cell, CellAlignment, Table, presets};
use indicatif::HumanBytes;
use litepack::content::{Codec, Content, Other, Share, Tree, TreeKind};
use litepack::{FileInfo, Info, printable};

/// Maintenance drops free pages if they take this part of the file; fewer bytes are not worth a word.
const DROPPED_SHARE: u64 = 200;
const DROPPED: u64 = 64 << 10;

/// All of the report.
pub fn of(report: &Info) -> String {
    let (info, content) = (&report.file, &report.content);
    let mut out = totals(info);
    if info.file_bytes > 0 {
        out += &format!("\n{}", uses(info, content));
    }
    if !info.damage.is_empty() || content.damaged > 0 {
        out += &format!("\n{}", damage(info, content));
    } else {
        out += &free_pages(info, content);
    }
    out
}

/// Free pages that take space, which maintenance gives back.
fn free_pages(info: &FileInfo, content: &Content) -> String {
    let stored = content.others[Other::Free as usize].stored;
    match stored >= DROPPED && stored >= info.file_bytes / DROPPED_SHARE {
        true => format!(
            "\nfree pages take {}; litepack maintain gives that back\n",
            HumanBytes(stored)
        ),
        false => String::new(),
    }
}

fn totals(info: &FileInfo) -> String {
    let size = |bytes: u64| format!("{} ({bytes} bytes)", HumanBytes(bytes));
    let pages = info.logical_bytes / u64::from(info.page_size.max(1));
    let units = |units, bytes| format!("{units} units, {}", size(bytes));
    let mut lines = vec![
        ("database".to_string(), size(info.logical_bytes)),
        ("packed file".into(), size(info.file_bytes)),
        ("ratio".into(), ratio(info.logical_bytes, info.file_bytes)),
        (
            "pages".into(),
            format!("{pages} of {} bytes", info.page_size),
        ),
        (
            "stored in".into(),
            format!("{} units of {} bytes", info.stored_units, info.unit_size),
        ),
        ("free space".into(), size(info.free_bytes)),
        (
            "dictionaries".into(),
            format!(
                "{}, {}; {} in memory when all are used",
                info.dictionaries.len(),
                size(dictionaries(info)),
                size(info.dictionary_memory)
            ),
        ),
    ];
    for (name, count, bytes) in &info.codecs {
        lines.push((format!("  {name}"), units(*count, *bytes)));
    }
    // Pages that are only stored together with others save nothing by this.
    if info.references_save > 0 {
        let saved = size(info.references_save);
        let text = format!("{} units, which saves about {saved}", info.references);
        lines.push(("text stored once".into(), text));
    }
    lines.push(("commit".into(), info.seq.to_string()));
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    lines
        .iter()
        .map(|(name, value)| format!("{name:width$}  {value}\n"))
        .collect()
}

/// Where every byte of the file goes. The last line is the sum of the others.
fn uses(info: &FileInfo, content: &Content) -> String {
    let codecs: Vec<Codec> = Codec::ALL
        .into_iter()
        .filter(|codec| {
            content
                .shares()
                .any(|share| share.codecs[*codec as usize] > 0)
        })
        .collect();
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let heads = ["", "pages", "plain", "stored", "ratio", "of file"];
    let heads = heads
        .into_iter()
        .chain(codecs.iter().map(|codec| codec.name()));
    table.set_header(line(heads.chain(["dictionary"]).map(String::from)));
    for (tree, share) in &content.trees {
        table.add_row(pages(name(tree), share, info, &codecs));
    }
    for (other, share) in Other::ALL.iter().zip(&content.others) {
        if share.pages > 0 || share.stored > 0 {
            table.add_row(pages(other.name().into(), share, info, &codecs));
        }
    }
    let lists = info.header_bytes + info.catalog_bytes + info.free_list_bytes;
    for (name, bytes) in [
        ("shared by several pages", info.item_bytes),
        ("page map", info.map_bytes + info.item_tree_bytes),
        ("dictionaries", dictionaries(info)),
        ("header and lists", lists),
        ("prefetch segment", info.prefetch_segment_bytes),
        ("free space", info.free_bytes),
        ("unaccounted", info.unaccounted_bytes()),
    ] {
        if bytes > 0 {
            let of_file = percent(bytes, info.file_bytes);
            let stored = HumanBytes(bytes).to_string();
            table.add_row(line(
                [name, "", "", &stored, "", &of_file].map(String::from),
            ));
        }
    }
    let all: u64 = content.shares().map(|share| share.pages).sum();
    table.add_row(line([
        "all".into(),
        all.to_string(),
        HumanBytes(info.logical_bytes).to_string(),
        HumanBytes(info.file_bytes).to_string(),
        ratio(info.logical_bytes, info.file_bytes),
    ]));
    if let Some(names) = table.column_mut(0) {
        names.set_padding((0, 1));
    }
    table
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

fn name(tree: &Tree) -> String {
    let kind = match tree.kind {
        TreeKind::Table => "table",
        TreeKind::Index => "index",
    };
    format!("{kind} {}", printable(&tree.name))
}

fn pages(name: String, share: &Share, info: &FileInfo, codecs: &[Codec]) -> Vec<Cell> {
    let of_codecs = codecs
        .iter()
        .map(|codec| percent(share.codecs[*codec as usize], share.stored));
    let cells = [
        name,
        share.pages.to_string(),
        HumanBytes(share.plain).to_string(),
        HumanBytes(share.stored).to_string(),
        ratio(share.plain, share.stored),
        percent(share.stored, info.file_bytes),
    ];
    let dictionary = percent(share.dictionary, share.stored);
    line(cells.into_iter().chain(of_codecs).chain([dictionary]))
}

/// The first to the left, the others, numbers, to the right.
fn line(cells: impl IntoIterator<Item = String>) -> Vec<Cell> {
    let aligned = cells.into_iter().enumerate().map(|(column, text)| {
        let cell = Cell::new(text);
        match column {
            0 => cell,
            _ => cell.set_alignment(CellAlignment::Right),
        }
    });
    aligned.collect()
}

fn damage(info: &FileInfo, content: &Content) -> String {
    let mut out = String::from("damaged:\n");
    for damage in &info.damage {
        out += &format!("  {damage}\n");
    }
    for damage in &content.damage {
        let whose = printable(&damage.whose);
        out += &format!("  page {} ({whose}): {}\n", damage.page, damage.why);
    }
    let more = content.damaged - content.damage.len() as u64;
    if more > 0 {
        out += &format!("  and {more} more\n");
    }
    out
}

fn dictionaries(info: &FileInfo) -> u64 {
    info.dictionaries.iter().map(|len| u64::from(*len)).sum()
}

fn ratio(plain: u64, stored: u64) -> String {
    match stored {
        0 => String::new(),
        _ => format!("{:.2}", plain as f64 / stored as f64),
    }
}

fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => String::new(),
        _ => format!("{:.1} %", 100.0 * part as f64 / whole as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_divided_by_zero() {
        assert_eq!((ratio(5, 0), percent(0, 0)), (String::new(), String::new()));
        assert_eq!(
            (ratio(10, 4), percent(1, 4)),
            ("2.50".into(), "25.0 %".into())
        );
    }
}
