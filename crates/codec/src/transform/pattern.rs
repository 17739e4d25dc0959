//! Strings that have most of their text in common, as one pattern and columns of what differs.
//!
//! They differ in the numbers and dates within them (`tt0001234`, `2026-11-21 10:02:03`, `192.168.0.7`, `12.50`), or, if
//! all have one length, in the bytes at some of their positions.

use super::arena::{Arena, copy};
use super::bytes::{Malformed, Reader, Result, Span, put_number};
use super::dates::{DateShape, DateWriter};
use super::{digits, ints};

/// Stands for a number without leading zeros.
const NUMBER: u8 = 1;
/// Stands for a number of as many digits as the next byte says, with leading zeros.
const DIGITS: u8 = 2;
/// Stands for as many bytes as the next byte says, whatever they are.
const BYTES: u8 = 3;
/// Stands for a date, in the shape that the next byte says.
const DATE: u8 = 0;
/// The highest mark. No pattern has a byte up to here that stands for itself.
const MARK_MAX: u8 = BYTES;

/// Digits that fit an `i64` whatever they are.
const DIGITS_MAX: usize = 18;

/// The pattern of some strings and what differs; the memory is reused for every page.
#[derive(Default)]
pub(crate) struct PatternWork {
    /// The bytes that all have, with a mark for each run of others.
    text: Vec<u8>,
    /// The runs.
    columns: Vec<u8>,
    /// The parts of each string that the pattern does not hold, run after run.
    rest: Vec<Span>,
    numbers: Vec<i64>,
}

/// The next run of digits in `text`: where it starts and ends.
fn next_run(text: &[u8]) -> Option<(usize, usize)> {
    let start = text.iter().position(u8::is_ascii_digit)?;
    Some((start, start + number_at(text.get(start..)?).0))
}

/// How many digits `text` begins with, and the number they are, if there are no more than [`DIGITS_MAX`].
#[inline]
fn number_at(text: &[u8]) -> (usize, u64) {
    let (mut digits, mut number) = (0, 0u64);
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        number = number.wrapping_mul(10).wrapping_add(digit.into());
        digits += 1;
    }
    (digits, number)
}

impl PatternWork {
    /// Looks for the pattern of all values; false if they have none.
    pub(crate) fn find(&mut self, source: &[u8], values: &[Span]) -> bool {
        let [first, second, ..] = values else {
            return false;
        };
        let first = first.of(source);
        self.find_numbers(source, values, first, second.of(source))
            .or_else(|| self.find_bytes(source, values, first))
            .is_some()
    }

