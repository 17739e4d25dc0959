//! A directory that is open, and the files in it by their names alone.
//!
//! Who may write above a directory can put another one, or a link, in its place at any moment: also between a check and
//! what is done after it, and between the two names of one rename. A path would lead elsewhere then, to a file of
//! somebody else. So the directory is opened once, and what is known of a name, each new name and each removal goes
//! through that. A directory that is moved takes its files along, and this goes on in it.
//!
//! Files are opened by their paths, as SQLite can do it in no other way. [`Directory::has`] tells afterwards whether
//! what was opened is what has the name here. What SQLite itself makes and removes beside a database goes by paths.
//!
//! On other systems than Unix it is the path.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::sync::Arc;

use crate::identity::Identity;

/// An open directory. A copy is the same one.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
    #[cfg(unix)]
    open: Arc<File>,
}

impl Directory {
    /// The one that a file of this name is in, or would be.
    ///
    /// # Errors
    /// If it is not there, or cannot be read.
    pub fn of(file: &Path) -> io::Result<Directory> {
        let path = directory(file);
        #[cfg(unix)]
        {
            use rustix::fs::{Mode, OFlags, open};
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let open = open(&path, flags, Mode::empty())?;
            Ok(Directory {
                path,
                open: Arc::new(open.into()),
            })
        }
        #[cfg(not(unix))]
        {
            Ok(Directory { path })
        }
    }

    /// The one in which an open file has its name, and that name. `None` if the name is another file's by now.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn holding<'a>(file: &File, path: &'a Path) -> io::Result<Option<(Directory, &'a OsStr)>> {
        let directory = Directory::of(path)?;
        let name = path.file_name().filter(|name| directory.has(file, name));
        Ok(name.map(|name| (directory, name)))
    }

    /// The path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether something has a name in it, be it a link that leads nowhere.
    pub fn is_taken(&self, name: &OsStr) -> bool {
        match cfg!(unix) {
            true => self.identity(name).is_some(),
            false => self.path.join(name).symlink_metadata().is_ok(),
        }
    }

    /// Whether a name in it is that of an open file, by itself and not by a link.
    pub fn has(&self, file: &File, name: &OsStr) -> bool {
        let (open, named) = (Identity::of_file(file), self.identity(name));
        match cfg!(unix) {
            true => open.is_some() && open == named,
            // A file that is open can lose its name there, and hardly to another file.
            false => self.path.join(name).exists(),
        }
    }
}

#[cfg(unix)]
impl Directory {
    /// What tells the file of this name from all others, a link itself and not what it leads to.
    pub fn identity(&self, name: &OsStr) -> Option<Identity> {
        let found = rustix::fs::statat(&self.open, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
        let found = found.ok()?;
        Identity::of_numbers(found.st_dev, found.st_ino)
    }

    /// Gives a file in it another name, in place of the file that has that.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.open, from, &self.open, to)?)
    }

    /// Gives a file in it another name, which no file has.
    pub fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
        {
            use rustix::fs::RenameFlags;
            use rustix::io::Errno;
            let flags = RenameFlags::NOREPLACE;
            match rustix::fs::renameat_with(&self.open, from, &self.open, to, flags) {
                // This system or this file system has no such call.
                Err(Errno::NOSYS | Errno::INVAL | Errno::NOTSUP) => {}
                renamed => return Ok(renamed?),
            }
        }
        let flags = rustix::fs::AtFlags::empty();
        rustix::fs::linkat(&self.open, from, &self.open, to, flags)?;
        // It has its name. The other one is a leftover, which the next command removes.
        let _ = self.remove(from);
        Ok(())
    }

    /// Removes a file from it.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        let flags = rustix::fs::AtFlags::empty();
        Ok(rustix::fs::unlinkat(&self.open, name, flags)?)
    }

    /// Makes the names in it durable, as far as there is a way: some file systems, as those of some servers, have none.
    pub fn sync(&self) -> io::Result<()> {
        match self.open.sync_all() {
            Err(error) if is_no_way(&error) => Ok(()),
            synced => synced,
        }
    }
}

/// Whether a directory cannot be synced there at all.
#[cfg(unix)]
fn is_no_way(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| [Errno::INVAL, Errno::NOTSUP, Errno::OPNOTSUPP].contains(&errno))
}

#[cfg(not(unix))]
impl Directory {
    /// What tells the file of this name from all others; `None` where that cannot be told.
    pub fn identity(&self, name: &OsStr) -> Option<Identity> {
        Identity::of_name(&self.path.join(name))
    }

    /// Gives a file in it another name, in place of the file that has that.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let from = tempfile::TempPath::try_from_path(self.path.join(from))?;
        from.persist(self.path.join(to)).map_err(without_removing)
    }

    /// Gives a file in it another name, which no file has.
    pub fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let from = tempfile::TempPath::try_from_path(self.path.join(from))?;
        from.persist_noclobber(self.path.join(to))
            .map_err(without_removing)
    }

    /// Removes a file from it.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    /// Makes the names in it durable, as far as there is a way.
    pub fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Who made the file removes it.
#[cfg(not(unix))]
fn without_removing(refused: tempfile::PathPersistError) -> io::Error {
    let _ = refused.path.keep();
    refused.error
}

/// The directory that a file is in.
pub fn directory(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn it_stays_the_same_whatever_takes_its_path() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        for folder in ["a", "b"] {
            std::fs::create_dir(path(folder)).unwrap();
            for name in ["x", "y"] {
                std::fs::write(path(folder).join(name), format!("{folder}/{name}")).unwrap();
            }
        }
        let (x, y, z) = (OsStr::new("x"), OsStr::new("y"), OsStr::new("z"));
        let file = File::open(path("a/x")).unwrap();
        let named = path("a/x");
        let (directory, name) = Directory::holding(&file, &named).unwrap().unwrap();
        assert_eq!(name, x);
        std::fs::rename(path("a"), path("moved")).unwrap();
        std::os::unix::fs::symlink("b", path("a")).unwrap();
        assert!(Directory::holding(&file, &path("a/x")).unwrap().is_none());
        assert!(directory.has(&file, x) && !directory.has(&file, y) && !directory.has(&file, z));
        let exists = directory.rename_new(x, y).unwrap_err();
        assert_eq!(exists.kind(), io::ErrorKind::AlreadyExists);
        directory.rename_new(x, z).unwrap();
        directory.rename(z, y).unwrap();
        assert!(directory.has(&file, y));
        directory.sync().unwrap();
        directory.remove(y).unwrap();
        assert_eq!(std::fs::read_dir(path("moved")).unwrap().count(), 0);
        for name in ["x", "y"] {
            let content = std::fs::read_to_string(path("b").join(name)).unwrap();
            assert_eq!(content, format!("b/{name}"));
        }
    }

    #[test]
    fn a_sync_that_there_is_no_way_for_is_told_from_one_that_failed() {
        use rustix::io::Errno;
        let no_way = [
            Errno::INVAL,
            Errno::NOTSUP,
            Errno::OPNOTSUPP,
            Errno::IO,
            Errno::NOSPC,
        ];
        let no_way = no_way.map(|errno| is_no_way(&errno.into()));
        assert_eq!(no_way, [true, true, true, false, false]);
    }

    #[test]
    fn a_link_in_it_is_not_the_file_that_it_leads_to() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("x"), "").unwrap();
        std::os::unix::fs::symlink("x", place.path().join("link")).unwrap();
        let file = File::open(place.path().join("link")).unwrap();
        let holds = |name| {
            Directory::holding(&file, &place.path().join(name))
                .unwrap()
                .is_some()
        };
        assert!(holds("x") && !holds("link"));
    }
}
