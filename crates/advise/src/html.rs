//! The report as a page of HTML: one file that needs no network. The template is `templates/advise.html`; everything
//! that is put into it is escaped, and what can be long is cut.

use std::borrow::Borrow;

use askama::Template;
use litepack_database::error::refuse;
use litepack_database::{Result, printable};

use super::treemap::{Rect, layout};
use super::{ColumnReport, Finding, Mode, Report, TreeReport};

/// The picture, in its own units.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 560.0;
/// Tables and indexes in the picture, and columns of each. Smaller ones share one rectangle.
const TREES: usize = 150;
const COLUMNS: usize = 40;
/// Tables and indexes in the list.
const LISTED: usize = 400;
/// Smaller rectangles are not divided.
const DIVIDED: f64 = 1200.0;
/// Where each step of shade but the last ends: what packing leaves is a few percent of most, so steps are narrow there.
const STEPS: [f64; 6] = [0.02, 0.05, 0.1, 0.2, 0.35, 0.6];
/// A character of the picture's text is about this wide.
const CHARACTER: f64 = 7.2;

/// The page.
pub(crate) fn of(report: &Report) -> Result<String> {
    let page = Page::of(report);
    match page.render() {
        Ok(page) => Ok(page),
        Err(error) => refuse!("cannot make the page: {error}"),
    }
}

#[derive(Template)]
#[template(path = "advise.html")]
struct Page<'a> {
    name: String,
    report: &'a Report,
    modes: Vec<Way<'a>>,
    tiles: Vec<Tile>,
    width: f64,
    height: f64,
    listed: Vec<Listed<'a>>,
    more: usize,
    others: Vec<(&'static str, u64)>,
    findings: Vec<Part<'a>>,
    /// The meaning of each step of shade.
    steps: Vec<String>,
    /// When the report was made, as people read it.
    made: String,
}

/// Findings under a heading.
struct Part<'a> {
    id: &'static str,
    head: &'static str,
    findings: Vec<&'a Finding>,
}

/// A way to keep it, with its bar.
struct Way<'a> {
    mode: &'a Mode,
    chosen: bool,
    /// Percent of the plain database.
    share: String,
    smaller: String,
}

/// A rectangle of the picture.
struct Tile {
    x: String,
    y: String,
    width: String,
    height: String,
    /// The class of its shade, from 0 for what packing leaves nothing of; `frame` for a tree that is divided.
    class: String,
    label: String,
    title: String,
}

/// A tree in the list.
struct Listed<'a> {
    name: String,
    tree: &'a TreeReport,
    columns: Vec<(String, &'a ColumnReport, String)>,
    /// Columns that are not listed, and their bytes.
    more: usize,
    more_bytes: u64,
}

impl<'a> Page<'a> {
    fn of(report: &'a Report) -> Page<'a> {
        let modes = (report.modes.iter())
            .map(|mode| Way {
                mode,
                chosen: mode.name == report.recommendation.mode,
                share: mode.size.map_or(String::new(), |size| {
                    percent(size.bytes, report.database_bytes)
                }),
                smaller: mode.size.map_or(String::new(), |size| {
                    let times = report.database_bytes as f64 / size.bytes.max(1) as f64;
                    format!("{times:.1} ×")
                }),
            })
            .collect();
        let listed = report.trees.iter().take(LISTED);
        let others = [
            ("free pages", report.free_bytes),
            ("pointer map", report.pointer_map_bytes),
            ("other pages", report.other_bytes),
        ];
        Page {
            name: report.shown_name(),
            report,
            modes,
            tiles: tiles(report),
            width: WIDTH,
            height: HEIGHT,
            listed: listed.map(listed_tree).collect(),
            more: report.trees.len().saturating_sub(LISTED),
            others: others.into_iter().filter(|(_, bytes)| *bytes > 0).collect(),
            findings: parts_of_findings(report),
            steps: steps(),
            made: report.made_at.replace('T', " ").replace('Z', " UTC"),
        }
    }
}

fn parts_of_findings(report: &Report) -> Vec<Part<'_>> {
    let (smaller, faster) = report.findings_by_use();
    let mut parts = vec![Part {
        id: "findings",
        head: "What else would help",
        findings: smaller,
    }];
    if !faster.is_empty() {
        parts.push(Part {
            id: "faster",
            head: "What would make queries faster, and takes room",
            findings: faster,
        });
    }
    parts
}

fn steps() -> Vec<String> {
    let percent = |share: f64| format!("{:.0}", share * 100.0);
    let mut steps = vec![format!("under {} %", percent(STEPS[0]))];
    let between = STEPS.windows(2);
    steps.extend(between.map(|ends| format!("{}–{} %", percent(ends[0]), percent(ends[1]))));
    steps.push(format!("over {} %", percent(STEPS[STEPS.len() - 1])));
    steps
}

