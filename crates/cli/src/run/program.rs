//! Which file a program's name leads to, as the system's `execvp` finds it.

use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Where programs are if nobody says so.
const PATH: &str = "/bin:/usr/bin";

/// The file of a program, if there is one that may be run.
pub fn find(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name)).filter(|path| is_program(path));
    }
    let places = env::var_os("PATH").unwrap_or_else(|| PATH.into());
    // An empty one is the working directory, whose name has a slash, so that it is not looked for again.
    let file = |place: PathBuf| match place.as_os_str().is_empty() {
        true => Path::new(".").join(name),
        false => place.join(name),
    };
    env::split_paths(&places)
        .map(file)
        .find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}
