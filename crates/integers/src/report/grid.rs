//! A table of words and figures, for a terminal and as Markdown.

use comfy_table::{Cell, CellAlignment, Table, presets};
use litepack_bench::report::grouped;

use crate::stats::Spread;

/// A table.
pub(super) struct Grid {
    /// The table's title.
    pub(super) title: String,
    /// Heads of the columns; the first `words` columns are words and the others figures.
    pub(super) head: Vec<String>,
    pub(super) words: usize,
    pub(super) rows: Vec<Vec<String>>,
}

impl Grid {
    pub(super) fn new(title: impl Into<String>, words: usize, head: &[&str]) -> Self {
        Self {
            title: title.into(),
            head: head.iter().map(|head| (*head).into()).collect(),
            words,
            rows: Vec::new(),
        }
    }

    /// For a terminal.
    pub(super) fn text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(&self.head);
        for row in &self.rows {
            table.add_row(row.iter().enumerate().map(|(index, text)| {
                let alignment = if index < self.words {
                    CellAlignment::Left
                } else {
                    CellAlignment::Right
                };
                Cell::new(text).set_alignment(alignment)
            }));
        }
        let lines: Vec<String> = table
            .lines()
            .map(|line| line.trim_end().to_owned() + "\n")
            .collect();
        format!("{}\n{}", self.title, lines.concat())
    }

    /// As Markdown, without the title.
    pub(super) fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = |index: usize| if index < self.words { "---" } else { "--:" }.to_string();
        let rules: Vec<String> = (0..self.head.len()).map(rule).collect();
        let rows: Vec<String> = self.rows.iter().map(|row| line(row)).collect();
        format!("{}{}{}", line(&self.head), line(&rules), rows.concat())
    }
}

/// A number with three significant digits, or all before the point.
pub(super) fn number(value: f64) -> String {
    let digits = match value.abs() {
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        value if value >= 0.0995 || value == 0.0 => 2,
        _ => 3,
    };
    grouped(value, digits)
}

/// The median, and the bounds that one in twenty lies beyond.
pub(super) fn bounds(spread: Spread) -> String {
    format!(
        "{} ({} – {})",
        number(spread.median),
        number(spread.low),
        number(spread.high)
    )
}

/// So many times another.
pub(super) fn times(value: f64, other: f64) -> String {
    format!("{:.2} ×", value / other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        let shown = [0.0, 0.0123, 0.123, 1.0, 12.345, 123.4, 1_234_567.0].map(number);
        assert_eq!(
            shown,
            ["0.00", "0.012", "0.12", "1.00", "12.3", "123", "1 234 567"]
        );
    }

    #[test]
    fn both_forms_have_all_cells() {
        let mut grid = Grid::new("A title", 1, &["name", "bytes"]);
        grid.rows.push(vec!["one".into(), "7".into()]);
        assert_eq!(
            grid.markdown(),
            "| name | bytes |\n| --- | --: |\n| one | 7 |\n"
        );
        let text = grid.text();
        assert!(text.starts_with("A title\n") && text.contains("one") && text.contains('7'));
    }
}
