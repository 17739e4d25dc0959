//! Who asks the server for a range, and who keeps blocks beside the memory of the process.

use std::fmt::Debug;
use std::ops::Range;

use http::header::{self, HeaderName};
use litepack_io::cache::BlockKey;

use crate::error::Result;
use crate::traffic::Counters;
use crate::version::Version;

/// Which version of the file an answer may be of.
#[derive(Clone, Copy, Debug)]
pub enum Expected<'a> {
    /// Whichever there is.
    Any,
    /// No other than this one.
    This(&'a Version),
    /// Any, but if it is still this one, nothing needs to come.
    Another(&'a Version),
}

impl Expected<'_> {
    /// The header that says so to the server. Every answer is compared all the same.
    pub fn condition(&self) -> Option<(HeaderName, &str)> {
        match self {
            Expected::Any => None,
            Expected::This(version) => version.condition(),
            Expected::Another(version) => {
                version.strong().map(|etag| (header::IF_NONE_MATCH, etag))
            }
        }
    }
}

/// Asks one server for ranges of one file.
pub trait Fetch: Debug + Send + Sync + 'static {
    /// The URL for people, without secrets.
    fn url(&self) -> String;

    /// Whether a request has the [condition](Expected::condition) in it. Every answer is compared all the same.
    fn sends_conditions(&self) -> bool {
        true
    }

    /// All that decides which bytes the server gives, but for the version of the file: its name, and whom it is asked
    /// as.
    fn asked(&self, part: &mut dyn FnMut(&[u8]));

    /// The bytes `range` of the file, less only where it ends, and the version they are of: none if it is one that the
    /// caller [has](Expected::Another). Failures that may pass are tried again.
    ///
    /// # Errors
    /// There is no such answer.
    fn get(&self, range: &Range<u64>, expected: Expected<'_>) -> Result<(Vec<u8>, Version)>;

    /// As [`Fetch::get`], once. Why it failed is not said.
    fn get_once(&self, range: &Range<u64>, pinned: &Version) -> Option<Vec<u8>>;

    /// Ends requests that other threads wait for.
    fn shutdown(&self) {}

    /// What it has sent and got so far.
    fn counters(&self) -> &Counters;
}

/// Keeps blocks where they outlive the process. A block that is damaged there is none.
pub trait KeepBlocks: Debug + Send + Sync {
    /// Whether it has a block, as far as that is known without reading it.
    fn has(&self, key: &BlockKey) -> bool;
    /// A block of this length.
    fn get(&self, key: &BlockKey, len: usize) -> Option<Vec<u8>>;
    /// Keeps a block, if it can.
    fn put(&self, key: &BlockKey, block: &[u8]);
    /// Forgets a block.
    fn remove(&self, key: &BlockKey);
    /// Forgets all blocks of a file.
    fn remove_all(&self, file: u128);
}
