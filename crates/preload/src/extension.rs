//! Where the extension is: beside this library, in the directory that had it when the process began.
//!
//! It is loaded late. Until then the program may have gone to another root or directory, where the same path leads to a
//! file that somebody else has put there: that one is not loaded.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::ffi::OsStr;
use std::fs::metadata;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;

use crate::c::{Path, our_directory};

const NAME: &[u8] = b"liblitepack.so";

/// The device and inode of the directory; zeros if it is not known. That of the file would not do: an update replaces
/// it.
static DIRECTORY: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Whether the program has begun, so that nothing is remembered any more.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// To be called before the program begins.
pub fn begin() {
    remember();
    BEGUN.store(true, Ordering::Release);
}

fn remember() {
    let found = our_directory().and_then(identity).unwrap_or_default();
    for (place, number) in DIRECTORY.iter().zip(found) {
        place.store(number, Ordering::Release);
    }
}

/// Its path, if that still leads to where it was.
pub fn path() -> Option<Path> {
    let directory = our_directory()?;
    // A library that the program is linked to may open a database when it is loaded, which may be before us.
    if !BEGUN.load(Ordering::Acquire) {
        remember();
    }
    let remembered = DIRECTORY
        .each_ref()
        .map(|place| place.load(Ordering::Acquire));
    let is_there = remembered != [0, 0] && identity(directory) == Some(remembered);
    if is_there {
        Path::of(&[directory, NAME])
    } else {
        None
    }
}

fn identity(directory: &[u8]) -> Option<[u64; 2]> {
    let found = metadata(OsStr::from_bytes(directory)).ok()?;
    Some([found.dev(), found.ino()])
}
