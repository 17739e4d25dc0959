//! Opening a file by its own name. Where others may write in its directory, a name can become a link or a pipe between two
//! looks at it: a link is not followed, and a pipe is not waited for.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Opens an ordinary file that has this name itself.
pub fn open(path: &Path, writable: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(writable);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        options.custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
    }
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not an ordinary file",
        )),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn links_and_pipes_are_not_opened() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        std::fs::write(path("file"), "x").unwrap();
        std::os::unix::fs::symlink("file", path("link")).unwrap();
        let pipe = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), pipe, 0o600.into(), 0).unwrap();
        for writable in [false, true] {
            let opens =
                ["file", "link", "pipe", "."].map(|name| open(&path(name), writable).is_ok());
            assert_eq!(opens, [true, false, false, false]);
        }
    }
}
