//! Dictionaries of several lengths, trained on pages of a group and measured on others of it.

use std::sync::Arc;

use litepack_codec::{DictId, Dictionary, Encoder, RowSignature, SHORT_LEN_MAX, Samples};
use litepack_io::interrupt::{self, Halt};

use super::GROUP_MIN;
use super::effort::Effort;

/// A dictionary has to save one part in this many to be used.
const WORTHWHILE: u64 = 100;
/// Beside a long dictionary the longest one for ordinary writes: it is stored as well.
const BESIDE_LONG: usize = 128 << 10;
/// And so many bytes, for pages that are too few for one of their own.
const SMALL_GAIN: u64 = 2 << 10;

/// The pages of a group that dictionaries are trained and measured on.
#[derive(Default)]
pub(super) struct Trial {
    /// Bytes of the whole group.
    pub(super) bytes: u64,
    pub(super) signatures: Vec<RowSignature>,
    /// The dictionary that most of its units have.
    pub(super) former: DictId,
    /// Shared with the trainer, which an interrupt leaves behind.
    pub(super) samples: Arc<Samples>,
    pub(super) held_out: Vec<Vec<u8>>,
    /// Bytes the group takes now, if it is in a file.
    pub(super) now: Option<u64>,
}

/// The best that was found for a group: what it would take, and the dictionary, if one pays.
pub(super) struct Best {
    pub(super) cost: u64,
    /// Bytes it takes without a dictionary. `cost` is a little below that: so much a dictionary has to save.
    pub(super) bare: u64,
    pub(super) dictionary: Option<Dictionary>,
    pub(super) long: Option<Long>,
}

/// A long dictionary, what the group would take with it, and a short one for ordinary writes beside it, which the cost
/// has in it.
pub(super) struct Long {
    pub(super) cost: u64,
    pub(super) dictionary: Dictionary,
    pub(super) beside: Dictionary,
}

impl Trial {
    /// Bytes the group would take with a dictionary.
    pub(super) fn cost(
        &self,
        encoder: &mut Encoder,
        dictionary: Option<&Dictionary>,
    ) -> Result<u64, Halt> {
        let mut stored = Vec::new();
        for page in &self.held_out {
            interrupt::check()?;
            encoder.encode(page, dictionary, &mut stored)?;
        }
        Ok(self.of_all(stored.len() as u64))
    }

    /// Bytes of the whole group if the pages held out take `stored`.
    pub(super) fn of_all(&self, stored: u64) -> u64 {
        let held_out: usize = self.held_out.iter().map(Vec::len).sum();
        (u128::from(stored) * u128::from(self.bytes) / held_out.max(1) as u128) as u64
    }

    /// Whether the group is too small for a dictionary of its own. All its pages are measured then.
    pub(super) fn is_small(&self) -> bool {
        self.bytes < GROUP_MIN
    }

    /// Trains dictionaries and finds the best one. `None` if there is too little of the group. `tried` is called after each
    /// length.
    pub(super) fn best(&self, effort: Effort, tried: &dyn Fn()) -> Result<Option<Best>, Halt> {
        if self.held_out.is_empty() {
            return Ok(None);
        }
        let mut encoder = effort.encoder();
        let bare = self.cost(&mut encoder, None)?;
        let least = if self.is_small() { SMALL_GAIN } else { 0 };
        let mut best = Best {
            cost: bare - (bare / WORTHWHILE).max(least).min(bare),
            bare,
            dictionary: None,
            long: None,
        };
        if self.is_small() {
            return Ok(Some(best));
        }
        let (mut longest, mut beside) = (None, None::<(u64, u64, Dictionary)>);
        for len in effort.lengths(self.bytes) {
            let trained = self.samples.train(len)?;
            tried();
            let Some(dictionary) = trained else {
                continue;
            };
            let stored = dictionary.pack()?.len() as u64;
            let cost = self.cost(&mut encoder, Some(&dictionary))? + stored;
            if effort.long_max > 0 {
                let copy = || {
                    let bytes = litepack_io::memory::copy(dictionary.bytes());
                    bytes.map(Dictionary::new)
                };
                if longest.is_none() {
                    longest = Some(copy()?);
                }
                let least = beside.as_ref().is_none_or(|(least, ..)| cost < *least);
                if dictionary.bytes().len() <= BESIDE_LONG && least {
                    beside = Some((cost, stored, copy()?));
                }
            }
            if cost < best.cost {
                best.cost = cost;
                best.dictionary = Some(dictionary);
            }
        }
        if let (Some(longest), Some((_, stored, beside))) = (longest, beside) {
            best.long = self.long(effort, &longest, beside, (stored, best.cost))?;
        }
        Ok(Some(best))
    }

    /// The best long dictionary, if one saves enough of what the group costs so far. The one for ordinary writes takes so
    /// many bytes as stored.
    fn long(
        &self,
        effort: Effort,
        trained: &Dictionary,
        beside: Dictionary,
        (stored, cost): (u64, u64),
    ) -> Result<Option<Long>, Halt> {
        let mut least = cost - cost / WORTHWHILE;
        let mut best = None;
        for len in effort.long_lengths(self.bytes) {
            let Some(dictionary) = self.samples.extend(trained, len)? else {
                continue;
            };
            if dictionary.bytes().len() <= SHORT_LEN_MAX {
                continue;
            }
            let own = dictionary.pack()?.len() as u64 + stored;
            let cost = self.cost(&mut effort.encoder(), Some(&dictionary))? + own;
            if cost < least {
                least = cost;
                best = Some(dictionary);
            }
        }
        Ok(best.map(|dictionary| Long {
            cost: least,
            dictionary,
            beside,
        }))
    }
}
