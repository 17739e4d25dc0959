//! Two encodings that Litepack does not have: what they would save is the case for or against them.

use anyhow::{Context, Result, ensure};

use super::Encoding;
use super::ours::Ours;
use crate::data::Kind;

/// How many bytes each value needs, then the lowest bytes of all that have one, the second ones of all that have two,
/// and so on: a few long values do not make the others longer.
pub(super) struct LengthsAndPlanes;

/// The bytes that a value needs, its sign included; none for 0.
fn len_of(value: i64) -> u8 {
    match value {
        0 => 0,
        _ => (65 - (value ^ value >> 63).leading_zeros()).div_ceil(8) as u8,
    }
}

impl Encoding for LengthsAndPlanes {
    fn name(&self) -> &'static str {
        "lengths + planes"
    }

    fn by(&self) -> &'static str {
        "a candidate"
    }

    fn encode(&mut self, _kind: Kind, values: &[i64], out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        out.extend(values.iter().map(|value| len_of(*value)));
        let longest = out[start..].iter().copied().max().unwrap_or(0);
        for plane in 0..longest {
            let long = values.iter().filter(|value| len_of(**value) > plane);
            out.extend(long.map(|value| (value >> (8 * plane)) as u8));
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
        let (lens, mut planes) = stored
            .split_at_checked(count)
            .context("the lengths are cut short")?;
        let start = values.len();
        values.resize(start + count, 0);
        let values = &mut values[start..];
        for plane in 0..lens.iter().copied().max().unwrap_or(0) {
            for (value, len) in values.iter_mut().zip(lens) {
                if *len > plane {
                    let byte = *planes.split_off_first().context("a plane is cut short")?;
                    // The highest byte has the sign.
                    let byte = if plane + 1 == *len {
                        i64::from(byte as i8)
                    } else {
                        i64::from(byte)
                    };
                    *value |= byte
                        .checked_shl(8 * u32::from(plane))
                        .context("too many bytes")?;
                }
            }
        }
        ensure!(planes.is_empty(), "more than was stored");
        Ok(())
    }
}

/// Reals that are decimals, as integers of the last digit: with as few digits as bring all of them back, bit for bit.
#[derive(Default)]
pub(super) struct Scaled {
    ours: Ours,
    integers: Vec<i64>,
}

/// More digits than a price, a temperature or a coordinate has.
const DIGITS_MAX: u8 = 7;
/// In the place of a number of digits: the values are no decimals.
const NONE: u8 = 255;

fn scale(digits: u8) -> f64 {
    10_f64.powi(digits.into())
}

impl Scaled {
    /// Fills in the integers, if the values are decimals of so many digits.
    fn fits(&mut self, values: &[i64], digits: u8) -> bool {
        let scale = scale(digits);
        self.integers.clear();
        values.iter().all(|bits| {
            let integer = (f64::from_bits(*bits as u64) * scale).round() as i64;
            self.integers.push(integer);
            (integer as f64 / scale).to_bits() as i64 == *bits
        })
    }
}

impl Encoding for Scaled {
    fn name(&self) -> &'static str {
        "decimals as integers"
    }

    fn by(&self) -> &'static str {
        "a candidate"
    }

    fn takes(&self, kind: Kind) -> bool {
        kind == Kind::Real
    }

    fn encode(&mut self, kind: Kind, values: &[i64], out: &mut Vec<u8>) -> Result<()> {
        match (0..=DIGITS_MAX).find(|digits| self.fits(values, *digits)) {
            Some(digits) => {
                out.push(digits);
                self.ours.encode(Kind::Integer, &self.integers, out)
            }
            None => {
                out.push(NONE);
                self.ours.encode(kind, values, out)
            }
        }
    }

    fn decode(
        &mut self,
        kind: Kind,
        stored: &[u8],
        count: usize,
        values: &mut Vec<i64>,
    ) -> Result<()> {
        let (digits, stored) = stored.split_first().context("there is nothing")?;
        if *digits == NONE {
            return self.ours.decode(kind, stored, count, values);
        }
        ensure!(*digits <= DIGITS_MAX, "too many digits");
        let (start, scale) = (values.len(), scale(*digits));
        self.ours.decode(Kind::Integer, stored, count, values)?;
        for value in &mut values[start..] {
            *value = (*value as f64 / scale).to_bits() as i64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Distribution;

    #[test]
    fn decimals_take_as_many_bytes_as_their_digits_need() {
        let prices = Distribution::Decimals.column(1000, 1).values;
        let mut out = Vec::new();
        Scaled::default()
            .encode(Kind::Real, &prices, &mut out)
            .unwrap();
        assert!(out[0] == 2 && out.len() < 3100, "{} bytes", out.len());
        let measured = Distribution::Measurements.column(1000, 1).values;
        out.clear();
        Scaled::default()
            .encode(Kind::Real, &measured, &mut out)
            .unwrap();
        assert!(out[0] == NONE && out.len() > 8000);
    }

    #[test]
    fn a_few_long_values_do_not_make_the_others_longer() {
        let mut values = vec![-100; 99];
        values.push(i64::MAX);
        let mut out = Vec::new();
        LengthsAndPlanes
            .encode(Kind::Integer, &values, &mut out)
            .unwrap();
        assert_eq!(out.len(), 100 + 99 + 8);
    }

    #[test]
    fn a_length_that_no_value_has_is_refused() {
        let mut out = Vec::new();
        let stored = [&[10_u8][..], &[0; 10]].concat();
        assert!(
            LengthsAndPlanes
                .decode(Kind::Integer, &stored, 1, &mut out)
                .is_err()
        );
    }
}
