//! Savepoints on a connection that may or may not be inside a transaction of its user.

use crate::sql::{Result, Sql, Statement};

/// Runs `work` in a savepoint, and without triggers: the author of the database may have put some on our tables. After
/// an error the databases are as before.
///
/// # Errors
/// Those of `work`, and SQLite's.
pub fn atomically<S: Sql, T>(db: &S, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let _quiet = Quiet::new(db)?;
    let savepoint = Savepoint::begin(db, "litepack")?;
    let result = work().and_then(|done| db.run("release litepack", &[]).map(|()| done));
    if result.is_err() {
        savepoint.take_back();
    }
    result
}

/// A savepoint that can be rolled back after any error.
pub(crate) struct Savepoint<'a, S> {
    db: &'a S,
    name: &'static str,
    /// The statement that ends a transaction when no other can, where it is ours to end.
    end: Option<String>,
}

impl<'a, S: Sql> Savepoint<'a, S> {
    pub(crate) fn begin(db: &'a S, name: &'static str) -> Result<Self> {
        let end = if db.autocommit() {
            // A statement that writes what is there. SQLite's parser looks for interrupts where it meets white space or
            // the end of the text (`sqlite3RunParser`), and this one it reads without knowing the schema.
            let version = db.row("pragma main.user_version", &[], |row| {
                Ok(row.column(0).integer().unwrap_or(0))
            })?;
            let version = version.unwrap_or(0);
            Some(format!(r#"pragma"main"."user_version"({version});"#))
        } else {
            None
        };
        db.run(&format!("savepoint {name}"), &[])?;
        Ok(Savepoint { db, name, end })
    }

    /// Takes back all since it was begun, and ends it. After some errors (a full disk) SQLite has done so already.
    pub(crate) fn take_back(self) {
        let Savepoint { db, name, end } = self;
        let undone = db
            .run(&format!("rollback to {name}"), &[])
            .and_then(|()| db.run(&format!("release {name}"), &[]));
        // An interrupt stops the rollback too, as long as the statement runs that called us. But a
        // *writing* statement that is interrupted takes the whole transaction with it.
        if let (Err(_), Some(end), false) = (undone, end, db.autocommit()) {
            let _ = db.run(&end, &[]);
        }
    }
}

/// Takes the lock for writing the main database, in which something is compressed already.
///
/// To be the first statement of a transaction: one that has read cannot write any more once another
/// connection has written (`SQLITE_BUSY_SNAPSHOT`, for which no busy handler waits), and `CREATE TABLE
/// IF NOT EXISTS` only reads.
///
/// # Errors
/// SQLite's.
pub(crate) fn lock(db: &impl Sql) -> Result<()> {
    db.run("update main._zstd_configs set id = id where false", &[])
}

/// Keeps triggers from firing on a connection until it is dropped.
pub(crate) struct Quiet<'a, S: Sql> {
    db: &'a S,
    before: bool,
}

impl<S: Sql> std::fmt::Debug for Quiet<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Quiet(before: {})", self.before)
    }
}

impl<'a, S: Sql> Quiet<'a, S> {
    /// From now on none fires.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn new(db: &'a S) -> Result<Self> {
        let before = db.triggers()?;
        if before {
            db.set_triggers(false)?;
        }
        Ok(Quiet { db, before })
    }
}

impl<S: Sql> Drop for Quiet<'_, S> {
    fn drop(&mut self) {
        if self.before {
            let _ = self.db.set_triggers(true);
        }
    }
}
