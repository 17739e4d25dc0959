//! What a file system notes of a file besides who may do what with it: labels, and what users noted. A file that takes the
//! place of another takes them over, as far as we are allowed to: never a reason to fail.

use std::fs::File;

/// No system allows for a longer list of names, or a longer value.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const LEN_MAX: usize = 64 << 10;
/// The name of the access list, which is given with the other [`rights`](crate::rights).
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const LIST: &str = "system.posix_acl_access";

/// Gives one file those of another.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn copy(from: &File, to: &File) {
    let mut names = vec![0; LEN_MAX];
    let Ok(len) = rustix::fs::flistxattr(from, names.as_mut_slice()) else {
        return;
    };
    let mut value = vec![0; LEN_MAX];
    let names = names.get(..len).unwrap_or_default();
    for name in names
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty() && *name != LIST.as_bytes())
    {
        let Ok(len) = rustix::fs::fgetxattr(from, name, value.as_mut_slice()) else {
            continue;
        };
        let value = value.get(..len).unwrap_or_default();
        let _ = rustix::fs::fsetxattr(to, name, value, rustix::fs::XattrFlags::empty());
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn copy(_: &File, _: &File) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn they_come_along() {
        let (from, to) = (tempfile::tempfile_in("."), tempfile::tempfile_in("."));
        let (from, to) = (from.unwrap(), to.unwrap());
        let flags = rustix::fs::XattrFlags::empty();
        if let Err(why) = rustix::fs::fsetxattr(&from, "user.note", b"mine", flags) {
            return litepack_skip::skip(litepack_skip::Expected::ByChoice, why);
        }
        copy(&from, &to);
        let mut value = [0; 8];
        let len = rustix::fs::fgetxattr(&to, "user.note", &mut value).unwrap();
        assert_eq!(&value[..len], b"mine");
    }
}
