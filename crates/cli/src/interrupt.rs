//! Ctrl-C (and a request to terminate) as an ordinary error at the next step of a long job, so that
//! everything unwinds: temporary files go, locks are let go.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use rusqlite::{Connection, InterruptHandle};

static REQUESTED: AtomicBool = AtomicBool::new(false);
/// The connections whose statements a signal stops; those that are closed meanwhile do no harm.
static RUNNING: Mutex<Vec<InterruptHandle>> = Mutex::new(Vec::new());

/// The error of a job that was told to stop, in words that say what became of it.
#[derive(Debug)]
pub struct Interrupted(pub &'static str);

impl Default for Interrupted {
    fn default() -> Self {
        Interrupted("interrupted; nothing was changed")
    }
}

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Interrupted {}

/// From now on signals make [`check`] fail instead of ending the process.
pub fn watch() -> anyhow::Result<()> {
    let stop = || {
        REQUESTED.store(true, Ordering::Relaxed);
        let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        for connection in &*running {
            connection.interrupt();
        }
    };
    ctrlc::set_handler(stop).context("cannot watch for Ctrl-C")
}

/// From now on signals also stop statements that run on this connection.
pub fn stop(connection: &Connection) {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    running.push(connection.get_interrupt_handle());
}

/// An error once the user wants to stop.
pub fn check() -> anyhow::Result<()> {
    if REQUESTED.load(Ordering::Relaxed) {
        Err(Interrupted::default().into())
    } else {
        Ok(())
    }
}
