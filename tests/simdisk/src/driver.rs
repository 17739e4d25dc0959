//! Runs a workload on a VFS stack and on a model, and notes when each step began and ended.

use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{Connection, OpenFlags};

use crate::content::{Content, content_of};
use crate::disk::SimDisk;
use crate::vfs::{SimVfs, unregister};
use crate::workload::{Step, Workload};

/// A VFS on top of the simulated one.
pub struct Layer {
    /// The name to open databases with.
    pub vfs: String,
    /// The name to open `aux` with.
    pub aux: String,
}

/// No layer: SQLite directly on the simulated disk.
pub fn plain(parent: &str) -> Layer {
    Layer {
        vfs: parent.to_owned(),
        aux: parent.to_owned(),
    }
}

/// Puts a layer over the VFS of the given name.
pub(crate) type MakeLayer<'a> = &'a dyn Fn(&str) -> Layer;

/// A disk, its VFS under a name of its own, and the layer over it.
pub(crate) struct Stack {
    layer: Layer,
    disk: SimVfs,
}

/// A campaign makes tens of thousands of them, and SQLite looks through all VFSes for a name.
impl Drop for Stack {
    fn drop(&mut self) {
        for vfs in [&self.layer.vfs, &self.layer.aux] {
            // Parameters of the URI may follow.
            let vfs = vfs.split('&').next().unwrap_or_default();
            if vfs != self.disk.name() {
                unregister(vfs);
            }
        }
    }
}

impl Stack {
    pub fn new(disk: &SimDisk, layer: MakeLayer<'_>) -> Stack {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let name = format!("simdisk-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let vfs = disk.register(&name);
        Stack {
            layer: layer(&name),
            disk: vfs,
        }
    }

    fn url(name: &str, vfs: &str) -> String {
        format!("file:/{name}.db?vfs={vfs}")
    }

    /// Opens `main.db`, and attaches `aux.db` if the workload wants it.
    pub fn open(&self, attach: bool) -> rusqlite::Result<Connection> {
        let db =
            Connection::open_with_flags(Stack::url("main", &self.layer.vfs), OpenFlags::default())?;
        if attach {
            db.execute("ATTACH ?1 AS aux", [Stack::url("aux", &self.layer.aux)])?;
        }
        Ok(db)
    }

    /// Opens as a workload wants it.
    pub fn open_for(&self, work: &Workload) -> rusqlite::Result<Connection> {
        let db = self.open(work.attach)?;
        for schema in work.schemas() {
            db.execute_batch(&format!(
                "PRAGMA {schema}.page_size = {}; PRAGMA {schema}.cache_size = 6; \
                 PRAGMA {schema}.synchronous = {}; PRAGMA {schema}.journal_mode = {};",
                work.page_size,
                work.synchronous,
                work.journal.name()
            ))?;
        }
        db.execute_batch("PRAGMA wal_autocheckpoint = 25")?;
        Ok(db)
    }
}

/// A commit to `main` alone.
const LATER: &str = "CREATE TABLE main.meanwhile AS SELECT 1 AS one";

/// When one step ran, by operation numbers.
#[derive(Debug)]
pub(crate) struct Event {
    pub label: &'static str,
    pub start: u64,
    pub end: u64,
}

/// The record of a run: `states[0]` is empty, `states[i + 1]` is after `events[i]`.
pub(crate) struct Log {
    pub events: Vec<Event>,
    pub states: Vec<Content>,
}

/// The same SQL on an ordinary in-memory database: what the content should be.
pub(crate) struct Model {
    db: Connection,
    schemas: &'static [&'static str],
}

impl Model {
    pub fn new(work: &Workload) -> rusqlite::Result<Model> {
        let db = Connection::open_in_memory()?;
        if work.attach {
            db.execute_batch("ATTACH ':memory:' AS aux")?;
        }
        if let Some(base) = &work.base {
            db.execute_batch(&base.sql)?;
        }
        Ok(Model {
            db,
            schemas: work.schemas(),
        })
    }

    pub fn apply(&self, step: &Step) -> rusqlite::Result<()> {
        match step {
            Step::Sql(_, sql) => self.db.execute_batch(sql),
            _ => Ok(()),
        }
    }

    pub fn content(&self) -> rusqlite::Result<Content> {
        content_of(&self.db, self.schemas)
    }

    /// The content after so many steps and [`Session::commit_more`].
    pub fn later(work: &Workload, steps: usize) -> rusqlite::Result<Content> {
        let model = Model::new(work)?;
        for step in &work.steps[..steps] {
            model.apply(step)?;
        }
        model.db.execute_batch(LATER)?;
        model.content()
    }

