//! Who may do what with a file: its owner, its group, its permissions, and on Linux its access list.
//!
//! A new file never gives anybody more than the one that it is made from, also for a moment. So what it has inherited from
//! its directory goes first: the permissions of a file with an access list are the most that the list allows, and
//! would give to those in the list what they give to the group. Then come the owner, the list, and the permissions.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::held::Held;
use crate::itself;

/// Who may do what with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    owner: (u32, u32),
    mode: u32,
    /// As the system has it.
    list: Option<Vec<u8>>,
}

impl Rights {
    /// Those of an open file.
    #[cfg(unix)]
    pub fn of(file: &File) -> io::Result<Rights> {
        use std::os::unix::fs::MetadataExt as _;
        let found = file.metadata()?;
        Ok(Rights {
            owner: (found.uid(), found.gid()),
            mode: found.mode() & 0o777,
            list: list::of(file)?,
        })
    }

    /// Those of an open file.
    #[cfg(not(unix))]
    pub fn of(_: &File) -> io::Result<Rights> {
        Ok(Rights {
            owner: (0, 0),
            mode: 0,
            list: None,
        })
    }

    /// Those of an ordinary file of this name, also by a link; `None` if they cannot be told.
    pub fn at(path: &Path) -> Option<Rights> {
        let path = path.canonicalize().ok()?;
        // The caller may have it open, too.
        let file = Held::new(itself::open(&path, false).ok()?);
        Rights::of(&file).ok()
    }

    /// Whether these give nobody more than the others do. Rights of other owners or lists are not compared: false.
    pub fn are_at_most(&self, others: &Rights) -> bool {
        (self.owner, &self.list) == (others.owner, &others.list) && self.mode & !others.mode == 0
    }

    /// The user and the group.
    pub fn owner(&self) -> (u32, u32) {
        self.owner
    }
}

#[cfg(unix)]
impl Rights {
    /// Gives a new file exactly these.
    ///
    /// # Errors
    /// If that is not allowed, or the file system cannot. Then the file has no more than these.
    pub fn give(&self, to: &File) -> io::Result<()> {
        list::set(to, None)?;
        self.give_owner(to)?;
        list::set(to, self.list.as_deref())?;
        set_mode(to, self.mode)
    }

    /// Gives a new file these as far as that is allowed, and none that they are not.
    pub fn give_at_most(&self, to: &File) -> io::Result<()> {
        use std::os::unix::fs::fchown;
        list::set(to, None)?;
        let is_of_group =
            self.give_owner(to).is_ok() || fchown(to, None, Some(self.owner.1)).is_ok();
        let is_listed = is_of_group && list::set(to, self.list.as_deref()).is_ok();
        let mode = match &self.list {
            _ if is_listed => self.mode,
            // Whom it names is among the others now, and so is whom it shuts out.
            Some(_) => self.mode & 0o700,
            None => without_group(self.mode),
        };
        set_mode(to, mode)
    }

    /// Gives a file the owner and the group.
    pub fn give_owner(&self, to: &File) -> io::Result<()> {
        use std::os::unix::fs::{MetadataExt as _, fchown};
        let (user, group) = self.owner;
        let now = to.metadata()?;
        match (now.uid(), now.gid()) == self.owner {
            true => Ok(()),
            false => fchown(to, Some(user), Some(group)),
        }
    }
}

/// Permissions of a file of another group: who was in the former one is among the others now, and the other way round.
#[cfg(unix)]
fn without_group(mode: u32) -> u32 {
    let both = mode >> 3 & mode & 0o7;
    mode & 0o700 | both << 3 | both
}

#[cfg(unix)]
fn set_mode(of: &File, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let now = of.metadata()?.permissions().mode() & 0o777;
    match now == mode {
        true => Ok(()),
        false => of.set_permissions(std::fs::Permissions::from_mode(mode)),
    }
}

#[cfg(not(unix))]
impl Rights {
    pub fn give(&self, _: &File) -> io::Result<()> {
        Ok(())
    }

    pub fn give_at_most(&self, _: &File) -> io::Result<()> {
        Ok(())
    }

    pub fn give_owner(&self, _: &File) -> io::Result<()> {
        Ok(())
    }
}

/// Access lists (<https://man7.org/linux/man-pages/man5/acl.5.html>).
#[cfg(any(target_os = "linux", target_os = "android"))]
mod list {
    use std::fs::File;
    use std::io;

    use rustix::fs::{XattrFlags, fgetxattr, fremovexattr, fsetxattr};
    use rustix::io::Errno;

    use crate::attributes::{LEN_MAX, LIST};

