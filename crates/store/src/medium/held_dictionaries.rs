//! Dictionaries that one handle has used. The shared cache has them too, but there threads that decode with the same one
//! wait for each other to count references.

use std::cell::{Ref, RefCell};
use std::sync::Arc;

use litepack_codec::{Dictionary, SHORT_LEN_MAX};
use litepack_io::fixed;

use crate::format::layout::Pointer;

/// The dictionaries of a handle, by their pointers: a pointer has the checksum, so an entry is never wrong.
#[derive(Debug, Default)]
pub(crate) struct HeldDictionaries(RefCell<Vec<(Pointer, Arc<Dictionary>)>>);

/// Most dictionaries a handle keeps, and their bytes; a single one may have more. zstd's tables for decoding take about
/// as much again. A page whose dictionary is not here may have to wait a millisecond for it, so they are not many times
/// fewer where memory is short.
const DICTIONARIES: usize = 16;
const DICTIONARY_BYTES: usize = 2 << 20;
const DICTIONARY_BYTES_MIN: usize = 256 << 10;
/// The same for long dictionaries, in a container of any size: all that a file is packed with. It takes some milliseconds
/// to read one, and a page of another tree may need the other one.
const LONG_BYTES: usize = 16 << 20;

impl HeldDictionaries {
    /// The dictionary that is stored at `pointer`, if it is here and `is_right`.
    pub(crate) fn get(
        &self,
        pointer: &Pointer,
        is_right: impl Fn(&Dictionary) -> bool,
    ) -> Option<Ref<'_, Arc<Dictionary>>> {
        let held = self.0.borrow();
        let found = Ref::filter_map(held, |held| {
            let mut held = held.iter();
            let found = held.find(|(known, found)| known == pointer && is_right(found))?;
            Some(&found.1)
        });
        found.ok()
    }

    /// Keeps a dictionary, in the place of those that came first.
    #[expect(clippy::indexing_slicing, reason = "one was just put there")]
    pub(crate) fn put(
        &self,
        pointer: Pointer,
        dictionary: Arc<Dictionary>,
    ) -> Ref<'_, Arc<Dictionary>> {
        let mut held = self.0.borrow_mut();
        held.retain(|(known, _)| *known != pointer);
        let is_long = |known: &Dictionary| known.bytes().len() > SHORT_LEN_MAX;
        let (most, long) = match is_long(&dictionary) {
            true => (LONG_BYTES, true),
            false => {
                let most = fixed::part(DICTIONARY_BYTES).max(DICTIONARY_BYTES_MIN);
                (most, false)
            }
        };
        let alike = held.iter().filter(|(_, known)| is_long(known) == long);
        let (mut count, mut bytes) = alike.fold((0, 0), |(count, bytes), (_, known)| {
            (count + 1, bytes + known.bytes().len())
        });
        bytes += dictionary.bytes().len();
        while count >= DICTIONARIES || bytes > most {
            let first = held.iter().position(|(_, known)| is_long(known) == long);
            let Some(first) = first else {
                break;
            };
            bytes -= held.remove(first).1.bytes().len();
            count -= 1;
        }
        held.push((pointer, dictionary));
        drop(held);
        Ref::map(self.0.borrow(), |held| &held[held.len() - 1].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::offset::FileOffset;

    #[test]
    fn held_dictionaries_have_a_limit() {
        let dictionaries = HeldDictionaries::default();
        let place = |offset| Pointer {
            offset: FileOffset(offset),
            len: 100,
            sum: 7,
        };
        let put = |offset: u64, len: usize| {
            let dictionary = Dictionary::shared(vec![offset as u8; len]);
            let held = dictionaries.put(place(offset), dictionary);
            assert_eq!(held.bytes()[0], offset as u8);
        };
        let held = || {
            let held = dictionaries.0.borrow();
            held.iter().map(|(at, _)| at.offset.0).collect::<Vec<_>>()
        };
        (0..20).for_each(|offset| put(offset, 1000));
        assert_eq!(held(), (4..20).collect::<Vec<_>>());
        assert!(dictionaries.get(&place(7), |_| true).is_some());
        assert!(dictionaries.get(&place(7), |_| false).is_none());
        put(50, DICTIONARY_BYTES / 2);
        put(51, DICTIONARY_BYTES / 2 - 1500);
        assert_eq!(held(), [19, 50, 51]);
        // Long ones have a limit of their own: two trees that are read in turn keep theirs.
        put(60, 8 << 20);
        put(61, 7 << 20);
        assert_eq!(held(), [19, 50, 51, 60, 61]);
        put(62, 2 << 20);
        assert_eq!(held(), [19, 50, 51, 61, 62]);
        put(63, 40 << 20);
        assert_eq!(held(), [19, 50, 51, 63]);
    }
}
