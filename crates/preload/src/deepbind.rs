//! Libraries that are loaded so that nothing can stand before what they call: PHP loads its modules so. One of them that
//! is linked to SQLite is loaded as any other library, and then calls us.
//!
//! All others are left as they are: some need it, because the program has another version of what they use.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::ffi::OsStrExt as _;

/// What a library that is linked to SQLite has the name of.
const SQLITE: &[u8] = b"libsqlite3.so";
/// Of a longer file only the beginning is read.
const MAX: u64 = 64 << 20;

/// Whether the library at this path is linked to SQLite. One without a path is not looked for.
pub fn is_linked_to_sqlite(path: &[u8]) -> bool {
    let path = OsStr::from_bytes(path);
    path.as_bytes().contains(&b'/') && File::open(path).is_ok_and(|file| contains(file, SQLITE))
}

/// Whether a regular file contains these bytes.
fn contains(file: File, wanted: &[u8]) -> bool {
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return false;
    }
    let mut file = file.take(MAX);
    let mut buffer = [0; 16 << 10];
    let mut kept = 0;
    while let Some(rest) = buffer.get_mut(kept..) {
        let read = match file.read(rest) {
            Ok(0) => return false,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return false,
        };
        let filled = kept + read;
        let there = buffer.get(..filled).unwrap_or_default();
        if there.windows(wanted.len()).any(|part| part == wanted) {
            return true;
        }
        // What may be the beginning of it.
        kept = filled.min(wanted.len() - 1);
        buffer.copy_within(filled - kept..filled, 0);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_wherever_it_is() {
        let path = std::env::temp_dir().join(format!("litepack-deepbind-{}", std::process::id()));
        let is_found = |content: &[u8]| {
            std::fs::write(&path, content).unwrap();
            is_linked_to_sqlite(path.as_os_str().as_bytes())
        };
        for before in [0, 1, 1000, (16 << 10) - 5, (16 << 10) + 3, 100_000] {
            let mut content = vec![b'l'; before];
            content.extend(SQLITE);
            assert!(is_found(&content), "behind {before} bytes");
            content.pop();
            assert!(!is_found(&content));
        }
        assert!(!is_found(b""));
        std::fs::remove_file(&path).unwrap();
        assert!(!is_linked_to_sqlite(b"/dev/zero"));
        assert!(!is_linked_to_sqlite(b"libsqlite3.so"));
    }
}
