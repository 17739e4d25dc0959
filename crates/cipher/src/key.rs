//! A key as the user has it, and what goes with it to the files that are made with it.

use std::sync::{Mutex, PoisonError};

use litepack_io::memory::OutOfMemory;
use litepack_reclaimable::Locked;
use zeroize::Zeroizing;

use crate::derive::{Bytes, KEY_LEN};
use crate::error::{Error, Result};
use crate::padding::Padding;

/// A passphrase, or a raw key of 32 bytes. It is in memory that is wiped when it goes, and never shown.
pub struct Key {
    pub(crate) bytes: Locked<[u8]>,
    pub(crate) is_raw: bool,
    /// The last result of stretching the passphrase: a file is opened by several handles, and each time takes long.
    pub(crate) stretched: Mutex<Option<Stretched>>,
    padding: Option<Padding>,
}

/// What Argon2id made of a passphrase.
pub(crate) struct Stretched {
    pub(crate) salt: [u8; 16],
    pub(crate) costs: Costs,
    pub(crate) key: Locked<[u8; KEY_LEN]>,
}

impl Stretched {
    /// `None` without memory: it can be made again.
    fn copy(&self) -> Option<Stretched> {
        let key = Locked::new(*self.key)?;
        Some(Stretched { key, ..*self })
    }
}

/// How raw keys are written where a passphrase could be, too: SQLCipher's way, and sqleet's.
const RAW_PREFIXES: [(&[u8], &[u8]); 3] = [(b"x'", b"'"), (b"X'", b"'"), (b"raw:", b"")];

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

    /// A key as it is written: `x'...'` or `raw:...` with 64 hexadecimal digits is a raw key, anything else a passphrase.
    ///
    /// # Errors
    /// As [`Key::passphrase`]; [`Error::NotHexadecimal`] for what begins as a raw key and is none.
    pub fn written(text: &[u8]) -> Result<Key> {
        let digits = RAW_PREFIXES.iter().find_map(|(begin, end)| {
            let rest = text.strip_prefix(*begin)?;
            rest.strip_suffix(*end)
        });
        match digits {
            Some(digits) => Key::hexadecimal(digits),
            None => Key::passphrase(text),
        }
    }

    /// A raw key as 64 hexadecimal digits.
    ///
    /// # Errors
    /// [`Error::NotHexadecimal`] for anything else, or when there is no memory.
    pub fn hexadecimal(digits: &[u8]) -> Result<Key> {
        let mut bytes: Bytes = Zeroizing::default();
        let digit = |digit: u8| char::from(digit).to_digit(16);
        let (pairs, rest) = digits.as_chunks::<2>();
        if pairs.len() != KEY_LEN || !rest.is_empty() {
            return Err(Error::NotHexadecimal);
        }
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            let (high, low) = digit(*high).zip(digit(*low)).ok_or(Error::NotHexadecimal)?;
            *byte = u8::try_from(high << 4 | low).map_err(|_| Error::NotHexadecimal)?;
        }
        Key::raw(&bytes)
    }

    fn copy_of(bytes: &[u8], is_raw: bool) -> Result<Key> {
        let bytes = Locked::copy_of(bytes).ok_or(OutOfMemory)?;
        let stretched = Mutex::new(None);
        Ok(Key {
            bytes,
            is_raw,
            stretched,
            padding: None,
        })
    }

    /// The same key for files with this padding: those that are made with it have it, and no others are opened with it.
    /// Archives have none, whatever is said here.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn with_padding(&self, padding: Padding) -> Result<Key> {
        self.with(Some(padding))
    }

    /// The same key for files of any padding.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn with_any_padding(&self) -> Result<Key> {
        self.with(None)
    }

    fn with(&self, padding: Option<Padding>) -> Result<Key> {
        let key = Key::copy_of(&self.bytes, self.is_raw)?;
        let stretched = self
            .stretched
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let stretched = stretched.as_ref().and_then(Stretched::copy);
        Ok(Key {
            padding,
            stretched: Mutex::new(stretched),
            ..key
        })
    }

    /// The padding that was said.
    pub fn padding(&self) -> Option<Padding> {
        self.padding
    }

    /// Whether this is a raw key, and no passphrase.
    pub fn is_raw(&self) -> bool {
        self.is_raw
    }

    /// Whether this is the same key.
    pub fn is_same(&self, other: &Key) -> bool {
        self.is_raw == other.is_raw && crate::block::is_equal(&self.bytes, &other.bytes)
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

    #[test]
    fn a_raw_key_is_told_from_a_passphrase_by_how_it_is_written() {
        let digits = "00112233445566778899aabbccddeeffABCDEF0123456789abcdef0123456789";
        let raw = Key::hexadecimal(digits.as_bytes()).unwrap();
        assert!(raw.is_raw && raw.bytes[..3] == [0, 0x11, 0x22] && raw.bytes[31] == 0x89);
        for text in [
            format!("x'{digits}'"),
            format!("X'{digits}'"),
            format!("raw:{digits}"),
        ] {
            assert!(Key::written(text.as_bytes()).unwrap().is_same(&raw));
        }
        for text in ["correct horse", digits, "x'", "'x", "xyz'", "rawhide"] {
            let key = Key::written(text.as_bytes()).unwrap();
            assert!(!key.is_raw && *key.bytes == *text.as_bytes() && !key.is_same(&raw));
        }
        let longer = format!("x'{digits}00'");
        for text in [
            "x''",
            "x'00'",
            "raw:",
            "raw:12",
            &longer,
            &longer.replace("AB", "AG"),
        ] {
            let refused = Key::written(text.as_bytes());
            assert!(matches!(refused, Err(Error::NotHexadecimal)), "{text}");
        }
        assert!(matches!(Key::written(b""), Err(Error::NoPassphrase)));
        assert!(matches!(Key::hexadecimal(b""), Err(Error::NotHexadecimal)));
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
