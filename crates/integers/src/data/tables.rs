//! The two tables: integers by length, and the same beside a word.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Result;
use rusqlite::{Connection, Statement, params};

use super::{SEED, by_length, words};

/// One of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// `table1 (RandomInteger)`
    One,
    /// `table2 (RandomInteger, RandomWord)`
    Two,
}

/// A row of either; the first table has no word.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row<'a> {
    /// By [length](super::LENGTHS).
    pub integer: i64,
    /// One of a thousand, all equally likely.
    pub word: &'a str,
}

/// The rows, the same for both tables.
pub struct Rows<'a> {
    integers: fastrand::Rng,
    places: fastrand::Rng,
    words: &'a [String],
    left: u64,
}

/// So many rows, with words from the list.
pub fn rows(words: &[String], count: u64) -> Rows<'_> {
    Rows {
        integers: fastrand::Rng::with_seed(SEED),
        places: fastrand::Rng::with_seed(!SEED),
        words,
        left: count,
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Row<'a>;

    fn next(&mut self) -> Option<Row<'a>> {
        self.left = self.left.checked_sub(1)?;
        Some(Row {
            integer: by_length(&mut self.integers),
            word: &self.words[self.places.usize(..self.words.len())],
        })
    }
}

impl Table {
    /// Both.
    pub const ALL: [Self; 2] = [Self::One, Self::Two];

    /// Its name in SQL.
    pub const fn name(self) -> &'static str {
        match self {
            Self::One => "table1",
            Self::Two => "table2",
        }
    }

    /// The statement that makes it.
    pub const fn schema(self) -> &'static str {
        match self {
            Self::One => "create table table1 (RandomInteger integer)",
            Self::Two => "create table table2 (RandomInteger integer, RandomWord text)",
        }
    }

    /// A statement to insert a row, for [`Self::insert`].
    ///
    /// # Errors
    /// SQLite's.
    pub fn prepare(self, conn: &Connection) -> rusqlite::Result<Statement<'_>> {
        conn.prepare(match self {
            Self::One => "insert into table1 values (?)",
            Self::Two => "insert into table2 values (?, ?)",
        })
    }

    /// Inserts a row.
    ///
    /// # Errors
    /// SQLite's.
    pub fn insert(self, statement: &mut Statement<'_>, row: Row<'_>) -> rusqlite::Result<()> {
        match self {
            Self::One => statement.execute([row.integer])?,
            Self::Two => statement.execute(params![row.integer, row.word])?,
        };
        Ok(())
    }
}

/// Makes the table in a database that has none, in one transaction.
///
/// # Errors
/// SQLite's.
pub fn create(conn: &Connection, table: Table, count: u64) -> rusqlite::Result<()> {
    let words = words();
    let transaction = conn.unchecked_transaction()?;
    transaction.execute_batch(table.schema())?;
    let mut insert = table.prepare(&transaction)?;
    rows(&words, count).try_for_each(|row| table.insert(&mut insert, row))?;
    drop(insert);
    transaction.commit()
}

/// Writes the rows of the table as CSV, without a heading.
///
/// # Errors
/// The file system's.
pub fn write_csv(path: &Path, table: Table, count: u64) -> Result<()> {
    let words = words();
    let mut file = BufWriter::new(File::create(path)?);
    for row in rows(&words, count) {
        match table {
            Table::One => writeln!(file, "{}", row.integer)?,
            Table::Two => writeln!(file, "{},{}", row.integer, row.word)?,
        }
    }
    Ok(file.into_inner()?.sync_all()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_drawn_evenly() {
        let words = words();
        let mut counts = std::collections::HashMap::new();
        for row in rows(&words, 100_000) {
            *counts.entry(row.word).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 1000);
        assert!(counts.values().all(|count| (50..=160).contains(count)));
    }

    #[test]
    fn table_and_csv_hold_the_rows() {
        let words = words();
        let folder = tempfile::tempdir().unwrap();
        for table in Table::ALL {
            let conn = Connection::open_in_memory().unwrap();
            create(&conn, table, 500).unwrap();
            let path = folder.path().join("rows.csv");
            write_csv(&path, table, 500).unwrap();
            let csv = std::fs::read_to_string(path).unwrap();
            let mut lines = csv.lines();
            for (index, row) in rows(&words, 500).enumerate() {
                let sql = format!("select * from {} where rowid = ?", table.name());
                let line = conn
                    .query_row(&sql, [index as i64 + 1], |found| {
                        assert_eq!(found.get::<_, i64>(0)?, row.integer);
                        if table == Table::One {
                            return Ok(row.integer.to_string());
                        }
                        assert_eq!(found.get::<_, String>(1)?, row.word);
                        Ok(format!("{},{}", row.integer, row.word))
                    })
                    .unwrap();
                assert_eq!(lines.next(), Some(&*line));
            }
            assert_eq!(lines.next(), None);
        }
    }
}
