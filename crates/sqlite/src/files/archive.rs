//! An archive as a database that is only read, and what connections to the same archive share: the seek table
//! and, through the cache, what is decoded.
//!
//! An archive has no identity of its own inside, so it is told by what the file system says of it. That can be wrong in
//! two ways, and neither may give one file the frames of another: the name may come to mean another file while it is
//! opened, so the stamp is taken before and after; and a file may be written over so soon after it was made that
//! its times do not show it, so one that has just changed is not shared. Beyond that, each connection reads the seek
//! table itself, and shares only with those that found the same.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::SystemTime;

use litepack_archive::{Archive, Cache, Error, FileId, SeekTable};
use litepack_btree::PageNumber;
use litepack_engine::archive::{ArchiveError, ArchiveReader, SharedArchive};
use litepack_engine::page_size;
use litepack_engine::report::{archive_check_text, archive_info_json};
use litepack_io::interrupt::is_interrupted;
use litepack_io::storage::ReadAt;
use serde_json::Value;

use crate::beside::open_files::{self, Key, KnownFile};
use crate::c::codes::{CORRUPT, INTERRUPT};
use crate::failure::{Failure, code_of_archive};
use crate::files::split::split_file;
use crate::files::{Database, File};
use crate::options::{Name, Setting};

/// Whether a change from now on would show in what tells the file from others.
fn is_old_enough(which: &Key, now: SystemTime) -> bool {
    match which {
        Key::Archive(stamp) => stamp.is_old_enough(now),
        _ => true,
    }
}

/// The data to share for a file with this table; data of its own for one that cannot be told from others.
pub(crate) fn share(which: Option<Key>, table: SeekTable) -> Arc<SharedArchive> {
    let which = which.filter(|which| is_old_enough(which, SystemTime::now()));
    let Some(which) = which else {
        return SharedArchive::new(FileId::unique(), table);
    };
    open_files::open(which, |known: Option<KnownFile<SharedArchive>>| {
        let shared = match known {
            Some(KnownFile {
                shared: Some(shared),
                ..
            }) if shared.table.is_same(&table) => shared,
            // Keys of what is decoded hold a hash of the table as well.
            Some(KnownFile {
                name, shared: None, ..
            }) => SharedArchive::new(name, table),
            _ => SharedArchive::new(FileId::unique(), table),
        };
        (shared.file, shared)
    })
}

/// An open archive.
#[derive(Debug)]
pub(crate) struct ArchiveFile<S>(ArchiveReader<S>);

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
        ArchiveFile(ArchiveReader::new(source, share(which, table)))
    }
}

/// The report of `info` on an archive.
pub(crate) fn report_of<S: ReadAt>(archive: &mut Archive<S>) -> Result<Value, Failure> {
    let info = archive.info().map_err(failure)?;
    let mut head = [0; 100];
    // A report is there for damaged archives as well.
    let found = archive.read_at(0, &mut head).unwrap_or(0);
    Ok(archive_info_json(&info, page_size(&head[..found])))
}

/// What `check` says of one.
pub(crate) fn check_of<S: ReadAt>(archive: &mut Archive<S>) -> Result<String, Failure> {
    let mut go_on = |_| match is_interrupted() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let report = archive.check(archive.threads(), &mut go_on);
    Ok(archive_check_text(&report.map_err(failure)?))
}

/// A setting of one.
pub(crate) fn setting_of<S: ReadAt>(archive: &Archive<S>, name: Name) -> Result<String, String> {
    match name {
        Name::Level => Err(LEVEL.into()),
        Name::Threads => Ok(archive.threads().to_string()),
        Name::CacheMb => Ok((Cache::shared().limit() >> 20).to_string()),
    }
}

/// Changes a setting of one.
pub(crate) fn apply_to<S: ReadAt>(
    archive: &mut Archive<S>,
    setting: Setting,
) -> Result<(), String> {
    match setting {
        Setting::Level(_) => return Err(LEVEL.into()),
        Setting::Threads(threads) => archive.set_threads(threads),
        Setting::CacheMb(mb) => Cache::shared().set_budget(mb << 20),
    }
    Ok(())
}

impl<S: ReadAt> File for ArchiveFile<S> {
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Failure> {
        self.0.read(buf, offset).map_err(unread)
    }

    fn size(&mut self) -> Result<u64, Failure> {
        self.0.size().map_err(unread)
    }

    fn database(&mut self) -> Option<&mut dyn Database> {
        Some(self)
    }
}

impl<S: ReadAt> Database for ArchiveFile<S> {
    fn setting(&self, name: Name) -> Result<String, String> {
        setting_of(&self.0.archive, name)
    }

    fn apply(&mut self, setting: Setting) -> Result<(), String> {
        apply_to(&mut self.0.archive, setting)
    }

    fn info(&mut self) -> Result<String, Failure> {
        report_of(&mut self.0.archive).map(|report| report.to_string())
    }

    fn split(&mut self, root: PageNumber, parts: usize) -> Result<String, Failure> {
        split_file(self, root, parts)
    }

    fn check(&mut self) -> Result<String, Failure> {
        check_of(&mut self.0.archive)
    }
}

const LEVEL: &str = "an archive is not written, so it has no level; \
                     `litepack archive create --level N` makes a new one at another";

/// Why a byte of an archive could not be read.
pub(crate) fn unread(error: ArchiveError) -> Failure {
    match error {
        ArchiveError::Archive(error) => failure(error),
        ArchiveError::Length(why) => Failure::new(CORRUPT, why),
    }
}

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
        assert_eq!(first.0.shared.file, second.0.shared.file);
        let (first, second) = (open(now), open(now));
        assert_ne!(first.0.shared.file, second.0.shared.file);
    }
}
