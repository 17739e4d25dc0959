//! Strings in ascending order, by front coding: each without the first bytes that it has in common with the one before.
//!
//! The keys of an index are such strings. zstd finds what they have in common as well, in two to three bytes for each
//! of them; how long it is takes one, and is much the same from key to key.

use super::arena::{Arena, CHUNK};
use super::bytes::{Malformed, Reader, Result, Span};

/// Ends the rest of a string.
const END: u8 = 0;
/// Fewer strings gain nothing.
const STRINGS_MIN: usize = 8;
/// zstd has one match for equal strings in a row: if more than this are, on average, nothing is gained.
const EQUAL_MAX: usize = 6;
/// The most that a byte can say.
const SHARED_MAX: usize = u8::MAX as usize;

/// Looks at `values`, pieces of `source`, and fills `shared` with how many bytes each has in common with the one before;
/// false if this gains nothing.
#[expect(
    clippy::cast_possible_truncation,
    reason = "no more is said to be shared than a byte can say"
)]
pub(super) fn find(source: &[u8], values: &[Span], shared: &mut Vec<u8>) -> bool {
    if values.len() < STRINGS_MIN {
        return false;
    }
    shared.clear();
    shared.push(0);
    let (mut all, mut changes) = (0, 1);
    for [before, value] in values.array_windows() {
        let (before, value) = (before.of(source), value.of(source));
        let same = before.iter().zip(value).take_while(|(a, b)| a == b).count();
        match (before.get(same), value.get(same)) {
            // In descending order.
            (Some(a), Some(b)) if a > b => return false,
            (Some(_), None) => return false,
            (None, None) => {}
            _ => changes += 1,
        }
        let same = same.min(SHARED_MAX);
        all += same;
        shared.push(same as u8);
    }
    all >= values.len() && changes * EQUAL_MAX >= values.len()
}

/// Appends what [`find`] found. No string may contain [`END`].
pub(super) fn put(source: &[u8], values: &[Span], shared: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(shared);
    for (value, shared) in values.iter().zip(shared) {
        out.extend_from_slice(value.from((*shared).into()).of(source));
        out.push(END);
    }
}

/// Appends the places of `count` strings to `spans`.
pub(super) fn decode(
    input: &mut Reader<'_>,
    count: usize,
    arena: &mut Arena,
    spans: &mut Vec<Span>,
) -> Result<()> {
    let shared = input.take(count)?;
    let first = spans.len();
    input.take_ended(count, spans)?;
    // The first bytes of the string before.
    let mut begin = [0; CHUNK];
    let mut before = Span::default();
    for (span, shared) in spans.iter_mut().skip(first).zip(shared) {
        let shared = usize::from(*shared);
        if shared > before.len() {
            return Err(Malformed);
        }
        if shared > 0 && shared == before.len() && span.len == 0 {
            *span = before;
            continue;
        }
        if shared > CHUNK {
            let start = arena.len();
            arena.copy(before.to(shared))?;
            arena.copy(*span)?;
            *span = arena.since(start);
        } else if shared > 0 {
            *span = arena.put_behind(&begin, shared, *span)?;
        }
        before = *span;
        begin = arena.chunk(before);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(values: &[&str]) -> (Vec<u8>, Vec<Span>) {
        let (mut source, mut spans) = (Vec::new(), Vec::new());
        for value in values {
            let start = source.len();
            source.extend_from_slice(value.as_bytes());
            spans.push(Span::new(start, source.len()));
        }
        (source, spans)
    }

    fn shared(values: &[&str]) -> Option<Vec<u8>> {
        let (source, spans) = spans(values);
        let mut shared = Vec::new();
        find(&source, &spans, &mut shared).then_some(shared)
    }

    #[test]
    fn only_what_is_in_order_and_has_something_in_common_is_taken() {
        let names = [
            "lib", "liba", "liba-dev", "liba-dev", "libb", "libb-bin", "libc", "m",
        ];
        assert_eq!(shared(&names), Some(vec![0, 3, 4, 8, 3, 4, 3, 0]));
        assert_eq!(shared(&names[..7]), None);
        for (at, other) in [(7, "l"), (7, "lib"), (3, "liba"), (0, "m")] {
            let mut others = names;
            others[at] = other;
            assert_eq!(shared(&others), None, "{other}");
        }
        assert_eq!(shared(&["a", "b", "c", "d", "e", "f", "g", "h"]), None);
        assert_eq!(shared(&["same"; 20]), None);
        // More in common than a byte can say.
        let long = "x".repeat(300);
        assert_eq!(shared(&[&*long; 6]), None);
        let longer: Vec<String> = (0..8).map(|i| format!("{long}{i}")).collect();
        let longer: Vec<&str> = longer.iter().map(String::as_str).collect();
        let mut lens = vec![255; 8];
        lens[0] = 0;
        assert_eq!(shared(&longer), Some(lens));
    }

    fn decoded(stored: &[u8], count: usize, room: usize) -> Result<Vec<Vec<u8>>> {
        let (mut arena, mut spans) = (Arena::default(), Vec::new());
        arena.begin(stored, room);
        decode(&mut Reader::new(stored), count, &mut arena, &mut spans)?;
        let text = |span: &Span| span.of(arena.bytes()).to_vec();
        Ok(spans.iter().map(text).collect())
    }

    #[test]
    fn what_is_in_common_is_put_back() {
        let long = "0123456789".repeat(5);
        let values = ["", "", &*long, &*long, "0123", "0123456", "0x", "y"];
        let (source, places) = spans(&values);
        let mut stored = Vec::new();
        let lens = [0, 0, 0, 50, 4, 4, 1, 0];
        put(&source, &places, &lens, &mut stored);
        let back = decoded(&stored, values.len(), 200).unwrap();
        assert_eq!(back, values.map(|value| value.as_bytes().to_vec()));
        // No room for what is made.
        assert_eq!(decoded(&stored, values.len(), 1), Err(Malformed));
    }

    #[test]
    fn more_than_the_string_before_has_is_refused() {
        assert_eq!(decoded(b"\0\x02ab\0c\0", 2, 100).unwrap()[1], b"abc");
        assert_eq!(decoded(b"\0\x03ab\0c\0", 2, 100), Err(Malformed));
        assert_eq!(decoded(b"\x01ab\0", 1, 100), Err(Malformed));
        assert_eq!(decoded(b"\0\x02ab\0c", 2, 100), Err(Malformed));
    }
}
