//! Whether two names, or a name and an open file, are one file.
//!
//! A name can become another file's at any moment. So a file that was looked at stays open. Right before it is replaced
//! or removed by its name, [`has_name`] is asked.

use std::fs::{File, Metadata};
use std::path::Path;

/// What tells a file from all others, as long as it is there: its device and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity(u64, u64);

impl Identity {
    /// Of a file that was looked at; `None` where that cannot be told.
    #[cfg(unix)]
    pub fn of(found: &Metadata) -> Option<Identity> {
        use std::os::unix::fs::MetadataExt as _;
        Some(Identity(found.dev(), found.ino()))
    }

    /// Of a file that was looked at; `None` where that cannot be told.
    #[cfg(not(unix))]
    pub fn of(_: &Metadata) -> Option<Identity> {
        None
    }

    /// Of the file that the system calls so; `None` of numbers that are none of a file.
    #[cfg(unix)]
    pub(crate) fn of_numbers(
        device: impl TryInto<u64>,
        number: impl TryInto<u64>,
    ) -> Option<Identity> {
        Some(Identity(device.try_into().ok()?, number.try_into().ok()?))
    }

    /// Of an open file.
    pub fn of_file(file: &File) -> Option<Identity> {
        Identity::of(&file.metadata().ok()?)
    }

    /// Of what has a name, a link itself and not what it leads to.
    pub fn of_name(path: &Path) -> Option<Identity> {
        Identity::of(&path.symlink_metadata().ok()?)
    }
}

/// Whether a name is that of an open file, by itself and not by a link.
pub fn has_name(file: &File, path: &Path) -> bool {
    let (open, named) = (Identity::of_file(file), Identity::of_name(path));
    match cfg!(unix) {
        true => open.is_some() && open == named,
        // A file that is open can lose its name there, and hardly to another file.
        false => path.exists(),
    }
}

/// Whether both names mean one file, also by a link.
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    #[cfg(unix)]
    let id = |path: &Path| Identity::of(&path.metadata().ok()?);
    #[cfg(not(unix))]
    let id = |path: &Path| path.canonicalize().ok();
    id(a).is_some() && id(a) == id(b)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_the_file_and_has_another_name() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let file = File::create(path("a")).unwrap();
        File::create(path("b")).unwrap();
        std::os::unix::fs::symlink("a", path("link")).unwrap();
        std::fs::hard_link(path("a"), path("second")).unwrap();
        let names = ["a", "b", "link", "second", "missing"];
        let has = names.map(|name| has_name(&file, &path(name)));
        assert_eq!(has, [true, false, false, true, false]);
        let same = names.map(|name| is_same_file(&path("a"), &path(name)));
        assert_eq!(same, [true, false, true, true, false]);
        assert!(!is_same_file(&path("missing"), &path("missing")));
    }
}
