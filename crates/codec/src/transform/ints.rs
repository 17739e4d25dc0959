//! A column of integers, the values or their differences: frame of reference by byte plane, or lengths and planes, or
//! runs.
//!
//! The encoder takes values or differences, whichever needs fewer bits. Byte planes beat variable-length bytes because
//! the high planes are nearly constant, and compress to almost nothing. If a few values are much longer than the
//! others, high planes are neither constant nor full: then the length of each value comes first, and a plane has only
//! the bytes of values that reach it.
//!
//! Rowids in an index ascend as long as the key is the same, and begin anew with the next. So do numbers that count
//! within a group. These are runs: where each begins, and the differences within them, which are short.

use super::bytes::{Malformed, Reader, Result, put_number, put_signed};

/// Flag in the tag byte beside the width: the planes hold differences of neighbours.
const DELTA: u8 = 0x10;
/// Flag in the tag byte instead of a width: there is no frame, but a length of each value.
const LENGTHS: u8 = 0x20;
/// The whole tag byte: the values are runs.
const RUNS: u8 = 0x40;

/// The range of the values.
#[derive(Clone, Copy)]
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
pub(crate) fn encode(values: &mut Vec<i64>, out: &mut Vec<u8>) {
    encode_as(values, true, out);
}

/// The same, as runs only if they are allowed: those within a run are not.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a plane has the lowest byte of what is shifted to it"
)]
fn encode_as(values: &mut Vec<i64>, may_run: bool, out: &mut Vec<u8>) {
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
    let mut least = frame.bits;
    if width > 1 {
        let by_plane = Reach::of(framed, |value| frame.bytes(value)).bits_by_plane();
        let bits = |values: &[i64]| Reach::of(values, len_of).bits_by_length();
        let own = bits(framed);
        least = least.min(own);
        if own < by_plane {
            by_length = Some((framed, is_delta));
        }
        // A few outliers spoil the choice between values and differences, so both are estimated.
        if has_deltas {
            let others_bits = bits(others);
            least = least.min(others_bits);
            if others_bits < own.min(by_plane / 2) {
                by_length = Some((others, !is_delta));
            }
        }
    }
    if may_run
        && has_deltas
        && let Some(limit) = run_limit(deltas, &plain, least)
    {
        return put_runs(values, deltas, limit, out);
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

/// Runs cost an allocation and some calls: shorter columns gain nothing by them.
const RUNS_FROM: usize = 24;

/// The difference from which on a value begins a new run, or `None` if runs do not take clearly less than `least`
/// bits. A value below the one before begins one, too.
#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a number has at most 64 leading zeros, and a column as many values as a page at most"
)]
fn run_limit(deltas: &[i64], plain: &Frame, least: u32) -> Option<i64> {
    if deltas.len() < RUNS_FROM {
        return None;
    }
    let mut counts = [0u32; 65];
    for delta in deltas {
        counts[64 - delta.leading_zeros() as usize] += 1;
    }
    // The start of a run, and its length.
    let start = 64 - plain.range.leading_zeros() + 8;
    let (mut breaks, mut inner) = (deltas.len() as u32, 0);
    let mut best = (u32::MAX, 0, 0);
    for (bits, count) in (0..).zip(&counts[..63]) {
        breaks -= count;
        inner += bits * count;
        let all = inner + breaks * start;
        if all < best.0 {
            best = (all, bits, breaks);
        }
    }
    let (all, bits, breaks) = best;
    // Short columns are taken apart only for few long runs.
    let few = plain.width() > 1 || breaks as usize * SHORT_RUN <= deltas.len();
    let worth = all + all / 8 + RUNS_BITS < least;
    (breaks > 0 && few && worth).then_some(1 << bits)
}

/// How long runs have to be if the values have a byte at most.
const SHORT_RUN: usize = 8;

/// Bytes of runs besides their values: three columns instead of one.
const RUNS_BITS: u32 = 48;

/// Appends values as runs, which end before each difference that is negative or not below `limit`.
fn put_runs(values: &[i64], deltas: &[i64], limit: i64, out: &mut Vec<u8>) {
    out.push(RUNS);
    let within = |delta: &i64| (0..limit).contains(delta);
    let mut part = Vec::with_capacity(2 * values.len());
    let mut len = 0;
    for delta in deltas {
        if within(delta) {
            len += 1;
        } else {
            part.push(len);
            len = 0;
        }
    }
    part.push(len);
    put_number(out, part.len() as u64);
    encode_as(&mut part, false, out);
    part.clear();
    part.extend(values.first());
    let begins = values.iter().skip(1).zip(deltas);
    part.extend(
        begins
            .filter(|(_, delta)| !within(delta))
            .map(|(value, _)| value),
    );
    encode_as(&mut part, false, out);
    part.clear();
    part.extend(deltas.iter().filter(|delta| within(delta)));
    encode_as(&mut part, false, out);
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
    if tag == RUNS {
        return take_runs(input, count, values);
    }
    take_tagged(input, tag, count, values)
}

