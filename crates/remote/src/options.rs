//! The options when a file is opened. The defaults are meant to be kept.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::headers::Headers;
use crate::s3::Environment;
use litepack_io::cache::Cache;
use litepack_ranges::{Error, Result};

/// How a file on a server is read.
#[derive(Clone, Debug)]
pub struct Options {
    /// Headers added to every request.
    pub headers: Headers,
    /// Where settings and credentials for object stores are looked for. The environment of the process.
    pub environment: Environment,
    /// A file of root certificates (PEM) to trust instead of those of the operating system.
    pub root_certificates: Option<PathBuf>,
    /// How long it may take to find the server's address, and again to connect to it. 10 s.
    pub connect_timeout: Duration,
    /// How long an answer may take to begin, and how long it may stand still. All of it, which is never more than 1
    /// MiB, may take three times as long. 20 s.
    pub read_timeout: Duration,
    /// How often a request is sent before its failure is an error. 4.
    pub attempts: u32,
    /// The longest wait before the second attempt; before each further one it is twice as long. How much of it is
    /// waited is left to chance, from half of it up. 200 ms.
    pub first_wait: Duration,
    /// No wait is longer, nor longer than `read_timeout`, even if the server asks for it; and all that it asks for
    /// before one answer is not longer than `read_timeout` either. 30 s.
    pub longest_wait: Duration,
    /// Requests that may be under way at once: more than one only in scans. 4.
    pub at_once: usize,
    /// Where blocks are kept in memory. The cache of the process.
    pub cache: Arc<Cache>,
    /// Where blocks are kept on disk, if anywhere.
    pub disk_cache: Option<DiskCache>,
}

/// A directory for blocks. It belongs to the user who runs this, and no other user can write into it: one who can could
/// change what is read. Several processes may share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskCache {
    /// The directory, made if it is not there.
    pub directory: PathBuf,
    /// How much there may be in it, in bytes. The blocks unused for longest go first. Each process that is writing may
    /// exceed it by a 16th.
    pub limit: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            headers: Headers::default(),
            environment: Environment::default(),
            root_certificates: None,
            connect_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(20),
            attempts: 4,
            first_wait: Duration::from_millis(200),
            longest_wait: Duration::from_secs(30),
            at_once: 4,
            cache: Arc::clone(Cache::shared()),
            disk_cache: None,
        }
    }
}

impl Options {
    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::Settings(what.into()));
        if self.attempts == 0 || self.at_once == 0 {
            return wrong("at least one attempt and one request at once are needed");
        }
        if self.connect_timeout.is_zero() || self.read_timeout.is_zero() {
            return wrong("the timeout must be above 0");
        }
        Ok(())
    }
}
