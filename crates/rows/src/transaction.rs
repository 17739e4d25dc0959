//! All or nothing on a connection that may or may not be inside a transaction of its user's.

use crate::sql::{Result, Sql};

/// Runs `work` in a savepoint; after an error the databases are as before it.
///
/// # Errors
/// Those of `work`, and SQLite's.
pub fn atomically<S: Sql, T>(db: &S, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let alone = db.autocommit();
    db.run("savepoint litepack", &[])?;
    let result = work().and_then(|done| db.run("release litepack", &[]).map(|()| done));
    if result.is_err() {
        let undone = db
            .run("rollback to litepack", &[])
            .and_then(|()| db.run("release litepack", &[]));
        // An interrupt stops the rollback too, as long as the statement runs that called us. But a
        // *writing* statement that is interrupted takes the whole transaction with it.
        if undone.is_err() && alone && !db.autocommit() {
            let _ = db.run("update main._zstd_dicts set id = id where false", &[]);
        }
    }
    result
}

/// Takes the lock for writing the main database, in which something is compressed already.
///
/// To be the first statement of a transaction: one that has read cannot write any more once another
/// connection has written (`SQLITE_BUSY_SNAPSHOT`, for which no busy handler waits), and `CREATE TABLE
/// IF NOT EXISTS` only reads.
///
/// # Errors
/// SQLite's.
pub fn lock(db: &impl Sql) -> Result<()> {
    db.run("update main._zstd_configs set id = id where false", &[])
}

/// Keeps triggers from firing on a connection until it is dropped.
pub struct Quiet<'a, S: Sql> {
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
    pub fn new(db: &'a S) -> Result<Self> {
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
