//! The engines: each way of keeping a SQLite database is one file here.
//!
//! An engine makes its database from a plain SQLite file and opens it with SQLite's defaults, but
//! for the journal mode and `synchronous` that a workload names. The first engine is the yardstick.

mod archive;
mod columns;
mod packed;
mod plain;
mod zstd_vfs;

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use litepack_peers as peers;
use rusqlite::{Connection, OpenFlags};
use serde::{Deserialize, Serialize};

pub use archive::Archive;
pub use columns::Columns;
pub use packed::{Litepack, command as litepack_command};
pub use plain::Plain;
pub use zstd_vfs::ZstdVfs;

use crate::dataset::Dataset;

/// How a transaction is made atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Journal {
    /// A rollback journal, SQLite's default.
    Delete,
    /// A write-ahead log.
    Wal,
}

impl Journal {
    /// As the pragma spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Delete => "DELETE",
            Self::Wal => "WAL",
        }
    }
}

/// How often SQLite flushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Synchronous {
    /// A commit that returned survives a power loss. SQLite's default.
    Full,
    /// A power loss may take the last commits, not the database (in WAL mode).
    Normal,
}

impl Synchronous {
    /// As the pragma spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::Normal => "NORMAL",
        }
    }
}

/// One way of keeping a SQLite database.
pub trait Engine {
    /// A short name, unique.
    fn name(&self) -> &'static str;

    /// Whether it can keep the data set.
    fn takes(&self, _data: Dataset) -> bool {
        true
    }

    /// The ways to make a database from a plain file, the usual one first.
    fn loaders(&self) -> &'static [&'static str];

    /// Makes `target`, which does not exist, from the plain file `source` by one of the loaders.
    fn load(&self, loader: &str, source: &Path, target: &Path) -> Result<()>;

    /// Makes `target` ready for measurements; by default with the usual loader.
    fn prepare(&self, source: &Path, target: &Path) -> Result<()> {
        self.load(self.loaders()[0], source, target)
    }

    /// The URI by which SQLite opens the database.
    fn uri(&self, path: &Path) -> String {
        file_uri(path)
    }

    /// A connection to the database, with the functions that the engine needs.
    fn connect(&self, path: &Path) -> Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
        Ok(Connection::open_with_flags(self.uri(path), flags)?)
    }

    /// Opens the database for a measurement.
    fn open(&self, path: &Path, journal: Journal, synchronous: Synchronous) -> Result<Connection> {
        let conn = self
            .connect(path)
            .with_context(|| format!("{} cannot open {}", self.name(), path.display()))?;
        let set: String = conn.query_row(
            &format!("pragma journal_mode = {}", journal.name()),
            [],
            |row| row.get(0),
        )?;
        ensure!(
            set.eq_ignore_ascii_case(journal.name()),
            "{} answers journal mode {set} when asked for {}",
            self.name(),
            journal.name(),
        );
        conn.execute_batch(&format!("pragma synchronous = {}", synchronous.name()))?;
        Ok(conn)
    }
}

/// Which engines take part in a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Group {
    /// Whole files, of any content.
    Files,
    /// Whole files and archives of them, which are only read.
    Archives,
    /// One compressed column of one table.
    Columns,
    /// All that make files smaller, each where it [can](Engine::takes).
    Sizes,
    /// Whole files by engines of which some cannot be in one process with others.
    Apart,
}

/// The engines of this build, and those that it cannot offer, each with the reason.
pub struct Engines {
    /// Ready to run; the first is plain SQLite.
    pub ready: Vec<Box<dyn Engine>>,
    /// Name and reason.
    pub missing: Vec<(&'static str, String)>,
}

impl Engines {
    /// Those of a group; those that are not ours only where they may be fetched and built, which takes
    /// minutes and the package registries.
    pub fn of(group: Group, with_peers: bool) -> Self {
        match group {
            Group::Files => Self::files(),
            Group::Archives => Self::archives(),
            Group::Columns => Self::columns(with_peers),
            Group::Sizes => Self::sizes(with_peers),
            Group::Apart => Self::apart(with_peers),
        }
    }

    /// Those that keep any database.
    fn files() -> Self {
        let mut found = Self::plain();
        found.add(
            Litepack::NAME,
            Litepack::new().map(|engine| Box::new(engine) as _),
        );
        found
    }

