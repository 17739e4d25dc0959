//! The files that this process has open, and the last ones that it closed: their names in the cache, and what their
//! handles share.
//!
//! A file that is opened again soon keeps its name, so that its pages are found in the cache.

use std::sync::{Arc, Mutex, PoisonError, Weak};

/// How many closed files are kept.
const CLOSED: usize = 16;

/// Files by a key that tells them apart, with a name in the cache and what open handles share.
#[derive(Debug)]
pub(crate) struct FileRegistry<Key, Name, Shared> {
    files: Mutex<Vec<File<Key, Name, Shared>>>,
}

#[derive(Debug)]
struct File<Key, Name, Shared> {
    key: Key,
    name: Name,
    shared: Weak<Shared>,
}

impl<Key: PartialEq, Name, Shared> FileRegistry<Key, Name, Shared> {
    pub(crate) const fn new() -> Self {
        Self {
            files: Mutex::new(Vec::new()),
        }
    }

    /// What the handles of a file share, by `decide`; that is given what is known of the file: its name, and what
    /// handles share now, if there are any. The file counts as open until the last of them lets go.
    pub(crate) fn open(
        &self,
        key: Key,
        decide: impl FnOnce(Option<(Name, Option<Arc<Shared>>)>) -> (Name, Arc<Shared>),
    ) -> Arc<Shared> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let at = files.iter().position(|file| file.key == key);
        let known = at.map(|at| files.remove(at));
        let (name, shared) = decide(known.map(|file| (file.name, file.shared.upgrade())));
        let is_open = |file: &File<_, _, _>| file.shared.strong_count() > 0;
        let mut closed = files.iter().filter(|file| !is_open(file)).count();
        // The longest ago first.
        files.retain(|file| {
            let is_too_old = !is_open(file) && closed >= CLOSED;
            closed -= usize::from(is_too_old);
            !is_too_old
        });
        files.push(File {
            key,
            name,
            shared: Arc::downgrade(&shared),
        });
        shared
    }

    /// Changes the name of a file, if it is still known.
    pub(crate) fn rename(&self, key: &Key, change: impl FnOnce(&mut Name)) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = files.iter_mut().find(|file| file.key == *key) {
            change(&mut file.name);
        }
    }
}

/// For handles that share nothing but the name.
#[cfg(any(test, feature = "remote"))]
impl<Key: PartialEq, Name: Copy> FileRegistry<Key, Name, Name> {
    /// The name of a file, a new one if the file is not known.
    pub(crate) fn name(&self, key: Key, new: impl FnOnce() -> Name) -> Arc<Name> {
        self.open(key, |known| match known {
            Some((name, Some(shared))) => (name, shared),
            Some((name, None)) => (name, Arc::new(name)),
            None => {
                let name = new();
                (name, Arc::new(name))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_while_they_are_open_and_for_a_while_after() {
        let files = FileRegistry::new();
        let open = files.name(1, || 100);
        assert_eq!(*files.name(1, || 101), 100, "shared");
        assert_eq!(*files.name(2, || 102), 102, "another file");
        assert_eq!(*files.name(2, || 103), 102, "closed, and opened again");
        for key in 3..100 {
            files.name(key, || 100 + key);
        }
        assert_eq!(*files.name(1, || 104), 100, "still open");
        assert_eq!(*files.name(2, || 105), 105, "forgotten");
        assert_eq!(*files.name(99, || 106), 199, "among the last");
        assert!(files.files.lock().unwrap().len() <= CLOSED + 2);
        drop(open);
    }
}
