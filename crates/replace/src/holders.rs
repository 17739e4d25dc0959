//! Which programs have a database open, so that people need not guess who is in the way.
//!
//! Linux says so under `/proc`, as far as the user may look: the open files of the user's own programs, and the locks of
//! everybody's. Elsewhere, and where it cannot be told, nothing is said.

use std::path::Path;

/// At most so many are named.
const NAMED_MAX: usize = 4;

/// Programs that have a database or what SQLite keeps beside it open, in words: "python3 (process 4711)". Empty if there
/// is none, or none can be seen.
pub fn of(database: &Path) -> String {
    let mut named = named(database);
    let more = named.len().saturating_sub(NAMED_MAX);
    named.truncate(NAMED_MAX);
    if more > 0 {
        named.push(format!("{more} more"));
    }
    named.join(", ")
}

#[cfg(not(target_os = "linux"))]
fn named(_: &Path) -> Vec<String> {
    Vec::new()
}

#[cfg(target_os = "linux")]
fn named(database: &Path) -> Vec<String> {
    linux::processes(database)
        .into_iter()
        .map(linux::words)
        .collect()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeSet;
    use std::ffi::OsString;
    use std::fs::{metadata, read_dir, read_link, read_to_string};
    use std::path::{Path, PathBuf};

    use crate::identity::Identity;
    use crate::leftovers::{BESIDE, with_suffix};
    use litepack_io::printable::harmless_line;

    /// Numbers of the processes that have one of the files open or locked.
    pub(super) fn processes(database: &Path) -> BTreeSet<u32> {
        let suffixes = std::iter::once("").chain(BESIDE);
        let files: Vec<PathBuf> = suffixes
            .map(|suffix| with_suffix(database, suffix))
            .collect();
        let ids: Vec<Identity> = files
            .iter()
            .filter_map(|file| Identity::of(&file.metadata().ok()?))
            .collect();
        let names: Vec<OsString> = files
            .iter()
            .filter_map(|file| Some(file.file_name()?.to_owned()))
            .collect();
        let mut found = locking(&ids);
        for process in numbers("/proc") {
            if has_open(process, &names, &ids) {
                found.insert(process);
            }
        }
        // Ours is the process that asks, unless another part of it holds the lock: then there is no other process.
        let own = std::process::id();
        if found.len() > 1 {
            found.remove(&own);
        }
        found
    }

    /// The numbers that entries of a directory have as names.
    fn numbers(directory: &str) -> impl Iterator<Item = u32> {
        let entries = read_dir(directory).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
    }

    /// Whether a process has one of the files open. Only descriptors of a fitting name are looked at more closely: a file
    /// of another one may be on a server that does not answer.
    fn has_open(process: u32, names: &[OsString], ids: &[Identity]) -> bool {
        let directory = format!("/proc/{process}/fd");
        numbers(&directory).any(|number| {
            let descriptor = format!("{directory}/{number}");
            let name = read_link(&descriptor).ok();
            let fits = name
                .as_deref()
                .and_then(Path::file_name)
                .is_some_and(|name| names.iter().any(|known| known == name));
            fits && metadata(&descriptor)
                .is_ok_and(|found| Identity::of(&found).is_some_and(|id| ids.contains(&id)))
        })
    }

    /// Numbers of the processes that hold a lock on one of the files, by
    /// <https://man7.org/linux/man-pages/man5/proc_locks.5.html>.
    fn locking(ids: &[Identity]) -> BTreeSet<u32> {
        let locks = read_to_string("/proc/locks").unwrap_or_default();
        let of = |line: &str| {
            let mut fields = line.split_whitespace().skip(4);
            let process = fields.next()?.parse().ok()?;
            let mut place = fields.next()?.split(':');
            let mut hex = || u64::from_str_radix(place.next()?, 16).ok();
            let (major, minor) = (hex()?, hex()?);
            let inode = place.next()?.parse().ok()?;
            let inode: u64 = inode;
            let id = Identity::of_numbers(device(major, minor), inode)?;
            ids.contains(&id).then_some(process)
        };
        locks.lines().filter_map(of).collect()
    }

    /// The number of a device as `stat` gives it.
    fn device(major: u64, minor: u64) -> u64 {
        (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & !0xff) << 12) | ((major & !0xfff) << 32)
    }

    /// The name and the number of a process.
    pub(super) fn words(process: u32) -> String {
        let name = read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        let name = match name.trim() {
            "" => "a program",
            name => name,
        };
        let whose = match process == std::process::id() {
            true => ", this one",
            false => "",
        };
        format!("{} (process {process}{whose})", harmless_line(name))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn who_has_it_open_is_named_and_nobody_else() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.db");
        assert_eq!(of(&path), "");
        std::fs::write(&path, "x").unwrap();
        assert_eq!(of(&path), "");
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .stdin(std::fs::File::open(&path).unwrap())
            .spawn()
            .unwrap();
        let found = of(&path);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, format!("sleep (process {})", child.id()));
        let _ours = std::fs::File::open(&path).unwrap();
        assert!(of(&path).ends_with("this one)"), "{}", of(&path));
    }
}
