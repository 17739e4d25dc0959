//! Eight bytes each, the lowest first: what a program has in memory.

use anyhow::{Result, ensure};

use super::Encoding;
use crate::data::Kind;

pub(super) struct Fixed;

impl Encoding for Fixed {
    fn name(&self) -> &'static str {
        "fixed 8 bytes"
    }

    fn by(&self) -> &'static str {
        "Rust"
    }

    fn encode(&mut self, _kind: Kind, values: &[i64], out: &mut Vec<u8>) -> Result<()> {
        out.reserve(8 * values.len());
        for value in values {
            out.extend_from_slice(&value.to_le_bytes());
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
        let (words, rest) = stored.as_chunks();
        ensure!(words.len() == count && rest.is_empty(), "a wrong length");
        values.extend(words.iter().map(|word| i64::from_le_bytes(*word)));
        Ok(())
    }
}
