//! Whether a connection was interrupted: by `sqlite3_interrupt`, or by its progress handler, which is how many programs
//! end what takes too long.
//!
//! Litepack's work for a SQL function or a pragma listens by this ([`litepack_io::interrupt`]). From SQLite 3.41 on it
//! asks `sqlite3_is_interrupted`. In any version it runs a short statement, which fails once the connection is
//! interrupted, and counts for the progress handler like the work of any other.
//!
//! SQLite forgets an interrupt when a statement begins and no other is running. While a function runs, its statement
//! does. A pragma is answered while it is prepared: so another statement is kept running until then.
//!
//! Preparing a statement loads the schema first: in SQLite 3.54 also for one that names no table, in 3.40 not yet. While
//! a method of the file runs, SQLite would find the file busy and wait as long as `busy_timeout` says. So a pragma has
//! the schema loaded before its method runs; where that fails, no statement is prepared later.

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::fmt::Write;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use super::api::{Api, call};
use super::bindings::{SQLITE_INTERRUPT, SQLITE_ROW, sqlite3, sqlite3_stmt};

/// So often the statement is run; `sqlite3_is_interrupted` takes next to nothing.
const PULSE: Duration = Duration::from_millis(20);
/// A statement that is running once it has answered with a row.
const HELD: &CStr = c"values(0),(0)";
/// Its rows make it some thousand operations of SQLite's machine: a progress handler that is called after so many is
/// called each time.
static ROWS: LazyLock<String> = LazyLock::new(|| {
    let mut text = String::from("values(0)");
    for row in 1..400 {
        let _ = write!(text, ",({row})");
    }
    text.push('\0');
    text
});

/// Asks one connection. Of the thread that the connection is used by.
pub(crate) struct Interrupts {
    api: Api,
    db: *mut sqlite3,
    held: *mut sqlite3_stmt,
    /// The schema is there, so that a statement can be prepared at any time.
    may_prepare: bool,
    /// Prepared when it is needed.
    pulse: Cell<*mut sqlite3_stmt>,
    /// When it was run last. A call that is shorter needs none.
    pulsed: Cell<Instant>,
}

impl Interrupts {
    /// For the time that a SQL function runs.
    ///
    /// # Safety
    /// `db` is the function's connection, and what is returned does not outlive the call.
    pub(crate) unsafe fn of_function(api: Api, db: *mut sqlite3) -> Interrupts {
        Interrupts {
            api,
            db,
            held: std::ptr::null_mut(),
            may_prepare: true,
            pulse: Cell::new(std::ptr::null_mut()),
            pulsed: Cell::new(Instant::now()),
        }
    }

    /// For the time that a pragma is answered. Loads the schema.
    ///
    /// # Safety
    /// `db` is the pragma's connection, what is returned does not outlive the call, and no method of the file runs yet.
    pub(crate) unsafe fn of_pragma(api: Api, db: *mut sqlite3) -> Interrupts {
        // SAFETY: what the caller promises.
        let mut interrupts = unsafe { Interrupts::of_function(api, db) };
        interrupts.held = interrupts.prepare(HELD).0;
        interrupts.may_prepare = !interrupts.held.is_null();
        if interrupts.may_prepare {
            // SAFETY: the statement was just prepared. It is running from here on.
            unsafe { call!(api.table(), step(interrupts.held)) };
        }
        interrupts
    }

    /// Whether the connection was interrupted.
    pub(crate) fn ask(&self) -> bool {
        // SAFETY: the connection is open, as who made this has promised.
        if unsafe { self.api.is_interrupted(self.db) } == Some(true) {
            return true;
        }
        if self.pulsed.get().elapsed() < PULSE {
            return false;
        }
        let interrupted = self.pulse();
        self.pulsed.set(Instant::now());
        interrupted
    }

    /// Runs the statement; whether it was interrupted.
    fn pulse(&self) -> bool {
        if self.pulse.get().is_null() {
            if !self.may_prepare {
                return false;
            }
            let rows = CStr::from_bytes_with_nul(ROWS.as_bytes()).unwrap_or(HELD);
            // The parser, too, looks for interrupts.
            let (statement, code) = self.prepare(rows);
            self.pulse.set(statement);
            if statement.is_null() {
                return code == SQLITE_INTERRUPT;
            }
        }
        let statement = self.pulse.get();
        // SAFETY: the statement was prepared on a connection that is open, and no other code has it.
        unsafe {
            let code = loop {
                match call!(self.api.table(), step(statement)) {
                    SQLITE_ROW => {}
                    code => break code,
                }
            };
            call!(self.api.table(), reset(statement));
            code & 0xff == SQLITE_INTERRUPT
        }
    }

    /// The statement, or null and why.
    fn prepare(&self, sql: &CStr) -> (*mut sqlite3_stmt, c_int) {
        let mut statement = std::ptr::null_mut();
        let rest = std::ptr::null_mut();
        // SAFETY: the connection is open, and the text ends with a zero byte.
        let code = unsafe {
            let to = &raw mut statement;
            call!(
                self.api.table(),
                prepare_v2(self.db, sql.as_ptr(), -1, to, rest)
            )
        };
        (statement, code & 0xff)
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        for statement in [self.pulse.get(), self.held] {
            // SAFETY: it is a statement of this, or null, which SQLite lets pass. It is not used again.
            unsafe { call!(self.api.table(), finalize(statement)) };
        }
    }
}

/// The processor time that this thread has taken; `None` where the system is not asked.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub(crate) fn thread_time() -> Option<Duration> {
    /// C's `struct timespec`.
    #[repr(C)]
    struct Time {
        seconds: i64,
        nanoseconds: i64,
    }
    unsafe extern "C" {
        fn clock_gettime(clock: c_int, time: *mut Time) -> c_int;
    }
    const CLOCK_THREAD_CPUTIME_ID: c_int = 3;
    let mut time = Time {
        seconds: 0,
        nanoseconds: 0,
    };
    // SAFETY: the declaration is that of Linux with 64 bits, and the time is where the answer goes.
    if unsafe { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &raw mut time) } != 0 {
        return None;
    }
    let nanoseconds = u32::try_from(time.nanoseconds).ok()?;
    Some(Duration::new(
        u64::try_from(time.seconds).ok()?,
        nanoseconds,
    ))
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
pub(crate) fn thread_time() -> Option<Duration> {
    None
}
