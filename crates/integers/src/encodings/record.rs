//! A column as SQLite's records store it: the serial type and the bytes it stands for, big end first
//! (sqlite.org/fileformat2.html, section 2.1).
//!
//! The header's length, the rowid and the cell pointer are left out: they are the row's and not the column's. SQLite's
//! own code cannot be called without a database; the reading half is that of Litepack's crate for b-tree pages.

use anyhow::{Context, Result, ensure};
use litepack_btree::record::{len_of, varint};

use super::Encoding;
use crate::data::{Kind, stored_len};

pub(super) struct Record;

const REAL: u64 = 7;

/// The integer that SQLite stores for a real in a column of reals.
fn short(bits: i64) -> Option<i64> {
    let real = f64::from_bits(bits as u64);
    let integer = real as i64;
    let same = (integer as f64).to_bits() as i64 == bits;
    (same && stored_len(integer) <= 6).then_some(integer)
}

fn put_integer(value: i64, out: &mut Vec<u8>) {
    let len = stored_len(value);
    out.push(match len {
        0 => 8 + value as u8,
        6 => 5,
        8 => 6,
        len => len as u8,
    });
    out.extend_from_slice(&value.to_be_bytes()[8 - len as usize..]);
}

impl Encoding for Record {
    fn name(&self) -> &'static str {
        "SQLite record"
    }

    fn by(&self) -> &'static str {
        "litepack-btree"
    }

    fn encode(&mut self, kind: Kind, values: &[i64], out: &mut Vec<u8>) -> Result<()> {
        for value in values {
            let integer = match kind {
                Kind::Integer => Some(*value),
                Kind::Real => short(*value),
            };
            match integer {
                Some(integer) => put_integer(integer, out),
                None => {
                    out.push(REAL as u8);
                    out.extend_from_slice(&value.to_be_bytes());
                }
            }
        }
        Ok(())
    }

    fn decode(
        &mut self,
        kind: Kind,
        mut stored: &[u8],
        count: usize,
        values: &mut Vec<i64>,
    ) -> Result<()> {
        values.reserve(count);
        for _ in 0..count {
            let (serial, len) = varint(stored).context("a record is cut short")?;
            let body = &stored[len..];
            let len = len_of(serial).context("no such serial type")?;
            let body_of = body.get(..len).context("a value is cut short")?;
            let value = match (serial, body.first_chunk()) {
                (8, _) => 0,
                (9, _) => 1,
                // A word that begins with the value has its sign on top.
                (_, Some(word)) => i64::from_be_bytes(*word) >> (64 - 8 * len),
                (_, None) => {
                    let negative = body_of.first().is_some_and(|byte| *byte >= 0x80);
                    let fold = |value: i64, byte: &u8| value << 8 | i64::from(*byte);
                    body_of.iter().fold(-i64::from(negative), fold)
                }
            };
            values.push(match kind {
                Kind::Real if serial != REAL => (value as f64).to_bits() as i64,
                _ => value,
            });
            stored = &body[len..];
        }
        ensure!(stored.is_empty(), "more than was stored");
        Ok(())
    }
}
