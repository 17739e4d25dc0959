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

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) requests: Counter,
    pub(crate) bytes: Counter,
    pub(crate) hits: Counter,
    pub(crate) disk_hits: Counter,
    pub(crate) retries: Counter,
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    pub(crate) fn now(&self) -> Traffic {
        Traffic {
            requests: self.requests.get(),
            bytes: self.bytes.get(),
            hits: self.hits.get(),
            disk_hits: self.disk_hits.get(),
            retries: self.retries.get(),
        }
    }
}
