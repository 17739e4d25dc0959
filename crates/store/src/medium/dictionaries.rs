//! The dictionaries that a catalog names: from this handle's memory, the cache, or the file.

use std::cell::Ref;
use std::sync::Arc;

use litepack_codec::{Codec, DictId, Dictionary, Encoding, Level};
use litepack_io::storage::ReadAt;

use crate::error::{Error, Result};
use crate::format::catalog::{Catalog, Item};
use crate::format::guard::Kind;
use crate::medium::verified::Medium;

/// How a page is to be stored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    pub(crate) number: DictId,
    pub(crate) dictionary: Option<Arc<Dictionary>>,
    /// The level from which on a page with this dictionary is up to date.
    pub(crate) level: Level,
}

impl Choice {
    /// What is told of a page that was encoded so, at this level.
    pub(crate) fn encoding(&self, codec: Codec, level: Level) -> Encoding {
        Encoding {
            codec,
            dict: self.number,
            up_to_date: self.number != 0 && level >= self.level,
        }
    }
}

/// A borrowed dictionary: threads that decode with the same one would wait for each other to count references.
pub(crate) enum Held<'a> {
    Fresh(&'a Arc<Dictionary>),
    Cached(Ref<'a, Arc<Dictionary>>),
}

impl std::ops::Deref for Held<'_> {
    type Target = Arc<Dictionary>;

    fn deref(&self) -> &Arc<Dictionary> {
        match self {
            Held::Fresh(dictionary) => dictionary,
            Held::Cached(dictionary) => dictionary,
        }
    }
}

impl<D: ReadAt> Medium<D> {
    /// A dictionary; `None` if this number has none. It stays in memory while it is referenced or the cache has room
    /// for it: a file may name more than fit.
    ///
    /// # Errors
    /// When the catalog has no such number or the dictionary is damaged.
    pub(crate) fn dictionary(
        &self,
        catalog: &Catalog,
        number: DictId,
    ) -> Result<Option<Arc<Dictionary>>> {
        let held = self.borrow_dictionary(catalog, number)?;
        Ok(held.map(|found| Arc::clone(&found)))
    }

    fn borrow_dictionary<'a>(
        &'a self,
        catalog: &'a Catalog,
        number: DictId,
    ) -> Result<Option<Held<'a>>> {
        if number == 0 {
            return Ok(None);
        }
        let item = catalog.used_item(number)?;
        if item.pointer.is_none() {
            return Ok(None);
        }
        if let Some(fresh) = &item.fresh {
            return Ok(Some(Held::Fresh(fresh)));
        }
        let is_right = |found: &Dictionary| found.hash() == item.hash;
        if let Some(found) = self.dictionaries.get(&item.pointer, is_right) {
            return Ok(Some(Held::Cached(found)));
        }
        let cached = self.cache.dictionary(&item.pointer);
        let dictionary = match cached.filter(|cached| is_right(cached)) {
            Some(cached) => cached,
            None => {
                let dictionary = Dictionary::shared(self.read_dictionary(item, number)?);
                self.cache
                    .put_dictionary(&item.pointer, Arc::clone(&dictionary));
                dictionary
            }
        };
        let held = self.dictionaries.put(item.pointer, dictionary);
        Ok(Some(Held::Cached(held)))
    }

    /// The dictionary's bytes from the file.
    fn read_dictionary(&self, item: &Item, number: DictId) -> Result<Vec<u8>> {
        let stored = self.extent(item.pointer, Kind::Dictionary)?;
        let bytes = Dictionary::unpack(&stored, item.len as usize)?;
        let bytes = bytes.filter(|bytes| Dictionary::hash_of(bytes) == item.hash);
        bytes.ok_or_else(|| {
            let what = format!("dictionary {number}");
            Error::damaged(what, item.pointer.offset, "content hash is wrong")
        })
    }

    /// Reads a dictionary from the file even if it is in memory.
    ///
    /// # Errors
    /// As [`Medium::dictionary`].
    pub(crate) fn verify_dictionary(&self, catalog: &Catalog, number: DictId) -> Result<()> {
        let item = catalog.used_item(number)?;
        if !item.pointer.is_none() {
            self.read_dictionary(item, number)?;
        }
        Ok(())
    }

    /// The dictionary that a stored unit is decoded with. Units that are stored raw have a number, too, but do not need
    /// its dictionary.
    ///
    /// # Errors
    /// As [`Medium::dictionary`].
    pub(crate) fn dictionary_for<'a>(
        &'a self,
        catalog: &'a Catalog,
        storage: Encoding,
    ) -> Result<Option<Held<'a>>> {
        match storage.codec {
            Codec::Raw => Ok(None),
            _ => self.borrow_dictionary(catalog, storage.dict),
        }
    }

    /// How to store a page with this number.
    ///
    /// # Errors
    /// As [`Medium::dictionary`].
    pub(crate) fn choice(&self, catalog: &Catalog, number: DictId) -> Result<Choice> {
        Ok(Choice {
            number,
            dictionary: self.dictionary(catalog, number)?,
            level: catalog.level(number),
        })
    }
}
