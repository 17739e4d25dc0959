//! When a file gets a dictionary, and from which samples.
//!
//! A growing database is given one as soon as it has enough pages, and a larger one when it has grown
//! several times; a packer that sees the whole database at once brings its own. Pages written earlier
//! keep what they were stored with.

use std::collections::BTreeSet;

use litepack_codec::{DictId, Dictionary, Encoder, RowSignature, SHORT_LEN_MAX, train};
use litepack_io::fixed;
use litepack_io::storage::Storage;

use crate::error::{Error, Result};
use crate::format::catalog::{DICTIONARY_LEN_MAX, LONG_DICTIONARIES_MAX};
use crate::format::guard::Kind;
use crate::format::layout::Pointer;
use crate::format::unit::Unit;
use crate::space::erase::Erase;
use crate::transaction::changes::Transaction;
use crate::transaction::store::Store;

/// The error when the catalog is full.
const TOO_MANY: Error = Error::Limit("a file has at most 4096 dictionaries");

/// No dictionary before the database has this many bytes.
const DATABASE_MIN: u64 = 1 << 20;
/// A dictionary takes at most this share of the database.
const SHARE: u64 = 100;
/// Smallest and largest dictionary made.
const LEN_MIN: u64 = 4 << 10;
const LEN_MAX: u64 = 110 << 10;
/// A larger dictionary replaces one this many times smaller.
const GROWTH: u64 = 4;
/// Bytes of samples taken while a writer waits, and by a packer.
const SAMPLE_MAX: u64 = 1 << 20;
/// The same where there is no memory to train: the largest dictionary, and what it is tried on.
const SAMPLE_UNTRAINED: u64 = 192 << 10;
/// One sample in this many is kept back to measure what the dictionary saves.
const HELD_OUT: usize = 8;

/// The length of a dictionary for a database of `size` bytes; `None` if it is too small for one.
fn dictionary_len_for(size: u64) -> Option<usize> {
    (size >= DATABASE_MIN).then(|| (size / SHARE).clamp(LEN_MIN, LEN_MAX) as usize)
}

/// Trains a dictionary of at most `max_len` bytes on `pages`, as `encoder` stores them, and returns it if it
/// saves more, on pages it was not trained on, than one percent.
fn train_if_useful(
    pages: &[Vec<u8>],
    max_len: usize,
    mut encoder: Encoder,
) -> Result<Option<Dictionary>> {
    let held_out = || pages.iter().skip(HELD_OUT - 1).step_by(HELD_OUT);
    let (mut samples, mut lens) = (Vec::new(), Vec::new());
    for (index, page) in pages.iter().enumerate() {
        if index % HELD_OUT != HELD_OUT - 1 {
            let sample = encoder.sample(page);
            litepack_io::memory::append(&mut samples, sample)?;
            lens.push(sample.len());
        }
    }
    let dictionary = match fixed::may_train() {
        true => train(&samples, &lens, max_len),
        false => untrained(&samples, max_len)?,
    };
    let Some(dictionary) = dictionary else {
        return Ok(None);
    };
    drop(samples);
    let (mut plain, mut helped) = (Vec::new(), Vec::new());
    for page in held_out() {
        encoder.encode(page, None, &mut plain)?;
        encoder.encode(page, Some(&dictionary), &mut helped)?;
    }
    Ok((helped.len() < plain.len() - plain.len() / 100).then_some(dictionary))
}

/// The last samples as they are. Pages find much of what they have in common there, and it takes no memory to make.
fn untrained(samples: &[u8], max_len: usize) -> Result<Option<Dictionary>> {
    let start = samples.len().saturating_sub(max_len);
    let bytes = litepack_io::memory::copy(samples.get(start..).unwrap_or_default())?;
    Ok((!bytes.is_empty()).then(|| Dictionary::new(bytes)))
}

impl<D: Storage> Store<D> {
    /// Adds a dictionary for pages of these signatures, or for all that no other is for, as part of the running
    /// transaction. Returns its number.
    ///
    /// # Errors
    /// The transaction is rolled back.
    pub fn add_dictionary(
        &mut self,
        dictionary: &Dictionary,
        signatures: Vec<RowSignature>,
    ) -> Result<DictId> {
        self.step(|transaction| transaction.add_dictionary(dictionary, signatures))
    }

    /// The number for pages with the same dictionary (for 0: none) that are up to date at the writing level; a new one
    /// if that is above the level of `number`. Part of the running transaction.
    ///
    /// # Errors
    /// The transaction is rolled back.
    pub fn at_level(&mut self, number: DictId) -> Result<DictId> {
        self.step(|transaction| {
            let (catalog, level) = (&transaction.image().catalog, transaction.level());
            let number = catalog.lasting(number);
            if catalog.level(number) >= level || catalog.is_long(number) {
                return Ok(number);
            }
            let catalog = transaction.change_catalog();
            let again = catalog.add_at_level(number, level).ok_or(TOO_MANY)?;
            catalog.replace(number, again);
            Ok(again)
        })
    }

