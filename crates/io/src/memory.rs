//! Memory that may not be there. A program must survive that a guest gets none; Rust's collections abort instead.
//!
//! Two rules, and both are needed:
//! - Large memory, or memory as large as the data says, is taken with the functions here, and its absence is an error.
//! - Small memory is taken as everywhere in Rust. In the loadable extension a reserve stands behind it
//!   (`litepack_sqlite::ffi::Allocator`). When much of the reserve is taken, [`check`] fails, and code that is about to
//!   take more gives up: so a loop that takes a little each time calls it each time.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// There is no memory left for this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

impl std::fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("out of memory")
    }
}

impl std::error::Error for OutOfMemory {}

impl From<OutOfMemory> for io::Error {
    fn from(_: OutOfMemory) -> io::Error {
        io::ErrorKind::OutOfMemory.into()
    }
}

/// Much of the reserve is taken.
static LOW: AtomicBool = AtomicBool::new(false);
/// Some memory was refused since the last look.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// For allocators: whether much of the reserve is taken.
pub fn set_low(low: bool) {
    LOW.store(low, Ordering::Relaxed);
}

/// For allocators: the system has refused memory.
pub fn note_refusal() {
    REFUSED.store(true, Ordering::Relaxed);
}

/// Whether memory was refused since this was last asked: time to give back what is only there to be faster.
pub fn was_refused() -> bool {
    REFUSED.load(Ordering::Relaxed) && REFUSED.swap(false, Ordering::Relaxed)
}

/// Whether small amounts may still be taken as if there were no end of them.
///
/// # Errors
/// When they may not.
pub fn check() -> Result<(), OutOfMemory> {
    if LOW.load(Ordering::Relaxed) {
        Err(OutOfMemory)
    } else {
        Ok(())
    }
}

/// Makes room for `more` items in a vector, which grows as it does by itself.
///
/// # Errors
/// When there is no memory for it.
pub fn room<T>(vec: &mut Vec<T>, more: usize) -> Result<(), OutOfMemory> {
    vec.try_reserve(more).map_err(|_| refused())
}

/// An empty vector with room for `len` items.
///
/// # Errors
/// When there is no memory for it.
pub fn with_room<T>(len: usize) -> Result<Vec<T>, OutOfMemory> {
    let mut vec = Vec::new();
    vec.try_reserve_exact(len).map_err(|_| refused())?;
    Ok(vec)
}

/// This many zeros.
///
/// # Errors
/// When there is no memory for it.
pub fn zeros(len: usize) -> Result<Vec<u8>, OutOfMemory> {
    let mut bytes = with_room(len)?;
    bytes.resize(len, 0);
    Ok(bytes)
}

/// Gives a vector this length; what is new are zeros.
///
/// # Errors
/// When there is no memory for it. The vector is as it was.
pub fn resize(bytes: &mut Vec<u8>, len: usize) -> Result<(), OutOfMemory> {
    room(bytes, len.saturating_sub(bytes.len()))?;
    bytes.resize(len, 0);
    Ok(())
}

/// Adds an item.
///
/// # Errors
/// When there is no memory for it. The vector is as it was.
pub fn push<T>(vec: &mut Vec<T>, item: T) -> Result<(), OutOfMemory> {
    room(vec, 1)?;
    vec.push(item);
    Ok(())
}

/// Adds bytes.
///
/// # Errors
/// When there is no memory for it. The vector is as it was.
pub fn append(vec: &mut Vec<u8>, bytes: &[u8]) -> Result<(), OutOfMemory> {
    room(vec, bytes.len())?;
    vec.extend_from_slice(bytes);
    Ok(())
}

/// A copy of bytes.
///
/// # Errors
/// When there is no memory for it.
pub fn copy(bytes: &[u8]) -> Result<Vec<u8>, OutOfMemory> {
    let mut copy = with_room(bytes.len())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// All items of an iterator.
///
/// # Errors
/// When there is no memory for them.
pub fn collect<T>(items: impl IntoIterator<Item = T>) -> Result<Vec<T>, OutOfMemory> {
    let items = items.into_iter();
    let mut vec = with_room(items.size_hint().0)?;
    for item in items {
        push(&mut vec, item)?;
    }
    Ok(vec)
}

/// A copy of bytes that can be shared.
///
/// # Errors
/// When there is no memory for it.
pub fn shared(bytes: &[u8]) -> Result<Arc<[u8]>, OutOfMemory> {
    probe(bytes.len())?;
    Ok(bytes.into())
}

/// Whether so much could be had at this moment. For what offers no other way to learn that it cannot.
///
/// # Errors
/// When it could not.
pub fn probe(len: usize) -> Result<(), OutOfMemory> {
    // Room for counts of references and the like, too.
    let probe: Vec<u8> = with_room(len.saturating_add(64))?;
    // A value that is not used would not be allocated at all.
    std::hint::black_box(&probe);
    check()
}

#[cold]
fn refused() -> OutOfMemory {
    note_refusal();
    OutOfMemory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_an_error_and_changes_nothing() {
        // With 32 bits the system may well have half of all addresses free.
        const TOO_MUCH: usize = usize::MAX / 4 * if usize::BITS == 64 { 1 } else { 3 };
        let mut bytes = vec![1, 2, 3];
        assert_eq!(resize(&mut bytes, TOO_MUCH), Err(OutOfMemory));
        assert_eq!(bytes, [1, 2, 3]);
        assert_eq!(zeros(TOO_MUCH), Err(OutOfMemory));
        assert_eq!(probe(TOO_MUCH), Err(OutOfMemory));
        assert_eq!(room(&mut Vec::<u64>::new(), usize::MAX), Err(OutOfMemory));
        assert!(was_refused());
    }

    #[test]
    fn what_can_be_had_is_there() {
        let mut bytes = zeros(2).unwrap();
        push(&mut bytes, 7).unwrap();
        append(&mut bytes, &[8, 9]).unwrap();
        resize(&mut bytes, 4).unwrap();
        assert_eq!(*shared(&bytes).unwrap(), [0, 0, 7, 8]);
        assert_eq!(copy(&bytes).unwrap(), bytes);
        assert_eq!(collect(0..3).unwrap(), [0, 1, 2]);
    }

    #[test]
    fn it_is_an_io_error_of_its_own_kind() {
        assert_eq!(
            io::Error::from(OutOfMemory).kind(),
            io::ErrorKind::OutOfMemory
        );
    }
}