    /// Appends what was found.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_number(out, self.text.len() as u64);
        out.extend_from_slice(&self.text);
        out.extend_from_slice(&self.columns);
    }

    /// Looks for the pattern of values that differ only in the numbers in them.
    fn find_numbers(
        &mut self,
        source: &[u8],
        values: &[Span],
        first: &[u8],
        second: &[u8],
    ) -> Option<()> {
        let (start, _) = next_run(first)?;
        // Most columns of words end here.
        if !second.starts_with(first.get(..start)?) {
            return None;
        }
        self.text.clear();
        self.columns.clear();
        self.rest.clear();
        self.rest.extend_from_slice(values);
        let mut at = 0;
        while let Some((start, end)) = next_run(first.get(at..)?) {
            let literal = first.get(at..at + start)?;
            if literal.iter().any(|byte| *byte <= MARK_MAX) {
                return None;
            }
            self.text.extend_from_slice(literal);
            if let Some(len) = self.find_dates(source, literal, first.get(at + start..)?) {
                at += start + len;
                continue;
            }
            let width = end - start;
            let (mut padded, mut canonical) = (true, true);
            self.numbers.resize(values.len(), 0);
            for (rest, place) in self.rest.iter_mut().zip(&mut self.numbers) {
                let after = after(literal, rest.of(source))?;
                let (digits, number) = number_at(after);
                if digits == 0 || digits > DIGITS_MAX {
                    return None;
                }
                padded &= digits == width;
                canonical &= digits == 1 || !after.starts_with(b"0");
                *place = number as i64;
                *rest = rest.from(literal.len() + digits);
            }
            let digits = first.get(at + start..at + end)?;
            at += end;
            if padded
                && self
                    .numbers
                    .iter()
                    .all(|number| Some(number) == self.numbers.first())
            {
                // No column is needed for what all have.
                self.text.extend_from_slice(digits);
                continue;
            }
            match (padded, canonical) {
                (true, _) => self.text.extend([DIGITS, u8::try_from(width).ok()?]),
                (false, true) => self.text.push(NUMBER),
                (false, false) => return None,
            }
            ints::encode(&mut self.numbers, &mut self.columns);
        }
        let tail = first.get(at..)?;
        if tail.iter().any(|byte| *byte <= MARK_MAX)
            || self.rest.iter().any(|rest| rest.of(source) != tail)
        {
            return None;
        }
        self.text.extend_from_slice(tail);
        Some(())
    }

    /// Takes the dates off that the rests of all values begin with behind a literal, as that of the first does, and says
    /// how many bytes they have. They end where the texts of all are the same from there on.
    fn find_dates(&mut self, source: &[u8], literal: &[u8], first: &[u8]) -> Option<usize> {
        let longest = DateShape::at_start(first)?;
        let mut parse = |shape: DateShape| {
            self.numbers.clear();
            for rest in &self.rest {
                let number = shape.parse(after(literal, rest.of(source))?)?;
                self.numbers.push(number);
            }
            Some(shape)
        };
        let full = parse(longest).or_else(|| {
            let short = longest.without_fraction();
            (short != longest).then(|| parse(short)).flatten()
        })?;
        let mut shape = full;
        while let Some((times, coarser)) = shape.coarser() {
            let least = self.numbers.first()?.rem_euclid(times);
            if self
                .numbers
                .iter()
                .any(|number| number.rem_euclid(times) != least)
            {
                break;
            }
            for number in &mut self.numbers {
                *number = number.div_euclid(times);
            }
            shape = coarser;
        }
        self.text.extend([DATE, shape.number()]);
        self.text
            .extend_from_slice(first.get(shape.len()..full.len())?);
        for rest in &mut self.rest {
            *rest = rest.from(literal.len() + full.len());
        }
        ints::encode(&mut self.numbers, &mut self.columns);
        Some(full.len())
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "there are at least two values, all of the first's length, and `at` is below that where it is an index"
    )]
    /// Looks for that of values of one length that have at least half of their positions in common.
    fn find_bytes(&mut self, source: &[u8], values: &[Span], first: &[u8]) -> Option<()> {
        let others = &values[1..];
        if others.iter().any(|other| other.len() != first.len()) {
            return None;
        }
        let byte = |value: &Span, at: usize| source[value.start as usize + at];
        let differs = |at: usize| others.iter().any(|other| byte(other, at) != first[at]);
        self.text.clear();
        self.columns.clear();
        let mut width = 0;
        let mut different = 0;
        for at in 0..=first.len() {
            let in_run = at < first.len() && (first[at] <= MARK_MAX || differs(at));
            if width > 0 && (!in_run || width == u8::MAX) {
                self.text.extend([BYTES, width]);
                width = 0;
            }
            if in_run {
                width += 1;
                different += 1;
                if different * 2 > first.len() {
                    return None;
                }
                self.columns
                    .extend(values.iter().map(|value| byte(value, at)));
            } else if let Some(byte) = first.get(at) {
                self.text.push(*byte);
            }
        }
        Some(())
    }
}

/// The rest of `text` behind a literal, which usually has very few bytes.
#[inline]
fn after<'a>(literal: &[u8], text: &'a [u8]) -> Option<&'a [u8]> {
    match (literal, text) {
        ([], _) => Some(text),
        ([literal], [first, rest @ ..]) => (literal == first).then_some(rest),
        _ => text.strip_prefix(literal),
    }
}

/// Scratch memory of decoding, reused for every page.
#[derive(Default)]
pub(crate) struct Scratch {
    runs: Vec<Run>,
    /// The numbers, run after run.
    numbers: Vec<i64>,
}

/// A run: the text and bytes that stand in the place of a mark.
struct Run {
    /// The text between it and the run before.
    before: Span,
    /// The same, the first byte lowest, if it is short.
    short: u64,
    mark: u8,
    /// The bytes it takes in each string; 0 if that is not the same in all.
    width: usize,
    /// Of dates.
    dates: Option<DateWriter>,
}

/// So much text fits a word together with a number that [`digits::small`] knows.
const SHORT: usize = 4;

/// Reads a pattern and appends the `count` strings it stands for.
pub(crate) fn decode(
    input: &mut Reader<'_>,
    count: usize,
    arena: &mut Arena,
    spans: &mut Vec<Span>,
    scratch: &mut Scratch,
) -> Result<()> {
    let len = input.number()?;
    let mut pattern = input.reader(usize::try_from(len).map_err(|_| Malformed)?)?;
    scratch.runs.clear();
    let mut start = pattern.at();
    let mut short = 0;
    while !pattern.is_empty() {
        let end = pattern.at();
        let mark = pattern.byte()?;
        let mut dates = None;
        let width = match mark {
            NUMBER => 0,
            DIGITS | BYTES => match pattern.byte()? {
                0 => return Err(Malformed),
                width => width.into(),
            },
            DATE => {
                let shape = DateShape::of(pattern.byte()?)?;
                dates = Some(shape.writer());
                shape.len()
            }
            byte => {
                if end - start < SHORT {
                    short |= u64::from(byte) << (8 * (end - start));
                }
                continue;
            }
        };
        scratch.runs.push(Run {
            before: Span::new(start, end),
            short,
            mark,
            width,
            dates,
        });
        start = pattern.at();
        short = 0;
    }
    let tail = Span::new(start, pattern.at());
    if scratch.runs.iter().all(|run| run.width > 0) {
        scratch.put_fixed(input, count, tail, arena, spans)
    } else {
        scratch.put_varying(input, count, tail, arena, spans)
    }
}

