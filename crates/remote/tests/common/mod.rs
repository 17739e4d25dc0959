//! Files to serve, and options that keep failures short.
#![allow(dead_code, reason = "each test uses some of it")]

pub mod s3;

use std::sync::Arc;
use std::time::Duration;

use litepack_remote::{Cache, Options, Remote, Result};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

pub const BLOCK: usize = litepack_remote::BLOCK_SIZE as usize;

/// So many bytes that look like nothing else.
pub fn file(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    SmallRng::seed_from_u64(len as u64).fill(&mut bytes[..]);
    bytes
}

/// A cache of its own, and no patience with servers that say something. A busy machine is not to be taken for a slow
/// server: tests count requests.
pub fn options() -> Options {
    Options {
        connect_timeout: Duration::from_secs(60),
        read_timeout: Duration::from_secs(60),
        first_wait: Duration::from_millis(2),
        longest_wait: Duration::from_millis(50),
        cache: Arc::new(Cache::new(64 << 20)),
        ..Options::default()
    }
}

/// Reads a range that is in the file.
pub fn read(remote: &Remote, offset: usize, len: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let n = remote.read_at(&mut bytes, offset as u64)?;
    bytes.truncate(n);
    Ok(bytes)
}

/// Reads the file from the beginning to the end, in pieces.
pub fn read_all(remote: &Remote, piece: usize) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let next = read(remote, all.len(), piece)?;
        if next.is_empty() {
            return Ok(all);
        }
        all.extend(next);
    }
}
