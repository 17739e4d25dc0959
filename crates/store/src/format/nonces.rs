//! The nonces of a leaf's extents, in an encrypted file.
//!
//! Units that were written together have one salt and neighbouring counters. So a leaf has each salt once, and a number
//! for each extent: the counter, and above its 40 bits which salt it is with. In the file the numbers are runs, as the
//! places of extents are.

use litepack_cipher::{COUNTER_LIMIT, Nonce, Salt};
use litepack_io::bytes::{Reader, put_varint};
use twox_hash::XxHash3_64;

use crate::format::leaf::FANOUT;

/// A leaf has an extent of its own and a former one for each unit.
pub(crate) const SALTS_MAX: usize = 2 * FANOUT;
/// No nonce.
const NONE: u64 = u64::MAX;

/// What stands for a nonce where 32 bits of it are enough, as in the keys of the cache.
#[expect(clippy::cast_possible_truncation, reason = "half of a hash is one")]
pub(crate) fn sum_of(nonce: &Nonce) -> u32 {
    let seed = nonce.counter;
    XxHash3_64::oneshot_with_seed(seed, &nonce.salt) as u32
}

/// Which salts there are, in the order of their indexes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Salts(Vec<Salt>);

impl Salts {
    /// The number of a nonce, whose salt is added if it is not here. `None` if there is no room for one.
    pub(crate) fn number(&mut self, nonce: &Nonce) -> Option<u64> {
        let known = self.0.iter().rposition(|salt| *salt == nonce.salt);
        let index = match known {
            Some(index) => index,
            None if self.0.len() < SALTS_MAX => {
                self.0.push(nonce.salt);
                self.0.len() - 1
            }
            None => return None,
        };
        debug_assert!(nonce.counter < COUNTER_LIMIT, "sessions end before");
        Some(index as u64 * COUNTER_LIMIT + nonce.counter)
    }

    /// The nonce with a number.
    pub(crate) fn nonce(&self, number: u64) -> Option<Nonce> {
        let index = usize::try_from(number / COUNTER_LIMIT).ok()?;
        Some(Nonce {
            salt: *self.0.get(index)?,
            counter: number % COUNTER_LIMIT,
        })
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.0.len() as u64);
        self.0.iter().for_each(|salt| out.extend(salt));
    }

    pub(crate) fn read(fields: &mut Reader<'_>) -> Option<Salts> {
        let count = usize::try_from(fields.varint()?).ok();
        let count = count.filter(|count| *count <= SALTS_MAX)?;
        let salts = fields.bytes(16 * count)?.as_chunks().0;
        Some(Salts(salts.to_vec()))
    }
}

/// The nonces of a leaf in memory.
#[derive(Clone, Debug)]
pub(crate) struct Nonces {
    salts: Salts,
    own: [u64; FANOUT],
    /// Of former extents.
    former: Option<Box<[u64; FANOUT]>>,
}

impl Default for Nonces {
    fn default() -> Nonces {
        Nonces {
            salts: Salts::default(),
            own: [NONE; FANOUT],
            former: None,
        }
    }
}

impl Nonces {
    /// Those of the unit at `slot`: of its own extent, and of the former one.
    pub(crate) fn get(&self, slot: usize) -> (Nonce, Nonce) {
        let former = self.former.as_ref().and_then(|former| former.get(slot));
        let of = |number: Option<&u64>| {
            let nonce = number.and_then(|number| self.salts.nonce(*number));
            nonce.unwrap_or_default()
        };
        (of(self.own.get(slot)), of(former))
    }

    /// Sets those of the unit at `slot`, below [`FANOUT`]. An extent that is not sealed has [`Nonce::NONE`].
    #[expect(clippy::indexing_slicing, reason = "`slot` is below `FANOUT`")]
    pub(crate) fn set(&mut self, slot: usize, own: &Nonce, former: &Nonce) {
        self.own[slot] = NONE;
        if let Some(numbers) = &mut self.former {
            numbers[slot] = NONE;
        }
        self.own[slot] = self.number(own);
        let number = self.number(former);
        if number != NONE || self.former.is_some() {
            let numbers = self.former.get_or_insert_with(|| Box::new([NONE; FANOUT]));
            numbers[slot] = number;
        }
    }

    fn number(&mut self, nonce: &Nonce) -> u64 {
        if *nonce == Nonce::NONE {
            return NONE;
        }
        self.salts.number(nonce).unwrap_or_else(|| {
            self.drop_unused();
            self.salts.number(nonce).unwrap_or(NONE)
        })
    }

    /// Forgets the salts that no extent has any more: those of at most one extent less than there is room for stay.
    fn drop_unused(&mut self) {
        let before = std::mem::take(&mut self.salts);
        let former = self.former.iter_mut().flat_map(|former| former.iter_mut());
        for number in self.own.iter_mut().chain(former) {
            let nonce = before.nonce(*number);
            let renewed = nonce.and_then(|nonce| self.salts.number(&nonce));
            *number = renewed.unwrap_or(NONE);
        }
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let former = self.former.as_deref().map_or(0, size_of_val);
        size_of::<Nonces>() + former + self.salts.0.capacity() * size_of::<Salt>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nonce(salt: u64, counter: u64) -> Nonce {
        let mut bytes = [7; 16];
        bytes[..8].copy_from_slice(&salt.to_le_bytes());
        Nonce {
            salt: bytes,
            counter,
        }
    }

    proptest! {
        /// With more salts than there is room for, of which no more are in use.
        #[test]
        fn what_was_set_is_what_is_found(
            changes in proptest::collection::vec((0..FANOUT, 0..400u64, 0..COUNTER_LIMIT, 0..3u8), 0..2000),
        ) {
            let mut nonces = Nonces::default();
            let mut model = [(Nonce::NONE, Nonce::NONE); FANOUT];
            for (slot, salt, counter, kind) in changes {
                let own = if kind > 0 { nonce(salt, counter) } else { Nonce::NONE };
                let former = if kind > 1 { nonce(salt + 1000, counter / 2) } else { Nonce::NONE };
                nonces.set(slot, &own, &former);
                model[slot] = (own, former);
            }
            for (slot, expected) in model.iter().enumerate() {
                prop_assert_eq!(nonces.get(slot), *expected);
            }
        }
    }

    #[test]
    fn hostile_salts_are_few() {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, SALTS_MAX as u64 + 1);
        bytes.resize(20_000, 0);
        assert!(Salts::read(&mut Reader::new(&bytes)).is_none());
        bytes.clear();
        put_varint(&mut bytes, u64::MAX);
        assert!(Salts::read(&mut Reader::new(&bytes)).is_none());
    }
}
