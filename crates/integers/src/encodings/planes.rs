//! All lowest bytes, then all second ones, and so on: nothing is saved, but what is alike stands together.

use anyhow::{Result, ensure};

use super::Encoding;
use crate::data::Kind;

pub(super) struct Planes;

impl Encoding for Planes {
    fn name(&self) -> &'static str {
        "byte planes"
    }

    fn by(&self) -> &'static str {
        "Rust"
    }

    fn encode(&mut self, _kind: Kind, values: &[i64], out: &mut Vec<u8>) -> Result<()> {
        for plane in 0..8 {
            out.extend(values.iter().map(|value| (value >> (8 * plane)) as u8));
        }
        Ok(())
    }

    fn decode(
        &mut self,
        _kind: Kind,
        stored: &[u8],
        count: usize,
        values: &mut Vec<i64>,
    ) -> Result<()> {
        ensure!(stored.len() == 8 * count, "a wrong length");
        let start = values.len();
        values.resize(start + count, 0);
        for (plane, bytes) in stored.chunks_exact(count.max(1)).enumerate() {
            for (value, byte) in values[start..].iter_mut().zip(bytes) {
                *value |= i64::from(*byte) << (8 * plane);
            }
        }
        Ok(())
    }
}
