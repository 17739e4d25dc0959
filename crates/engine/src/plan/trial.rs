//! Dictionaries of several lengths, trained on pages of a group and measured on others of it.

use std::sync::Arc;

use litepack_codec::{DictId, Dictionary, Encoder, RowSignature, Samples};
use litepack_io::interrupt::{self, Halt};

use super::effort::Effort;

/// A dictionary has to save one part in this many to be used.
const WORTHWHILE: u64 = 100;

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
}

/// The best that was found for a group: what it would take, and the dictionary, if one pays.
pub(super) struct Best {
    pub(super) cost: u64,
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
        let held_out: usize = self.held_out.iter().map(Vec::len).sum();
        Ok((stored.len() as u128 * u128::from(self.bytes) / held_out.max(1) as u128) as u64)
    }

    /// Trains dictionaries and finds the best one. `None` if there is too little of the group.
    pub(super) fn best(&self, effort: Effort) -> Result<Option<Best>, Halt> {
        if self.held_out.is_empty() {
            return Ok(None);
        }
        let mut encoder = effort.encoder();
        let bare = self.cost(&mut encoder, None)?;
        let mut best = Best {
            cost: bare - bare / WORTHWHILE,
            dictionary: None,
        };
        for len in effort.lengths(self.bytes) {
            let Some(dictionary) = self.samples.train(len)? else {
                continue;
            };
            let len = dictionary.pack()?.len() as u64;
            let cost = self.cost(&mut encoder, Some(&dictionary))? + len;
            if cost < best.cost {
                best = Best {
                    cost,
                    dictionary: Some(dictionary),
                };
            }
        }
        Ok(Some(best))
    }
}
