//! Setting a log aside: a copy of its file under another name, before something is written over it.
//!
//! The name has a hash of what the file holds, so the same log is not copied twice. The first bytes are written last: a
//! copy that begins as the log does is all there.

use std::io;

use litepack_io::memory::zeros;
use litepack_io::storage::{ReadAt, Storage};
use twox_hash::XxHash3_64;

/// Bytes that are copied at once. The first of these parts is written last.
const PART: usize = 1 << 16;
/// Behind the name of the log, followed by sixteen digits. Without a `-`, as SQLite's Unix VFS takes what is before the
/// last one of a new WAL's name for the database that it is to be as accessible as.
pub const REFUSED: &str = "_refused_";

/// The copy's name, from the end of the log's name on.
///
/// # Errors
/// If the file cannot be read.
pub fn name(file: &impl ReadAt) -> io::Result<String> {
    let mut sum = file.len()?;
    each_part(file, |_, part| {
        sum = XxHash3_64::oneshot_with_seed(sum, part);
        Ok(())
    })?;
    Ok(format!("{REFUSED}{sum:016x}"))
}

/// Copies a file to the one that has the [`name`] for it, durably. Nothing is written if it is there.
///
/// # Errors
/// If something cannot be read or written. Then the copy is none yet.
pub fn copy(from: &impl ReadAt, to: &impl Storage) -> io::Result<()> {
    let len = from.len()?;
    let first = |file: &dyn ReadAt| -> io::Result<Vec<u8>> {
        let mut part = zeros(PART)?;
        let n = file.read_at(&mut part, 0)?;
        part.truncate(n);
        Ok(part)
    };
    let head = first(from)?;
    if to.len()? != len || first(to)? != head {
        to.truncate(0)?;
        each_part(from, |place, part| match place {
            0 => Ok(()),
            _ => to.write_at(part, place),
        })?;
        to.sync()?;
        to.write_at(&head, 0)?;
    }
    to.sync()
}

fn each_part(
    file: &impl ReadAt,
    mut each: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut part = zeros(PART)?;
    let mut place = 0;
    loop {
        let n = file.read_at(&mut part, place)?;
        let read = part.get(..n).unwrap_or_default();
        if !read.is_empty() {
            each(place, read)?;
        }
        if n < PART {
            return Ok(());
        }
        place += n as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use litepack_io::random::SplitMix64;
    use litepack_io::testing::{CrashingStorage, MemoryStorage};

    fn noise(seed: u64, len: usize) -> Vec<u8> {
        let mut random = SplitMix64::new(seed);
        let bytes = std::iter::repeat_with(|| random.next_u64().to_le_bytes());
        bytes.flatten().take(len).collect()
    }

    #[test]
    fn each_log_has_a_name_of_its_own() {
        let name_of = |bytes: Vec<u8>| name(&MemoryStorage::new(bytes)).unwrap();
        let long = noise(1, 3 * PART + 5);
        let expected = name_of(long.clone());
        assert_eq!(expected, name_of(long.clone()));
        assert_eq!(expected.len(), REFUSED.len() + 16);
        for at in [0, PART, long.len() - 1] {
            let mut other = long.clone();
            other[at] ^= 1;
            assert_ne!(expected, name_of(other));
        }
        assert_ne!(expected, name_of(long[..2 * PART].to_vec()));
    }

    /// Each call of the copying fails once, or the power is lost after it: what begins as the log does is all of it.
    #[test]
    fn a_copy_that_begins_as_the_log_is_whole() {
        for len in [10, PART, 4 * PART + 77] {
            let bytes = noise(2, len);
            let log = MemoryStorage::new(bytes.clone());
            let begins =
                |copy: &[u8]| copy.len() == len && copy.starts_with(&bytes[..len.min(PART)]);
            for failing in 0..20 {
                let storage = CrashingStorage::default();
                storage.fail(storage.calls() + failing, storage.calls() + failing + 1);
                let done = copy(&log, &storage);
                for seed in 0..30 {
                    let left = storage.after_power_loss(seed);
                    assert!(
                        left == bytes || !begins(&left) && done.is_err(),
                        "{len}, {failing}"
                    );
                }
                storage.fail(0, 0);
                copy(&log, &storage).unwrap();
                assert!(
                    storage.after_power_loss(failing) == bytes,
                    "{len}, {failing}"
                );
                let calls = storage.calls();
                copy(&log, &storage).unwrap();
                assert_eq!(storage.calls(), calls + 1, "a sync, and nothing written");
            }
        }
    }
}