impl Scratch {
    /// Strings of one length: first what all have, then run after run.
    #[expect(
        clippy::indexing_slicing,
        reason = "each string is a copy of the first, which has room for all runs: `at` and `end` add up what it was made of"
    )]
    fn put_fixed(
        &mut self,
        input: &mut Reader<'_>,
        count: usize,
        tail: Span,
        arena: &mut Arena,
        spans: &mut Vec<Span>,
    ) -> Result<()> {
        let start = arena.len();
        for run in &self.runs {
            arena.copy(run.before)?;
            arena.leave(run.width)?;
        }
        arena.copy(tail)?;
        let first = arena.since(start);
        if self.runs.is_empty() {
            // They are all the same.
            spans.resize(spans.len() + count, first);
            return Ok(());
        }
        arena.repeat_last(first.len(), count)?;
        spans.extend((0..count).map(|row| first.behind(row * first.len())));
        let mut at = 0;
        for run in &mut self.runs {
            at += run.before.len();
            let end = at + run.width;
            let strings = arena.last(count * first.len());
            if run.mark == BYTES {
                for at in at..end {
                    let strings = strings.chunks_exact_mut(first.len());
                    for (string, byte) in strings.zip(input.take(count)?) {
                        string[at] = *byte;
                    }
                }
            } else {
                self.numbers.clear();
                ints::decode(input, count, &mut self.numbers)?;
                let strings = strings.chunks_exact_mut(first.len());
                let places = strings
                    .map(|string| &mut string[at..end])
                    .zip(&self.numbers);
                if let Some(dates) = &mut run.dates {
                    for (place, number) in places {
                        dates.fill(place, *number)?;
                    }
                    at = end;
                    continue;
                }
                match run.width {
                    1 => digits::fill_each::<1>(places),
                    2 => digits::fill_each::<2>(places),
                    3 => digits::fill_each::<3>(places),
                    4 => digits::fill_each::<4>(places),
                    5 => digits::fill_each::<5>(places),
                    6 => digits::fill_each::<6>(places),
                    7 => digits::fill_each::<7>(places),
                    8 => digits::fill_each::<8>(places),
                    _ => places.for_each(|(place, number)| digits::fill(place, *number as u64)),
                }
            }
            at = end;
        }
        Ok(())
    }

    /// Strings of any length, one after the other.
    fn put_varying(
        &mut self,
        input: &mut Reader<'_>,
        count: usize,
        tail: Span,
        arena: &mut Arena,
        spans: &mut Vec<Span>,
    ) -> Result<()> {
        self.numbers.clear();
        for run in &self.runs {
            // Each number is a digit in the arena at least.
            if run.mark == BYTES || self.numbers.len() > arena.room() {
                return Err(Malformed);
            }
            ints::decode(input, count, &mut self.numbers)?;
        }
        spans.reserve(count);
        let mut start = arena.len();
        let (from, mut to) = arena.join();
        for row in 0..count {
            let room = to.len();
            let numbers = self
                .numbers
                .get(row..)
                .unwrap_or_default()
                .iter()
                .step_by(count);
            for (run, number) in self.runs.iter_mut().zip(numbers) {
                let number = *number as u64;
                let before = run.before.len();
                let small = digits::small(number, run.width).filter(|_| before <= SHORT);
                to = match (small, to.first_chunk_mut()) {
                    (Some((digits, len)), Some(place)) => {
                        *place = (run.short | (digits << (8 * before))).to_le_bytes();
                        to.get_mut(before + len..).ok_or(Malformed)?
                    }
                    _ => {
                        let to = copy(from, run.before, to)?;
                        match &mut run.dates {
                            None => digits::put(number, run.width, to).ok_or(Malformed)?,
                            Some(dates) => {
                                let place = to.split_at_mut_checked(run.width);
                                let (place, behind) = place.ok_or(Malformed)?;
                                dates.fill(place, number as i64)?;
                                behind
                            }
                        }
                    }
                };
            }
            to = copy(from, tail, to)?;
            let end = start + (room - to.len());
            spans.push(Span::new(start, end));
            start = end;
        }
        let rest = to.len();
        arena.joined(rest)?;
        Ok(())
    }
}
