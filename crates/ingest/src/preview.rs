//! A preview of sources: their formats, columns and first rows. Nothing is written but a database in memory.

use std::path::Path;

use litepack_btree::quote;
use litepack_database::error::Context;
use litepack_database::files::patterns::expand;
use litepack_database::{Job, Result};
use rusqlite::types::ValueRef;
use serde::Serialize;

use super::{IngestOptions, Kind, Session, is_of_all};

/// So many rows, and lines that were not parsed, are shown.
const ROWS: usize = 10;

/// The preview of a source, from its beginning, by [`preview_ingest`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Preview {
    /// As it was named; `-` is standard input.
    pub path: String,
    /// Its format.
    pub format: Option<String>,
    /// How many of the first lines are exactly of this format, and how many were looked at.
    pub fits: u64,
    /// How many lines were looked at.
    pub sample: u64,
    /// A note on the format, where many of these lines do not fit it.
    pub doubt: Option<String>,
    /// Lines that were read of the beginning.
    pub lines: u64,
    /// Those of them that were not parsed.
    pub unparsed: u64,
    /// The columns that the table would get.
    pub columns: Vec<String>,
    /// The first rows, with a value for each column. A value that is no UTF-8 is shown as far as it is.
    pub rows: Vec<Vec<serde_json::Value>>,
    /// The first lines that were not parsed: why, and the line.
    pub unparsed_lines: Vec<(String, String)>,
    /// Why it cannot be read.
    pub error: Option<String>,
}

/// Says what [`ingest`](super::ingest) would make of sources. It reads their beginning, and writes nothing.
///
/// # Errors
/// If the options make no sense. A source that cannot be read does not end the call; its [`Preview::error`] says why.
pub fn preview_ingest(
    sources: &[impl AsRef<Path>],
    options: &IngestOptions,
    job: &Job<'_>,
) -> Result<Vec<Preview>> {
    options.check()?;
    let patterns: Vec<&Path> = sources.iter().map(AsRef::as_ref).collect();
    let paths = expand(&patterns)?;
    paths
        .iter()
        .map(|path| preview(path, options, job))
        .collect()
}

fn preview(path: &Path, options: &IngestOptions, job: &Job<'_>) -> Result<Preview> {
    let mut session = Session::in_memory(Kind::Preview, Path::new(":memory:"), options, job)?;
    let mut preview = Preview {
        path: path.display().to_string(),
        ..Preview::default()
    };
    let mut source = match session.open_source(path) {
        Ok(source) => source,
        Err(error) if is_of_all(&error) => return Err(error),
        Err(error) => {
            preview.error = Some(error.in_one_line());
            return Ok(preview);
        }
    };
    // Up to the first lines; a stream may be silent for a while.
    let read = loop {
        match session.read_on(&mut source) {
            Ok(true) if source.counted[0] == 0 => {}
            Ok(_) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    match read {
        Err(error) if is_of_all(&error) => return Err(error),
        Err(error) => preview.error = Some(error.in_one_line()),
        Ok(()) => {}
    }
    preview.format = source.format.as_ref().map(|(name, _)| name.clone());
    [preview.fits, preview.sample] = source.fits.unwrap_or_default().map(|count| count as u64);
    preview.doubt = source.doubt.clone();
    [preview.lines, preview.unparsed] = [source.counted[0], source.counted[1]];
    let names = session.columns.names().iter();
    preview.columns = names.filter(|name| *name != "source_id").cloned().collect();
    let rows = rows(&session, &preview.columns).context("cannot read the rows")?;
    preview.rows = rows;
    let lines = unparsed(&session).context("cannot read the rows")?;
    preview.unparsed_lines = lines;
    Ok(preview)
}

fn rows(
    session: &Session<'_>,
    columns: &[String],
) -> rusqlite::Result<Vec<Vec<serde_json::Value>>> {
    let list: Vec<String> = columns.iter().map(|name| quote(name)).collect();
    let table = quote(&session.options.table);
    let sql = format!(
        "select {} from main.{table} order by rowid limit {ROWS}",
        list.join(", ")
    );
    let mut statement = session.connection.prepare(&sql)?;
    let rows = statement.query_map([], |row| {
        let value = |at| -> rusqlite::Result<serde_json::Value> {
            Ok(match row.get_ref(at)? {
                ValueRef::Null => serde_json::Value::Null,
                ValueRef::Integer(integer) => integer.into(),
                ValueRef::Real(real) => real.into(),
                ValueRef::Text(text) | ValueRef::Blob(text) => String::from_utf8_lossy(text).into(),
            })
        };
        (0..columns.len()).map(value).collect()
    })?;
    rows.collect()
}

fn unparsed(session: &Session<'_>) -> rusqlite::Result<Vec<(String, String)>> {
    let sql = format!("select why, line from main.litepack_unparsed order by id limit {ROWS}");
    let mut statement = session.connection.prepare(&sql)?;
    let lines = statement.query_map([], |row| {
        let line = match row.get_ref(1)? {
            ValueRef::Text(line) | ValueRef::Blob(line) => super::format::detect::shown(line),
            _ => String::new(),
        };
        Ok((row.get(0)?, line))
    })?;
    lines.collect()
}
