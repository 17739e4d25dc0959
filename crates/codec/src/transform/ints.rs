//! A column of integers: frame of reference, of the values or of their differences, by byte plane.
//!
//! Which of the two is chosen by the bits that are left. Planes are chosen over variable-length
//! bytes because the high planes are nearly constant and cost an entropy coder nearly nothing.

use super::bytes::{Malformed, Reader, Result, put_signed};

/// Flag in the tag byte beside the width: the planes hold differences of neighbours.
const DELTA: u8 = 0x10;

/// How far values lie apart.
struct Frame {
    least: i64,
    range: u64,
    bits: u32,
}

impl Frame {
    fn of(values: &[i64]) -> Frame {
        let (mut least, mut most) = (i64::MAX, i64::MIN);
        for value in values {
            least = least.min(*value);
            most = most.max(*value);
        }
        let above = |value: i64| value.wrapping_sub(least) as u64;
        let bits = |value: &i64| 64 - above(*value).leading_zeros();
        Frame {
            least,
            range: above(most),
            bits: values.iter().map(bits).sum(),
        }
    }

    fn width(&self) -> u8 {
        (64 - self.range.leading_zeros()).div_ceil(8) as u8
    }
}

/// Appends a column; its length is known to the reader. What `values` holds afterwards is of no use.
pub(crate) fn encode(values: &mut Vec<i64>, out: &mut Vec<u8>) {
    let Some(&first) = values.first() else {
        return;
    };
    let plain = Frame::of(values);
    // A second base has to be written, about a byte.
    const BASE: u32 = 8;
    let count = values.len();
    if count > 2 && plain.bits > BASE {
        values.resize(2 * count - 1, 0);
        let (values, deltas) = values.split_at_mut(count);
        for (delta, pair) in deltas.iter_mut().zip(values.windows(2)) {
            *delta = pair[1].wrapping_sub(pair[0]);
        }
        let delta = Frame::of(deltas);
        if delta.bits + BASE < plain.bits {
            out.push(delta.width() | DELTA);
            put_signed(out, first);
            put_signed(out, delta.least);
            return put_planes(deltas, &delta, out);
        }
    }
    out.push(plain.width());
    put_signed(out, plain.least);
    put_planes(&values[..count], &plain, out);
}

fn put_planes(values: &[i64], frame: &Frame, out: &mut Vec<u8>) {
    for plane in 0..frame.width() {
        let byte = |value: &i64| (value.wrapping_sub(frame.least) as u64 >> (8 * plane)) as u8;
        out.extend(values.iter().map(byte));
    }
}

/// Appends the `count` values of a column to `values`.
pub(crate) fn decode(input: &mut Reader<'_>, count: usize, values: &mut Vec<i64>) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    let tag = input.byte()?;
    let width = tag & !DELTA;
    if width > 8 {
        return Err(Malformed);
    }
    let base = input.signed()?;
    if tag & DELTA == 0 {
        return take_planes(input, base, width, count, values);
    }
    let least = input.signed()?;
    values.push(base);
    let start = values.len();
    take_planes(input, least, width, count - 1, values)?;
    let mut last = base;
    for value in &mut values[start..] {
        last = last.wrapping_add(*value);
        *value = last;
    }
    Ok(())
}

/// Appends the sums of a base and the planes.
fn take_planes(
    input: &mut Reader<'_>,
    base: i64,
    width: u8,
    count: usize,
    values: &mut Vec<i64>,
) -> Result<()> {
    let start = values.len();
    if width == 0 {
        values.resize(start + count, base);
        return Ok(());
    }
    let lowest = input.take(count)?.iter();
    values.extend(lowest.map(|byte| base.wrapping_add((*byte).into())));
    for plane in 1..width {
        let bytes = input.take(count)?;
        for (value, byte) in values[start..].iter_mut().zip(bytes) {
            *value = value.wrapping_add((u64::from(*byte) << (8 * plane)) as i64);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn there_and_back(values: &[i64]) -> usize {
        let mut out = Vec::new();
        encode(&mut values.to_vec(), &mut out);
        let mut reader = Reader::new(&out);
        let mut back = vec![7];
        decode(&mut reader, values.len(), &mut back).unwrap();
        assert!(reader.is_empty());
        assert_eq!(back[1..], *values);
        out.len()
    }

    #[test]
    fn counting_costs_only_the_bases() {
        let values: Vec<i64> = (1_000_000..1_000_200).collect();
        assert!(there_and_back(&values) <= 6);
        assert!(there_and_back(&[5; 100]) <= 2);
    }

    proptest! {
        #[test]
        fn any_integers_come_back(values in proptest::collection::vec(any::<i64>(), 0..50)) {
            there_and_back(&values);
        }

        #[test]
        fn near_integers_come_back(values in proptest::collection::vec(-300i64..300, 0..50)) {
            there_and_back(&values);
        }
    }
}