    pub(super) fn of(file: &File) -> io::Result<Option<Vec<u8>>> {
        let mut value = vec![0; LEN_MAX];
        match fgetxattr(file, LIST, value.as_mut_slice()) {
            Ok(len) => {
                value.truncate(len);
                Ok(Some(value))
            }
            Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn set(file: &File, list: Option<&[u8]>) -> io::Result<()> {
        match (list, of(file)?) {
            (None, None) => {}
            (Some(list), Some(now)) if list == now => {}
            (Some(list), _) => fsetxattr(file, LIST, list, XattrFlags::empty())?,
            (None, Some(_)) => fremovexattr(file, LIST)?,
        }
        Ok(())
    }
}

#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
mod list {
    use std::fs::File;
    use std::io;

    pub(super) fn of(_: &File) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }

    pub(super) fn set(_: &File, _: Option<&[u8]>) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::attributes::LIST;
    use rustix::fs::{XattrFlags, setxattr};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    const DEFAULT: &str = "system.posix_acl_default";

    /// An access list in which a user is named, as the system has it: what the owner, the user, the group, the most that
    /// user and group may do, and all others may do.
    fn list(owner: u16, user: u16, group: u16, mask: u16, others: u16) -> Vec<u8> {
        const NOBODY: u32 = u32::MAX;
        let entries = [
            (1, owner, NOBODY),
            (2, user, 4711),
            (4, group, NOBODY),
            (0x10, mask, NOBODY),
            (0x20, others, NOBODY),
        ];
        let mut bytes = 2_u32.to_le_bytes().to_vec();
        for (tag, may, id) in entries {
            bytes.extend(u16::to_le_bytes(tag));
            bytes.extend(u16::to_le_bytes(may));
            bytes.extend(u32::to_le_bytes(id));
        }
        bytes
    }

    /// A directory in which new files have a list, or why there is none.
    fn place() -> Result<tempfile::TempDir, rustix::io::Errno> {
        let place = tempfile::tempdir_in(".").unwrap();
        let list = list(7, 7, 7, 7, 0);
        setxattr(place.path(), DEFAULT, &list, XattrFlags::empty()).map(|()| place)
    }

    fn new(place: &Path) -> File {
        tempfile::Builder::new()
            .tempfile_in(place)
            .unwrap()
            .into_file()
    }

    /// Its mask would be what the permissions give to the group.
    #[test]
    fn a_list_that_was_inherited_goes() {
        let place = match place() {
            Ok(place) => place,
            Err(why) => return litepack_skip::skip(litepack_skip::Expected::ByChoice, why),
        };
        let elsewhere = tempfile::tempdir_in(".").unwrap();
        let like = new(elsewhere.path());
        set_mode(&like, 0o660).unwrap();
        let rights = Rights::of(&like).unwrap();
        for give in [Rights::give, Rights::give_at_most] {
            let file = new(place.path());
            assert!(list::of(&file).unwrap().is_some());
            give(&rights, &file).unwrap();
            assert_eq!(list::of(&file).unwrap(), None);
            assert_eq!(Rights::of(&file).unwrap(), rights);
        }
    }

    #[test]
    fn a_list_comes_along_and_may_allow_less_than_the_permissions_say() {
        let place = match place() {
            Ok(place) => place,
            Err(why) => return litepack_skip::skip(litepack_skip::Expected::ByChoice, why),
        };
        let like = new(place.path());
        let own = list(6, 4, 0, 6, 0);
        rustix::fs::fsetxattr(&like, LIST, &own, XattrFlags::empty()).unwrap();
        let rights = Rights::of(&like).unwrap();
        assert_eq!((rights.mode, rights.list.as_ref()), (0o660, Some(&own)));
        for give in [Rights::give, Rights::give_at_most] {
            let file = new(place.path());
            give(&rights, &file).unwrap();
            assert_eq!(Rights::of(&file).unwrap(), rights);
        }
    }

    #[test]
    fn without_the_group_nobody_may_do_more() {
        let modes = [0o660, 0o664, 0o604, 0o666, 0o751].map(without_group);
        assert_eq!(modes, [0o600, 0o644, 0o600, 0o666, 0o711]);
    }

    /// As where the file system has no lists.
    #[test]
    fn without_the_list_the_owner_is_left() {
        let file = tempfile::tempfile_in(".").unwrap();
        let mut rights = Rights::of(&file).unwrap();
        // Of another format, which no system takes.
        (rights.mode, rights.list) = (0o660, Some(vec![9; 12]));
        assert!(rights.give(&file).is_err());
        rights.give_at_most(&file).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
