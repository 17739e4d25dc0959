//! Strings with hexadecimal digits at the same places in all of them, as the bytes that the digits stand for: hashes,
//! UUIDs, and both behind or between other text.
//!
//! Only digits in lower case are taken. A string that is there again elsewhere on the page stays text, because zstd
//! finds it there.

use memchr::memmem;

use super::arena::Arena;
use super::bytes::{Malformed, Reader, Result, Span, put_number};

/// From here on a byte of a pattern stands for digits, two for each number that it is higher.
const DIGITS: u8 = 128;
/// The bytes that one mark may stand for.
const BYTES_MAX: usize = (u8::MAX - DIGITS) as usize;
/// Fewer strings gain nothing.
const STRINGS_MIN: usize = 8;
/// Fewer digits do not.
const DIGITS_MIN: usize = 8;

/// The two digits of each byte.
#[expect(
    clippy::indexing_slicing,
    reason = "evaluated by the compiler, which refuses an index out of range"
)]
const TEXTS: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut texts = [[0; 2]; 256];
    let mut byte = 0;
    while byte < texts.len() {
        texts[byte] = [digits[byte / 16], digits[byte % 16]];
        byte += 1;
    }
    texts
};

/// The value of a byte as a digit.
fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

/// The pattern of some strings; the memory is reused for every page.
#[derive(Default)]
pub(super) struct HexWork {
    pattern: Vec<u8>,
    /// Where digits begin in each string, and how many there are.
    runs: Vec<(usize, usize)>,
    /// How many bytes the digits of a string stand for.
    width: usize,
    /// Whether all strings have a digit at a place, and whether all have the same byte there.
    places: Vec<(bool, bool)>,
}

impl HexWork {
    /// Looks for the pattern of all values, pieces of `source` and `among` those of a column; false if they have none, or
    /// if text is better.
    pub(super) fn find(&mut self, source: &[u8], values: &[Span], among: &[Span]) -> bool {
        let [first, second, .., last] = values else {
            return false;
        };
        let len = first.len();
        if values.len() < STRINGS_MIN || len < DIGITS_MIN || second.len() != len {
            return false;
        }
        let both = first.of(source).iter().zip(second.of(source));
        let digits = both.filter(|(a, b)| digit(**a).is_some() && digit(**b).is_some());
        // Most columns of other texts end here.
        if digits.count() * 2 < len || values.iter().any(|value| value.len() != len) {
            return false;
        }
        let first = first.of(source);
        self.places.clear();
        self.places.resize(len, (true, true));
        for value in values {
            let bytes = value.of(source).iter().zip(first);
            for ((digits, same), (byte, first)) in self.places.iter_mut().zip(bytes) {
                *digits &= digit(*byte).is_some();
                *same &= byte == first;
            }
        }
        let middle = values.get(values.len() / 2).unwrap_or(last);
        self.make_pattern(first).is_some()
            && [values.first().unwrap_or(last), middle, last]
                .iter()
                .all(|value| is_alone(source, among, value.of(source)))
    }

    /// Makes the pattern from what is known of each place. `None` if the strings differ elsewhere than in digits, or if
    /// digits are less than half of them.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a mark stands for at most `BYTES_MAX` bytes"
    )]
    fn make_pattern(&mut self, first: &[u8]) -> Option<()> {
        self.pattern.clear();
        self.runs.clear();
        self.width = 0;
        let mut at = 0;
        while let Some(rest) = self.places.get(at..).filter(|rest| !rest.is_empty()) {
            let digits = rest.iter().take_while(|(digits, _)| *digits).count();
            let run = (digits / 2).min(BYTES_MAX);
            let len = (2 * run).max(1);
            let same = rest.iter().take(len).all(|(_, same)| *same);
            if same {
                let text = first.get(at..at + len)?;
                if text.iter().any(|byte| *byte >= DIGITS) {
                    return None;
                }
                self.pattern.extend_from_slice(text);
            } else if run == 0 {
                return None;
            } else {
                self.pattern.push(DIGITS + run as u8);
                self.runs.push((at, 2 * run));
                self.width += run;
            }
            at += len;
        }
        let digits = 2 * self.width;
        (digits >= DIGITS_MIN && 2 * digits >= first.len()).then_some(())
    }

    /// Appends what was found.
    #[expect(
        clippy::indexing_slicing,
        reason = "the runs are within the first value, and all are as long as that"
    )]
    pub(super) fn put(&self, source: &[u8], values: &[Span], by_plane: bool, out: &mut Vec<u8>) {
        put_number(out, self.pattern.len() as u64);
        out.extend_from_slice(&self.pattern);
        let byte = |pair: &[u8]| {
            let value = |byte: &u8| digit(*byte).unwrap_or(0);
            pair.iter().fold(0, |all, byte| all << 4 | value(byte))
        };
        if !by_plane {
            for value in values {
                let value = value.of(source);
                for (at, len) in &self.runs {
                    out.extend(value[*at..at + len].chunks_exact(2).map(byte));
                }
            }
            return;
        }
        for (at, len) in &self.runs {
            for at in (*at..at + len).step_by(2) {
                out.extend(
                    values
                        .iter()
                        .map(|value| byte(&value.of(source)[at..at + 2])),
                );
            }
        }
    }
}

