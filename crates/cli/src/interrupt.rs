//! Ctrl-C (and a request to terminate) as an ordinary error at the next step of a long job, so that
//! everything unwinds: temporary files go, locks are let go.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// The error of a job that was told to stop.
#[derive(Debug)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted; nothing was changed")
    }
}

impl std::error::Error for Interrupted {}

/// From now on signals make [`check`] fail instead of ending the process.
pub fn watch() -> anyhow::Result<()> {
    ctrlc::set_handler(|| REQUESTED.store(true, Ordering::Relaxed))
        .context("cannot watch for Ctrl-C")
}

/// An error once the user wants to stop.
pub fn check() -> anyhow::Result<()> {
    if REQUESTED.load(Ordering::Relaxed) {
        Err(Interrupted.into())
    } else {
        Ok(())
    }
}
