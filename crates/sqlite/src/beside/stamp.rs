//! The file system's data on a file, to tell whether it is still the same one in the same state.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Times of files are no finer than this on the coarsest file systems.
const COARSEST: Duration = Duration::from_secs(2);

/// A file in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileStamp {
    pub(crate) device: u64,
    pub(crate) number: u64,
    pub(crate) len: u64,
    /// When its content and when anything about it was last changed, since 1970.
    pub(crate) modified: Duration,
    pub(crate) changed: Duration,
}

impl FileStamp {
    /// The file of this name, if it can be told.
    #[cfg(unix)]
    pub(crate) fn of(path: &[u8]) -> Option<FileStamp> {
        use std::os::unix::fs::MetadataExt;
        let found = super::names::path_of(path)?.metadata().ok()?;
        // Programs may set a time before 1970. Then the other one tells states apart.
        let time = |seconds: i64, nanos: i64| {
            Duration::new(
                seconds.try_into().unwrap_or(0),
                nanos.try_into().unwrap_or(0),
            )
        };
        Some(FileStamp {
            device: found.dev(),
            number: found.ino(),
            len: found.len(),
            modified: time(found.mtime(), found.mtime_nsec()),
            changed: time(found.ctime(), found.ctime_nsec()),
        })
    }

    #[cfg(not(unix))]
    pub(crate) fn of(_: &[u8]) -> Option<FileStamp> {
        None
    }

    /// The same, if the name still means this file in this state.
    pub(crate) fn confirmed(self, path: &[u8]) -> Option<FileStamp> {
        FileStamp::of(path).filter(|now| *now == self)
    }

    /// Whether a change from now on would show in its times.
    pub(crate) fn is_old_enough(&self, now: SystemTime) -> bool {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        now.checked_sub(self.modified.max(self.changed))
            .is_some_and(|age| age > COARSEST)
    }
}
