//! The steps by which a new file takes a name, in the order of which a power loss must find either file whole.
//!
//! A file system may make changes of a directory durable in any order until the directory is synced. So there is a sync
//! between any two changes of which the second must not survive without the first. Tests note the steps, and try every
//! state that a power loss can leave.

use std::ffi::OsStr;
use std::fs::File;
use std::io;

use crate::files::directory::Directory;

/// Makes what was written to a file durable.
pub fn sync(file: &File) -> io::Result<()> {
    note("sync", None);
    file.sync_all()
}

/// Removes a file from its directory.
pub fn remove(directory: &Directory, name: &OsStr) -> io::Result<()> {
    directory.remove(name)?;
    note("remove", Some(name));
    Ok(())
}

/// Gives a file its name, in place of the file that has it, or else only if none has it.
pub fn rename(directory: &Directory, from: &OsStr, to: &OsStr, replace: bool) -> io::Result<()> {
    #[cfg(test)]
    notes::meanwhile();
    match replace {
        true => directory.rename(from, to)?,
        false => directory.rename_new(from, to)?,
    }
    note("name", Some(to));
    Ok(())
}

/// Makes the names in a directory durable.
pub fn sync_directory(directory: &Directory) -> io::Result<()> {
    note("sync directory", None);
    directory.sync()
}

#[cfg(not(test))]
fn note(_: &'static str, _: Option<&OsStr>) {}

#[cfg(test)]
use notes::note;

#[cfg(test)]
/// The steps that were taken.
pub mod notes {
    use std::cell::RefCell;
    use std::ffi::OsStr;

    thread_local! {
        static STEPS: RefCell<Vec<(&'static str, String)>> = const { RefCell::new(Vec::new()) };
    }

    thread_local! {
        static MEANWHILE: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
    }

    /// Has something happen right before the next file of this thread gets its name.
    pub fn have(happen: impl FnOnce() + 'static) {
        MEANWHILE.set(Some(Box::new(happen)));
    }

    pub(super) fn meanwhile() {
        if let Some(happen) = MEANWHILE.take() {
            happen();
        }
    }

    pub(super) fn note(step: &'static str, name: Option<&OsStr>) {
        let name = name.map(OsStr::to_string_lossy);
        STEPS.with_borrow_mut(|steps| steps.push((step, name.unwrap_or_default().into())));
    }

    /// The steps of this thread since the last call.
    pub fn take() -> Vec<(&'static str, String)> {
        STEPS.take()
    }
}
