//! A plain and a packed database that are told the same things: every step of a script is run on
//! both, and the first difference between them is a failure that shows the way there.

use crate::outcome::Outcome;
use crate::script::{Expect, Step, steps};
use crate::{content, vfs};
use rusqlite::Connection;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A table with an index that most scripts start from.
pub const FILL: &str = "
    create table t(id integer primary key, x text, y blob);
    create index tx on t(x);
    insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)
      select i, printf('row %d of many %x', i, i * 7919), zeroblob(i % 50) from n;";

/// A line that sums up the table of [`FILL`].
pub const COUNT: &str = "select count(*), sum(id), sum(length(x)), min(x), max(x) from t;";

/// One of the two databases: its directory and its connections.
pub struct Side {
    /// `plain` or `packed`.
    pub name: &'static str,
    /// The VFS its main database is opened with.
    pub vfs: &'static str,
    /// A directory of its own.
    pub directory: PathBuf,
    file: String,
    parameters: String,
    connections: Vec<Option<Connection>>,
    current: usize,
}

impl Side {
    fn new(name: &'static str, vfs: &'static str, directory: PathBuf) -> Self {
        std::fs::create_dir(&directory).expect("a directory for the databases");
        Side {
            name,
            vfs,
            directory,
            file: "main.db".into(),
            parameters: String::new(),
            connections: Vec::new(),
            current: 0,
        }
    }

    /// Path of the main database.
    pub fn path(&self) -> PathBuf {
        self.directory.join(&self.file)
    }

    /// Replaces the place holders of a script (see [`crate::script`]).
    pub fn expand(&self, text: &str) -> String {
        let mut text = text.replace("{dir}", self.directory.to_str().expect("UTF-8"));
        for (mark, vfs) in [
            ("{own:", self.vfs),
            ("{plain:", vfs::PLAIN),
            ("{packed:", vfs::under_test()),
        ] {
            while let Some(start) = text.find(mark) {
                let end = start + text[start..].find('}').expect("a closing brace");
                let name = &text[start + mark.len()..end];
                let (name, parameters) = name.split_once('&').unwrap_or((name, ""));
                let uri = vfs::uri(&self.directory.join(name), vfs, parameters);
                text.replace_range(start..=end, &uri);
            }
        }
        text
    }

    /// The current connection, opened when it is not.
    pub fn connection(&mut self) -> rusqlite::Result<&mut Connection> {
        if self.connections.len() <= self.current {
            self.connections.resize_with(self.current + 1, || None);
        }
        let place = &mut self.connections[self.current];
        if place.is_none() {
            let uri = vfs::uri(&self.directory.join(&self.file), self.vfs, &self.parameters);
            let connection = vfs::open_uri(&uri)?;
            connection.busy_timeout(std::time::Duration::ZERO)?;
            *place = Some(connection);
        }
        Ok(place.as_mut().expect("just opened"))
    }

    /// Runs one step. `None` for steps that are not SQL and succeed.
    fn run(&mut self, step: &Step) -> Option<Outcome> {
        match step {
            Step::Use(number) => self.current = *number,
            Step::Close => self.close(),
            Step::Reopen(parameters) => {
                self.connections.clear();
                self.parameters.clone_from(parameters);
            }
            Step::Sql(_, sql) => {
                let sql = self.expand(sql);
                let outcome = match self.connection() {
                    Ok(connection) => Outcome::of(connection, &sql),
                    Err(error) => Outcome {
                        answer: Err(error.into()),
                        counters: (0, 0, 0),
                        autocommit: true,
                    },
                };
                return Some(outcome.hide(self.directory.to_str().expect("UTF-8"), self.vfs));
            }
        }
        None
    }

    fn close(&mut self) {
        if let Some(place) = self.connections.get_mut(self.current) {
            *place = None;
        }
    }
}

/// A difference between the sides, or a step that did not do what its mark promises.
#[derive(Debug)]
pub struct Mismatch(pub String);

/// The two databases.
pub struct Pair {
    /// Plain SQLite, the truth.
    pub plain: Side,
    /// The VFS under test.
    pub packed: Side,
    history: Vec<Step>,
    _directory: TempDir,
}

impl Default for Pair {
    fn default() -> Self {
        Self::new()
    }
}

impl Pair {
    /// Two new databases with 4 KiB pages (the default page size may differ).
    pub fn new() -> Self {
        let mut pair = Self::empty();
        pair.run("pragma page_size = 4096;");
        pair
    }

    /// [`Pair::new`] with the table of [`FILL`].
    pub fn filled() -> Self {
        let mut pair = Self::new();
        pair.run(FILL);
        pair
    }