/// Whether a text is nowhere on the page but among the values of its column.
fn is_alone(source: &[u8], among: &[Span], text: &[u8]) -> bool {
    let own = among.iter().filter(|value| value.of(source) == text);
    memmem::find_iter(source, text).nth(own.count()).is_none()
}

/// Whether the bytes of `values` gain by standing plane by plane: they ascend, and few are the same.
pub(super) fn ascend(source: &[u8], values: &[Span]) -> bool {
    let mut changes = 0;
    for [before, value] in values.array_windows() {
        let (before, value) = (before.of(source), value.of(source));
        if before > value {
            return false;
        }
        changes += usize::from(before != value);
    }
    changes * 4 >= values.len() * 3
}

/// Scratch memory of decoding, reused for every page.
#[derive(Default)]
pub(super) struct Scratch {
    runs: Vec<(usize, usize)>,
}

/// Reads a pattern and appends the `count` strings it stands for.
#[expect(
    clippy::indexing_slicing,
    reason = "each string is a copy of the first, which has room for all runs, and each has `width` bytes in `bytes`"
)]
pub(super) fn decode(
    input: &mut Reader<'_>,
    by_plane: bool,
    count: usize,
    arena: &mut Arena,
    spans: &mut Vec<Span>,
    scratch: &mut Scratch,
) -> Result<()> {
    let len = usize::try_from(input.number()?).map_err(|_| Malformed)?;
    let pattern = input.take(len)?;
    let start = arena.len();
    let mut width = 0;
    scratch.runs.clear();
    for byte in pattern {
        match byte.checked_sub(DIGITS) {
            None => arena.push(*byte)?,
            Some(0) => return Err(Malformed),
            Some(bytes) => {
                let bytes = usize::from(bytes);
                scratch.runs.push((arena.len() - start, 2 * bytes));
                arena.leave(2 * bytes)?;
                width += bytes;
            }
        }
    }
    if width == 0 {
        return Err(Malformed);
    }
    let first = arena.since(start);
    let bytes = input.take(count.checked_mul(width).ok_or(Malformed)?)?;
    arena.repeat_last(first.len(), count)?;
    spans.extend((0..count).map(|row| first.behind(row * first.len())));
    let strings = arena.last(count * first.len());
    if by_plane {
        let mut planes = bytes.chunks_exact(count);
        for (at, len) in &scratch.runs {
            for at in (*at..at + len).step_by(2) {
                let plane = planes.next().unwrap_or_default();
                let strings = strings.chunks_exact_mut(first.len());
                for (string, byte) in strings.zip(plane) {
                    string[at..at + 2].copy_from_slice(&TEXTS[usize::from(*byte)]);
                }
            }
        }
        return Ok(());
    }
    let strings = strings.chunks_exact_mut(first.len());
    for (string, mut bytes) in strings.zip(bytes.chunks_exact(width)) {
        for (at, len) in &scratch.runs {
            let (own, others) = bytes.split_at(len / 2);
            let places = string[*at..at + len].as_chunks_mut::<2>().0;
            for (place, byte) in places.iter_mut().zip(own) {
                *place = TEXTS[usize::from(*byte)];
            }
            bytes = others;
        }
    }
    Ok(())
}
