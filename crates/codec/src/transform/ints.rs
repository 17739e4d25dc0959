//! A column of integers, the values or their differences: frame of reference by byte plane, or lengths and planes.
//!
//! The encoder takes values or differences, whichever needs fewer bits. Byte planes beat variable-length bytes because
//! the high planes are nearly constant, and compress to almost nothing. If a few values are much longer than the
//! others, high planes are neither constant nor full: then the length of each value comes first, and a plane has only
//! the bytes of values that reach it.

use super::bytes::{Malformed, Reader, Result, put_signed};

/// Flag in the tag byte beside the width: the planes hold differences of neighbours.
const DELTA: u8 = 0x10;
/// Flag in the tag byte instead of a width: there is no frame, but a length of each value.
const LENGTHS: u8 = 0x20;

/// The range of the values.
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

    fn above(&self, value: &i64) -> u64 {
        value.wrapping_sub(self.least) as u64
    }

    /// The bytes of a value's distance to the least.
    fn bytes(&self, value: &i64) -> u32 {
        (71 - self.above(value).leading_zeros()) / 8
    }

    #[expect(clippy::cast_possible_truncation, reason = "64 bits are eight bytes")]
    fn width(&self) -> u8 {
        (64 - self.range.leading_zeros()).div_ceil(8) as u8
    }
}

/// Appends a column; the reader knows its length. `values` is used as scratch memory.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a plane has the lowest byte of what is shifted to it"
)]
pub(crate) fn encode(values: &mut Vec<i64>, out: &mut Vec<u8>) {
    let Some(&first) = values.first() else {
        return;
    };
    let plain = Frame::of(values);
    // A second base has to be written, about a byte.
    const BASE: u32 = 8;
    let count = values.len();
    let has_deltas = count > 2 && plain.bits > BASE;
    if has_deltas {
        values.resize(2 * count - 1, 0);
    }
    let (values, deltas) = values.split_at_mut(count);
    for (delta, [value, next]) in deltas.iter_mut().zip(values.array_windows()) {
        *delta = next.wrapping_sub(*value);
    }
    let (values, deltas) = (&*values, &*deltas);
    let delta = Frame::of(deltas);
    let is_delta = has_deltas && delta.bits + BASE < plain.bits;
    let (frame, framed, others) = if is_delta {
        (delta, deltas, values)
    } else {
        (plain, values, deltas)
    };
    let width = frame.width();
    let mut by_length = None;
    if width > 1 {
        let by_plane = Reach::of(framed, |value| frame.bytes(value)).bits_by_plane();
        let bits = |values: &[i64]| Reach::of(values, len_of).bits_by_length();
        let own = bits(framed);
        if own < by_plane {
            by_length = Some((framed, is_delta));
        }
        // A few outliers spoil the choice between values and differences, so both are estimated.
        if has_deltas && bits(others) < own.min(by_plane / 2) {
            by_length = Some((others, !is_delta));
        }
    }
    if let Some((values, is_delta)) = by_length {
        put_tag(LENGTHS, is_delta.then_some(first), out);
        return put_lengths(values, out);
    }
    put_tag(width, is_delta.then_some(first), out);
    put_signed(out, frame.least);
    for plane in 0..width {
        let byte = |value: &i64| (frame.above(value) >> (8 * plane)) as u8;
        out.extend(framed.iter().map(byte));
    }
}

/// Appends the tag, and the first value of those that differences follow.
fn put_tag(tag: u8, first: Option<i64>, out: &mut Vec<u8>) {
    match first {
        Some(first) => {
            out.push(tag | DELTA);
            put_signed(out, first);
        }
        None => out.push(tag),
    }
}

/// The bytes that a value needs, its sign included; none for 0.
fn len_of(value: &i64) -> u32 {
    match value {
        0 => 0,
        _ => (72 - (value ^ value >> 63).leading_zeros()) / 8,
    }
}

/// How many values have each length in bytes.
struct Reach([u32; 9]);

impl Reach {
    #[expect(clippy::indexing_slicing, reason = "a value has at most eight bytes")]
    fn of(values: &[i64], len: impl Fn(&i64) -> u32) -> Reach {
        let mut counts = [0; 9];
        for value in values {
            counts[len(value) as usize] += 1;
        }
        Reach(counts)
    }

    /// How many bits an entropy coder makes of so many bytes that are not what most of `all` are: those bytes, and
    /// where they stand, which it says by a bit for each of the others, or by a match before each.
    fn bits(some: u32, all: u32) -> u32 {
        const MATCH: u32 = 16;
        8 * some + (all - some).min(MATCH * some)
    }

    fn bits_by_plane(&self) -> u32 {
        let all = self.0.iter().sum();
        let longer = |plane: usize| self.0.iter().skip(plane + 1).sum();
        (0..8).map(|plane| Self::bits(longer(plane), all)).sum()
    }

