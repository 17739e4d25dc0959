//! A key as the user has it.

use litepack_io::memory::OutOfMemory;
use litepack_reclaimable::Locked;

use crate::error::{Error, Result};

/// A passphrase, or a raw key of 32 bytes. It is in memory that is wiped when it goes, and never shown.
pub struct Key {
    pub(crate) bytes: Locked<[u8]>,
    pub(crate) is_raw: bool,
}

impl Key {
    /// A key that is 32 random bytes.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn raw(bytes: &[u8; 32]) -> Result<Key> {
        Key::copy_of(bytes, true)
    }

    /// A passphrase: any bytes.
    ///
    /// # Errors
    /// [`Error::NoPassphrase`] if there are none, or when there is no memory.
    pub fn passphrase(bytes: &[u8]) -> Result<Key> {
        match bytes {
            [] => Err(Error::NoPassphrase),
            bytes => Key::copy_of(bytes, false),
        }
    }

    fn copy_of(bytes: &[u8], is_raw: bool) -> Result<Key> {
        let bytes = Locked::copy_of(bytes).ok_or(OutOfMemory)?;
        Ok(Key { bytes, is_raw })
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
/// A stranger's file asks for no more: 256 MiB of memory, and some seconds.
const CEILING: Costs = Costs {
    memory: 256 << 10,
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
    fn keys_are_not_empty_and_not_shown() {
        let refused = Key::passphrase(b"");
        assert!(matches!(refused, Err(Error::NoPassphrase)));
        let shown = format!("{:?}", [Key::raw(&[0x61; 32]), Key::passphrase(b"secret")]);
        assert_eq!(shown, "[Ok(Key(..)), Ok(Key(..))]");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn keys_are_not_in_core_dumps() {
        for key in [Key::raw(&[1; 32]), Key::passphrase(&[2; 9000])] {
            let key = key.unwrap();
            assert!(!crate::testing::is_in_core_dumps(&*key.bytes));
        }
        assert!(crate::testing::is_in_core_dumps(&*vec![1; 32]));
    }

    #[test]
    fn costs_have_a_floor_and_a_ceiling() {
        assert!(Costs::default().are_sane());
        let with = |memory, passes, lanes| Costs {
            memory,
            passes,
            lanes,
        };
        assert!(with(256 << 10, 8, 16).are_sane());
        let wrong = [
            with((19 << 10) - 1, 2, 1),
            with(19 << 10, 1, 1),
            with(19 << 10, 2, 0),
            with((256 << 10) + 1, 2, 1),
            with(256 << 10, 9, 1),
            with(19 << 10, 65, 1),
            with(19 << 10, 2, 17),
            with(u32::MAX, u32::MAX, u32::MAX),
        ];
        for costs in wrong {
            assert!(!costs.are_sane(), "{costs:?}");
        }
    }
}
