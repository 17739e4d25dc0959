//! The advice for people: the ways to keep the database side by side, where its bytes go, findings, and which way.

use comfy_table::{Cell, CellAlignment, Table, presets};
use indicatif::HumanBytes;
use litepack::printable;
use litepack_advise::{ColumnReport, Finding, Mode, Report, TreeReport};

/// Tables and indexes that are listed, and columns of each.
const TREES: usize = 25;
const COLUMNS: usize = 12;
/// Findings that are listed.
const FINDINGS: usize = 12;
/// A column with a smaller share of the database is not listed.
const SHARE: f64 = 0.005;

/// All of it.
pub fn of(report: &Report) -> String {
    let size = HumanBytes(report.database_bytes);
    let shown = report.shown_name();
    let mut out = format!("{shown}: {size}, pages of {} bytes", report.page_size);
    out += &match report.is_whole {
        true => ", all of it read".to_owned(),
        false => format!(", a sample of {} read", HumanBytes(report.sampled_bytes)),
    };
    out += &format!(" in {:.1} s\n", report.seconds);
    if report.bad_pages > 0 {
        out += &format!(
            "{} pages made no sense: they are damaged, or were written at that moment\n",
            report.bad_pages
        );
    }
    out += &format!("\nways to keep it\n{}", modes(report));
    out += &format!("\nwhere the bytes go\n{}", bytes(report));
    let (smaller, faster) = report.findings_by_use();
    out += &findings("what else would help; nothing of it is done", &smaller, 0);
    let head = "what would make queries faster, and takes room; nothing of it is done";
    out += &findings(head, &faster, smaller.len().min(FINDINGS));
    out + &recommendation(report)
}

/// Findings under a heading, with numbers that go on after `before`.
fn findings(head: &str, found: &[&Finding], before: usize) -> String {
    if found.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{head}\n");
    for (at, finding) in found.iter().take(FINDINGS).enumerate() {
        out += &one(before + at + 1, finding);
    }
    let more = found.len().saturating_sub(FINDINGS);
    if more > 0 {
        out += &format!("and {more} more, in --json and --html\n");
    }
    out
}

fn modes(report: &Report) -> String {
    let mut table = table(&["", "size", "between", "smaller", ""]);
    let line = |mode: &Mode| match mode.size {
        Some(size) => vec![
            mode.name.to_owned(),
            HumanBytes(size.bytes).to_string(),
            format!("{} and {}", HumanBytes(size.low), HumanBytes(size.high)),
            smaller(report.database_bytes, size.bytes),
            mode.note.clone(),
        ],
        None => vec![
            mode.name.to_owned(),
            "-".into(),
            String::new(),
            String::new(),
            mode.note.clone(),
        ],
    };
    table.add_row(cells(vec![
        "as it is".into(),
        HumanBytes(report.file_bytes).to_string(),
    ]));
    for mode in &report.modes {
        table.add_row(cells(line(mode)));
    }
    text(table)
}

fn bytes(report: &Report) -> String {
    let all = report.database_bytes.max(1) as f64;
    let mut table = table(&["", "bytes", "share", "packed", "what it is"]);
    let mut row = |name: String, bytes: u64, packed: Option<u64>, what: String| {
        let share = format!("{:.1} %", 100.0 * bytes as f64 / all);
        let packed = packed.map_or(String::new(), |packed| HumanBytes(packed).to_string());
        table.add_row(cells(vec![
            name,
            HumanBytes(bytes).to_string(),
            share,
            packed,
            what,
        ]));
    };
    for tree in report.trees.iter().take(TREES) {
        row(
            format!("{} {}", tree.kind, printable(&tree.name)),
            tree.bytes,
            Some(tree.packed_bytes),
            format!("{} rows", tree.rows),
        );
        let columns = tree.columns.iter();
        let columns = columns.filter(|column| column.bytes as f64 >= SHARE * all);
        for column in columns.take(COLUMNS) {
            let name = match &column.name {
                Some(name) => printable(name),
                None => "(expression)".into(),
            };
            row(
                format!("  {name}"),
                column.bytes,
                Some(column.packed_bytes),
                kind(column),
            );
        }
        for (name, bytes) in tree.overhead.parts() {
            if bytes as f64 >= SHARE * all {
                row(format!("  ({name})"), bytes, None, String::new());
            }
        }
    }
    let rest: &[TreeReport] = report.trees.get(TREES..).unwrap_or_default();
    if !rest.is_empty() {
        row(
            format!("{} more", rest.len()),
            rest.iter().map(|tree| tree.bytes).sum(),
            Some(rest.iter().map(|tree| tree.packed_bytes).sum()),
            String::new(),
        );
    }
    for (name, bytes) in [
        ("free pages", report.free_bytes),
        ("pointer map", report.pointer_map_bytes),
        ("other pages", report.other_bytes),
    ] {
        if bytes > 0 {
            row(name.into(), bytes, None, String::new());
        }
    }
    text(table)
}

fn kind(column: &ColumnReport) -> String {
    let mut words = Vec::new();
    words.extend(column.kind.map(|kind| kind.name().to_owned()));
    if let Some(keys) = column.json_keys {
        words.push(format!("{:.0} % of it keys", 100.0 * keys));
    }
    words.extend(
        column
            .distinct
            .map(|distinct| format!("{distinct} different values")),
    );
    words.join(", ")
}

fn one(number: usize, finding: &Finding) -> String {
    let saves = match finding.saves_bytes {
        bytes if bytes < 0 => format!("takes {}", HumanBytes(bytes.unsigned_abs())),
        bytes => format!("saves {}", HumanBytes(bytes.unsigned_abs())),
    };
    let mut out = format!(
        "{number:>2}. {}: {saves}\n    {}\n",
        finding.title, finding.detail
    );
    for line in finding.sql.iter().flat_map(|sql| sql.lines()) {
        out += &format!("      {line}\n");
    }
    out
}

fn recommendation(report: &Report) -> String {
    let chosen = &report.recommendation;
    let mut out = format!("\nrecommended: {}; {}\n", chosen.mode, chosen.reason);
    for line in chosen.command.iter().flat_map(|command| command.lines()) {
        out += &format!("  {line}\n");
    }
    for other in &chosen.otherwise {
        out += &format!("if {}: {}\n", other.when, other.mode);
    }
    out
}

fn smaller(plain: u64, bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        _ => format!("{:.1} x", plain as f64 / bytes as f64),
    }
}

fn table(heads: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(cells(heads.iter().map(ToString::to_string).collect()));
    table
}

/// The first and the last to the left, numbers to the right.
fn cells(texts: Vec<String>) -> Vec<Cell> {
    let aligned = texts.into_iter().enumerate().map(|(column, text)| {
        let cell = Cell::new(text);
        match column {
            0 | 4 => cell,
            _ => cell.set_alignment(CellAlignment::Right),
        }
    });
    aligned.collect()
}

fn text(mut table: Table) -> String {
    if let Some(names) = table.column_mut(0) {
        names.set_padding((0, 1));
    }
    let lines = table.lines().map(|line| line.trim_end().to_owned() + "\n");
    lines.collect()
}
