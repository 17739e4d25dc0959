//! The open directory of a database, in the words of this crate.

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;

pub use litepack_replace::directory::{Directory, directory};

use crate::error::{Context, cannot_read, replaced};
use crate::{Error, Result};

/// The directory in which an open file has its name, and that name.
///
/// # Errors
/// If the directory cannot be read, or the name is another file's by now.
pub fn holding<'a>(file: &File, path: &'a Path) -> Result<(Directory, &'a OsStr)> {
    let found = Directory::holding(file, path).with_context(|| cannot_read(path))?;
    found.ok_or_else(|| replaced(path))
}

/// Why a file is not put into a directory that has lost its path to another one.
pub fn replaced_directory(directory: &Path) -> Error {
    Error::Refused(format!(
        "{} was replaced by another directory meanwhile; try again",
        directory.display()
    ))
}