    /// Those, and archives.
    fn archives() -> Self {
        let mut found = Self::files();
        found.add(
            Archive::NAME,
            Archive::new().map(|engine| Box::new(engine) as _),
        );
        found
    }

    /// All that make files smaller; those that are not ours only where they may be fetched.
    fn sizes(with_peers: bool) -> Self {
        let mut found = Self::files();
        found.add(
            Litepack::BEST,
            Litepack::best().map(|engine| Box::new(engine) as _),
        );
        if with_peers {
            found.add_sqlite_zstd();
            found.add_zstd_vfs();
        }
        found
    }

    /// Those that keep any database; sqlite_zstd_vfs only where it may be fetched.
    fn apart(with_peers: bool) -> Self {
        let mut found = Self::files();
        if with_peers {
            found.add_zstd_vfs();
        }
        found
    }

    /// Those that compress one column of a table; sqlite-zstd only where it may be built.
    fn columns(with_peer: bool) -> Self {
        let mut found = Self::plain();
        found.add(
            Columns::NAME,
            Columns::litepack().map(|engine| Box::new(engine) as _),
        );
        if with_peer {
            found.add_sqlite_zstd();
        }
        found
    }

    fn add_sqlite_zstd(&mut self) {
        self.add(
            peers::sqlite_zstd::NAME,
            Columns::sqlite_zstd().map(|engine| Box::new(engine) as _),
        );
    }

    fn add_zstd_vfs(&mut self) {
        self.add(
            peers::zstd_vfs::NAME,
            ZstdVfs::new().map(|engine| Box::new(engine) as _),
        );
    }

    fn plain() -> Self {
        Self {
            ready: vec![Box::new(Plain)],
            missing: Vec::new(),
        }
    }

    fn add(&mut self, name: &'static str, engine: Result<Box<dyn Engine>>) {
        match engine {
            Ok(engine) => self.ready.push(engine),
            Err(reason) => self.missing.push((name, format!("{reason:#}"))),
        }
    }
}

/// `file:PATH`, or `file://` and an absolute path, with the characters escaped that mean something in a URI.
pub fn file_uri(path: &Path) -> String {
    let host = if path.is_absolute() { "//" } else { "" };
    let path = path.to_string_lossy();
    format!(
        "file:{host}{}",
        path.replace('%', "%25")
            .replace('?', "%3f")
            .replace('#', "%23")
    )
}

/// All bytes that a database takes: the file and what SQLite keeps beside it.
pub fn stored_bytes(path: &Path) -> u64 {
    ["", "-wal", "-journal", "-shm", "-lpw", "-lpjourn"]
        .iter()
        .filter_map(|suffix| std::fs::metadata(beside(path, suffix)).ok())
        .map(|file| file.len())
        .sum()
}

/// Flushes a file that was just made, so that its writing out disturbs no measurement, and reads
/// it once, so that it is in the cache of the operating system.
pub fn settle(path: &Path) -> Result<()> {
    let mut file = File::open(path)?;
    file.sync_all()?;
    std::io::copy(&mut file, &mut std::io::sink())?;
    Ok(())
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_signs_become_uris() {
        assert_eq!(
            file_uri(Path::new("/a b/c?d#e%.db")),
            "file:///a b/c%3fd%23e%25.db"
        );
        assert_eq!(file_uri(Path::new("//a/b")), "file:////a/b");
    }

    #[test]
    fn every_engine_keeps_what_it_is_given() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source.db");
        litepack_testdata::titles::create(&Connection::open(&source).unwrap(), 300, 1).unwrap();
        for engine in Engines::of(Group::Files, false).ready {
            for (index, loader) in engine.loaders().iter().enumerate() {
                let target = folder.path().join(format!("{}-{index}.db", engine.name()));
                if *loader == packed::COMMAND_LOADER && litepack_command().is_err() {
                    continue;
                }
                engine.load(loader, &source, &target).unwrap();
                for journal in [Journal::Delete, Journal::Wal] {
                    let conn = engine.open(&target, journal, Synchronous::Full).unwrap();
                    let rows: u32 = conn
                        .query_row("select count(*) from title", [], |row| row.get(0))
                        .unwrap();
                    assert_eq!(rows, 300, "{loader}");
                }
                assert!(stored_bytes(&target) > 0);
            }
        }
    }
}
