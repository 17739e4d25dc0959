//! The versions that files had when they were opened last, for the process: who opens such a file again asks the server
//! for its first blocks only if it has another version by now.
//!
//! It is a hint. What a file is asked for with, so who may read it, is a part of its key, and the server is asked each
//! time.

use std::collections::VecDeque;
use std::sync::Mutex;

use crate::lock;
use crate::version::Version;

/// Files that are remembered.
const FILES: usize = 256;
/// No longer ETag is kept: a server chooses them.
const ETAG_MAX: usize = 256;

/// Files and their versions, the newest last.
#[derive(Debug)]
pub(crate) struct Known(Mutex<VecDeque<(u128, Version)>>);

impl Known {
    /// None.
    pub(crate) const fn new() -> Known {
        Known(Mutex::new(VecDeque::new()))
    }

    /// The version that the file with this key had.
    pub(crate) fn get(&self, key: u128) -> Option<Version> {
        let files = lock(&self.0);
        let found = files.iter().find(|(known, _)| *known == key);
        found.map(|(_, version)| version.clone())
    }

    /// Notes the version that a file has, if its ETag says that the bytes are the same.
    pub(crate) fn put(&self, key: u128, version: &Version) {
        let mut files = lock(&self.0);
        files.retain(|(known, _)| *known != key);
        if version.strong().is_some_and(|etag| etag.len() <= ETAG_MAX) {
            while files.len() >= FILES {
                files.pop_front();
            }
            files.push_back((key, version.without_date()));
        }
    }
}
