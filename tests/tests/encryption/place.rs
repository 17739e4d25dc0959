//! A directory for encrypted databases, and what is in it in plain.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use litepack_io::random::SplitMix64;
use litepack_tests::{scale, vfs};
use rusqlite::{Connection, ErrorCode};

/// What each row of text begins with.
pub const CANARY: &str = "canaries-sing-loudly";
/// Rows that are inserted, and bytes of the random blob in each: nothing that compresses can hide it.
const ROWS: u64 = 500;
const BLOB: usize = 96;

/// A raw key, and the same in a URI.
pub const KEY: &str = "x'00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff'";
pub const IN_URI: &str = "hexkey=00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The files, and what is in each.
    pub fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut files: Vec<_> = entries
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.clone(), std::fs::read(path).unwrap()))
            .collect();
        files.sort();
        files
    }

    /// Nothing of the canary is in any file.
    pub fn is_silent(&self) -> bool {
        self.files().iter().all(|(_, content)| !sings(content))
    }

    /// A database with a key and rows of canaries.
    pub fn filled(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fill(&open(&path, KEY).unwrap());
        path
    }
}

/// The blob of a row.
fn blob(row: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(row);
    let words = std::iter::repeat_with(|| random.next_u64().to_le_bytes());
    words.flatten().take(BLOB).collect()
}

/// Whether eight bytes of a blob are here.
pub fn sings(content: &[u8]) -> bool {
    static WORDS: LazyLock<HashSet<[u8; 8]>> = LazyLock::new(|| {
        let blobs = (1..=many_rows()).map(blob);
        let words = blobs.flat_map(|blob| blob.as_chunks().0.to_vec());
        words.collect()
    });
    content.windows(8).any(|found| {
        found
            .try_into()
            .is_ok_and(|found: [u8; 8]| WORDS.contains(&found))
    })
}

/// So many that they are a million canaries, of eight bytes each, where there is time for it.
pub fn many_rows() -> u64 {
    scale(ROWS, 83_400)
}

pub fn fill(connection: &Connection) {
    fill_with(connection, ROWS);
}

pub fn fill_with(connection: &Connection, rows: u64) {
    let table = "create table t(a integer primary key, b text, c blob)";
    connection.execute_batch(table).unwrap();
    connection.execute_batch("begin").unwrap();
    let mut insert = connection
        .prepare("insert into t values (?, ?, ?)")
        .unwrap();
    for row in 1..=rows {
        let text = format!("{CANARY}{row}");
        insert.execute((row as i64, text, blob(row))).unwrap();
    }
    connection.execute_batch("commit").unwrap();
}

/// Opens a database and gives the key by `PRAGMA key`.
pub fn open(path: &Path, key: &str) -> rusqlite::Result<Connection> {
    let connection = vfs::open(path)?;
    give(&connection, "key", key)?;
    Ok(connection)
}

/// The answer of a pragma with a value.
pub fn give(connection: &Connection, pragma: &str, value: &str) -> rusqlite::Result<String> {
    let sql = format!("pragma {pragma} = \"{value}\"");
    connection.query_row(&sql, [], |row| row.get(0))
}

pub fn count(connection: &Connection) -> rusqlite::Result<u32> {
    let sql = format!("select count(*) from t where b like '{CANARY}%'");
    connection.query_row(&sql, [], |row| row.get(0))
}

/// The code and the words of an error.
pub fn failure<T: std::fmt::Debug>(result: rusqlite::Result<T>) -> (ErrorCode, String) {
    match result.unwrap_err() {
        rusqlite::Error::SqliteFailure(error, words) => (error.code, words.unwrap_or_default()),
        error => panic!("{error}"),
    }
}
