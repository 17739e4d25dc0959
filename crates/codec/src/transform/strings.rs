//! A column of strings: one after another, by position, or as the numbers in them.
//!
//! Strings that differ only in runs of digits (`tt0001234`, `2026-11-21 10:02:03`, `192.168.0.7`, `12.50`)
//! are stored as one pattern and a column of integers for each run.

use super::arena::Arena;
use super::bytes::{Malformed, Reader, Result, Span, put_number, put_planes};
use super::ints;

/// Ends a string; strings that contain it are written with their lengths.
const END: u8 = 0;
/// In a pattern: a number without leading zeros.
const NUMBER: u8 = 1;
/// In a pattern: a number of the width in the next byte, with leading zeros.
const PADDED: u8 = 2;
/// Digits that fit an `i64` whatever they are.
const DIGITS_MAX: usize = 18;

/// The layouts, by the number in the stream.
mod layout {
    pub(super) const ENDED: u8 = 0;
    pub(super) const COUNTED: u8 = 1;
    pub(super) const PLANES: u8 = 2;
    pub(super) const PATTERN: u8 = 3;
}

/// Appends the strings `values` of `source`; their number is known to the reader.
pub(crate) fn encode(source: &[u8], values: &[Span], out: &mut Vec<u8>) {
    let Some(first) = values.first() else {
        return;
    };
    if let Some(pattern) = Pattern::of(source, values) {
        out.push(layout::PATTERN);
        pattern.put(out);
    } else if by_position(source, values) {
        out.push(layout::PLANES);
        put_number(out, first.len() as u64);
        put_planes(
            out,
            first.len(),
            values.iter().map(|value| value.of(source)),
        );
    } else if values
        .iter()
        .all(|value| memchr::memchr(END, value.of(source)).is_none())
    {
        out.push(layout::ENDED);
        for value in values {
            out.extend_from_slice(value.of(source));
            out.push(END);
        }
    } else {
        out.push(layout::COUNTED);
        ints::encode_sizes(values.iter().map(|value| value.len()), out);
        for value in values {
            out.extend_from_slice(value.of(source));
        }
    }
}

/// Whether equally long strings have at least half of their positions in common.
fn by_position(source: &[u8], values: &[Span]) -> bool {
    let Some((first, others)) = values.split_first() else {
        return false;
    };
    if others.is_empty() || others.iter().any(|other| other.len != first.len) {
        return false;
    }
    let first = first.of(source);
    let constant = |at: &usize| {
        others
            .iter()
            .all(|other| other.of(source)[*at] == first[*at])
    };
    (0..first.len()).filter(constant).count() * 2 >= first.len()
}

/// What decoding needs beside its result; kept from page to page.
#[derive(Default)]
pub(crate) struct Scratch {
    integers: Vec<i64>,
    runs: Vec<Run>,
}

/// A run of digits in a pattern.
struct Run {
    /// The text between it and the run before.
    before: Span,
    /// How many digits it has; 0 if as many as the number needs.
    width: usize,
}

/// Appends the places of `count` strings to `spans`: pieces of the arena, which begins with the stream.
pub(crate) fn decode(
    input: &mut Reader<'_>,
    count: usize,
    arena: &mut Arena,
    spans: &mut Vec<Span>,
    scratch: &mut Scratch,
) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    match input.byte()? {
        layout::ENDED => {
            for _ in 0..count {
                spans.push(input.until_zero()?);
            }
        }
        layout::COUNTED => {
            scratch.integers.clear();
            ints::decode(input, count, &mut scratch.integers)?;
            for size in &scratch.integers {
                let size = usize::try_from(*size).map_err(|_| Malformed)?;
                spans.push(input.span(size)?);
            }
        }
        layout::PLANES => {
            let len = input.number()?;
            let len = usize::try_from(len).map_err(|_| Malformed)?;
            let start = arena.len();
            if len > 0 {
                arena.take_planes(input, len, count)?;
            }
            let end = |index| start + (index + 1) * len;
            spans.extend((0..count).map(|index| Span::new(end(index) - len, end(index))));
        }
        layout::PATTERN => take_pattern(input, count, arena, spans, scratch)?,
        _ => return Err(Malformed),
    }
    Ok(())
}

/// Reads a pattern and appends the `count` strings it stands for.
fn take_pattern(
    input: &mut Reader<'_>,
    count: usize,
    arena: &mut Arena,
    spans: &mut Vec<Span>,
    Scratch { integers, runs }: &mut Scratch,
) -> Result<()> {
    let len = input.number()?;
    let mut pattern = input.reader(usize::try_from(len).map_err(|_| Malformed)?)?;
    integers.clear();
    runs.clear();
    let mut start = pattern.at();
    while !pattern.is_empty() {
        let end = pattern.at();
        let width = match pattern.byte()? {
            NUMBER => 0,
            PADDED => usize::from(pattern.byte()?),
            _ => continue,
        };
        if width > DIGITS_MAX {
            return Err(Malformed);
        }
        let before = Span::new(start, end);
        runs.push(Run { before, width });
        start = pattern.at();
        ints::decode(input, count, integers)?;
        // Each is a digit in the arena at least.
        if integers.len() > arena.room() {
            return Err(Malformed);
        }
    }
    let tail = Span::new(start, pattern.at());
    for row in 0..count {
        let start = arena.len();
        for (run, numbers) in runs.iter().zip(integers.chunks_exact(count)) {
            arena.copy(run.before)?;
            arena.put_decimal(numbers[row] as u64, run.width)?;
        }
        arena.copy(tail)?;
        spans.push(arena.since(start));
    }
    Ok(())
}