    fn bits_by_length(&self) -> u32 {
        let all: u32 = self.0.iter().sum();
        let others = all - self.0.iter().max().expect("nine counts");
        let lens = all.min(Self::bits(others, all));
        let bytes: u32 = (0..).zip(self.0).map(|(len, count)| len * count).sum();
        lens + 8 * bytes
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a value has at most eight bytes, and a plane has the lowest byte of what is shifted to it"
)]
fn put_lengths(values: &[i64], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend(values.iter().map(|value| len_of(value) as u8));
    let longest = out.iter().skip(start).copied().max().unwrap_or(0);
    for plane in 0..longest {
        let long = values.iter().filter(|value| len_of(value) > plane.into());
        out.extend(long.map(|value| (value >> (8 * plane)) as u8));
    }
}

/// Appends the `count` values of a column to `values`.
pub(crate) fn decode(input: &mut Reader<'_>, count: usize, values: &mut Vec<i64>) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    let tag = input.byte()?;
    if tag & DELTA == 0 {
        return take(input, tag, count, values);
    }
    let mut last = input.signed()?;
    values.push(last);
    let start = values.len();
    take(input, tag & !DELTA, count - 1, values)?;
    for value in values.get_mut(start..).ok_or(Malformed)? {
        last = last.wrapping_add(*value);
        *value = last;
    }
    Ok(())
}

/// Appends values or differences.
fn take(input: &mut Reader<'_>, width: u8, count: usize, values: &mut Vec<i64>) -> Result<()> {
    match width {
        0..=8 => {
            let least = input.signed()?;
            take_planes(input, least, width, count, values)
        }
        LENGTHS => take_lengths(input, count, values),
        _ => Err(Malformed),
    }
}

/// Appends the values of planes that hold only the values that reach them.
fn take_lengths(input: &mut Reader<'_>, count: usize, values: &mut Vec<i64>) -> Result<()> {
    let lens = input.take(count)?;
    let longest = lens.iter().copied().max().unwrap_or(0);
    if longest > 8 {
        return Err(Malformed);
    }
    let start = values.len();
    values.resize(start + count, 0);
    let values = values.get_mut(start..).ok_or(Malformed)?;
    for plane in 0..longest {
        let long = lens.iter().filter(|len| **len > plane).count();
        let mut bytes = input.take(long)?.iter();
        let reaching = values.iter_mut().zip(lens);
        let reaching = reaching.filter(|(_, len)| **len > plane);
        for ((value, _), byte) in reaching.zip(&mut bytes) {
            *value |= i64::from(*byte) << (8 * plane);
        }
    }
    for (value, len) in values.iter_mut().zip(lens) {
        // The highest byte has the sign; a value without bytes is 0 before and after.
        let above = (64 - 8 * u32::from(*len)) & 63;
        *value = *value << above >> above;
    }
    Ok(())
}

/// Appends the sums of a base and the planes: the lowest two at once, and then one after the other.
fn take_planes(
    input: &mut Reader<'_>,
    base: i64,
    width: u8,
    count: usize,
    values: &mut Vec<i64>,
) -> Result<()> {
    let start = values.len();
    match width {
        0 => values.resize(start + count, base),
        1 => {
            let bytes = input.take(count)?.iter();
            values.extend(bytes.map(|byte| base.wrapping_add((*byte).into())));
        }
        _ => {
            let (low, high) = (input.take(count)?, input.take(count)?);
            let pairs = low.iter().zip(high).map(|(low, high)| [*low, *high]);
            let sum = |pair| base.wrapping_add(u16::from_le_bytes(pair).into());
            values.extend(pairs.map(sum));
        }
    }
    for plane in 2..width {
        let bytes = input.take(count)?;
        for (value, byte) in values
            .get_mut(start..)
            .ok_or(Malformed)?
            .iter_mut()
            .zip(bytes)
        {
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

    #[test]
    fn a_few_long_values_do_not_make_the_others_longer() {
        let mut values: Vec<i64> = (0..99).map(|i| i * 37 % 100 - 50).collect();
        values.push(i64::MAX);
        values.push(i64::MIN);
        values.push(1_000_000);
        // Lengths, bytes, and what says so.
        assert!(there_and_back(&values) <= 102 + 98 + 8 + 8 + 3 + 2);
        let mut ascending = Vec::new();
        let mut last = 0;
        for i in 0_i64..100 {
            let jump = i % 10 == 5;
            last += if jump { i << 40 } else { i * 37 % 100 };
            ascending.push(last);
        }
        assert_eq!(there_and_back(&ascending), 2 + 99 + 89 + 10 * 6);
    }

    #[test]
    fn a_length_that_no_value_has_is_refused() {
        let mut stored = vec![LENGTHS, 9];
        stored.resize(20, 0);
        let back = decode(&mut Reader::new(&stored), 1, &mut Vec::new());
        assert_eq!(back, Err(Malformed));
    }

    proptest! {
        #[test]
        fn integers_of_any_lengths_come_back(values in proptest::collection::vec((any::<i64>(), 0..9_u32), 0..200)) {
            let cut = |(value, len): &(i64, u32)| value.checked_shr(64 - 7 * len).unwrap_or(0);
            there_and_back(&values.iter().map(cut).collect::<Vec<_>>());
        }

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
