//! Frame of reference with bit packing: in blocks of 128, the least value, and the others' distances to it in as few
//! bits as the longest needs.
//!
//! The library packs 32 bits at most, so longer distances are packed as a low and a high half. The last block is
//! packed as a whole, and stored without the zeros behind its values.

use anyhow::{Context, Result, ensure};
use bitpacking::{BitPacker, BitPacker1x, BitPacker4x};

use super::{Encoding, leb128};
use crate::data::Kind;

const BLOCK: usize = BitPacker4x::BLOCK_LEN;
const SMALL: usize = BitPacker1x::BLOCK_LEN;

pub(super) struct Frames {
    wide: BitPacker4x,
    narrow: BitPacker1x,
}

impl Default for Frames {
    fn default() -> Self {
        Self {
            wide: BitPacker4x::new(),
            narrow: BitPacker1x::new(),
        }
    }
}

/// Bits of the low and of the high half.
fn halves(bits: u32) -> [u8; 2] {
    [bits.min(32) as u8, bits.saturating_sub(32) as u8]
}

impl Frames {
    fn put(&self, block: &[i64], out: &mut Vec<u8>) {
        let least = block.iter().copied().min().unwrap_or_default();
        let most = block.iter().copied().max().unwrap_or_default();
        let bits = 64 - (most.wrapping_sub(least) as u64).leading_zeros();
        leb128::put(least, out);
        out.push(bits as u8);
        for (half, bits) in halves(bits).into_iter().enumerate() {
            let mut words = [0_u32; BLOCK];
            for (word, value) in words.iter_mut().zip(block) {
                *word = (value.wrapping_sub(least) as u64 >> (32 * half)) as u32;
            }
            let mut packed = [0; 4 * BLOCK];
            if block.len() == BLOCK {
                let len = self.wide.compress(&words, &mut packed, bits);
                out.extend_from_slice(&packed[..len]);
                continue;
            }
            for (words, values) in words.chunks(SMALL).zip(block.chunks(SMALL)) {
                self.narrow.compress(words, &mut packed, bits);
                let len = (values.len() * usize::from(bits)).div_ceil(8);
                out.extend_from_slice(&packed[..len]);
            }
        }
    }

    fn take(&self, stored: &mut &[u8], block: &mut [i64]) -> Result<()> {
        let least = leb128::take(stored)?;
        let bits = u32::from(*stored.split_off_first().context("a block is cut short")?);
        ensure!(bits <= 64, "{bits} bits are too many");
        block.fill(least);
        for (half, bits) in halves(bits).into_iter().enumerate() {
            if bits == 0 {
                continue;
            }
            let mut words = [0_u32; BLOCK];
            if block.len() == BLOCK {
                let len = BLOCK * usize::from(bits) / 8;
                let packed = stored.split_off(..len).context("a block is cut short")?;
                self.wide.decompress(packed, &mut words, bits);
            } else {
                for (words, values) in words.chunks_mut(SMALL).zip(block.chunks(SMALL)) {
                    let len = (values.len() * usize::from(bits)).div_ceil(8);
                    let packed = stored.split_off(..len).context("a block is cut short")?;
                    let mut padded = [0; 4 * SMALL];
                    padded[..len].copy_from_slice(packed);
                    self.narrow
                        .decompress(&padded[..SMALL * usize::from(bits) / 8], words, bits);
                }
            }
            for (value, word) in block.iter_mut().zip(&words) {
                *value = value.wrapping_add((u64::from(*word) << (32 * half)) as i64);
            }
        }
        Ok(())
    }
}

impl Encoding for Frames {
    fn name(&self) -> &'static str {
        "frame + bit packing"
    }

    fn by(&self) -> &'static str {
        "bitpacking 0.9"
    }

    fn encode(&mut self, _kind: Kind, values: &[i64], out: &mut Vec<u8>) -> Result<()> {
        values.chunks(BLOCK).for_each(|block| self.put(block, out));
        Ok(())
    }

    fn decode(
        &mut self,
        _kind: Kind,
        mut stored: &[u8],
        count: usize,
        values: &mut Vec<i64>,
    ) -> Result<()> {
        let start = values.len();
        values.resize(start + count, 0);
        for block in values[start..].chunks_mut(BLOCK) {
            self.take(&mut stored, block)?;
        }
        ensure!(stored.is_empty(), "more than was stored");
        Ok(())
    }
}
