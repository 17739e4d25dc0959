//! A column of strings: one after another, or as a pattern and what differs.

use super::arena::Arena;
use super::bytes::{Malformed, Reader, Result, Span};
use super::ints;
use super::pattern;

/// Ends a string; strings that contain it are written with their lengths.
const END: u8 = 0;
/// The layouts, by the number in the stream.
mod layout {
    pub(super) const ENDED: u8 = 0;
    pub(super) const COUNTED: u8 = 1;
    pub(super) const PATTERN: u8 = 2;
}

/// Scratch memory of encoding, reused for every page.
#[derive(Default)]
pub(crate) struct StringsWork {
    sizes: Vec<i64>,
    pattern: pattern::PatternWork,
}

/// Appends the strings `values` of `source`; their number is known to the reader.
pub(crate) fn encode(source: &[u8], values: &[Span], work: &mut StringsWork, out: &mut Vec<u8>) {
    if values.is_empty() {
        return;
    }
    if work.pattern.find(source, values) {
        out.push(layout::PATTERN);
        work.pattern.put(out);
        return;
    }
    let start = out.len();
    out.push(layout::ENDED);
    for value in values {
        out.extend_from_slice(value.of(source));
        out.push(END);
    }
    let written = out.get(start + 1..).unwrap_or_default();
    let ends = memchr::memchr_iter(END, written).count();
    if ends > values.len() {
        out.truncate(start);
        out.push(layout::COUNTED);
        let sizes = values.iter().map(|value| i64::from(value.len));
        work.sizes.clear();
        work.sizes.extend(sizes);
        ints::encode(&mut work.sizes, out);
        for value in values {
            out.extend_from_slice(value.of(source));
        }
    }
}

/// Scratch memory of decoding, reused for every page.
#[derive(Default)]
pub(crate) struct Scratch {
    sizes: Vec<i64>,
    pattern: pattern::Scratch,
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
        layout::ENDED => input.take_ended(count, spans)?,
        layout::COUNTED => {
            scratch.sizes.clear();
            ints::decode(input, count, &mut scratch.sizes)?;
            for size in &scratch.sizes {
                let size = usize::try_from(*size).map_err(|_| Malformed)?;
                spans.push(input.span(size)?);
            }
        }
        layout::PATTERN => pattern::decode(input, count, arena, spans, &mut scratch.pattern)?,
        _ => return Err(Malformed),
    }
    Ok(())
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
        encode(&source, &spans, &mut StringsWork::default(), &mut out);
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
        // No number restores a leading zero in a run of varying width.
        assert_eq!(there_and_back(&[b"a07", b"a7"])[0], layout::ENDED);
        assert_eq!(there_and_back(&[b"aaax", b"aaay"])[0], layout::PATTERN);
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
