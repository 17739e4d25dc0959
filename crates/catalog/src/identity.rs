//! Which version of a file it is, as text. Readers make the same text of what they find, and compare.

use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use litepack_database::names::{PACKED, PLAIN, with_suffix};

/// The clock of file systems with fine times goes in steps of at most this.
const FINE: Duration = Duration::from_millis(20);
/// Others have whole seconds, and some only even ones.
const COARSE: Duration = Duration::from_secs(2);

/// A version of a file, and its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) text: String,
    pub(super) size: u64,
}

/// Of a local file: its size, times of change and number. Programs set the time of its content (archives give all files
/// the same one), so the time of its inode, which they cannot set, belongs to it. Commits in WAL mode are in the WAL at
/// first, so that does, too; an empty one is none.
pub(super) fn of_file(path: &Path) -> io::Result<Identity> {
    let found = path.metadata()?;
    let inode = time(found.ctime(), found.ctime_nsec());
    let mut text = format!("{} {inode} {}", state(&found), found.ino());
    for wal in wals_of(path)? {
        match wal.metadata() {
            Ok(wal) if wal.len() > 0 => text += &format!(" {}", state(&wal)),
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(Identity {
        text,
        size: found.len(),
    })
}

/// Its size, and the time of its content. (That of the inode of a WAL changes whenever SQLite opens it as root.)
fn state(found: &Metadata) -> String {
    let content = time(found.mtime(), found.mtime_nsec());
    format!("{} {content}", found.len())
}

/// In nanoseconds.
fn time(seconds: i64, rest: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(rest)
}

/// Of a file on a server: its size, and its ETag or date.
pub(super) fn of_object(size: u64, validator: &str) -> Identity {
    Identity {
        text: format!("{size} {}", validator.trim_matches('"')),
        size,
    }
}

/// Waits until a change of the file would show in its time: one that comes right after another may not.
pub(super) fn wait_until_distinct(path: &Path) {
    let wals = wals_of(path).into_iter().flatten();
    for path in std::iter::once(path.to_owned()).chain(wals) {
        let Ok(found) = path.metadata() else {
            continue;
        };
        // A change sets both, but some file systems have only one of them.
        for changed in [found.modified().ok(), inode_changed(&found)] {
            let left = changed.and_then(|changed| still_the_same(changed, SystemTime::now()));
            std::thread::sleep(left.unwrap_or_default());
        }
    }
}

fn inode_changed(found: &Metadata) -> Option<SystemTime> {
    let seconds = found.ctime().try_into().ok()?;
    let since = Duration::new(seconds, found.ctime_nsec().try_into().ok()?);
    SystemTime::UNIX_EPOCH.checked_add(since)
}

/// Where the WAL is, if the file is a plain database and if it is a packed one. SQLite has it beside the file itself,
/// where that has another name.
fn wals_of(path: &Path) -> io::Result<[PathBuf; 2]> {
    let path = path.canonicalize()?;
    Ok([PLAIN, PACKED].map(|suffixes| with_suffix(&path, suffixes.wal)))
}

/// How long a change may still get the time of the last one.
fn still_the_same(changed: SystemTime, now: SystemTime) -> Option<Duration> {
    let since = changed.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let step = match since.subsec_nanos() {
        0 => COARSE,
        _ => FINE,
    };
    // A time to come says nothing of when it was set.
    let age = now.duration_since(changed).unwrap_or_default();
    step.checked_sub(age).filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_right_after_another_is_waited_for() {
        let whole = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let fine = whole + Duration::from_nanos(1);
        let ms = Duration::from_millis;
        assert_eq!(still_the_same(fine, fine + ms(5)), Some(ms(15)));
        assert_eq!(still_the_same(fine, fine + ms(20)), None);
        assert_eq!(still_the_same(whole, whole + ms(500)), Some(ms(1500)));
        assert_eq!(still_the_same(whole, whole + COARSE), None);
        assert_eq!(still_the_same(fine + COARSE, fine), Some(FINE));
    }

    #[test]
    fn whatever_changes_a_file_changes_its_identity() {
        let place = tempfile::tempdir().unwrap();
        let (path, wal) = (place.path().join("a.db"), place.path().join("a.db-wal"));
        let now = || {
            wait_until_distinct(&path);
            of_file(&path).unwrap().text
        };
        let mut seen = Vec::new();
        let mut expect_new = || {
            let found = now();
            assert!(!seen.contains(&found), "{found}");
            seen.push(found);
        };
        std::fs::write(&path, "one").unwrap();
        expect_new();
        std::fs::write(&path, "two").unwrap();
        expect_new();
        std::fs::copy(&path, place.path().join("b")).unwrap();
        std::fs::rename(place.path().join("b"), &path).unwrap();
        expect_new();
        std::fs::write(&wal, "frame").unwrap();
        expect_new();
        std::fs::write(&wal, "other").unwrap();
        expect_new();
        // A program that keeps the time, as archives and copies do.
        let kept = path.metadata().unwrap().modified().unwrap();
        std::fs::write(&wal, "").unwrap();
        assert_eq!(now(), seen[2]);
        std::fs::write(&path, "sou").unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(kept).unwrap();
        assert!(!seen.contains(&now()));
        seen[2] = now();
        // By another name of it.
        let link = place.path().join("below/link.db");
        std::fs::create_dir(place.path().join("below")).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(of_file(&link).unwrap().text, seen[2]);
        std::fs::write(&wal, "third").unwrap();
        assert_ne!(of_file(&link).unwrap().text, seen[2]);
        assert_eq!(of_object(7, "\"abc\"").text, "7 abc");
    }
}
