//! Seven bits a byte, signs zig-zag coded: of the values, and of their differences.

use anyhow::{Context, Result, ensure};
use integer_encoding::VarInt;

use super::Encoding;
use crate::data::Kind;

pub(super) struct Leb128;
pub(super) struct Deltas;

pub(super) fn put(value: i64, out: &mut Vec<u8>) {
    let mut bytes = [0; 10];
    let len = value.encode_var(&mut bytes);
    out.extend_from_slice(&bytes[..len]);
}

pub(super) fn take(stored: &mut &[u8]) -> Result<i64> {
    let (value, len) = i64::decode_var(stored).context("a number is cut short")?;
    *stored = &stored[len..];
    Ok(value)
}

impl Encoding for Leb128 {
    fn name(&self) -> &'static str {
        "LEB128"
    }

    fn by(&self) -> &'static str {
        "integer-encoding 4.1"
    }

    fn encode(&mut self, _kind: Kind, values: &[i64], out: &mut Vec<u8>) -> Result<()> {
        values.iter().for_each(|value| put(*value, out));
        Ok(())
    }

    fn decode(
        &mut self,
        _kind: Kind,
        mut stored: &[u8],
        count: usize,
        values: &mut Vec<i64>,
    ) -> Result<()> {
        values.reserve(count);
        for _ in 0..count {
            values.push(take(&mut stored)?);
        }
        ensure!(stored.is_empty(), "more than was stored");
        Ok(())
    }
}

impl Encoding for Deltas {
    fn name(&self) -> &'static str {
        "zig-zag delta"
    }

    fn by(&self) -> &'static str {
        "integer-encoding 4.1"
    }

    fn encode(&mut self, _kind: Kind, values: &[i64], out: &mut Vec<u8>) -> Result<()> {
        let mut last = 0_i64;
        for value in values {
            put(value.wrapping_sub(last), out);
            last = *value;
        }
        Ok(())
    }

    fn decode(
        &mut self,
        _kind: Kind,
        mut stored: &[u8],
        count: usize,
        values: &mut Vec<i64>,
    ) -> Result<()> {
        values.reserve(count);
        let mut last = 0_i64;
        for _ in 0..count {
            last = last.wrapping_add(take(&mut stored)?);
            values.push(last);
        }
        ensure!(stored.is_empty(), "more than was stored");
        Ok(())
    }
}
