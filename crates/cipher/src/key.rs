//! A key as the user has it.

use zeroize::Zeroizing;

/// A passphrase, or a raw key of 32 bytes. It is wiped when it goes, and never shown.
pub struct Key {
    pub(crate) bytes: Zeroizing<Vec<u8>>,
    pub(crate) is_raw: bool,
}

impl Key {
    /// A key that is 32 random bytes. `None` if it has another length.
    pub fn raw(bytes: &[u8]) -> Option<Key> {
        (bytes.len() == 32).then(|| Key {
            bytes: Zeroizing::new(bytes.to_vec()),
            is_raw: true,
        })
    }

    /// A passphrase: any bytes. `None` if there are none.
    pub fn passphrase(bytes: &[u8]) -> Option<Key> {
        (!bytes.is_empty()).then(|| Key {
            bytes: Zeroizing::new(bytes.to_vec()),
            is_raw: false,
        })
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// The costs of Argon2id: what each guess of a passphrase takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// KiB of memory.
    pub memory: u32,
    /// Passes over it.
    pub passes: u32,
    /// Lanes.
    pub lanes: u32,
}

/// The least that OWASP's cheat sheet on password storage recommends (62 ms on an AMD EPYC of 2.6 GHz).
const FLOOR: Costs = Costs {
    memory: 19 << 10,
    passes: 2,
    lanes: 1,
};
/// A stranger's file asks for no more: a GiB of memory, and some seconds.
const CEILING: Costs = Costs {
    memory: 1 << 20,
    passes: 64,
    lanes: 16,
};
/// Most KiB times passes.
const WORK_MAX: u64 = 2 << 20;

impl Default for Costs {
    fn default() -> Costs {
        FLOOR
    }
}

impl Costs {
    /// Whether they are neither too low to protect a passphrase nor too high to be asked of a machine.
    pub fn are_sane(&self) -> bool {
        (FLOOR.memory..=CEILING.memory).contains(&self.memory)
            && (FLOOR.passes..=CEILING.passes).contains(&self.passes)
            && (FLOOR.lanes..=CEILING.lanes).contains(&self.lanes)
            && u64::from(self.memory) * u64::from(self.passes) <= WORK_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_lengths_and_are_not_shown() {
        assert!(Key::raw(&[1; 31]).is_none() && Key::raw(&[1; 33]).is_none());
        assert!(Key::passphrase(b"").is_none());
        let shown = format!("{:?}", [Key::raw(&[0x61; 32]), Key::passphrase(b"secret")]);
        assert_eq!(shown, "[Some(Key(..)), Some(Key(..))]");
    }

    #[test]
    fn costs_have_a_floor_and_a_ceiling() {
        assert!(Costs::default().are_sane());
        let with = |memory, passes, lanes| Costs {
            memory,
            passes,
            lanes,
        };
        assert!(with(1 << 20, 2, 16).are_sane());
        let wrong = [
            with((19 << 10) - 1, 2, 1),
            with(19 << 10, 1, 1),
            with(19 << 10, 2, 0),
            with((1 << 20) + 1, 2, 1),
            with(1 << 20, 3, 1),
            with(19 << 10, 65, 1),
            with(19 << 10, 2, 17),
            with(u32::MAX, u32::MAX, u32::MAX),
        ];
        for costs in wrong {
            assert!(!costs.are_sane(), "{costs:?}");
        }
    }
}
