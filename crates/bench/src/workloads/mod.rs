//! The workloads: each kind of work is one file here, listed in [`all`].
//!
//! A workload runs all engines and gives rows in groups: each group holds one row an engine (or
//! one a way of it), plain SQLite first; `codec` has no SQLite, and `maintenance` compares with a fresh
//! file. Most work is a `session` on an open connection.

mod again;
mod apart;
mod archives;
pub mod beside_writer;
mod codec;
mod cold_reads;
mod column_size;
mod columns;
mod commits;
mod equal_memory;
mod growth;
mod load;
mod log_files;
mod maintenance;
mod memory;
mod new_process;
mod point_reads;
mod range_reads;
mod remote;
mod scan;
mod session;
mod sizes;
mod small_pages;
pub mod task;
mod tpch_queries;
mod transactions;
#[cfg(target_os = "linux")]
pub mod written;

use std::hash::{DefaultHasher, Hash, Hasher};

use anyhow::Result;
use rusqlite::Connection;

use crate::engines::{Group, Plain};
use crate::lab::{Lab, Turns};
use crate::report::name::Name;
use crate::rows::{Row, compare};

/// One kind of work.
pub trait Workload {
    /// Short and unique: what `--only` is matched against.
    fn name(&self) -> &'static str;

    /// One sentence on how it is measured.
    fn about(&self) -> &'static str;

    /// Whose work it is.
    fn group(&self) -> Group;

    /// The engine of the first row of each group, which the others are compared with.
    fn yardstick(&self) -> &'static str {
        Plain::NAME
    }

    /// Measures all engines of the group. Engines that fail have a row that says so; an error ends the run.
    fn run(&self, lab: &Lab) -> Result<Vec<Vec<Row>>>;
}

/// All workloads in the order of the report.
pub fn all() -> Vec<Box<dyn Workload>> {
    vec![
        Box::new(sizes::Sizes),
        Box::new(load::FILES),
        Box::new(maintenance::Maintenance),
        Box::new(tpch_queries::PRICING_SUMMARY),
        Box::new(tpch_queries::PRICING_SUMMARY_LARGE_CACHE),
        Box::new(tpch_queries::MARKET_SHARE),
        Box::new(tpch_queries::MARKET_SHARE_LARGE_CACHE),
        Box::new(point_reads::PointReads),
        Box::new(cold_reads::POINTS),
        Box::new(range_reads::RangeReads),
        Box::new(cold_reads::RANGES),
        Box::new(transactions::INSERT),
        Box::new(transactions::UPDATE_SEQUENTIAL),
        Box::new(transactions::UPDATE_RANDOM),
        Box::new(commits::Commits),
        #[cfg(target_os = "linux")]
        Box::new(written::Written),
        Box::new(beside_writer::THREADS),
        Box::new(beside_writer::PROCESSES),
        Box::new(small_pages::POINT_READS),
        Box::new(small_pages::RANGE_READS),
        Box::new(small_pages::UPDATE_RANDOM),
        Box::new(archives::Size),
        Box::new(archives::COUNT),
        Box::new(archives::FILTER),
        Box::new(archives::GROUP),
        Box::new(log_files::Size),
        Box::new(log_files::Ingest),
        Box::new(log_files::Questions),
        Box::new(remote::Remote),
        Box::new(codec::Codec),
        Box::new(load::COLUMNS),
        Box::new(column_size::ColumnSize),
        Box::new(columns::POINT_READS),
        Box::new(columns::RANGE_READS),
        Box::new(columns::SCAN),
        Box::new(columns::INSERT),
        Box::new(columns::UPDATE_SEQUENTIAL),
        Box::new(columns::UPDATE_RANDOM),
        Box::new(apart::Apart),
        Box::new(memory::Memory),
        Box::new(new_process::FirstTouch),
        Box::new(new_process::OneQuery),
        Box::new(equal_memory::EqualMemory),
        Box::new(growth::Growth),
    ]
}

/// Random numbers that depend on the work and the round, not on the engine.
fn random(work: &str, round: u32) -> fastrand::Rng {
    fastrand::Rng::with_seed(fingerprint(&(work, round)))
}

/// The rows of the engines' turns, otherwise like `row`, each compared with the first.
fn compared(row: &Row, engines: impl IntoIterator<Item = Name>, all: Vec<Turns>) -> Vec<Row> {
    let rows = engines.into_iter().zip(all).map(|(engine, turns)| Row {
        engine,
        values: turns.values,
        failure: turns.failure,
        ..row.clone()
    });
    let mut rows: Vec<Row> = rows.collect();
    compare(&mut rows);
    rows
}

/// The same number for the same thing.
pub(crate) fn fingerprint(thing: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    thing.hash(&mut hasher);
    hasher.finish()
}

/// All rows of a query, each as text.
pub(crate) fn rows_of(conn: &Connection, sql: &str) -> Result<Vec<String>> {
    let mut statement = conn.prepare(sql)?;
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        (0..columns)
            .map(|index| Ok(format!("{:?}|", row.get_ref(index)?)))
            .collect()
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Mixes what was read into a number, cheaply enough to vanish beside the reading itself.
fn mix(answer: u64, bytes: &[u8]) -> u64 {
    let ends = [bytes.first(), bytes.get(bytes.len() / 2), bytes.last()];
    ends.into_iter()
        .flatten()
        .fold(answer ^ bytes.len() as u64, |answer, byte| {
            answer.wrapping_mul(0x0100_0000_01b3) ^ u64::from(*byte)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let names: std::collections::HashSet<_> = all().iter().map(|work| work.name()).collect();
        assert_eq!(names.len(), all().len());
    }
}