/// What strings have in common that differ only in their numbers.
#[derive(Default)]
struct Pattern {
    /// The bytes between the runs of digits, with [`NUMBER`] or [`PADDED`] for each run.
    text: Vec<u8>,
    /// The numbers, run after run.
    numbers: Vec<i64>,
    rows: usize,
}

/// The next run of digits in `text`: where it starts and ends.
fn next_run(text: &[u8]) -> Option<(usize, usize)> {
    let start = text.iter().position(u8::is_ascii_digit)?;
    let digits = text[start..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    Some((start, start + digits.count()))
}

impl Pattern {
    /// The pattern of all values, if they have one with a number in it.
    fn of(source: &[u8], values: &[Span]) -> Option<Pattern> {
        let [first, second, ..] = values else {
            return None;
        };
        let first = first.of(source);
        let (start, _) = next_run(first)?;
        // Most columns of words end here.
        if !second.of(source).starts_with(&first[..start]) {
            return None;
        }
        let mut pattern = Pattern {
            rows: values.len(),
            ..Pattern::default()
        };
        // What is left of each value, run after run.
        let mut rest: Vec<&[u8]> = values.iter().map(|value| value.of(source)).collect();
        let mut at = 0;
        while let Some((start, end)) = next_run(&first[at..]) {
            let literal = &first[at..at + start];
            if literal.iter().any(|byte| *byte <= PADDED) {
                return None;
            }
            pattern.text.extend_from_slice(literal);
            let width = end - start;
            let (mut padded, mut canonical) = (true, true);
            for rest in &mut rest {
                let after = rest.strip_prefix(literal)?;
                let digits = after
                    .iter()
                    .take_while(|byte| byte.is_ascii_digit())
                    .count();
                if digits == 0 || digits > DIGITS_MAX {
                    return None;
                }
                padded &= digits == width;
                canonical &= digits == 1 || after[0] != b'0';
                let value = after[..digits]
                    .iter()
                    .fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
                pattern.numbers.push(value);
                *rest = &after[digits..];
            }
            match (padded, canonical) {
                (true, _) => pattern.text.extend([PADDED, width as u8]),
                (false, true) => pattern.text.push(NUMBER),
                (false, false) => return None,
            }
            at += end;
        }
        let tail = &first[at..];
        if tail.iter().any(|byte| *byte <= PADDED) || rest.iter().any(|rest| *rest != tail) {
            return None;
        }
        pattern.text.extend_from_slice(tail);
        Some(pattern)
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_number(out, self.text.len() as u64);
        out.extend_from_slice(&self.text);
        for run in self.numbers.chunks_exact(self.rows) {
            ints::encode(run, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn there_and_back(values: &[&[u8]]) -> Vec<u8> {
        let mut source = b"before".to_vec();
        let mut spans = Vec::new();
        for value in values {
            let start = source.len();
            source.extend_from_slice(value);
            spans.push(Span::new(start, source.len()));
        }
        let mut out = Vec::new();
        encode(&source, &spans, &mut out);
        let mut reader = Reader::new(&out);
        let (mut arena, mut back) = (Arena::default(), Vec::new());
        arena.begin(&out, 1 << 20);
        let scratch = &mut Scratch::default();
        decode(&mut reader, values.len(), &mut arena, &mut back, scratch).unwrap();
        assert!(reader.is_empty());
        let back: Vec<&[u8]> = back.iter().map(|span| span.of(arena.bytes())).collect();
        assert_eq!(back, values);
        out
    }

    #[test]
    fn layouts_are_chosen_for_what_they_are_good_at() {
        let ids: Vec<String> = (980..1020).map(|id| format!("tt{id:07}")).collect();
        let ids: Vec<&[u8]> = ids.iter().map(String::as_bytes).collect();
        let ids = there_and_back(&ids);
        assert_eq!(ids[0], layout::PATTERN);
        assert!(ids.len() < 12, "{ids:?}");
        let times = there_and_back(&[b"2026-11-21 10:02:03", b"2026-11-21 10:02:07"]);
        assert_eq!(times[0], layout::PATTERN);
        assert_eq!(there_and_back(&[b"12.5", b"7.25"])[0], layout::PATTERN);
        // A leading zero in a run of varying width has no number that gives it back.
        assert_eq!(there_and_back(&[b"a07", b"a7"])[0], layout::ENDED);
        assert_eq!(there_and_back(&[b"aaax", b"aaay"])[0], layout::PLANES);
        assert_eq!(there_and_back(&[b"one", b"two"])[0], layout::ENDED);
        assert_eq!(there_and_back(&[b"o\0e", b"tw"])[0], layout::COUNTED);
        assert_eq!(there_and_back(&[b"", b"\x01"])[0], layout::ENDED);
        assert_eq!(
            there_and_back(&[b"1234567890123456789", b"2"])[0],
            layout::ENDED
        );
    }

    proptest! {
        #[test]
        fn any_strings_come_back(values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..12), 0..20)) {
            let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            there_and_back(&values);
        }

        #[test]
        fn patterned_strings_come_back(values in proptest::collection::vec("[ab]{0,2}[019]{0,3}[.:]?[059]{1,2}", 0..6)) {
            let values: Vec<&[u8]> = values.iter().map(String::as_bytes).collect();
            there_and_back(&values);
        }

        #[test]
        fn hostile_bytes_end_in_an_error_or_stay_bounded(bytes in proptest::collection::vec(any::<u8>(), 0..60), count in 0usize..40) {
            let (mut arena, mut spans) = (Arena::default(), Vec::new());
            arena.begin(&bytes, 1000);
            let scratch = &mut Scratch::default();
            let _ = decode(&mut Reader::new(&bytes), count, &mut arena, &mut spans, scratch);
            prop_assert!(arena.len() <= bytes.len() + 1000);
            prop_assert!(spans.iter().all(|span| span.range().end <= arena.len()));
        }
    }
}
