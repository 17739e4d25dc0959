//! The catalog: the dictionaries of a file, each with its place, loaded when a page first needs it.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use litepack_codec::{DictId, Dictionary};

use crate::bytes::{Reader, put_varint};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::layout::Pointer;
use crate::medium::Medium;

/// No file has more dictionaries.
pub(crate) const DICTIONARIES_MAX: usize = 4096;
/// Largest dictionary.
pub(crate) const DICTIONARY_LEN_MAX: usize = 1 << 20;

/// A dictionary's place and identity.
#[derive(Clone, Debug)]
struct Listed {
    pointer: Pointer,
    hash: u128,
    loaded: OnceCell<Arc<Dictionary>>,
}

/// The dictionaries of one commit, numbered from 1.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    listed: Vec<Listed>,
}

/// Dictionaries in use anywhere in the process, by content: connections to one file share the
/// prepared form, and files never get each other's because the bytes are the identity.
static LOADED: LazyLock<Mutex<HashMap<u128, Weak<Dictionary>>>> = LazyLock::new(Mutex::default);

fn share(dictionary: Dictionary) -> Arc<Dictionary> {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    loaded.retain(|_, known| known.strong_count() > 0);
    if let Some(known) = loaded.get(&dictionary.hash()).and_then(Weak::upgrade) {
        return known;
    }
    let dictionary = Arc::new(dictionary);
    loaded.insert(dictionary.hash(), Arc::downgrade(&dictionary));
    dictionary
}

impl Catalog {
    /// The bytes on disk: count, then for each offset, length, checksum and content hash.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.listed.len() as u64);
        for Listed { pointer, hash, .. } in &self.listed {
            out.extend(pointer.offset.to_le_bytes());
            out.extend(pointer.len.to_le_bytes());
            out.extend(pointer.sum.to_le_bytes());
            out.extend(hash.to_le_bytes());
        }
        out
    }

    /// Reads a catalog; `None` if the bytes are not one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Catalog> {
        let mut fields = Reader::new(bytes);
        let count = usize::try_from(fields.varint()?)
            .ok()
            .filter(|n| *n <= DICTIONARIES_MAX)?;
        let mut listed = Vec::new();
        for _ in 0..count {
            let (offset, len) = (fields.u64()?, fields.u32()?);
            let pointer = Pointer {
                offset,
                len,
                sum: fields.u64()?,
            };
            (len > 0 && len as usize <= DICTIONARY_LEN_MAX).then_some(())?;
            listed.push(Listed {
                pointer,
                hash: fields.u128()?,
                loaded: OnceCell::new(),
            });
        }
        Some(Catalog { listed })
    }

    /// The newest dictionary: the one new pages are written with.
    pub(crate) fn newest(&self) -> Option<DictId> {
        DictId::try_from(self.listed.len())
            .ok()
            .filter(|id| *id > 0)
    }

    /// Extents of all dictionaries.
    pub(crate) fn pointers(&self) -> impl Iterator<Item = Pointer> + '_ {
        self.listed.iter().map(|listed| listed.pointer)
    }

    /// Adds a dictionary that lives at `pointer` and returns its number.
    pub(crate) fn add(&mut self, dictionary: Dictionary, pointer: Pointer) -> DictId {
        let hash = dictionary.hash();
        self.listed.push(Listed {
            pointer,
            hash,
            loaded: OnceCell::from(share(dictionary)),
        });
        self.newest().expect("the caller keeps to DICTIONARIES_MAX")
    }

    /// A dictionary was copied elsewhere.
    pub(crate) fn moved(&mut self, index: usize, to: Pointer) {
        self.listed[index].pointer = to;
    }

    /// The dictionary with this number; `None` for 0.
    ///
    /// # Errors
    /// When there is none with that number or its bytes are damaged.
    pub(crate) fn get(
        &self,
        id: DictId,
        medium: &Medium<impl Disk>,
    ) -> Result<Option<&Arc<Dictionary>>> {
        let Some(index) = usize::from(id).checked_sub(1) else {
            return Ok(None);
        };
        let listed = self.listed.get(index).ok_or_else(|| {
            Error::damaged(
                format!("dictionary {id}"),
                0,
                "the catalog has no such dictionary",
            )
        })?;
        if let Some(loaded) = listed.loaded.get() {
            return Ok(Some(loaded));
        }
        let bytes = medium.extent(listed.pointer, "dictionary")?;
        if Dictionary::hash_of(&bytes) != listed.hash {
            let what = format!("dictionary {id}");
            return Err(Error::damaged(
                what,
                listed.pointer.offset,
                "content hash is wrong",
            ));
        }
        Ok(Some(
            listed.loaded.get_or_init(|| share(Dictionary::new(bytes))),
        ))
    }
}
