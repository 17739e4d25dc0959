//! An archive as a database that is only read, and what connections to the same archive share: the seek table
//! and, through the cache, what is decoded.
//!
//! An archive has no identity of its own inside, so it is told by what the file system says of it. That can be wrong in
//! two ways, and neither may give one file the frames of another: the name may come to mean another file while it is
//! opened, so the stamp is taken before and after; and a file may be written over so soon after it was made that
//! its times do not show it, so one that has just changed is not shared. Beyond that, each connection reads the seek
//! table itself, and shares only with those that found the same.

use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use litepack_archive::{Archive, Cache, Error, FileId, Options, SeekTable, Sizes};
use litepack_btree::PageNumber;
use litepack_engine::report::{archive_check_text, archive_info_json};
use litepack_engine::{expect_database_len, page_size, stated_size};
use litepack_io::interrupt::is_interrupted;
use litepack_io::storage::ReadAt;
use serde_json::Value;

use crate::beside::open_files::{self, Key, KnownFile};
use crate::c::codes::{CORRUPT, INTERRUPT};
use crate::failure::{Failure, code_of_archive};
use crate::files::split::split_file;
use crate::files::{Database, File};
use crate::options::{Name, Setting};

/// The data that connections to the same archive share.
#[derive(Debug)]
struct Shared {
    file: FileId,
    table: Arc<SeekTable>,
    /// Whether the database states the sum of the sizes in the table.
    is_sum_right: OnceLock<bool>,
    /// If it does not: how far they were found to be right.
    sizes: Sizes,
}

/// Whether a change from now on would show in what tells the file from others.
fn is_old_enough(which: &Key, now: SystemTime) -> bool {
    match which {
        Key::Archive(stamp) => stamp.is_old_enough(now),
        _ => true,
    }
}

/// The data to share for a file with this table; data of its own for one that cannot be told from others.
fn share(which: Option<Key>, table: SeekTable) -> Arc<Shared> {
    let alone = |file, table| {
        Arc::new(Shared {
            file,
            table: Arc::new(table),
            is_sum_right: OnceLock::new(),
            sizes: Sizes::default(),
        })
    };
    let Some(which) = which else {
        return alone(FileId::unique(), table);
    };
    open_files::open(which, |known: Option<KnownFile<Shared>>| {
        let shared = match known {
            Some(KnownFile {
                shared: Some(shared),
                ..
            }) if shared.table.is_same(&table) => shared,
            // Keys of what is decoded hold a hash of the table as well.
            Some(KnownFile {
                name, shared: None, ..
            }) => alone(name, table),
            _ => alone(FileId::unique(), table),
        };
        (shared.file, shared)
    })
}

/// An open archive.
#[derive(Debug)]
pub(crate) struct ArchiveFile<S> {
    archive: Archive<S>,
    shared: Arc<Shared>,
}

impl<S: ReadAt> ArchiveFile<S> {
    /// Opens an archive. `which` tells which file the source is, if that can be told.
    pub(crate) fn open(
        source: S,
        which: impl FnOnce() -> Option<Key>,
    ) -> Result<ArchiveFile<S>, Failure> {
        let table = SeekTable::read(&source).map_err(failure)?;
        Ok(ArchiveFile::with_table(source, table, which()))
    }

    /// Opens one whose seek table was read.
    pub(crate) fn with_table(source: S, table: SeekTable, which: Option<Key>) -> ArchiveFile<S> {
        let which = which.filter(|which| is_old_enough(which, SystemTime::now()));
        let shared = share(which, table);
        let options = Options {
            file: shared.file,
            ..Options::default()
        };
        ArchiveFile {
            archive: Archive::with_table(source, Arc::clone(&shared.table), options),
            shared,
        }
    }

    /// Whether both have the same seek table.
    #[cfg(feature = "remote")]
    pub(crate) fn is_same(&self, other: &ArchiveFile<S>) -> bool {
        self.shared.table.is_same(&other.shared.table)
    }

