//! Helpers for the tests of the command: a directory, databases to put there, runs of the binary.
#![allow(dead_code, missing_docs)]

#[cfg(unix)]
pub mod signals;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rusqlite::Connection;
use tempfile::TempDir;

/// A directory of its own for a test.
pub struct Place(TempDir);

impl Place {
    pub fn new() -> Place {
        Place(TempDir::new().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn open(&self, name: &str) -> Connection {
        Connection::open(self.path(name)).unwrap()
    }

    /// A database of `rows` rows of about 200 bytes.
    pub fn database(&self, name: &str, page_size: u32, rows: u32) -> PathBuf {
        let db = self.open(name);
        db.execute_batch(&format!(
            "PRAGMA page_size={page_size}; PRAGMA synchronous=OFF;"
        ))
        .unwrap();
        fill(&db, rows);
        self.path(name)
    }

    /// Names of all files, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Runs `litepack` in the directory.
    pub fn run(&self, arguments: &[&str]) -> Run {
        let output = self.command(arguments).output().unwrap();
        Run::of(output)
    }

    /// `litepack` in the directory, with a home directory there, so that the developer's own files play no part.
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.command_at(Path::new(env!("CARGO_BIN_EXE_litepack")), arguments)
    }

    /// The same with a copy of the command.
    pub fn command_at(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.0.path());
        command.env("HOME", self.path("home"));
        command.env_remove("XDG_CONFIG_HOME");
        command
    }

    /// Runs `litepack` and expects success.
    pub fn ok(&self, arguments: &[&str]) -> Run {
        let run = self.run(arguments);
        assert_eq!(run.code, 0, "{arguments:?}: {}", run.stderr);
        run
    }

    /// Runs `litepack` and expects an error with these words, and every file as it was.
    pub fn refused(&self, arguments: &[&str], words: &str) {
        let (names, before) = (self.names(), self.contents());
        let run = self.run(arguments);
        assert_eq!(run.code, 2, "{arguments:?}: {}", run.stderr);
        assert!(run.stderr.contains(words), "{arguments:?}: {}", run.stderr);
        assert_eq!(run.stdout, "");
        assert_eq!(self.names(), names, "{arguments:?}");
        assert!(before == self.contents(), "{arguments:?} changed a file");
    }

    fn contents(&self) -> Vec<Vec<u8>> {
        let files = self.names();
        files
            .iter()
            .filter_map(|name| std::fs::read(self.path(name)).ok())
            .collect()
    }
}

pub fn fill(db: &Connection, rows: u32) {
    db.execute_batch(&format!(
        "CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, data TEXT);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
         INSERT INTO t(data) SELECT json_object('name', 'number ' || i, 'kind', i % 7,
             'note', hex(randomblob(20)), 'text', 'some words that repeat in every row') FROM n;"
    ))
    .unwrap();
}

pub fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

/// The result of a run.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    pub fn of(output: Output) -> Run {
        Run {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}