    /// The content before the first step and after each one.
    pub fn states(work: &Workload) -> rusqlite::Result<Vec<Content>> {
        let model = Model::new(work)?;
        let mut states = vec![model.content()?];
        for step in &work.steps {
            model.apply(step)?;
            states.push(model.content()?);
        }
        Ok(states)
    }
}

/// The connections of a run.
pub(crate) struct Session<'a> {
    stack: &'a Stack,
    work: &'a Workload,
    pub db: Option<Connection>,
    reader: Option<Connection>,
}

impl<'a> Session<'a> {
    pub fn new(stack: &'a Stack, work: &'a Workload) -> rusqlite::Result<Session<'a>> {
        let db = Some(stack.open_for(work)?);
        Ok(Session {
            stack,
            work,
            db,
            reader: None,
        })
    }

    pub fn apply(&mut self, step: &Step) -> rusqlite::Result<()> {
        match step {
            Step::Sql(_, sql) | Step::Quiet(_, sql) => {
                self.db.as_ref().map_or(Ok(()), |db| db.execute_batch(sql))
            }
            Step::Expect(_, sql) => match &self.db {
                Some(db) => match db.query_row(sql, [], |row| row.get::<_, i64>(0))? {
                    1 => Ok(()),
                    _ => Err(rusqlite::Error::QueryReturnedNoRows),
                },
                None => Ok(()),
            },
            Step::PinReader => {
                let reader = self.stack.open(self.work.attach)?;
                reader.execute_batch("BEGIN; SELECT count(*) FROM t;")?;
                self.reader = Some(reader);
                Ok(())
            }
            Step::UnpinReader => self.reader.take().map_or(Ok(()), close),
            Step::Reopen => {
                self.db.take().map_or(Ok(()), close)?;
                self.db = Some(self.stack.open_for(self.work)?);
                Ok(())
            }
        }
    }

    /// Gives up the open transaction, and opens again if a failure left no connection.
    pub fn roll_back(&mut self) -> rusqlite::Result<()> {
        match &self.db {
            Some(db) if db.is_autocommit() => Ok(()),
            Some(db) => db.execute_batch("ROLLBACK"),
            None => {
                self.db = Some(self.stack.open_for(self.work)?);
                Ok(())
            }
        }
    }

    /// Commits something to `main` alone, and returns the content with it.
    pub fn commit_more(&self) -> rusqlite::Result<Content> {
        if let Some(db) = &self.db {
            db.execute_batch(LATER)?;
        }
        self.content()
    }

    pub fn content(&self) -> rusqlite::Result<Content> {
        let db = self.db.as_ref().expect("a session has its connection");
        content_of(db, self.work.schemas())
    }
}

/// Closes a connection and reports what that says.
pub(crate) fn close(db: Connection) -> rusqlite::Result<()> {
    db.close().map_err(|(_, error)| error)
}

/// Runs all steps; the contents must agree with the model after each.
pub(crate) fn run(disk: &SimDisk, stack: &Stack, work: &Workload) -> Result<Log, String> {
    let model = Model::new(work).map_err(|e| format!("the model: {e}"))?;
    let mut log = Log {
        events: Vec::new(),
        states: Vec::new(),
    };
    log.states
        .push(model.content().map_err(|e| format!("the model: {e}"))?);
    disk.mark("open");
    let mut session = Session::new(stack, work).map_err(|e| format!("open: {e}"))?;
    log.events.push(Event {
        label: "open",
        start: 0,
        end: disk.op_count(),
    });
    log.states.push(log.states[0].clone());
    for step in &work.steps {
        let label = step.label();
        let start = disk.op_count();
        disk.mark(label);
        session.apply(step).map_err(|e| format!("{label}: {e}"))?;
        log.events.push(Event {
            label,
            start,
            end: disk.op_count(),
        });
        let expected = model.apply(step).and_then(|()| model.content());
        let expected = expected.map_err(|e| format!("the model at {label}: {e}"))?;
        let found = session
            .content()
            .map_err(|e| format!("reading after {label}: {e}"))?;
        if found != expected {
            return Err(format!("wrong content after {label}, without any crash"));
        }
        log.states.push(expected);
    }
    disk.mark("close");
    let start = disk.op_count();
    session
        .db
        .take()
        .map_or(Ok(()), close)
        .map_err(|e| format!("close: {e}"))?;
    log.events.push(Event {
        label: "close",
        start,
        end: disk.op_count(),
    });
    log.states
        .push(log.states.last().cloned().unwrap_or_default());
    Ok(log)
}