fn listed_tree(tree: &TreeReport) -> Listed<'_> {
    let columns = tree.columns.iter().take(COLUMNS);
    let more = tree.columns.get(COLUMNS..).unwrap_or_default();
    Listed {
        name: printable(&tree.name),
        tree,
        more: more.len(),
        more_bytes: more.iter().map(|column| column.bytes).sum(),
        columns: columns
            .map(|column| (column_name(column), column, kind(column)))
            .collect(),
    }
}

fn column_name(column: &ColumnReport) -> String {
    match &column.name {
        Some(name) => printable(name),
        None => "(expression)".into(),
    }
}

fn kind(column: &ColumnReport) -> String {
    let mut words = Vec::new();
    words.extend(column.kind.map(|kind| kind.name().to_owned()));
    words.extend(
        column
            .json_keys
            .map(|keys| format!("{:.0} % of it keys", 100.0 * keys)),
    );
    words.extend(
        column
            .distinct
            .map(|count| format!("{count} different values")),
    );
    words.join(", ")
}

/// The rectangles: trees, and in those that are large enough their columns and overhead.
fn tiles(report: &Report) -> Vec<Tile> {
    let mut entries: Vec<(f64, Option<&TreeReport>, String, f64)> = Vec::new();
    for tree in report.trees.iter().take(TREES) {
        let left = tree.packed_bytes as f64 / tree.bytes.max(1) as f64;
        let name = format!("{} {}", tree.kind, printable(&tree.name));
        entries.push((tree.bytes as f64, Some(tree), name, left));
    }
    let rest: &[TreeReport] = report.trees.get(TREES..).unwrap_or_default();
    let sum = |of: fn(&TreeReport) -> u64| rest.iter().map(of).sum::<u64>() as f64;
    let (bytes, packed) = (sum(|tree| tree.bytes), sum(|tree| tree.packed_bytes));
    for (bytes, name, left) in [
        (
            bytes,
            format!("{} smaller ones", rest.len()),
            packed / bytes.max(1.0),
        ),
        (report.free_bytes as f64, "free pages".into(), 0.0),
        (report.other_bytes as f64, "other pages".into(), 1.0),
        (report.pointer_map_bytes as f64, "pointer map".into(), 0.2),
    ] {
        if bytes > 0.0 {
            entries.push((bytes, None, name, left));
        }
    }
    entries.retain(|(bytes, ..)| *bytes > 0.0);
    entries.sort_by(|a, b| b.0.total_cmp(&a.0));
    let sizes: Vec<f64> = entries.iter().map(|(bytes, ..)| *bytes).collect();
    let whole = Rect {
        width: WIDTH,
        height: HEIGHT,
        ..Rect::default()
    };
    let mut tiles = Vec::new();
    for (rect, (bytes, tree, name, left)) in layout(&sizes, whole).into_iter().zip(entries) {
        let title = title(&name, bytes, left, "");
        let Some(tree) = tree.filter(|_| rect.width * rect.height > DIVIDED) else {
            tiles.push(tile(rect, shade(left), &name, title));
            continue;
        };
        tiles.push(tile(rect, "frame".into(), &name, title));
        let parts = parts(tree);
        let sizes: Vec<f64> = parts.iter().map(|(bytes, ..)| *bytes).collect();
        let inner = rect.inner(1.5, if rect.height > 40.0 { 16.0 } else { 0.0 });
        for (rect, (_, name, left, title)) in layout(&sizes, inner).into_iter().zip(parts) {
            tiles.push(tile(rect, shade(left), &name, title));
        }
    }
    tiles
}

/// The columns of a tree and its overhead, the largest first: bytes, name, what packing leaves, and the words.
fn parts(tree: &TreeReport) -> Vec<(f64, String, f64, String)> {
    let of = printable(&tree.name);
    let mut parts: Vec<(f64, String, f64, String)> = Vec::new();
    let mut columns_left = 0;
    for (at, column) in tree.columns.iter().enumerate() {
        if at >= COLUMNS {
            break;
        }
        let left = column.packed_bytes as f64 / column.bytes.max(1) as f64;
        let name = column_name(column);
        columns_left += column.packed_bytes;
        let title = title(
            &format!("{of}.{name}"),
            column.bytes as f64,
            left,
            &kind(column),
        );
        parts.push((column.bytes as f64, name, left, title));
    }
    let more = tree.columns.get(COLUMNS..).unwrap_or_default();
    let bytes: u64 = more.iter().map(|column| column.bytes).sum();
    let packed: u64 = more.iter().map(|column| column.packed_bytes).sum();
    columns_left += packed;
    if bytes > 0 {
        let name = format!("{} more columns", more.len());
        let left = packed as f64 / bytes as f64;
        let title = title(&name, bytes as f64, left, "");
        parts.push((bytes as f64, name, left, title));
    }
    let overhead = tree.overhead.sum();
    let left = tree.packed_bytes.saturating_sub(columns_left) as f64 / overhead.max(1) as f64;
    for (name, bytes) in tree.overhead.parts() {
        if bytes > 0 {
            let title = title(&format!("{of}: {name}"), bytes as f64, left, "");
            parts.push((bytes as f64, name.into(), left, title));
        }
    }
    parts.retain(|(bytes, ..)| *bytes > 0.0);
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    parts
}

