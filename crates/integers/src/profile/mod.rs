//! Where the time of a reading test case goes: instructions, counted by callgrind, so that a rerun gives the same.
//!
//! This program runs itself under valgrind; only the statement is counted, on one thread. SQLite decodes varints and
//! serial types in the middle of longer functions, so the counts are by line of its source.

mod callgrind;
mod source;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rusqlite::{Connection, OpenFlags};
use serde::{Deserialize, Serialize};

use crate::cases::QUERIES;
use crate::data::{Table, create};
use crate::engines::Target;

/// The purpose of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Payload lengths, rowids and lengths of record headers.
    Varints,
    /// Serial types, and integers from the bytes that these say.
    SerialTypes,
    /// The rest of SQLite.
    Sqlite,
    /// Decompression.
    Zstd,
    /// Pages laid out by column back into pages.
    Columns,
    /// The rest of Litepack.
    Litepack,
    /// Instructions without a caller known here.
    Other,
}

impl Part {
    /// All.
    pub const ALL: [Self; 7] = [
        Self::Varints,
        Self::SerialTypes,
        Self::Sqlite,
        Self::Zstd,
        Self::Columns,
        Self::Litepack,
        Self::Other,
    ];

    /// As reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Varints => "varints",
            Self::SerialTypes => "serial types",
            Self::Sqlite => "rest of SQLite",
            Self::Zstd => "zstd",
            Self::Columns => "pages from columns",
            Self::Litepack => "rest of Litepack",
            Self::Other => "other",
        }
    }
}

/// The instructions of a test case, by purpose.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Profile {
    /// The test case's number.
    pub case: u32,
    /// On which kind of file.
    pub target: String,
    /// Rows of the table.
    pub rows: u64,
    /// Instructions of all parts.
    pub instructions: u64,
    /// Instructions of each part that has any.
    pub parts: Vec<(Part, u64)>,
}

/// Stacks from the outermost function to the innermost, each with its instructions, as flame graphs are made of.
pub type Stacks = Vec<(String, u64)>;

/// The profiles of all reading cases on plain and packed files, and the stacks of each kind of file.
pub struct Profiles {
    /// In the order of the targets and cases.
    pub profiles: Vec<Profile>,
    /// For each target.
    pub stacks: Vec<(String, Stacks)>,
}

/// Files whose reading is profiled.
const TARGETS: [Target; 2] = [Target::Plain, Target::Packed];

/// Whether callgrind can be run.
///
/// # Errors
/// Says what is missing.
pub fn find() -> Result<()> {
    let found = Command::new("valgrind").arg("--version").output();
    let found = found.context("there is no valgrind (apt-get install valgrind)")?;
    ensure!(found.status.success(), "valgrind does not run");
    Ok(())
}

/// Counts all cases on tables of so many rows.
///
/// # Errors
/// Those of valgrind and of SQLite, and if SQLite's source is not what this program knows.
pub fn measure(scratch: &Path, rows: u64, say: &dyn Fn(String)) -> Result<Profiles> {
    let mut found = Profiles {
        profiles: Vec::new(),
        stacks: Vec::new(),
    };
    for target in TARGETS {
        let mut stacks = Stacks::new();
        for table in Table::ALL {
            let path = scratch.join("profile.db");
            let conn = target.create(&path)?;
            create(&conn, table, rows)?;
            conn.close().map_err(|(_, error)| error)?;
            for (case, _, _) in QUERIES.into_iter().filter(|query| query.1 == table) {
                say(format!(
                    "counting instructions: test case {case}, {}",
                    target.name()
                ));
                let counts = run(scratch, case, &target.uri(&path))?;
                let mut parts = Part::ALL.map(|part| (part, 0)).to_vec();
                for count in &counts {
                    parts[count.part as usize].1 += count.instructions;
                    stacks.push((format!("case {case};{}", count.stack), count.instructions));
                }
                parts.retain(|(_, instructions)| *instructions > 0);
                found.profiles.push(Profile {
                    case,
                    target: target.name().into(),
                    rows,
                    instructions: parts.iter().map(|(_, instructions)| instructions).sum(),
                    parts,
                });
            }
            std::fs::remove_file(&path)?;
        }
        found.stacks.push((target.name().into(), stacks));
    }
    Ok(found)
}

/// Runs this program for a case under callgrind.
fn run(scratch: &Path, case: u32, uri: &str) -> Result<Vec<callgrind::Count>> {
    let out = scratch.join("callgrind.out");
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--collect-atstart=no",
            "--toggle-collect=*counted_statement*",
        ])
        .args([
            "--separate-callers=40",
            "--compress-strings=no",
            "--compress-pos=no",
            "--demangle=no",
        ])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe()?)
        .args(["--counted-case", &case.to_string(), "--counted-uri", uri])
        .stdin(Stdio::null())
        .output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "valgrind: {}",
        words.lines().last().unwrap_or_default()
    );
    let text = std::fs::read_to_string(&out)?;
    std::fs::remove_file(out)?;
    callgrind::read(&text)
}

/// The work of the program under callgrind.
///
/// # Errors
/// SQLite's.
pub fn counted(case: u32, uri: &str) -> Result<()> {
    litepack_bench::engines::Litepack::new()?;
    let one_thread = if uri.contains("vfs=") {
        "&threads=1"
    } else {
        ""
    };
    let conn = Connection::open_with_flags(format!("{uri}{one_thread}"), OpenFlags::default())?;
    let (_, _, sql) = QUERIES
        .into_iter()
        .find(|query| query.0 == case)
        .context("no such test case")?;
    let mut statement = conn.prepare(sql)?;
    let count: i64 = counted_statement(&mut statement)?;
    ensure!(count > 0, "no row was counted");
    Ok(())
}

/// Its name is what callgrind looks for.
#[inline(never)]
fn counted_statement(statement: &mut rusqlite::Statement<'_>) -> rusqlite::Result<i64> {
    statement.query_row([], |row| row.get(0))
}

/// Draws stacks as a flame graph.
///
/// # Errors
/// The file system's, and without stacks.
pub fn draw(path: &Path, title: &str, stacks: &Stacks) -> Result<()> {
    let mut options = inferno::flamegraph::Options::default();
    options.title = title.into();
    options.count_name = "instructions".into();
    options.deterministic = true;
    options.min_width = 0.2;
    let lines: Vec<String> = stacks
        .iter()
        .map(|(stack, count)| format!("{stack} {count}"))
        .collect();
    let mut file = Vec::new();
    inferno::flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut file)?;
    std::fs::File::create(path)?.write_all(&file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_by_their_numbers() {
        for (index, part) in Part::ALL.into_iter().enumerate() {
            assert_eq!(part as usize, index);
        }
    }

    #[test]
    fn flame_graphs_hold_the_stacks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flame.svg");
        let stacks = vec![
            ("case 1;outer;inner".to_string(), 70),
            ("case 1;outer".to_string(), 30),
        ];
        draw(&path, "A title", &stacks).unwrap();
        let svg = std::fs::read_to_string(path).unwrap();
        assert!(
            svg.contains("A title") && svg.contains("inner (70 instructions, 70.00%)"),
            "{svg}"
        );
    }
}
