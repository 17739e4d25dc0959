//! The versions that files had when they were opened last, for the process: who opens such a file again asks the server
//! for its first blocks only if it has another version by now.
//!
//! It is a hint. It is a hint, and the server is asked each time. The headers and credentials of a request, which
//! decide who may read the file, are a part of its key.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use crate::version::Version;

/// Files that are remembered.
const FILES: usize = 4096;
/// No longer ETag is kept: a server chooses them.
const ETAG_MAX: usize = 256;

/// Files and their versions, the newest last.
#[derive(Debug)]
pub(crate) struct KnownVersions(Mutex<VecDeque<(u128, Version)>>);

impl KnownVersions {
    /// None.
    pub(crate) const fn new() -> KnownVersions {
        KnownVersions(Mutex::new(VecDeque::new()))
    }

    /// The version that the file with this key had.
    pub(crate) fn get(&self, key: u128) -> Option<Version> {
        let files = self.files()?;
        let found = files.iter().rev().find(|(known, _)| *known == key);
        found.map(|(_, version)| version.clone())
    }

    /// Notes the version that a file has, if its ETag says that the bytes are the same.
    pub(crate) fn put(&self, key: u128, version: &Version) {
        self.forget(key);
        let is_kept = version.strong().is_some_and(|etag| etag.len() <= ETAG_MAX);
        if let Some(mut files) = self.files().filter(|_| is_kept) {
            while files.len() >= FILES {
                files.pop_front();
            }
            files.push_back((key, version.without_date()));
        }
    }

    /// Forgets a file.
    pub(crate) fn forget(&self, key: u128) {
        if let Some(mut files) = self.files() {
            files.retain(|(known, _)| *known != key);
        }
    }

    fn files(&self) -> Option<MutexGuard<'_, VecDeque<(u128, Version)>>> {
        self.0.try_lock().ok()
    }
}
