//! SQL on a file that anyone may have written comes to an end.
//!
//! SQLite goes where pages lead it: a few that name each other are a table with more rows than it could ever visit. So
//! the steps of SQLite's machine are counted. A sound file of some length has so many rows at most, and each takes a
//! few steps. A statement that takes more is stopped.
//!
//! A plain `SELECT count(*) FROM t` is one step that goes through all pages, and no progress is told in it. Statements
//! under a bound write `count(*) FILTER (WHERE 1)`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};

/// Steps between two looks.
const STRIDE: u16 = 500;
/// Steps of any file: its schema is read, and statements are prepared.
const STEPS_MIN: u64 = 1_000_000;
/// A row takes six bytes or more, and no more steps than are here for them.
const STEPS_OF_BYTE: u64 = 4;

/// So many looks are enough for so many bytes.
fn strides(bytes: u64) -> u64 {
    let steps = bytes.saturating_mul(STEPS_OF_BYTE);
    steps.saturating_add(STEPS_MIN) / u64::from(STRIDE)
}

/// How far statements of a connection may go.
#[derive(Clone)]
pub struct Bound(Arc<State>);

struct State {
    left: AtomicU64,
    is_lifted: AtomicBool,
    is_exceeded: AtomicBool,
}

impl Bound {
    /// All statements on a connection together go through so many bytes of pages, once, and take no longer than this.
    pub fn of(connection: &mut Connection, bytes: u64, time: Duration) -> rusqlite::Result<Bound> {
        let state = Arc::new(State {
            left: AtomicU64::new(strides(bytes)),
            is_lifted: AtomicBool::new(false),
            is_exceeded: AtomicBool::new(false),
        });
        let begun = Instant::now();
        let seen = Arc::clone(&state);
        let is_over = move || {
            if seen.is_lifted.load(Ordering::Relaxed) {
                return false;
            }
            let left = seen.left.load(Ordering::Relaxed);
            seen.left.store(left.saturating_sub(1), Ordering::Relaxed);
            let is_over = left == 0 || begun.elapsed() > time;
            seen.is_exceeded.fetch_or(is_over, Ordering::Relaxed);
            is_over
        };
        connection.progress_handler(STRIDE.into(), Some(is_over))?;
        Ok(Bound(state))
    }

    /// For the schema alone, of a file of any length: that of half a million tables.
    pub fn of_schema(connection: &mut Connection) -> rusqlite::Result<Bound> {
        const BYTES: u64 = 5_000_000;
        const TIME: Duration = Duration::from_secs(300);
        Bound::of(connection, BYTES, TIME)
    }

    /// From now on, statements go through so many bytes.
    pub fn renew(&self, bytes: u64) {
        self.0.left.store(strides(bytes), Ordering::Relaxed);
        self.0.is_lifted.store(false, Ordering::Relaxed);
    }

    /// From now on there is none.
    pub fn lift(&self) {
        self.0.is_lifted.store(true, Ordering::Relaxed);
    }

    /// Whether a statement was stopped.
    pub fn is_exceeded(&self) -> bool {
        self.0.is_exceeded.load(Ordering::Relaxed)
    }

    /// A statement's result; the error says that the file is damaged if the statement was stopped.
    pub fn told<T>(&self, done: rusqlite::Result<T>) -> rusqlite::Result<T> {
        done.map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) if self.is_exceeded() => endless(),
            _ => error,
        })
    }
}

/// The error of a database on which a statement was stopped.
pub fn endless() -> rusqlite::Error {
    const WORDS: &str = "the database is damaged, or made to hold readers up: reading it takes more steps than \
         its length allows for, as if its pages lead in a circle";
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    rusqlite::Error::SqliteFailure(code, Some(WORDS.to_owned()))
}

/// Has SQLite read the schema, which it does before the first statement, and which may have no end.
///
/// # Errors
/// Only if it has none. The first statement reports any other error.
pub fn read_schema(connection: &mut Connection) -> rusqlite::Result<()> {
    let bound = Bound::of_schema(connection)?;
    let sql = "select 1 from main.sqlite_schema limit 1";
    let read = connection.query_row(sql, [], |_| Ok(()));
    let read = bound.told(read);
    bound.lift();
    match read {
        Err(error) if bound.is_exceeded() => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDLESS: &str =
        "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n";

    #[test]
    fn statements_end() {
        let hour = Duration::from_secs(3600);
        let mut connection = Connection::open_in_memory().unwrap();
        for (bytes, time) in [(1000, hour), (u64::MAX, Duration::ZERO)] {
            let bound = Bound::of(&mut connection, bytes, time).unwrap();
            let short = bound.told(connection.execute_batch("select 1"));
            assert!(short.is_ok() && !bound.is_exceeded());
            let error = bound.told(connection.execute_batch(ENDLESS)).unwrap_err();
            let code = error.sqlite_error_code();
            assert_eq!(code, Some(ErrorCode::DatabaseCorrupt), "{error}");
            assert!(error.to_string().contains("lead in a circle"), "{error}");
        }
        let bound = Bound::of(&mut connection, 0, hour).unwrap();
        bound.lift();
        let million = format!("{ENDLESS} where i < 1000000");
        let million = million.replace(
            "from n) select max(i) from n where i < 1000000",
            "from n where i < 1000000) select max(i) from n",
        );
        let done = bound.told(connection.query_row(&million, [], |row| row.get::<_, i64>(0)));
        assert_eq!(done.unwrap(), 1_000_000);
    }
}
