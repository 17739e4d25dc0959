//! Lengths that say less.
//!
//! Compression makes a length depend on content. So what is sealed can be padded: a byte 0x80 and zeros behind it, as in
//! ISO/IEC 7816-4, until all of it and its tag have a multiple of some power of two. What is padded has other keys than
//! what is not: who writes another padding into a file's header finds that nothing opens.

use litepack_io::memory;

use crate::error::{Error, Result};
use crate::session::TAG_LEN;

/// The first byte of the padding.
const FIRST: u8 = 0x80;

/// Of what lengths are a multiple.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Padding(u32);

impl Padding {
    /// Lengths stay as they are.
    pub const NONE: Padding = Padding(0);
    /// The least and the greatest padding in bytes.
    pub const BYTES: std::ops::RangeInclusive<u32> = 64..=4096;

    /// To a multiple of so many bytes, a power of two within [`Padding::BYTES`]; none by 0.
    pub fn new(bytes: u32) -> Option<Padding> {
        let is_valid = bytes == 0 || (bytes.is_power_of_two() && Padding::BYTES.contains(&bytes));
        is_valid.then_some(Padding(bytes))
    }

    /// Lengths are a multiple of so many bytes; 0 if they stay as they are.
    pub fn bytes(self) -> u32 {
        self.0
    }

    /// Whether lengths stay as they are.
    pub fn is_none(self) -> bool {
        self == Padding::NONE
    }

    /// Bytes of what has `len` bytes when it is sealed, the tag included.
    pub fn sealed_len(self, len: usize) -> usize {
        match self.0 {
            0 => len + TAG_LEN,
            bytes => (len + 1 + TAG_LEN).next_multiple_of(bytes as usize),
        }
    }

    /// By how many bytes anything gets longer at most.
    pub fn excess(self) -> usize {
        TAG_LEN + self.0 as usize
    }

    /// Pads `bytes` from `start` on for the tag to come, for which there is room then.
    pub(crate) fn pad(self, bytes: &mut Vec<u8>, start: usize) -> Result<()> {
        let len = bytes.len().saturating_sub(start);
        let padded = self.sealed_len(len) - TAG_LEN;
        memory::room(bytes, padded - len + TAG_LEN)?;
        if padded > len {
            bytes.push(FIRST);
            bytes.resize(start + padded, 0);
        }
        Ok(())
    }

    /// What was padded.
    pub(crate) fn strip(self, padded: &mut [u8]) -> Result<&mut [u8]> {
        if self.is_none() {
            return Ok(padded);
        }
        let last = padded.iter().rposition(|byte| *byte != 0);
        match last.and_then(|last| padded.split_at_mut_checked(last)) {
            Some((content, [FIRST, ..])) => Ok(content),
            _ => Err(Error::NotAuthentic),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_multiples_and_content_is_what_it_was() {
        for bytes in [0, 64, 256, 4096] {
            let padding = Padding::new(bytes).unwrap();
            for len in [0, 1, 46, 47, 48, 239, 240, 4079, 4080, 4096, 65_536] {
                for last in [0, FIRST, 7] {
                    let mut padded = vec![9; 3];
                    padded.resize(3 + len, last);
                    padding.pad(&mut padded, 3).unwrap();
                    let sealed = padded.len() - 3 + TAG_LEN;
                    assert_eq!(sealed, padding.sealed_len(len));
                    assert!(sealed <= len + padding.excess());
                    assert!(bytes == 0 || sealed.is_multiple_of(bytes as usize));
                    let content = padding.strip(&mut padded[3..]).unwrap();
                    assert!(content.len() == len && content.iter().all(|byte| *byte == last));
                }
            }
        }
    }

    #[test]
    fn what_is_not_padded_is_refused() {
        let padding = Padding::new(64).unwrap();
        for mut bytes in [vec![], vec![0; 64], vec![1; 64], vec![FIRST, 1, 0]] {
            assert_eq!(padding.strip(&mut bytes), Err(Error::NotAuthentic));
        }
    }

    #[test]
    fn a_padding_is_a_power_of_two_within_bounds() {
        for bytes in [1, 32, 63, 65, 96, 3000, 8192, u32::MAX] {
            assert_eq!(Padding::new(bytes), None, "{bytes}");
        }
        assert_eq!(Padding::new(0), Some(Padding::NONE));
    }
}