    /// Two databases about which nothing has been said.
    pub fn empty() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Pair {
            plain: Side::new("plain", vfs::PLAIN, directory.path().join("plain")),
            packed: Side::new("packed", vfs::under_test(), directory.path().join("packed")),
            history: Vec::new(),
            _directory: directory,
        }
    }

    /// Runs a script on both. Panics at the first difference.
    #[track_caller]
    pub fn run(&mut self, script: &str) {
        for step in steps(script) {
            if let Err(mismatch) = self.step(step) {
                panic!("{}\nafter:\n{}", mismatch.0, self.story());
            }
        }
    }

    /// Runs one query on both and gives their common answer as text.
    #[track_caller]
    pub fn answer(&mut self, sql: &str) -> String {
        match self.step(Step::Sql(Expect::Success, sql.to_string())) {
            Ok(outcome) => outcome.expect("a statement has an outcome").text(),
            Err(mismatch) => panic!("{}\nafter:\n{}", mismatch.0, self.story()),
        }
    }

    /// Runs one step on both; their common outcome, or how they differ.
    pub fn step(&mut self, step: Step) -> Result<Option<Outcome>, Mismatch> {
        let plain = self.plain.run(&step);
        let packed = self.packed.run(&step);
        self.history.push(step.clone());
        let (Some(plain), Some(packed)) = (plain, packed) else {
            return Ok(None);
        };
        let Step::Sql(expect, _) = &step else {
            return Ok(None);
        };
        let ok = (plain.answer.is_ok(), packed.answer.is_ok());
        let good = match expect {
            Expect::Success => ok == (true, true) && plain == packed,
            Expect::Failure => ok == (false, false) && plain == packed,
            Expect::Same => plain == packed,
            Expect::Quiet => ok == (true, true),
        };
        if good {
            return Ok(Some(plain));
        }
        Err(Mismatch(format!(
            "{step}\n  plain:  {plain:?}\n  packed: {packed:?}"
        )))
    }

    /// Does the same with both current connections and compares what it gives.
    #[track_caller]
    pub fn both<T: PartialEq + Debug>(
        &mut self,
        what: &str,
        mut act: impl FnMut(&mut Connection, &Path) -> T,
    ) -> T {
        let mut results = Vec::new();
        for side in [&mut self.plain, &mut self.packed] {
            let directory = side.directory.clone();
            let connection = side.connection().expect("the database opens");
            results.push(act(connection, &directory));
        }
        let (packed, plain) = (results.pop().expect("two"), results.pop().expect("two"));
        assert!(
            plain == packed,
            "{what}\n  plain:  {plain:?}\n  packed: {packed:?}"
        );
        plain
    }

    /// Asserts equal content, a clean `integrity_check` and, but for free pages, equal images.
    #[track_caller]
    pub fn verify(&mut self) {
        if let Err(mismatch) = self.compare() {
            panic!("{}\nafter:\n{}", mismatch.0, self.story());
        }
    }

    /// The comparison that [`Pair::verify`] asserts, as a result.
    pub fn compare(&mut self) -> Result<(), Mismatch> {
        let mut found = Vec::new();
        for side in [&mut self.plain, &mut self.packed] {
            let name = side.name;
            let error = |e: rusqlite::Error| Mismatch(format!("verifying {name}: {e}"));
            let connection = side.connection().map_err(error)?;
            let integrity = content::integrity(connection).map_err(error)?;
            let fingerprint = content::fingerprint(connection).map_err(error)?;
            let mut image = content::image(connection).map_err(error)?;
            content::forget_free_pages(&mut image);
            found.push((integrity, fingerprint, image));
        }
        let (packed, plain) = (found.pop().expect("two"), found.pop().expect("two"));
        if plain.0 != packed.0 || packed.0 != ["ok"] {
            let text = format!("integrity_check: {:?} and {:?}", plain.0, packed.0);
            return Err(Mismatch(text));
        }
        if plain.1 != packed.1 {
            return Err(Mismatch(format!(
                "content: {:#?}\nand {:#?}",
                plain.1, packed.1
            )));
        }
        // A plain database that is memory-mapped leaves other bytes in the unused parts of pages.
        let mapped = |step: &Step| step.to_string().contains("mmap_size");
        if self.history.iter().any(mapped) {
            return Ok(());
        }
        match first_difference(&plain.2, &packed.2) {
            None => Ok(()),
            Some(at) => Err(Mismatch(format!(
                "images of {} and {} bytes differ at byte {at}: {:02x?} and {:02x?}",
                plain.2.len(),
                packed.2.len(),
                &plain.2[at..plain.2.len().min(at + 16)],
                &packed.2[at..packed.2.len().min(at + 16)]
            ))),
        }
    }

    /// Closes the connections and asserts that the packed side's main file really is packed. (To
    /// read a file that is open in SQLite would release the locks SQLite holds on it.)
    pub fn assert_packed(&mut self) {
        self.run("@reopen;");
        vfs::assert_packed(&self.packed.path());
    }

    /// The steps so far, as a script; the latest when there are many.
    pub fn story(&self) -> String {
        let skip = self.history.len().saturating_sub(25);
        let mut text = String::new();
        if skip > 0 {
            text.push_str(&format!("  … {skip} steps before\n"));
        }
        for step in &self.history[skip..] {
            let line: String = step.to_string().chars().take(300).collect();
            text.push_str(&format!("  {line}\n"));
        }
        text
    }
}

/// Where two images differ first. The change counter, and what a version of SQLite writes beside
/// it (bytes 24..28 and 92..100), count too: both sides did the same.
fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    if a == b {
        return None;
    }
    let common = a.iter().zip(b).position(|(x, y)| x != y);
    Some(common.unwrap_or(a.len().min(b.len())))
}
