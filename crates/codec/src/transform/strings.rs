//! A column of strings: one after another, or as a pattern and what differs, or in one of the ways of the files beside
//! this one.

use super::arena::Arena;
use super::bytes::{Malformed, Reader, Result, Span, put_number};
use super::repeated::{self, Repeated};
use super::{front, hex, ints, pattern};

/// Ends a string; strings that contain it are written with their lengths.
const END: u8 = 0;
/// The layouts, by the number in the stream.
mod layout {
    pub(super) const ENDED: u8 = 0;
    pub(super) const COUNTED: u8 = 1;
    pub(super) const PATTERN: u8 = 2;
    /// Each different string once, in one of the other layouts, and which one each is.
    pub(super) const REPEATED: u8 = 3;
    pub(super) const FRONT: u8 = 4;
    pub(super) const HEX: u8 = 5;
    /// The same, the bytes plane by plane.
    pub(super) const HEX_PLANES: u8 = 6;
}

/// Scratch memory of encoding, reused for every page.
#[derive(Default)]
pub(crate) struct StringsWork {
    sizes: Vec<i64>,
    shared: Vec<u8>,
    pattern: pattern::PatternWork,
    hex: hex::HexWork,
    pub(crate) repeated: Repeated,
}

/// Appends the strings `values` of `source`; their number is known to the reader.
pub(crate) fn encode(source: &[u8], values: &[Span], work: &mut StringsWork, out: &mut Vec<u8>) {
    if values.is_empty() {
        return;
    }
    let start = out.len();
    let has_pattern = put_pattern(source, values, work, out);
    if put_repeated(source, values, has_pattern.then_some(start), work, out) || has_pattern {
        return;
    }
    if put_hex(source, values, values, work, out) {
        return;
    }
    put_ended(source, values, work, out);
    let ended = out.get(start) == Some(&layout::ENDED);
    if ended && front::find(source, values, &mut work.shared) {
        out.truncate(start);
        out.push(layout::FRONT);
        front::put(source, values, &work.shared, out);
    }
}

fn put_pattern(source: &[u8], values: &[Span], work: &mut StringsWork, out: &mut Vec<u8>) -> bool {
    let found = work.pattern.find(source, values);
    if found {
        out.push(layout::PATTERN);
        work.pattern.put(out);
    }
    found
}

/// Appends strings with hexadecimal digits, which are `among` all values of the column.
fn put_hex(
    source: &[u8],
    values: &[Span],
    among: &[Span],
    work: &mut StringsWork,
    out: &mut Vec<u8>,
) -> bool {
    let found = work.hex.find(source, values, among);
    if found {
        let by_plane = hex::ascend(source, values);
        out.push(if by_plane {
            layout::HEX_PLANES
        } else {
            layout::HEX
        });
        work.hex.put(source, values, by_plane, out);
    }
    found
}

/// Appends each different string once, if there are few and that gains something; instead of the pattern of all, which
/// begins at a place in `out`, if they have one.
fn put_repeated(
    source: &[u8],
    values: &[Span],
    pattern: Option<usize>,
    work: &mut StringsWork,
    out: &mut Vec<u8>,
) -> bool {
    let start = out.len();
    let most = match pattern {
        // It has to be clearly shorter.
        Some(from) => (start - from) / 4 * 3,
        None => values.iter().map(|value| value.len() + 1).sum(),
    };
    if values.len() >= most || !work.repeated.find(source, values, repeated::USES) {
        return false;
    }
    let come_again = work.repeated.come_again();
    let different = std::mem::take(&mut work.repeated.different);
    if pattern.is_some() || come_again {
        out.push(layout::REPEATED);
        put_number(out, different.len() as u64);
        if !put_pattern(source, &different, work, out)
            && !put_hex(source, &different, values, work, out)
        {
            put_ended(source, &different, work, out);
        }
        out.extend_from_slice(&work.repeated.which);
    }
    work.repeated.different = different;
    let len = out.len() - start;
    if len > most {
        out.truncate(start);
        return false;
    }
    if let Some(from) = pattern {
        out.drain(from..start);
    }
    len > 0
}

/// Appends the strings one after another.
fn put_ended(source: &[u8], values: &[Span], work: &mut StringsWork, out: &mut Vec<u8>) {
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
    different: Vec<Span>,
    pattern: pattern::Scratch,
    hex: hex::Scratch,
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
        layout::REPEATED => take_repeated(input, count, arena, spans, scratch),
        layout => decode_each(input, layout, count, arena, spans, scratch),
    }
}

