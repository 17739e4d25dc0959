//! The three factors, for each distribution and encoding: how small, how fast to read, how fast to write.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use crate::data::{Distribution, Kind, SEED};
use crate::encodings::{Encoding, Zstd, all};
use crate::stats::{Spread, repeat};

/// Values in a column of a 4 KiB page: a page of the first table has about as many rows.
pub const PAGE_VALUES: usize = 400;
/// Pages that a turn goes through.
const PAGES: usize = 64;

/// How long the arrays are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// [`PAGE_VALUES`]
    Page,
    /// One long array.
    Large,
}

/// The treatment of the encoded bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// They are stored as they are.
    Alone,
    /// They are compressed at level 3.
    Zstd3,
    /// They are compressed at level 19.
    Zstd19,
}

impl Over {
    /// All.
    pub const ALL: [Self; 3] = [Self::Alone, Self::Zstd3, Self::Zstd19];

    fn zstd(self) -> Result<Option<Zstd>> {
        Ok(match self {
            Self::Alone => None,
            Self::Zstd3 => Some(Zstd::new(3)?),
            Self::Zstd19 => Some(Zstd::new(19)?),
        })
    }
}

/// The size and speed of one encoding on one distribution.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Factors {
    /// The distribution's name.
    pub distribution: String,
    /// The encoding's name.
    pub encoding: String,
    /// Whose code it is.
    pub by: String,
    /// How long the arrays are.
    pub length: Length,
    /// With zstd or without.
    pub over: Over,
    /// Stored bytes for a value.
    pub bytes: f64,
    /// Nanoseconds to decode a value.
    pub decode: Spread,
    /// Nanoseconds to encode a value.
    pub encode: Spread,
}

/// How much work to do.
#[derive(Clone, Copy)]
pub struct Effort {
    /// Values of the long array.
    pub large: usize,
    /// For each figure.
    pub time: Duration,
}

/// Measures all; `say` is told what is being done.
///
/// # Errors
/// If an encoding fails or does not give back what it was given.
pub fn measure(effort: Effort, say: &dyn Fn(String)) -> Result<Vec<Factors>> {
    let mut found = Vec::new();
    for distribution in Distribution::ALL {
        let pages = distribution.column(PAGES * PAGE_VALUES, SEED).values;
        let large = distribution.column(effort.large, SEED).values;
        let lengths = [
            (Length::Page, pages.chunks(PAGE_VALUES).collect()),
            (Length::Large, vec![&large[..]]),
        ];
        for mut encoding in all()
            .into_iter()
            .filter(|encoding| encoding.takes(distribution.kind()))
        {
            say(format!(
                "encodings: {}, {}",
                distribution.name(),
                encoding.name()
            ));
            for over in Over::ALL {
                for (length, arrays) in &lengths {
                    let mut work = Work {
                        kind: distribution.kind(),
                        arrays,
                        encoding: &mut *encoding,
                        zstd: over.zstd()?,
                        encoded: Vec::new(),
                    };
                    let (bytes, decode, encode) = work.measure(effort.time)?;
                    found.push(Factors {
                        distribution: distribution.name().into(),
                        encoding: encoding.name().into(),
                        by: encoding.by().into(),
                        length: *length,
                        over,
                        bytes,
                        decode,
                        encode,
                    });
                }
            }
        }
    }
    Ok(found)
}

/// An encoding at work on arrays.
struct Work<'a> {
    kind: Kind,
    arrays: &'a [&'a [i64]],
    encoding: &'a mut dyn Encoding,
    zstd: Option<Zstd>,
    /// The encoded bytes, as zstd gets or returns them.
    encoded: Vec<u8>,
}

impl Work<'_> {
    /// Bytes, and nanoseconds to decode and encode, for a value.
    fn measure(&mut self, time: Duration) -> Result<(f64, Spread, Spread)> {
        let arrays = self.arrays;
        let mut stored = vec![(Vec::new(), 0); arrays.len()];
        let encode = repeat(time, || {
            arrays
                .iter()
                .zip(&mut stored)
                .try_for_each(|(values, (out, len))| {
                    *len = self.encode(values, out)?;
                    Ok(())
                })
        })?;
        let mut back = Vec::new();
        for (values, (bytes, len)) in arrays.iter().zip(&stored) {
            self.decode(bytes, *len, values.len(), &mut back)?;
            ensure!(
                back == *values,
                "{} gives other values back",
                self.encoding.name()
            );
        }
        let decode = repeat(time, || {
            arrays
                .iter()
                .zip(&stored)
                .try_for_each(|(values, (bytes, len))| {
                    self.decode(bytes, *len, values.len(), &mut back)
                })
        })?;
        let count: usize = arrays.iter().map(|values| values.len()).sum();
        let bytes: usize = stored.iter().map(|(bytes, _)| bytes.len()).sum();
        let each = 1e9 / count as f64;
        Ok((
            bytes as f64 / count as f64,
            decode.times(each),
            encode.times(each),
        ))
    }

    /// Replaces `out` by what is stored, and says how long the encoded bytes are.
    fn encode(&mut self, values: &[i64], out: &mut Vec<u8>) -> Result<usize> {
        let encoded = if self.zstd.is_some() {
            &mut self.encoded
        } else {
            &mut *out
        };
        encoded.clear();
        self.encoding.encode(self.kind, values, encoded)?;
        let len = encoded.len();
        if let Some(zstd) = &mut self.zstd {
            zstd.compress(&self.encoded, out)?;
        }
        Ok(len)
    }

    /// Replaces `back` by the values.
    fn decode(
        &mut self,
        stored: &[u8],
        len: usize,
        count: usize,
        back: &mut Vec<i64>,
    ) -> Result<()> {
        back.clear();
        let encoded = match &mut self.zstd {
            Some(zstd) => {
                zstd.decompress(stored, len, &mut self.encoded)?;
                &self.encoded
            }
            None => stored,
        };
        self.encoding.decode(self.kind, encoded, count, back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_encoding_has_every_figure() {
        let effort = Effort {
            large: 1000,
            time: Duration::ZERO,
        };
        let found = measure(effort, &|_| ()).unwrap();
        let encodings = |distribution: Distribution| {
            all()
                .iter()
                .filter(|each| each.takes(distribution.kind()))
                .count()
        };
        let expected = Distribution::ALL.map(encodings).iter().sum::<usize>() * Over::ALL.len() * 2;
        assert_eq!(found.len(), expected);
        for figures in &found {
            assert!(figures.bytes > 0.0 && figures.decode.low > 0.0 && figures.encode.low > 0.0);
        }
        let fixed =
            |figures: &&Factors| figures.encoding == "fixed 8 bytes" && figures.over == Over::Alone;
        assert!(
            found
                .iter()
                .filter(fixed)
                .all(|figures| figures.bytes == 8.0)
        );
    }
}