    /// Whether it is encrypted.
    #[cfg(feature = "remote")]
    pub(crate) fn is_encrypted(&self) -> bool {
        self.shared.table.is_sealed()
    }
}

impl<S: ReadAt> ArchiveFile<S> {
    /// The report of `info`.
    pub(crate) fn report(&mut self) -> Result<Value, Failure> {
        let info = self.archive.info().map_err(failure)?;
        let mut head = [0; 100];
        // A report is there for damaged archives as well.
        let found = self.archive.read_at(0, &mut head).unwrap_or(0);
        Ok(archive_info_json(&info, page_size(&head[..found])))
    }
}

impl<S: ReadAt> ArchiveFile<S> {
    /// Whether the bytes of the database from `position` on are where the seek table says. Nothing else vouches for the
    /// sizes in it: a bit that rots there changes their sum, which the header of the database has, too. Where that is not
    /// so, as after a very old SQLite, the frames before are asked. Opening never looks at those behind.
    fn expect_place(&mut self, position: u64) -> Result<(), Failure> {
        let is_sum_right = match self.shared.is_sum_right.get() {
            Some(is_right) => *is_right,
            None => {
                let mut head = [0; 100];
                let found = self.archive.read_at(0, &mut head).map_err(failure)?;
                let (head, size) = (head.get(..found).unwrap_or_default(), self.archive.size());
                expect_database_len(head, size).map_err(|why| Failure::new(CORRUPT, why))?;
                let is_right = stated_size(head) == Some(size);
                *self.shared.is_sum_right.get_or_init(|| is_right)
            }
        };
        if is_sum_right {
            return Ok(());
        }
        let done = self.archive.expect_place(position, &self.shared.sizes);
        done.map_err(failure)
    }
}

impl<S: ReadAt> File for ArchiveFile<S> {
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Failure> {
        // Where the last byte is, all before it are.
        let last = offset.saturating_add(buf.len() as u64).saturating_sub(1);
        self.expect_place(last.min(self.archive.size().saturating_sub(1)))?;
        self.archive.read_at(offset, buf).map_err(failure)
    }

    /// As the seek table says. Whether a page is there, and where, is found out when it is read.
    fn size(&mut self) -> Result<u64, Failure> {
        self.expect_place(0)?;
        Ok(self.archive.size())
    }

    fn database(&mut self) -> Option<&mut dyn Database> {
        Some(self)
    }
}

impl<S: ReadAt> Database for ArchiveFile<S> {
    fn setting(&self, name: Name) -> Result<String, String> {
        match name {
            Name::Level => Err(LEVEL.into()),
            Name::Threads => Ok(self.archive.threads().to_string()),
            Name::CacheMb => Ok((Cache::shared().limit() >> 20).to_string()),
        }
    }

    fn apply(&mut self, setting: Setting) -> Result<(), String> {
        match setting {
            Setting::Level(_) => return Err(LEVEL.into()),
            Setting::Threads(threads) => self.archive.set_threads(threads),
            Setting::CacheMb(mb) => Cache::shared().set_budget(mb << 20),
        }
        Ok(())
    }

    fn info(&mut self) -> Result<String, Failure> {
        self.report().map(|report| report.to_string())
    }

    fn split(&mut self, root: PageNumber, parts: usize) -> Result<String, Failure> {
        split_file(self, root, parts)
    }

    fn check(&mut self) -> Result<String, Failure> {
        let mut go_on = |_| match is_interrupted() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let report = self.archive.check(self.archive.threads(), &mut go_on);
        Ok(archive_check_text(&report.map_err(failure)?))
    }
}