#[inline(never)]
fn take_repeated(
    input: &mut Reader<'_>,
    count: usize,
    arena: &mut Arena,
    spans: &mut Vec<Span>,
    scratch: &mut Scratch,
) -> Result<()> {
    let different = input.count(repeated::MOST)?;
    if different == 0 {
        return Err(Malformed);
    }
    let layout = input.byte()?;
    let mut found = std::mem::take(&mut scratch.different);
    found.clear();
    decode_each(input, layout, different, arena, &mut found, scratch)?;
    repeated::put(input.take(count)?, &found, spans)?;
    scratch.different = found;
    Ok(())
}

/// The same in a layout that has each of the strings, of which there are some.
fn decode_each(
    input: &mut Reader<'_>,
    layout: u8,
    count: usize,
    arena: &mut Arena,
    spans: &mut Vec<Span>,
    scratch: &mut Scratch,
) -> Result<()> {
    match layout {
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
        layout::FRONT => front::decode(input, count, arena, spans)?,
        layout::HEX | layout::HEX_PLANES => {
            let by_plane = layout == layout::HEX_PLANES;
            hex::decode(input, by_plane, count, arena, spans, &mut scratch.hex)?;
        }
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
        for (first, second, pattern) in [
            // All of one day, of one minute, of one time of day.
            ("2026-11-21 10:02:03", "2026-11-21 10:03:03", "\0\x03:03"),
            (
                "2026-11-21T10:02:03.250Z",
                "2026-11-21T10:02:04.250Z",
                "\0\x14.250Z",
            ),
            (
                "at 2026-11-21T00:00",
                "at 2026-11-22T00:00",
                "at \0\x01T00:00",
            ),
            (
                "2026-11-21T10:02:03.250000+01:00",
                "2026-11-22T10:02:03.250001+01:00",
                "\0\x1a+01:00",
            ),
            // A fraction of another length.
            (
                "2026-11-21 10:02:03.25",
                "2026-11-21 10:02:04.5",
                "\0\x04.\x01",
            ),
            (
                "2026-11-21 10:02:03.1234567",
                "2026-11-21 10:02:04.1234567",
                "\0\x04.1234567",
            ),
            // No dates: a day that is none, and another text between date and time.
            ("2026-11-21", "2026-11-31", "2026-11-\x02\x02"),
            (
                "2026-11-21 10:02",
                "2026-11-21 24:02",
                "2026-11-21 \x02\x02:02",
            ),
            ("2026-11-21 10", "2026-11-21T10", "2026-11-21\x03\x0110"),
            ("v1 2026-11-21", "v2 2026-11-22", "v\x02\x01 \0\x01"),
            (
                "2026-11-21/2027-01-01, 9",
                "2026-11-22/2027-02-01, 10",
                "\0\x01/\0\x01, \x01",
            ),
        ] {
            let stored = there_and_back(&[first.as_bytes(), second.as_bytes()]);
            let stored = stored.strip_prefix(&[layout::PATTERN, pattern.len() as u8]);
            let found = stored.is_some_and(|stored| stored.starts_with(pattern.as_bytes()));
            assert!(found, "{first}: {stored:?}");
        }
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

    fn stored(texts: &[String]) -> Vec<u8> {
        let texts: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
        there_and_back(&texts)
    }

    /// Sixteen digits.
    fn hash(i: u64) -> String {
        format!("{:016x}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    #[test]
    fn few_different_strings_are_there_once() {
        let words = |i: usize| ["GET", "POST", "HEAD", "OPTIONS"][i].to_string();
        let mut rows: Vec<String> = (0..40).map(|i| words(i * 7 % 4)).collect();
        let taken = stored(&rows);
        assert_eq!(taken[..3], [layout::REPEATED, 4, layout::ENDED]);
        assert_eq!(taken.len(), 3 + "GET.POST.HEAD.OPTIONS.".len() + 40);
        // All equal ones in a row, and fewer strings.
        assert_eq!(stored(&rows[..15])[0], layout::ENDED);
        rows.sort();
        assert_eq!(stored(&rows)[0], layout::ENDED);
        // Addresses are shorter also in a row, and what all have in common needs no more.
        let address = |i: u64| format!("{}.{}.{}.{}", 10 + i, i * 57, i * 91, 7 + i);
        let addresses: Vec<String> = (0..90).map(|i| address(i / 30)).collect();
        let taken = stored(&addresses);
        assert_eq!(taken[..3], [layout::REPEATED, 3, layout::PATTERN]);
        assert_eq!(stored(&vec!["v1.5".into(); 90])[0], layout::PATTERN);
        let days: Vec<String> = (0..90)
            .map(|i| format!("2026-11-{:02}", 1 + i / 30))
            .collect();
        assert_eq!(stored(&days)[0], layout::PATTERN);
        let many: Vec<String> = (0..60).map(|i| hash(i % 20)).collect();
        let taken = stored(&many);
        assert_eq!(taken[..3], [layout::REPEATED, 20, layout::HEX_PLANES]);
    }

    #[test]
    fn strings_in_order_are_without_what_they_have_in_common() {
        let name = |i: usize| format!("lib{}-dev", "ab".repeat(i % 9));
        let mut names: Vec<String> = (0..40).map(name).collect();
        names.extend((0..40).map(|i| format!("lib{}", hash(i).replace(char::is_numeric, ""))));
        names.sort();
        assert_eq!(stored(&names)[0], layout::FRONT);
        names.reverse();
        assert_eq!(stored(&names)[0], layout::ENDED);
        // With the byte that ends a string in one of them.
        names.reverse();
        names.push("m\0".into());
        assert_eq!(stored(&names)[0], layout::COUNTED);
    }

    #[test]
    fn hashes_are_the_bytes_that_their_digits_stand_for() {
        let hashes: Vec<String> = (1..30).map(hash).collect();
        let taken = stored(&hashes);
        assert_eq!(taken[..3], [layout::HEX, 1, 0x88]);
        assert_eq!(taken.len(), 3 + 29 * 8);
        let mut ascending = hashes.clone();
        ascending.sort();
        assert_eq!(stored(&ascending)[0], layout::HEX_PLANES);
        // Few strings, capital letters, another length, fewer digits than other text, bytes that are no ASCII.
        assert_eq!(stored(&hashes[..7])[0], layout::ENDED);
        let each = |other: fn(&String) -> String| hashes.iter().map(other).collect();
        for other in [
            each(|hash| hash.to_uppercase()),
            [&hashes[..], &["1".into()]].concat(),
            each(|hash| format!("{hash}{}", "x".repeat(17))),
            each(|hash| format!("\u{e9}{hash}")),
        ] {
            assert_ne!(stored(&other)[0], layout::HEX, "{other:?}");
        }
    }

    #[test]
    fn a_hash_that_is_elsewhere_on_the_page_stays_text() {
        let (mut source, mut spans) = (Vec::new(), Vec::new());
        for hash in (1..30).map(hash) {
            spans.push(Span::new(source.len(), source.len() + hash.len()));
            source.extend_from_slice(hash.as_bytes());
        }
        let layout = |source: &[u8]| {
            let mut out = Vec::new();
            encode(source, &spans, &mut StringsWork::default(), &mut out);
            out[0]
        };
        assert_eq!(layout(&source), layout::HEX);
        source.extend_from_slice(hash(29).as_bytes());
        assert_eq!(layout(&source), layout::ENDED);
    }

    fn decoded(stored: &[u8], count: usize) -> Result<Vec<String>> {
        let (mut arena, mut spans) = (Arena::default(), Vec::new());
        arena.begin(stored, 64);
        let mut input = Reader::new(stored);
        let scratch = &mut Scratch::default();
        decode(&mut input, count, &mut arena, &mut spans, scratch)?;
        let text = |span: &Span| String::from_utf8_lossy(span.of(arena.bytes())).into();
        Ok(spans.iter().map(text).collect())
    }

    #[test]
    fn a_string_that_is_none_of_the_different_ones_is_refused() {
        let good = decoded(b"\x03\x02\0a\0b\0\x01\0\x01", 3).unwrap();
        assert_eq!(good, ["b", "a", "b"]);
        for bad in [
            b"\x03\x02\0a\0b\0\x01\0\x02".as_slice(),    // a third one
            b"\x03\x02\0a\0b\0\x01\0",                   // too few
            b"\x03\0\0\0\0",                             // none
            b"\x03\x02\x03\x02\0a\0b\0\0\x01\x01\0\x01", // of such ones again
            b"\x03\x81\x02\0",                           // more than a byte can tell apart
            b"\x07a\0b\0c\0",                            // no layout
            b"\x03\0\x06\x01\x84\0\0\0",                 // none of some digits
        ] {
            assert_eq!(decoded(bad, 3), Err(Malformed), "{bad:?}");
        }
    }

    #[test]
    fn digits_that_are_none_are_refused() {
        let good = decoded(b"\x05\x03a\x82-\x01\xef\x20\x03", 2).unwrap();
        assert_eq!(good, ["a01ef-", "a2003-"]);
        let good = decoded(b"\x06\x03a\x82-\x01\x20\xef\x03", 2).unwrap();
        assert_eq!(good, ["a01ef-", "a2003-"]);
        for bad in [
            b"\x05\x04a\x80\x82-\x01\xef\x20\x03".as_slice(), // a mark of no bytes
            b"\x05\x02a-\x01\xef\x20\x03",                    // no mark
            b"\x05\0\x01\xef\x20\x03",
            b"\x06\x03a\x82-\x01\x20\xef", // too few
            b"\x05\x09a\x82-\x01\x20",     // a pattern that ends too early
        ] {
            assert_eq!(decoded(bad, 2), Err(Malformed), "{bad:?}");
        }
        // More than there is room for, at once and in all.
        assert_eq!(decoded(&[5, 1, 255, 1, 2, 3], 1), Err(Malformed));
        let many = [&[5, 1, 130][..], &[0; 100]].concat();
        assert!(decoded(&many, 16).is_ok());
        assert_eq!(decoded(&many, 17), Err(Malformed));
    }

    #[test]
    fn dates_that_are_none_are_refused() {
        let decoded = |pattern: &[u8], numbers: &[u8]| {
            let mut stored = vec![layout::PATTERN, pattern.len() as u8];
            stored.extend_from_slice(pattern);
            stored.extend_from_slice(numbers);
            let (mut arena, mut spans) = (Arena::default(), Vec::new());
            arena.begin(&stored, 1000);
            let scratch = &mut Scratch::default();
            let all = decode(
                &mut Reader::new(&stored),
                2,
                &mut arena,
                &mut spans,
                scratch,
            );
            all.map(|()| {
                spans
                    .iter()
                    .map(|span| span.of(arena.bytes()).to_vec())
                    .collect::<Vec<_>>()
            })
        };
        // Two integers that are the same, 2 and -1.
        let (same, negative) = ([0, 4], [0, 1]);
        let dates = |date: &str| Ok(vec![date.as_bytes().to_vec(); 2]);
        assert_eq!(decoded(b"\0\x01", &same), dates("1970-01-03"));
        assert_eq!(
            decoded(b"\0\x14Z", &negative),
            dates("1969-12-31T23:59:59Z")
        );
        assert_eq!(
            decoded(b"\0\x02 \x01", &[0, 4, 0, 14]),
            dates("1970-01-01 02 7")
        );
        for shape in [0, 0x0b, 0x10, 0x11, 0x1b, 0x20, 0xff] {
            assert_eq!(decoded(&[0, shape], &same), Err(Malformed), "{shape}");
        }
        assert_eq!(decoded(&[0], &same), Err(Malformed));
        // A year of five digits, alone and before a number of any length.
        let late = [0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        for end in [late.as_slice(), &[0, 0x80, 0x80, 0x80, 4]] {
            assert_eq!(decoded(b"\0\x01", end), Err(Malformed));
            assert_eq!(
                decoded(b"\0\x01 \x01", &[end, &[0, 14]].concat()),
                Err(Malformed)
            );
        }
    }

    proptest! {
        #[test]
        fn texts_with_dates_come_back(values in proptest::collection::vec("[ab]{0,1}(2026|1999|0000)-[01][0-2]-[0-3][0-9][ T]?([0-2][0-9](:[0-6][0-9])?)?(:00(\\.[0-9]{1,8})?)?Z?[0-9]{0,2}", 2..6)) {
            let values: Vec<&[u8]> = values.iter().map(String::as_bytes).collect();
            there_and_back(&values);
            // Alike as far as possible.
            there_and_back(&[values[0]; 3]);
        }

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
        fn strings_alike_come_back(
            texts in proptest::collection::vec("[x:]{0,2}([0-9a-f]{8}|[0-9a-f]{2,4}-[0-9a-f]{12})|(ab|abc){0,3}[\0-z]{0,3}", 1..40),
            which in proptest::collection::vec(any::<proptest::sample::Index>(), 1..80),
            order: bool,
        ) {
            let mut values: Vec<&[u8]> = which.iter().map(|which| which.get(&texts).as_bytes()).collect();
            if order {
                values.sort_unstable();
            }
            there_and_back(&values);
            let same = values[0].len();
            values.retain(|value| value.len() == same);
            there_and_back(&values);
        }

        #[test]
        fn hostile_strings_alike_stay_bounded(layout in 3_u8..7, mut bytes in proptest::collection::vec(prop_oneof![0_u8..5, any::<u8>()], 1..90), count in 1usize..40) {
            bytes[0] = layout;
            let (mut arena, mut spans) = (Arena::default(), Vec::new());
            arena.begin(&bytes, 1000);
            let scratch = &mut Scratch::default();
            let _ = decode(&mut Reader::new(&bytes), count, &mut arena, &mut spans, scratch);
            prop_assert!(arena.len() <= bytes.len() + 1000 && spans.len() <= count);
            prop_assert!(spans.iter().all(|span| span.range().end <= arena.len()));
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
