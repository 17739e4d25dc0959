//! When a file gets a dictionary, and from which samples.
//!
//! A growing database is given one as soon as it has enough pages, and a larger one when it has grown
//! several times; a packer that sees the whole database at once brings its own. Pages written earlier
//! keep what they were stored with.

use litepack_codec::{DictId, Dictionary, Encoder, Shape, train};

use crate::error::Result;
use crate::maintenance::erase::Erase;
use crate::maintenance::recompress::TOO_MANY;
use crate::snapshot::store::Store;
use litepack_io::storage::Storage;

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
    let Some(dictionary) = train(&samples, &lens, max_len) else {
        return Ok(None);
    };
    let (mut plain, mut helped) = (Vec::new(), Vec::new());
    for page in held_out() {
        encoder.encode(page, None, &mut plain)?;
        encoder.encode(page, Some(&dictionary), &mut helped)?;
    }
    Ok((helped.len() < plain.len() - plain.len() / 100).then_some(dictionary))
}

impl<D: Storage> Store<D> {
    /// Adds a dictionary for pages of these shapes, or for all that no other is for, as part of the running
    /// transaction. Returns its number.
    ///
    /// # Errors
    /// The transaction is dropped and the last commit is current again.
    pub fn add_dictionary(
        &mut self,
        dictionary: &Dictionary,
        shapes: Vec<Shape>,
    ) -> Result<DictId> {
        self.guarded(|store| {
            store.begin()?;
            store.put_dictionary(dictionary, shapes)
        })
    }

    fn put_dictionary(&mut self, dictionary: &Dictionary, shapes: Vec<Shape>) -> Result<DictId> {
        let pointer = self.store_metadata(&dictionary.pack()?)?;
        let bytes = litepack_io::memory::copy(dictionary.bytes())?;
        let with = Some((Dictionary::shared(bytes), pointer));
        self.writer.txn().catalog_changed = true;
        self.catalog
            .add(with, self.writer.level(), shapes)
            .ok_or(TOO_MANY)
    }

    /// The length of the dictionary to be trained, if the database has outgrown the one it has. Not if someone
    /// chose dictionaries for pages of certain shapes: then it is for maintenance to see what else is worth one. Nor if
    /// what is deleted is to be erased: it would stay in the samples.
    pub(crate) fn training_due(&self) -> Option<usize> {
        let len = dictionary_len_for(self.size)?;
        if self.catalog.has_shapes() || self.erase() == Erase::WithCommit {
            return None;
        }
        let outgrown = len as u64 >= self.catalog.used_len().saturating_mul(GROWTH);
        (outgrown && self.size >= self.writer.training_due_at).then_some(len)
    }

    /// Trains a dictionary if that is due, in place of the one for pages of no shape in particular. True if there
    /// is a new one.
    pub(crate) fn train_if_due(&mut self) -> Result<bool> {
        let Some(len) = self.training_due() else {
            return Ok(false);
        };
        // If no dictionary comes of it, the next try is after the database has grown again.
        self.writer.training_due_at = self.size.saturating_mul(GROWTH);
        let pages = self.samples()?;
        match train_if_useful(&pages, len, self.writer.encoder())? {
            Some(dictionary) => {
                let former = self.catalog.default_number();
                let number = self.put_dictionary(&dictionary, Vec::new())?;
                if former != 0 {
                    self.catalog.replace(former, number);
                }
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Pages from all over the database, buffered ones included.
    fn samples(&mut self) -> Result<Vec<Vec<u8>>> {
        let unit_size = u64::from(self.unit_size);
        let units = self.size.div_ceil(unit_size);
        let stride = units.div_ceil(SAMPLE_MAX / unit_size).max(1);
        let mut pages = Vec::new();
        for unit in (0..units).step_by(stride as usize) {
            let mut page = litepack_io::memory::zeros(unit_size as usize)?;
            match self.writer.buffered(unit) {
                Some(bytes) => page.copy_from_slice(bytes),
                None => {
                    let entry = self.map.get(unit, &self.medium)?;
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
