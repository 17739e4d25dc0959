//! Reads what callgrind writes (its manual has the format): instructions by line of source, with the functions around.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context, Result, ensure};

use super::{Part, source};

/// Instructions with one stack.
#[derive(Debug, PartialEq)]
pub(super) struct Count {
    pub(super) part: Part,
    /// Functions from the outermost, `;` between them.
    pub(super) stack: String,
    pub(super) instructions: u64,
}

/// The file that SQLite is compiled from.
const SQLITE: &str = "sqlite3.c";

/// All counts, those of equal stacks added up.
pub(super) fn read(text: &str) -> Result<Vec<Count>> {
    let path = text.lines().find_map(|line| {
        let (kind, path) = line.split_once('=')?;
        (matches!(kind, "fl" | "fi" | "fe") && path.ends_with(SQLITE)).then_some(path)
    });
    let path = path.context(
        "callgrind found no line of SQLite's source: it needs a build with debug information",
    )?;
    let source = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    counts(text, &source::lines(&source)?)
}

fn counts(text: &str, places: &[(Part, Range<usize>)]) -> Result<Vec<Count>> {
    let mut found: BTreeMap<(String, Part), u64> = BTreeMap::new();
    let (mut file, mut stack, mut known) = ("", String::new(), Part::Other);
    let mut inclusive = false;
    for line in text.lines() {
        if let Some((kind, value)) = line.split_once('=') {
            match kind {
                "fl" | "fi" | "fe" => file = value,
                "fn" => (stack, known) = stack_of(value),
                // The next line is the cost of the called function and all below it, which have lines of their own.
                "calls" => inclusive = true,
                _ => {}
            }
            continue;
        }
        let Some((number, cost)) = line.split_once(' ') else {
            continue;
        };
        let Ok(number) = number.parse::<usize>() else {
            continue;
        };
        if std::mem::take(&mut inclusive) {
            continue;
        }
        let cost: u64 = cost
            .trim()
            .parse()
            .with_context(|| format!("no count: {line}"))?;
        let place = places
            .iter()
            .find(|(_, lines)| file.ends_with(SQLITE) && lines.contains(&number));
        let (stack, part) = match place {
            Some((part, _)) => (format!("{stack};[{}]", part.name()), *part),
            None => (stack.clone(), known),
        };
        *found.entry((stack, part)).or_default() += cost;
    }
    ensure!(!found.is_empty(), "callgrind counted nothing");
    let count = |((stack, part), instructions)| Count {
        part,
        stack,
        instructions,
    };
    Ok(found.into_iter().map(count).collect())
}

/// The stack of a function with its callers, `inner'outer`, and what its innermost function that is known is part of.
fn stack_of(name: &str) -> (String, Part) {
    // Numbers tell the levels of a recursion apart.
    let frames = name
        .split('\'')
        .filter(|frame| frame.parse::<u32>().is_err());
    let mut frames: Vec<String> = frames
        .map(|frame| format!("{:#}", rustc_demangle::demangle(frame)))
        .collect();
    let known = frames
        .iter()
        .find_map(|frame| part_of(frame))
        .unwrap_or(Part::Other);
    // Everything before the statement runs is of no interest.
    if let Some(first) = frames
        .iter()
        .position(|frame| frame.contains("counted_statement"))
    {
        frames.truncate(first);
    }
    frames.reverse();
    (frames.join(";").replace(' ', ""), known)
}

fn part_of(function: &str) -> Option<Part> {
    let begins = |names: &[&str]| names.iter().any(|name| function.starts_with(name));
    if begins(&["ZSTD_", "HUF_", "FSE_", "zstd"]) {
        Some(Part::Zstd)
    } else if function.contains("litepack_codec") {
        Some(Part::Columns)
    } else if function.contains("litepack_integers") || function.contains("rusqlite") {
        Some(Part::Other)
    } else if function.contains("litepack_") {
        Some(Part::Litepack)
    } else if begins(&[
        "sqlite3", "btree", "vdbe", "pager", "pcache", "unix", "moveTo", "getPage", "getCell",
    ]) {
        Some(Part::Sqlite)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
events: Ir
fl=/a/sqlite3.c
fn=sqlite3VdbeExec'sqlite3_step'_ZN4main17counted_statement17h0123456789abcdefE'main
10 100
11 20
fi=/a/other.h
11 3
fe=/a/sqlite3.c
cfn=sqlite3BtreeNext'sqlite3VdbeExec
calls=5 70
12 999
13 7

fn=memcpy'ZSTD_decompress'xRead
fl=/b/memcpy.S
11 50
totals: 180
";

    #[test]
    fn own_instructions_are_counted_by_line_and_stack() {
        let found = counts(TEXT, &[(Part::SerialTypes, 11..12)]).unwrap();
        let count = |part, stack: &str, instructions| Count {
            part,
            stack: stack.into(),
            instructions,
        };
        assert_eq!(
            found,
            [
                count(Part::Sqlite, "sqlite3_step;sqlite3VdbeExec", 110),
                count(
                    Part::SerialTypes,
                    "sqlite3_step;sqlite3VdbeExec;[serial types]",
                    20
                ),
                count(Part::Zstd, "xRead;ZSTD_decompress;memcpy", 50),
            ]
        );
        assert!(counts("events: Ir\n", &[]).is_err());
    }
}
