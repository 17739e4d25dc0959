//! Dictionaries of several lengths, trained on pages of a group and measured on others of it.

use std::sync::Arc;

use litepack_codec::{DictId, Dictionary, Encoder, RowSignature, Samples};
use litepack_io::interrupt::{self, Halt};

use super::GROUP_MIN;
use super::effort::Effort;

/// A dictionary has to save one part in this many to be used.
const WORTHWHILE: u64 = 100;
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
    /// What the group takes now, in bytes, if it is in a file.
    pub(super) now: Option<u64>,
}

/// The best that was found for a group: what it would take, and the dictionary, if one pays.
pub(super) struct Best {
    pub(super) cost: u64,
    /// What it takes without a dictionary, which `cost` is a little below of: so much one has to save.
    pub(super) bare: u64,
    pub(super) dictionary: Option<Dictionary>,
}

impl Trial {
    /// What the group would take with a dictionary, in bytes.
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

    /// What the group takes if the pages that are held out take so much.
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
        };
        if self.is_small() {
            return Ok(Some(best));
        }
        for len in effort.lengths(self.bytes) {
            let trained = self.samples.train(len)?;
            tried();
            let Some(dictionary) = trained else {
                continue;
            };
            let len = dictionary.pack()?.len() as u64;
            let cost = self.cost(&mut encoder, Some(&dictionary))? + len;
            if cost < best.cost {
                best.cost = cost;
                best.dictionary = Some(dictionary);
            }
        }
        Ok(Some(best))
    }
}
