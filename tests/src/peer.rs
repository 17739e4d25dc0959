//! sqlite-zstd in a process of its own, so that none of our functions is within its reach, and one
//! form of answer for it and for us.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The answer of a statement: its rows, each value with its type, or SQLite's message.
pub type Answer = Result<Vec<String>, String>;

const ROW: u8 = b'r';
const ERROR: u8 = b'e';
const END: u8 = b'.';

/// Runs one statement. Values are written as SQL literals, which show their types.
pub fn answer(connection: &Connection, sql: &str) -> Answer {
    rows(connection, sql).map_err(|error| error.to_string())
}

fn rows(connection: &Connection, sql: &str) -> Result<Vec<String>, Error> {
    let mut statement = connection.prepare(sql)?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    let mut lines = Vec::new();
    while let Some(row) = rows.next()? {
        let values: Vec<String> = (0..columns)
            .map(|column| Ok(literal(row.get_ref(column)?)))
            .collect::<Result<_, Error>>()?;
        lines.push(values.join("|"));
    }
    Ok(lines)
}

fn literal(value: ValueRef<'_>) -> String {
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    match value {
        ValueRef::Null => "null".into(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => format!("{number:?}"),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => format!("'{}'", text.replace('\'', "''")),
            Err(_) => format!("cast(x'{}' as text)", hex(bytes)),
        },
        ValueRef::Blob(bytes) => format!("x'{}'", hex(bytes)),
    }
}

/// The other implementation.
pub struct Peer {
    helper: PathBuf,
    extension: PathBuf,
}

impl Peer {
    /// The helper is the program `peer` of this package.
    pub fn new(helper: impl Into<PathBuf>, extension: PathBuf) -> Self {
        let helper = helper.into();
        Peer { helper, extension }
    }

    /// Runs statements on one connection to the database, errors or not; one answer for each.
    pub fn run(&self, database: &Path, statements: &[&str]) -> Vec<Answer> {
        let mut child = Command::new(&self.helper)
            .args([&self.extension, database])
            .env("SQLITE_ZSTD_LOG", "error")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the helper starts");
        let mut input = child.stdin.take().expect("it is piped");
        let script = statements.join("\0");
        let writer = std::thread::spawn(move || input.write_all(script.as_bytes()));
        let output = child.wait_with_output().expect("the helper ends");
        writer
            .join()
            .expect("the writer does not panic")
            .expect("the helper reads all");
        assert!(output.status.success(), "the helper failed");
        let answers = parse(&output.stdout);
        assert_eq!(answers.len(), statements.len(), "answers of the helper");
        answers
    }
}

/// Prints one answer, as the helper does: each item begins with its kind and ends with a NUL.
pub fn print(out: &mut impl Write, answer: &Answer) -> std::io::Result<()> {
    let mut item = |kind: u8, text: &str| {
        out.write_all(&[kind])?;
        out.write_all(text.as_bytes())?;
        out.write_all(&[0])
    };
    match answer {
        Ok(rows) => rows.iter().try_for_each(|row| item(ROW, row))?,
        Err(message) => item(ERROR, message)?,
    }
    item(END, "")
}

fn parse(output: &[u8]) -> Vec<Answer> {
    let mut answers = Vec::new();
    let mut answer = Ok(Vec::new());
    for item in output.split(|byte| *byte == 0) {
        let Some((kind, text)) = item.split_first() else {
            continue;
        };
        let text = String::from_utf8_lossy(text).into_owned();
        match (*kind, &mut answer) {
            (ROW, Ok(rows)) => rows.push(text),
            (ERROR, _) => answer = Err(text),
            _ => answers.push(std::mem::replace(&mut answer, Ok(Vec::new()))),
        }
    }
    answers
}