fn title(name: &str, bytes: f64, left: f64, more: &str) -> String {
    let more = match more {
        "" => String::new(),
        more => format!(", {more}"),
    };
    let left = (100.0 * left).clamp(0.0, 100.0);
    format!(
        "{name}: {}, packing leaves {left:.0} %{more}",
        human(bytes as u64)
    )
}

fn shade(left: f64) -> String {
    format!("s{}", STEPS.iter().filter(|end| left >= **end).count())
}

fn tile(rect: Rect, class: String, name: &str, title: String) -> Tile {
    let number = |value: f64| format!("{value:.1}");
    let room = ((rect.width - 8.0) / CHARACTER).max(0.0) as usize;
    let label = match rect.height {
        ..16.0 => String::new(),
        _ if room < 3 => String::new(),
        _ if name.chars().count() <= room => name.to_owned(),
        _ => name.chars().take(room - 1).chain(['…']).collect(),
    };
    Tile {
        x: number(rect.x),
        y: number(rect.y),
        width: number(rect.width),
        height: number(rect.height),
        class,
        label,
        title,
    }
}

fn percent(part: u64, whole: u64) -> String {
    let share = 100.0 * part as f64 / whole.max(1) as f64;
    format!("{:.1}", share.min(100.0))
}

/// Bytes for people, as the command's table has them.
fn human(bytes: impl Borrow<u64>) -> String {
    let bytes = *bytes.borrow();
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{value:.2} {}", UNITS[unit]),
    }
}

fn saved(finding: &Finding) -> String {
    let bytes = human(finding.saves_bytes.unsigned_abs());
    match finding.saves_bytes {
        ..0 => format!("takes {bytes}"),
        _ => format!("saves {bytes}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_for_people() {
        for (bytes, wanted) in [
            (0_u64, "0 B"),
            (1023, "1023 B"),
            (1536, "1.50 KiB"),
            (20 << 20, "20.00 MiB"),
        ] {
            assert_eq!(human(bytes), wanted);
        }
    }

    #[test]
    fn labels_fit() {
        let rect = Rect {
            width: 50.0,
            height: 20.0,
            ..Rect::default()
        };
        assert_eq!(
            tile(rect, shade(0.5), "abcdefgh", String::new()).label,
            "abcd…"
        );
        assert_eq!(tile(rect, shade(2.0), "abc", String::new()).class, "s6");
        let flat = Rect {
            height: 5.0,
            ..rect
        };
        assert_eq!(tile(flat, shade(-1.0), "abc", String::new()).label, "");
    }

    /// Relative luminance of `#rrggbb` or `#rgb`, as WCAG has it.
    fn luminance(color: &str) -> f64 {
        let digits: Vec<u32> = color[1..]
            .chars()
            .map(|c| c.to_digit(16).unwrap())
            .collect();
        let parts: Vec<u32> = match digits.len() {
            3 => digits.iter().map(|digit| digit * 17).collect(),
            _ => digits
                .chunks(2)
                .map(|pair| pair[0] * 16 + pair[1])
                .collect(),
        };
        let linear = |part: u32| match f64::from(part) / 255.0 {
            part if part <= 0.03928 => part / 12.92,
            part => ((part + 0.055) / 1.055).powf(2.4),
        };
        0.2126 * linear(parts[0]) + 0.7152 * linear(parts[1]) + 0.0722 * linear(parts[2])
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// Neighbouring shades can be told apart, in both schemes, and what is written on them can be read.
    #[test]
    fn shades_tell_a_few_percent_from_many() {
        assert_ne!(shade(0.03), shade(0.4));
        assert_eq!([shade(0.03), shade(0.4)], ["s1", "s5"]);
        let template = include_str!("../templates/advise.html");
        let of = |name: &str| -> Vec<&str> {
            let key = format!("--{name}: ");
            let found = template.match_indices(&key).map(|(at, found)| {
                let color = &template[at + found.len()..];
                &color[..color.find(';').unwrap()]
            });
            found.collect()
        };
        let shades: Vec<Vec<&str>> = (0..=STEPS.len()).map(|at| of(&format!("s{at}"))).collect();
        let (low, high) = (of("on-light"), of("on-dark"));
        for scheme in 0..2 {
            let shades: Vec<&str> = shades.iter().map(|shade| shade[scheme]).collect();
            for pair in shades.windows(2) {
                let apart = contrast(pair[0], pair[1]);
                assert!(apart >= 1.15, "{pair:?}: {apart}");
            }
            assert!(contrast(shades[1], shades[5]) >= 3.0, "{shades:?}");
            for (at, shade) in shades.iter().enumerate() {
                let ink = if at < 4 { low[scheme] } else { high[scheme] };
                let apart = contrast(shade, ink);
                assert!(apart >= 4.5, "{shade} {ink}: {apart}");
            }
        }
    }
}