const LEVEL: &str = "an archive is not written, so it has no level; \
                     `litepack archive create --level N` makes a new one at another";

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(crate) fn failure(error: Error) -> Failure {
    if code_of_archive(&error) == INTERRUPT {
        return Failure::interrupted();
    }
    Failure::new(code_of_archive(&error), error.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::beside::stamp::FileStamp;

    fn archive(text: &[u8]) -> Vec<u8> {
        let mut file = Vec::new();
        let mut input = text;
        let settings = litepack_archive::Settings::default();
        let go_on = &mut |_| ControlFlow::Continue(());
        litepack_archive::create(&mut input, &mut file, &settings, go_on).unwrap();
        file
    }

    fn table(text: &[u8]) -> SeekTable {
        SeekTable::read(&archive(text).as_slice()).unwrap()
    }

    fn local(stamp: FileStamp) -> Option<Key> {
        Some(Key::Archive(stamp))
    }

    fn stamp(number: u64) -> FileStamp {
        FileStamp {
            device: u64::MAX,
            number,
            len: 1,
            modified: Duration::from_secs(1000),
            changed: Duration::from_secs(1000),
        }
    }

    #[test]
    fn connections_to_the_same_file_share_and_others_do_not() {
        let one = share(local(stamp(1)), table(b"one"));
        assert!(Arc::ptr_eq(&one, &share(local(stamp(1)), table(b"one"))));
        let changed = FileStamp {
            changed: Duration::from_secs(1001),
            ..stamp(1)
        };
        for (which, text) in [
            (local(stamp(2)), b"one"),
            (local(changed), b"one"),
            (Some(Key::RemoteArchive(1)), b"one"),
            (None, b"one"),
            (local(stamp(1)), b"two"),
        ] {
            let other = share(which, table(text));
            assert_ne!(one.file, other.file, "{which:?}");
        }
    }

    #[test]
    fn who_opens_a_file_again_finds_what_was_decoded() {
        let open = || share(local(stamp(7)), table(b"one")).file;
        assert_eq!(open(), open());
    }

    #[test]
    #[cfg(unix)]
    fn a_name_that_came_to_mean_another_file_is_not_trusted() {
        use std::os::unix::ffi::OsStrExt;
        let place = tempfile::tempdir().unwrap();
        let (name, other) = (place.path().join("name"), place.path().join("other"));
        std::fs::write(&name, "one").unwrap();
        std::fs::write(&other, "two").unwrap();
        let path = name.as_os_str().as_bytes();
        let stamp = FileStamp::of(path).unwrap();
        assert_eq!(stamp.confirmed(path), Some(stamp));
        std::fs::rename(&other, &name).unwrap();
        assert_eq!(stamp.confirmed(path), None);
        let stamp = FileStamp::of(path).unwrap();
        std::fs::write(&name, "longer").unwrap();
        assert_eq!(stamp.confirmed(path), None);
        std::fs::remove_file(&name).unwrap();
        assert_eq!(stamp.confirmed(path), None);
    }

    #[test]
    fn a_file_that_has_just_changed_is_not_shared() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert!(stamp(1).is_old_enough(at(1003)));
        assert!(!stamp(1).is_old_enough(at(1002)));
        assert!(!stamp(1).is_old_enough(at(999)));
        let touched = FileStamp {
            changed: Duration::from_secs(1002),
            ..stamp(1)
        };
        assert!(!touched.is_old_enough(at(1003)));
        // And so it is when it is opened.
        let bytes = archive(b"text");
        // Some time in the future is never long ago.
        let now = SystemTime::now() + Duration::from_secs(3600);
        let now = now.duration_since(UNIX_EPOCH).unwrap();
        let open = |modified| {
            let stamp = FileStamp {
                device: 8,
                modified,
                ..stamp(1)
            };
            ArchiveFile::open(bytes.as_slice(), || local(stamp)).unwrap()
        };
        let old = Duration::from_secs(1000);
        let (first, second) = (open(old), open(old));
        assert_eq!(first.shared.file, second.shared.file);
        let (first, second) = (open(now), open(now));
        assert_ne!(first.shared.file, second.shared.file);
    }
}
