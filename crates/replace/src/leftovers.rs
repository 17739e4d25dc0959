//! Temporary files, and what is left of them when a command is killed.
//!
//! A temporary file is called `.NAME.litepack-` and sixteen digits, of which the second half follows from the first: no
//! other file has such a name by chance. A temporary file in use is locked, and the lock ends with its process, however
//! that ends. So a file of such a name that can be locked is in use by none, and may go.
//!
//! SQLite's own locks are of another kind, which on some systems and servers excludes these. So a file that SQLite writes
//! is not locked, and on Linux it counts as in use as long as a process has it open. Where the two kinds exclude each
//! other everywhere, there is no lock, and nothing is a leftover.

use std::ffi::{OsStr, OsString};
use std::fs::{File, read_dir, remove_file};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use litepack_io::random::SplitMix64;
use litepack_store::{JOURNAL_SUFFIX, WAL_SUFFIX};
use tempfile::NamedTempFile;

use crate::directory::directory;
use crate::holders;
use crate::identity::has_name;
use crate::itself;

/// Whether a lock of ours leaves SQLite's alone, but for some servers.
const LOCKS: bool = cfg!(any(target_os = "linux", target_os = "android", windows));
/// The text between the name of the target and the digits.
const MARK: &str = ".litepack-";
/// The endings of the names of files that SQLite keeps beside a database, plain or packed.
pub(crate) const BESIDE: [&str; 5] = ["-shm", "-wal", "-journal", WAL_SUFFIX, JOURNAL_SUFFIX];
/// Hexadecimal digits: as many at random as follow from them.
const DIGITS: usize = 8;
/// A new file may meet one of that name, or one who takes it for a leftover, this often.
const ATTEMPTS: usize = 20;

/// The digits that follow from others.
fn check_digits(random: u32) -> u32 {
    // The purpose is an arbitrary number.
    SplitMix64::derived(random.into(), 0x4c50_7465_6d70).next_u64() as u32
}

fn prefix_of(target: &OsStr) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(target);
    prefix.push(MARK);
    prefix
}

/// Whether these digits are those of a temporary file.
fn are_ours(digits: &str) -> bool {
    let number = |digits: Option<&str>| {
        let digits = digits.filter(|digits| !digits.contains('+'))?;
        u32::from_str_radix(digits, 16).ok()
    };
    let parts = (number(digits.get(..DIGITS)), number(digits.get(DIGITS..)));
    digits.len() == 2 * DIGITS
        && matches!(parts, (Some(random), Some(check)) if check_digits(random) == check)
}

/// Whether a file of this name is a temporary one, in use or left.
pub fn is_one(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    let digits = name.len().checked_sub(2 * DIGITS);
    let parts = digits.and_then(|at| Some((name.get(..at)?, name.get(at..)?)));
    parts.is_some_and(|(before, digits)| {
        before.first() == Some(&b'.')
            && before.ends_with(MARK.as_bytes())
            && std::str::from_utf8(digits).is_ok_and(are_ours)
    })
}

/// A new temporary file beside a target of this name, locked until it is closed.
pub fn create(directory: &Path, target: &OsStr) -> io::Result<NamedTempFile> {
    create_while(directory, target, |_| ())
}

/// The same, where `others` do this when it is there and not locked.
fn create_while(
    directory: &Path,
    target: &OsStr,
    mut others: impl FnMut(&Path),
) -> io::Result<NamedTempFile> {
    let mut result = Err(ErrorKind::AlreadyExists.into());
    for _ in 0..ATTEMPTS {
        let random = RandomState::new().hash_one(std::process::id()) as u32;
        let mut name = prefix_of(target);
        name.push(format!("{random:08x}{:08x}", check_digits(random)));
        result = tempfile::Builder::new()
            .prefix(&name)
            .rand_bytes(0)
            .tempfile_in(directory);
        if let Ok(file) = &result {
            others(file.path());
        }
        match &result {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(_) => break,
            // Between the two steps another command may have taken it for a leftover.
            Ok(_) if !LOCKS => break,
            Ok(file) => match file.as_file().try_lock() {
                Err(std::fs::TryLockError::WouldBlock) => {}
                // Where there are no locks, no command takes it for a leftover.
                _ if has_name(file.as_file(), file.path()) => break,
                _ => {}
            },
        }
    }
    result
}

/// A temporary file of a command that was killed, locked.
pub struct Leftover {
    path: PathBuf,
    locked: File,
}

impl Leftover {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Deletes it, and what SQLite may have left beside it.
    pub fn remove(self) -> io::Result<()> {
        if !has_name(&self.locked, &self.path) {
            return Ok(());
        }
        for suffix in BESIDE {
            let _ = remove_file(with_suffix(&self.path, suffix));
        }
        remove_file(&self.path)
    }
}

/// The files that killed commands left beside a target.
pub fn beside(target: &Path) -> Vec<Leftover> {
    let Some(name) = target.file_name().filter(|_| LOCKS) else {
        return Vec::new();
    };
    let prefix = prefix_of(name);
    let prefix = prefix.as_encoded_bytes();
    let entries = read_dir(directory(target)).into_iter().flatten().flatten();
    let leftovers = entries.filter_map(|entry| {
        let name = entry.file_name();
        let digits = name.as_encoded_bytes().strip_prefix(prefix)?;
        std::str::from_utf8(digits)
            .ok()
            .filter(|digits| are_ours(digits))?;
        // Opening a pipe would wait for its other end, and a link may lead anywhere.
        let path = entry.path();
        entry.file_type().ok().filter(|kind| kind.is_file())?;
        if !holders::of(&path).is_empty() {
            return None;
        }
        let file = itself::open(&path, true).ok()?;
        file.try_lock().ok()?;
        Some(Leftover { path, locked: file })
    });
    leftovers.collect()
}

/// The path with something appended to its last component, as SQLite names its files.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ours_and_not_in_use_is_found_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("a.db");
        let name = target.file_name().unwrap();
        let in_use = create(place.path(), name).unwrap();
        assert!(beside(&target).is_empty());
        let (closed, kept) = create(place.path(), name).unwrap().keep().unwrap();
        drop(closed);
        let others = [
            ".a.db.litepack-backup",
            ".a.db.litepack-0123456789abcdef",
            ".a.db.litepack-+123456789abcdef",
            ".a.db.litepack-",
            ".a.db.litepack-ää23456789abcd",
        ];
        for name in others {
            std::fs::write(place.path().join(name), "mine").unwrap();
        }
        // One of another target.
        let (_, other) = create(place.path(), OsStr::new("b.db"))
            .unwrap()
            .keep()
            .unwrap();
        let found = beside(&target);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path(), kept);
        assert!(is_one(kept.file_name().unwrap()) && is_one(other.file_name().unwrap()));
        assert!(!others.iter().any(|name| is_one(OsStr::new(name))));
        // Two that clean at once do not meet.
        assert!(beside(&target).is_empty());
        for leftover in found {
            leftover.remove().unwrap();
        }
        assert!(!kept.exists() && other.exists() && in_use.path().exists());
        let left = std::fs::read_dir(place.path()).unwrap().count();
        assert_eq!(left, others.len() + 2);
    }

    /// Another command has it locked for a moment, and removes it.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_that_was_taken_for_a_leftover_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let mut taken = 0;
        let file = create_while(place.path(), OsStr::new("a.db"), |path| {
            if taken < 2 {
                remove_file(path).unwrap();
                taken += 1;
            }
        });
        let (file, path) = file.unwrap().keep().unwrap();
        assert!(taken == 2 && has_name(&file, &path));
    }
}
