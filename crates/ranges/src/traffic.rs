//! The requests and bytes of a handle so far.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of one handle, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests sent, those that failed or were redirected included.
    pub requests: u64,
    /// Bytes of the file that came from the server. Headers are not counted.
    pub bytes: u64,
    /// Blocks that were in memory when they were asked for.
    pub hits: u64,
    /// Blocks that were on disk.
    pub disk_hits: u64,
    /// Requests that were sent again after a failure.
    pub retries: u64,
}

/// The same, as they are counted.
#[derive(Debug, Default)]
pub struct Counters {
    /// [`Traffic::requests`].
    pub requests: Counter,
    /// [`Traffic::bytes`].
    pub bytes: Counter,
    /// [`Traffic::hits`].
    pub hits: Counter,
    /// [`Traffic::disk_hits`].
    pub disk_hits: Counter,
    /// [`Traffic::retries`].
    pub retries: Counter,
}

/// A count that any thread may add to.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds so many.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    /// What was counted so far.
    pub fn now(&self) -> Traffic {
        Traffic {
            requests: self.requests.get(),
            bytes: self.bytes.get(),
            hits: self.hits.get(),
            disk_hits: self.disk_hits.get(),
            retries: self.retries.get(),
        }
    }
}
