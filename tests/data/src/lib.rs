//! Generators of plain SQLite databases, the same for the same seed on every machine.
//!
//! Every `create` takes an open connection, makes its tables and fills them in one transaction.
//! Settings that belong to the file (page size, auto_vacuum) are the caller's: set them first.
//!
//! ```text
//! titles.rs  films in JSON     logs.rs   a web server's log, in columns or JSON, with indexes or without
//! tpch.rs    TPC-H             blobs.rs  random bytes          words.rs  the vocabulary of titles and logs
//! real/      real text and numbers, from what the machine or a package registry has: not the same on every machine
//! ```
#![forbid(unsafe_code)]

pub mod blobs;
pub mod logs;
pub mod real;
pub mod titles;
pub mod tpch;
mod words;

use std::path::Path;

use rusqlite::Connection;

/// Raised whenever a generator makes other data than before, so that kept files are made anew.
pub const GENERATION: u32 = 1;

/// Has `create` make a database under this path, unless there is one.
///
/// # Errors
/// The file system's and SQLite's.
pub fn make_once<E>(
    path: &Path,
    create: impl FnOnce(&Connection) -> Result<(), E>,
) -> anyhow::Result<()>
where
    anyhow::Error: From<E>,
{
    if path.exists() {
        return Ok(());
    }
    let unfinished = path.with_extension("unfinished");
    if unfinished.exists() {
        std::fs::remove_file(&unfinished)?;
    }
    let conn = Connection::open(&unfinished)?;
    // A file that is thrown away when it is not finished needs no care for crashes.
    conn.execute_batch("pragma journal_mode = off; pragma synchronous = off")?;
    create(&conn)?;
    conn.close().map_err(|(_, error)| error)?;
    std::fs::rename(unfinished, path)?;
    Ok(())
}

/// A rank below `count` under Zipf's law: rank 0 comes most often, the tail is long.
fn zipf(rng: &mut fastrand::Rng, count: usize) -> usize {
    let rank = ((count as f64 + 1.0).ln() * rng.f64()).exp() as usize;
    rank.saturating_sub(1).min(count - 1)
}

/// The index that `weights` favour in proportion.
fn weighted(rng: &mut fastrand::Rng, weights: &[u32]) -> usize {
    let mut left = rng.u32(0..weights.iter().sum());
    for (index, weight) in weights.iter().enumerate() {
        if left < *weight {
            return index;
        }
        left -= weight;
    }
    weights.len() - 1
}

/// Runs `fill` in one transaction.
fn in_transaction(
    conn: &Connection,
    fill: impl FnOnce(&Connection) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let transaction = conn.unchecked_transaction()?;
    fill(&transaction)?;
    transaction.commit()
}

#[cfg(test)]
pub(crate) mod testing {
    //! Compares generated databases by their whole content.

    use rusqlite::Connection;

    /// The pages of a database made in memory by `create`.
    pub fn image(create: impl FnOnce(&Connection) -> rusqlite::Result<()>) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let conn = Connection::open(&path).unwrap();
        create(&conn).unwrap();
        drop(conn);
        std::fs::read(path).unwrap()
    }

    /// The single number that `sql` gives on a database made in memory by `create`.
    pub fn number(create: impl FnOnce(&Connection) -> rusqlite::Result<()>, sql: &str) -> f64 {
        let conn = Connection::open_in_memory().unwrap();
        create(&conn).unwrap();
        conn.query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_stays_in_range_and_favours_the_first() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut counts = [0_u32; 100];
        for _ in 0..10_000 {
            counts[zipf(&mut rng, 100)] += 1;
        }
        assert!(counts[0] > 5 * counts[20]);
        assert!(counts[99] > 0);
    }

    #[test]
    fn weights_of_zero_are_never_chosen() {
        let mut rng = fastrand::Rng::with_seed(1);
        assert!((0..1000).all(|_| weighted(&mut rng, &[1, 0, 3]) != 1));
    }
}
