//! The part of its file that a log needs, and what is durable of the log.
//!
//! Who writes to the file takes what the log does not need. A power loss must not bring back a log that needs more, so
//! what was found is durable before it is told, also that there is nothing. A failed sync may have given up what it
//! should have written, and a later one that returns proves nothing then. Only the holder of the lock to write can write
//! it again: until then the log may need everything.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use litepack_cipher::Keys;
use litepack_io::storage::Storage;

use crate::binding::{BoundTo, FileState, Needed, Verdict};
use crate::error::{Error, Result};
use crate::format::head::{FileKind, Generation, HEAD_LEN, Head};
use crate::medium::Medium;

/// How often the file and the log are looked at until both stay as they were.
pub(crate) const LOOKS_MAX: usize = 1000;

/// The state of syncs of a log's file. Handles of one process that share this know it of each other.
#[derive(Clone, Debug, Default)]
pub struct Synced(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// The slot of this generation is durable.
    generation: Option<[u8; 16]>,
    /// A sync has failed, and what it gave up was not written again.
    has_given_up: bool,
    /// Counts both: a sync that began before either proves nothing.
    epoch: u64,
}

impl Synced {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the slot of this generation is durable.
    pub(crate) fn has(&self, generation: Option<[u8; 16]>) -> bool {
        generation.is_some() && self.known().generation == generation
    }

    /// A sync begins.
    pub(crate) fn begins(&self) -> u64 {
        self.known().epoch
    }

    /// A sync has returned that began at this epoch, when the file had the slot of this generation. False if it proves
    /// nothing.
    pub(crate) fn note(&self, epoch: u64, generation: Option<[u8; 16]>) -> bool {
        let mut known = self.known();
        let is_proof = !known.has_given_up && known.epoch == epoch;
        if is_proof && generation.is_some() {
            known.generation = generation;
        }
        is_proof
    }

    pub(crate) fn has_given_up(&self) -> bool {
        self.known().has_given_up
    }

    /// A sync has failed.
    pub(crate) fn gives_up(&self) {
        let mut known = self.known();
        *known = Known {
            generation: None,
            has_given_up: true,
            epoch: known.epoch + 1,
        };
    }

    /// The holder of the lock to write has written again all that was given up.
    pub(crate) fn is_written_again(&self) {
        let mut known = self.known();
        known.has_given_up = false;
        known.epoch += 1;
    }
}

/// The part of its file that the log in this storage needs, durably.
pub(crate) fn needed<S: Storage>(
    medium: &Medium<S>,
    file: Option<&(dyn BoundTo + Send)>,
    keys: Option<&Keys>,
    synced: &Synced,
) -> Result<Needed> {
    if synced.has_given_up() {
        return Ok(Needed::Everything);
    }
    let (needed, generation) = look(medium, file, keys)?;
    if !synced.has(generation) {
        let epoch = synced.begins();
        if let Err(error) = medium.storage().sync() {
            synced.gives_up();
            return Err(error.into());
        }
        if !synced.note(epoch, generation) {
            return Ok(Needed::Everything);
        }
    }
    Ok(needed)
}

/// The same as far as can be seen. After a failed sync it is what [`needed`] says, or estimates would promise space that
/// is held.
pub(crate) fn seems_needed<S: Storage>(
    medium: &Medium<S>,
    file: Option<&(dyn BoundTo + Send)>,
    keys: Option<&Keys>,
    synced: &Synced,
) -> Result<Needed> {
    match synced.has_given_up() {
        true => Ok(Needed::Everything),
        false => Ok(look(medium, file, keys)?.0),
    }
}

/// The part that it needs by its head, and the id of the newest generation.
fn look<S: Storage>(
    medium: &Medium<S>,
    file: Option<&(dyn BoundTo + Send)>,
    keys: Option<&Keys>,
) -> Result<(Needed, Option<[u8; 16]>)> {
    let state = || file.map(|file| file.state()).transpose();
    let head = || medium.read(0, HEAD_LEN);
    let (mut found, mut bytes) = (state()?.flatten(), head()?);
    for _ in 0..LOOKS_MAX {
        // Both were there together, and none was just being written.
        let (bytes_again, found_again) = (head()?, state()?.flatten());
        if bytes_again == bytes && found_again == found {
            let head = medium.head_of(&bytes, keys)?;
            return Ok(by_head(head, &bytes, file.map(|_| found.as_ref()), keys));
        }
        (bytes, found) = (bytes_again, found_again);
    }
    Err(Error::restless())
}

/// The same of a log with this head, which are these bytes, beside a file that says this; `None` if it cannot be asked.
fn by_head(
    head: Head,
    bytes: &[u8],
    state: Option<Option<&FileState>>,
    keys: Option<&Keys>,
) -> (Needed, Option<[u8; 16]>) {
    let is_unfinished = state.flatten().is_some_and(|state| state.is_unfinished);
    let generation = match head {
        Head::Newest { generation, .. } => generation,
        _ if is_unfinished => return (Needed::Everything, None),
        Head::Empty => return (Needed::Nothing, None),
        // One of SQLite's stands on nothing.
        Head::Broken if FileKind::of(bytes) == FileKind::Wal => return (Needed::Nothing, None),
        // Who finds a way to read it may need it.
        Head::Torn | Head::Broken => return (Needed::Everything, None),
    };
    let needed = match generation.base {
        None => Needed::Nothing,
        Some(base) if !is_refused(&generation, state, keys) => Needed::Commit(base),
        // If a power loss takes the commit that refuses it, it may follow the one before.
        Some(_) => match state.flatten() {
            Some(state) if state.is_durable && !is_unfinished => Needed::Nothing,
            _ => Needed::Everything,
        },
    };
    (needed, Some(generation.id))
}

fn is_refused(
    generation: &Generation,
    state: Option<Option<&FileState>>,
    keys: Option<&Keys>,
) -> bool {
    let refuses = |state| matches!(generation.binding.judge(state), Verdict::Refused(_));
    generation.refused_key(keys).is_some() || state.is_some_and(refuses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_that_began_before_one_failed_is_not_believed() {
        let (synced, one, two) = (Synced::default(), Some([1; 16]), Some([2; 16]));
        let before = synced.begins();
        assert!(synced.note(before, one) && synced.has(one) && !synced.has(None));
        synced.gives_up();
        let between = synced.begins();
        assert!(!synced.note(before, one) && !synced.note(between, one));
        assert!(synced.has_given_up() && !synced.has(one));
        synced.is_written_again();
        assert!(!synced.note(before, two) && !synced.note(between, two) && !synced.has(two));
        assert!(synced.note(synced.begins(), two) && synced.has(two));
    }
}