    /// Pages that were stored with `former` are to be stored with `number` from now on. Part of the running
    /// transaction. A long dictionary takes no other's place: that one is what ordinary writes use.
    ///
    /// # Errors
    /// The transaction is rolled back.
    pub fn replace_dictionary(&mut self, former: DictId, number: DictId) -> Result<()> {
        self.step(|transaction| {
            if !transaction.image().catalog.is_long(number) {
                transaction.change_catalog().replace(former, number);
            }
            Ok(())
        })
    }
}

impl<D: Storage> Transaction<'_, D> {
    /// As [`Store::add_dictionary`].
    ///
    /// # Errors
    /// When there is no memory or space for it, or the file has too many.
    pub fn add_dictionary(
        &mut self,
        dictionary: &Dictionary,
        signatures: Vec<RowSignature>,
    ) -> Result<DictId> {
        if dictionary.bytes().len() > DICTIONARY_LEN_MAX {
            return Err(Error::Limit("dictionaries end at 8 MiB"));
        }
        let long = if dictionary.bytes().len() > SHORT_LEN_MAX {
            dictionary.bytes().len()
        } else {
            0
        };
        if self.image().catalog.long_len() + long > LONG_DICTIONARIES_MAX {
            return Err(Error::Limit(
                "a file's dictionaries of more than 1 MiB have at most 16 MiB together",
            ));
        }
        let pointer = self.store_metadata(Kind::Dictionary, dictionary.pack()?)?;
        let bytes = litepack_io::memory::copy(dictionary.bytes())?;
        let with = Some((Dictionary::shared(bytes), pointer));
        let level = self.level();
        let added = self.change_catalog().add(with, level, signatures);
        added.ok_or(TOO_MANY)
    }

    /// Drops all dictionaries from the catalog but the `used` ones, and returns where they were.
    pub(crate) fn keep_dictionaries(&mut self, used: BTreeSet<DictId>) -> Vec<Pointer> {
        let dropped = self.changes.image.catalog.keep(used);
        self.changes.catalog_changed |= !dropped.is_empty();
        dropped
    }

    /// The length of the dictionary to be trained, if the database has outgrown the one it has. Not if someone
    /// chose dictionaries for pages of certain signatures: then maintenance decides what else is worth one. Nor if
    /// deleted content is to be erased: it would stay in the samples.
    pub(super) fn training_due(&self) -> Option<usize> {
        let (image, writer) = (self.image(), &self.store.writer);
        let len = dictionary_len_for(image.size)?;
        if image.catalog.has_signatures() || writer.eraser.when == Erase::WithCommit {
            return None;
        }
        let outgrown = len as u64 >= image.catalog.used_len().saturating_mul(GROWTH);
        (outgrown && image.size >= writer.training_due_at).then_some(len)
    }

    /// Trains a dictionary if that is due, in place of the one for pages of no row signature in particular. True if
    /// there is a new one.
    pub(super) fn train_if_due(&mut self) -> Result<bool> {
        let Some(len) = self.training_due() else {
            return Ok(false);
        };
        // If it is not worth its place, the next try is after the database has grown again.
        self.store.writer.training_due_at = self.image().size.saturating_mul(GROWTH);
        let pages = self.samples()?;
        let encoder = self.store.writer.encoder();
        let Some(dictionary) = train_if_useful(&pages, len, encoder)? else {
            return Ok(false);
        };
        let former = self.image().catalog.default_number();
        let number = self.add_dictionary(&dictionary, Vec::new())?;
        if former != 0 {
            self.change_catalog().replace(former, number);
        }
        Ok(true)
    }

    /// Pages from all over the database, buffered ones included.
    fn samples(&mut self) -> Result<Vec<Vec<u8>>> {
        let unit_size = self.image().unit_size;
        let units = self.image().units();
        let most = match fixed::may_train() {
            true => SAMPLE_MAX,
            false => SAMPLE_UNTRAINED,
        };
        let stride = units.div_ceil((most / u64::from(unit_size)).max(1)).max(1);
        let stride = usize::try_from(stride).unwrap_or(usize::MAX);
        let mut pages = Vec::new();
        for unit in (0..units).step_by(stride).map(Unit) {
            let mut page = litepack_io::memory::zeros(unit_size as usize)?;
            match self.store.writer.buffer.get(unit) {
                Some(bytes) => page.copy_from_slice(bytes),
                None => {
                    let entry = self.image().map.get(unit, self.medium())?;
                    if entry.is_zero() {
                        continue;
                    }
                    self.load(unit, &entry, &mut page)?;
                }
            }
            pages.push(page);
        }
        Ok(pages)
    }
}