/// Appends the `count` values of runs.
#[inline(never)]
fn take_runs(input: &mut Reader<'_>, count: usize, values: &mut Vec<i64>) -> Result<()> {
    let runs = input.count(count)?;
    let start = values.len();
    let mut take = |count: usize| {
        if count == 0 {
            return Ok(());
        }
        let tag = input.byte()?;
        take_tagged(input, tag, count, values)
    };
    // Behind the values, and moved to the front once they are used: the lengths, the first values, the differences.
    take(runs)?;
    take(runs)?;
    take(count - runs)?;
    values.resize(start + runs + 2 * count, 0);
    let (parts, made) = values
        .get_mut(start..)
        .and_then(|all| all.split_at_mut_checked(runs + count))
        .ok_or(Malformed)?;
    let (lens, rest) = parts.split_at_checked(runs).ok_or(Malformed)?;
    let (firsts, mut deltas) = rest.split_at_checked(runs).ok_or(Malformed)?;
    let mut places = made.iter_mut();
    for (len, first) in lens.iter().zip(firsts) {
        let len = usize::try_from(*len).map_err(|_| Malformed)?;
        let (own, others) = deltas.split_at_checked(len).ok_or(Malformed)?;
        let mut last = *first;
        *places.next().ok_or(Malformed)? = last;
        for (delta, place) in own.iter().zip(&mut places) {
            last = last.wrapping_add(*delta);
            *place = last;
        }
        deltas = others;
    }
    if !deltas.is_empty() || places.next().is_some() {
        return Err(Malformed);
    }
    values.drain(start..start + runs + count);
    Ok(())
}

/// Appends the `count` values of a column that is not of runs, and has some.
fn take_tagged(input: &mut Reader<'_>, tag: u8, count: usize, values: &mut Vec<i64>) -> Result<()> {
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

    #[test]
    fn numbers_that_begin_anew_are_runs() {
        // Rowids of equal keys in an index, and keys of one row among them.
        let rowid = |i: i64| match i % 60 {
            7 => 900_000 - i * 701 % 70_000,
            within => within * 4_000 + i * 1_117 % 3_000,
        };
        let rowids: Vec<i64> = (0..240).map(rowid).collect();
        let mut out = Vec::new();
        encode(&mut rowids.clone(), &mut out);
        assert_eq!(out[0], RUNS);
        there_and_back(&rowids);
        let counts: Vec<i64> = (0..200).map(|i| 1 + i % 40).collect();
        assert!(there_and_back(&counts) < 20);
        // A few numbers, and some that only ascend.
        for other in [
            &rowids[..24],
            &[
                3, 900, 1_000, 70_000, 70_001, 80_000, 90_000, 100_000, 100_001, 170_000,
            ],
        ] {
            out.clear();
            encode(&mut other.to_vec(), &mut out);
            assert_ne!(out[0], RUNS);
        }
    }

    #[test]
    fn runs_that_lie_are_refused() {
        let back = |stored: &[u8], count| {
            let mut values = vec![7];
            let result = decode(&mut Reader::new(stored), count, &mut values);
            result.map(|()| values)
        };
        // Two runs, 2 and 3 long, from 10 and 20, by 1.
        let good = [RUNS, 2, 1, 2, 0, 1, 0, 20, 1, 0, 0, 2];
        let good = [&good[..4], &[0, 1], &[1, 20, 0, 10], &[0, 2]].concat();
        assert_eq!(back(&good, 5), Ok(vec![7, 10, 11, 20, 21, 22]));
        // Another number of values than their lengths say.
        assert_eq!(back(&good, 4), Err(Malformed));
        assert_eq!(back(&good, 6), Err(Malformed));
        for (at, byte) in [
            (1, 0),
            (1, 6),
            (1, 0xff),
            (2, RUNS),
            (3, 1),
            (6, RUNS),
            (10, RUNS),
        ] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert_eq!(back(&bad, 5), Err(Malformed), "{at}");
        }
        for len in 0..good.len() {
            assert_eq!(back(&good[..len], 5), Err(Malformed), "{len}");
        }
    }

    proptest! {
        #[test]
        fn runs_of_any_numbers_come_back(starts in proptest::collection::vec((any::<i64>(), 0..40_u32), 1..9), steps in proptest::collection::vec(0..500_i64, 1..9)) {
            let mut values = Vec::new();
            for (start, len) in starts {
                let step = |(value, step): (i64, &i64)| value.wrapping_add(*step);
                let mut value = start;
                for by in steps.iter().cycle().take(len as usize) {
                    values.push(value);
                    value = step((value, by));
                }
            }
            there_and_back(&values);
        }

        #[test]
        fn hostile_integers_stay_bounded(bytes in proptest::collection::vec(any::<u8>(), 0..60), count in 0usize..40) {
            let mut values = vec![7];
            if decode(&mut Reader::new(&bytes), count, &mut values).is_ok() {
                prop_assert_eq!(values.len(), count + 1);
            }
        }

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
