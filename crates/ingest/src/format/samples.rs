//! Lines as the documentation of each program has them (`testdata/documented.txt`): each has the columns that it should,
//! and no other format takes it.

use std::collections::BTreeMap;

use super::detect::{KNOWN, WITHIN, detect};
use super::{Format, Taken, names, time::Times};
use crate::row::{Columns, Row, Value};

/// 2026-01-01.
const NOW: i64 = 1_767_225_600;

/// A format, where its lines are from, the lines, and what the last one holds.
#[derive(Default)]
struct Sample {
    format: &'static str,
    source: &'static str,
    lines: Vec<&'static str>,
    last: BTreeMap<String, String>,
}

fn samples() -> Vec<Sample> {
    let mut samples: Vec<Sample> = Vec::new();
    for line in include_str!("../testdata/documented.txt").lines() {
        let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
        if what == "format" {
            samples.push(Sample {
                format: rest,
                ..Sample::default()
            });
        }
        let Some(sample) = samples.last_mut() else {
            continue;
        };
        match what {
            "source" => sample.source = rest,
            "line" => sample.lines.push(rest),
            "last" => {
                let (name, value) = rest.split_once(' ').unwrap();
                sample.last.insert(name.to_owned(), latin(value));
            }
            _ => {}
        }
    }
    samples
}

fn shown(value: &Value<'_>) -> Option<String> {
    Some(match value {
        Value::Null => return None,
        Value::Integer(integer) => integer.to_string(),
        Value::Real(real) => real.to_string(),
        Value::Text(text) => text.iter().map(|b| *b as char).collect(),
    })
}

/// The columns of a line that have a value, with bytes for characters. None if it is no row.
pub(super) fn read(
    format: &mut Format,
    line: &[u8],
) -> Result<Option<BTreeMap<String, String>>, &'static str> {
    let mut columns = Columns::new(&[], 100, false, Times::default()).unwrap();
    let mut row = Row::default();
    if format.takes_header(line)? {
        return Ok(None);
    }
    match format.parse(line, &mut row, &mut columns, NOW)? {
        Taken::Part | Taken::Names => return Ok(None),
        Taken::Row | Taken::Other => {}
    }
    let values = row.finish(1, false)?;
    let named = columns
        .names()
        .iter()
        .zip(&values)
        .filter(|(name, _)| *name != "source_id");
    let named = named.filter_map(|(name, value)| Some((name.clone(), shown(value.as_ref()?)?)));
    Ok(Some(named.collect()))
}

fn latin(text: &str) -> String {
    text.bytes().map(|b| b as char).collect()
}

/// Whether two formats mean the same by a line that both have.
pub(super) fn are_related(a: &str, b: &str) -> bool {
    let tables = ["csv", "csv-semicolon", "csv-bar", "tsv"];
    let times = ["%D", "%T"];
    let timed = |name: &str| times.iter().any(|time| name.ends_with(time));
    a == b
        || WITHIN
            .iter()
            .any(|(x, y)| (*x, *y) == (a, b) || (*y, *x) == (a, b))
        || (tables.contains(&a) && tables.contains(&b))
        || (timed(a) && timed(b) && a.split(' ').next() == b.split(' ').next())
}

#[test]
fn documented_lines_have_their_format_and_columns() {
    for Sample {
        format,
        source,
        lines,
        last,
    } in samples()
    {
        let found = detect(lines.iter().map(|line| line.as_bytes()), NOW);
        let found = found.unwrap_or_else(|why| panic!("{format}: {why}"));
        assert_eq!(
            (&*found.name, found.fits[0], found.doubt),
            (format, lines.len(), None),
            "{source}"
        );
        let mut parser = Format::new(format).unwrap();
        let mut row = None;
        for line in lines {
            row = read(&mut parser, line.as_bytes()).unwrap_or_else(|why| panic!("{line}: {why}"));
        }
        assert_eq!(row.unwrap(), last, "{source}");
    }
}

#[test]
fn each_format_that_is_documented_has_lines_here() {
    let docs = include_str!("../../../../docs/logs.md");
    let table = docs
        .split("| format |")
        .nth(1)
        .unwrap()
        .split("\n\n")
        .next()
        .unwrap();
    let cells = table
        .lines()
        .skip(2)
        .filter_map(|line| line.split(" | ").next());
    // Patterns have no names.
    let first = cells.filter(|cell| !cell.starts_with("| any"));
    let mut documented: Vec<&str> = first
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    let mut known: Vec<&str> = names().collect();
    let samples = samples();
    let tested = |name: &str| samples.iter().any(|sample| sample.format == name);
    assert!(known.iter().all(|name| tested(name)), "{known:?}");
    documented.sort_unstable();
    known.sort_unstable();
    assert_eq!(documented, known);
}

#[test]
fn no_other_format_takes_documented_lines() {
    for sample in samples() {
        for other in KNOWN
            .iter()
            .filter(|other| !are_related(sample.format, other))
        {
            let mut parser = Format::new(other).unwrap();
            if matches!(parser, Format::Delimited(_)) {
                continue;
            }
            for line in &sample.lines {
                let taken = read(&mut parser, line.as_bytes());
                let nothing = taken.is_err() || (*other == "w3c" && line.starts_with('#'));
                assert!(nothing, "{} as {other}: {line}: {taken:?}", sample.format);
            }
        }
    }
}
