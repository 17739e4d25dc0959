//! The steps by which a new file takes a name, in the order of which a power loss must find either file whole.
//!
//! A file system may make changes of a directory durable in any order until the directory is synced. So there is a sync
//! between any two changes of which the second must not survive without the first. Tests note the steps, and try every
//! state that a power loss can leave.

use std::fs::File;
use std::io;
use std::path::Path;

/// Makes what was written to a file durable.
pub fn sync(file: &File) -> io::Result<()> {
    note("sync", None);
    file.sync_all()
}

/// Removes a file.
pub fn remove(path: &Path) -> io::Result<()> {
    std::fs::remove_file(path)?;
    note("remove", Some(path));
    Ok(())
}

/// Notes that a file got a name.
pub fn named(path: &Path) {
    note("name", Some(path));
}

/// Makes the names in a directory durable.
#[cfg(unix)]
pub fn sync_directory(path: &Path) -> io::Result<()> {
    note("sync directory", None);
    File::open(path)?.sync_all()
}

#[cfg(not(unix))]
pub fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(not(test))]
fn note(_: &'static str, _: Option<&Path>) {}

#[cfg(test)]
use notes::note;

#[cfg(test)]
/// The steps that were taken.
pub mod notes {
    use std::cell::RefCell;
    use std::path::Path;

    thread_local! {
        static STEPS: RefCell<Vec<(&'static str, String)>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn note(step: &'static str, path: Option<&Path>) {
        let name = path
            .and_then(Path::file_name)
            .map(|name| name.to_string_lossy());
        STEPS.with_borrow_mut(|steps| steps.push((step, name.unwrap_or_default().into())));
    }

    /// The steps of this thread since the last call.
    pub fn take() -> Vec<(&'static str, String)> {
        STEPS.take()
    }
}
