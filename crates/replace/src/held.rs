//! Databases that a call reads by itself, closed so that connections of the program keep their locks.
//!
//! POSIX drops all locks of a process on a file when the process closes any descriptor of it
//! (<https://pubs.opengroup.org/onlinepubs/9799919799/functions/close.html>). A connection that the program has open would
//! go on as if it had its locks, and another process could write at the same time, or take itself for the last one and
//! remove the WAL. SQLite minds this of its own descriptors, and does not know of ours. So a file that something else in
//! the process has open as well is kept open, until nothing else has it. That is looked at each time one is closed.
//!
//! One gap is left: a connection that is opened, and locks the file, between this look and the closing, which are
//! microseconds apart.

use std::fs::File;
use std::io;
use std::ops::Deref;

use litepack_io::storage::ReadAt;

/// A file that the program may have open, too.
#[derive(Debug)]
pub struct Held(Option<File>);

impl Held {
    /// Takes over an open file.
    pub fn new(file: File) -> Held {
        Held(Some(file))
    }
}

impl Deref for Held {
    type Target = File;

    fn deref(&self) -> &File {
        self.0.as_ref().expect("only `drop` takes it")
    }
}

impl ReadAt for Held {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        ReadAt::read_at(&**self, buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        ReadAt::len(&**self)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(file) = self.0.take() {
            unix::close(file);
        }
    }
}

#[cfg(unix)]
mod unix {
    use std::fs::{File, metadata, read_dir};
    use std::sync::{Mutex, PoisonError};

    use crate::identity::Identity;

    /// A directory of all descriptors of the process.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const DESCRIPTORS: &str = "/proc/self/fd";
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const DESCRIPTORS: &str = "/dev/fd";

    /// Files kept open for the sake of others.
    static KEPT: Mutex<Vec<File>> = Mutex::new(Vec::new());

    /// The files of all descriptors of the process. Empty where it cannot be told.
    fn all_open() -> Vec<Identity> {
        let descriptors = read_dir(DESCRIPTORS).into_iter().flatten().flatten();
        let files = descriptors.filter_map(|descriptor| metadata(descriptor.path()).ok());
        files
            .filter_map(|metadata| Identity::of(&metadata))
            .collect()
    }

    /// Closes the file, and those kept before, unless something else has them open or that cannot be told.
    pub(super) fn close(file: File) {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(file);
        let ours: Vec<_> = kept.iter().map(Identity::of_file).collect();
        let open = all_open();
        let others_have = |id: &Option<Identity>| {
            let by_us = ours.iter().filter(|other| *other == id).count();
            let by_all = open.iter().filter(|other| Some(**other) == *id).count();
            by_all != by_us
        };
        let files = std::mem::take(&mut *kept).into_iter().zip(&ours);
        kept.extend(files.filter_map(|(file, id)| others_have(id).then_some(file)));
    }
}
