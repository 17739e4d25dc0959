//! A column of JSON texts: each template once, the scalars by column.
//!
//! A scanner cuts a text into a template (keys, punctuation, white space, nesting) and its scalar values. It does not
//! have to parse JSON correctly: whatever it calls template or value, the pieces put together are the text again. An
//! array of scalars is one value. Values of the same key, in any template, are one column.
//!
//! ```text
//! scan.rs  a text cut into template and values       shapes.rs  the templates of a page and their keys
//! decode.rs  decoding                                binary.rs  JSONB as text
//! ```

pub(crate) mod binary;
mod decode;
mod scan;
mod shapes;

pub(crate) use decode::{Scratch, decode};

use super::bytes::{Malformed, Result, Span};
use super::{ints, strings};
use scan::{Value, integer, scan};
use shapes::{END, SLOT, Shapes};

/// The kind of a value, by its number in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum ValueKind {
    /// The text between two quotes.
    String = 0,
    /// An integer that prints back as it was written.
    Integer = 1,
    /// Anything else, as it was written.
    Verbatim = 2,
}

/// Instead of a kind: a kind follows for each value.
pub(super) const MIXED: u8 = 3;

impl ValueKind {
    pub(super) const ALL: [ValueKind; 3] =
        [ValueKind::String, ValueKind::Integer, ValueKind::Verbatim];

    pub(super) fn of(number: u8) -> Result<ValueKind> {
        match number {
            0 => Ok(ValueKind::String),
            1 => Ok(ValueKind::Integer),
            2 => Ok(ValueKind::Verbatim),
            _ => Err(Malformed),
        }
    }
}

/// Scratch memory of encoding, reused for every page.
#[derive(Default)]
pub(crate) struct JsonWork {
    shapes: Shapes,
    /// All templates, each with its [`END`].
    text: Vec<u8>,
    /// The template of each text.
    rows: Vec<u8>,
    found: Vec<Value>,
    /// The values found, by column: their kinds and spans.
    kinds: Vec<ValueKind>,
    spans: Vec<Span>,
    /// Where the next value of each column goes among them.
    next: Vec<usize>,
    /// Values of one kind, from a column of several.
    chosen: Vec<Span>,
    integers: Vec<i64>,
}

#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "`found` only grows behind `first`, and there are at most `TEMPLATES_MAX` templates"
)]
/// Appends the texts `values` of `source`; or appends nothing and returns false if they have too many templates. The
/// reader knows their number.
pub(crate) fn encode(
    source: &[u8],
    values: &[Span],
    strings: &mut strings::StringsWork,
    work: &mut JsonWork,
    out: &mut Vec<u8>,
) -> bool {
    let JsonWork {
        shapes,
        text,
        rows,
        found,
        ..
    } = work;
    shapes.clear();
    text.clear();
    rows.clear();
    found.clear();
    for value in values {
        if memchr::memchr2(SLOT, END, value.of(source)).is_some() {
            return false;
        }
        // Most texts have the shape of the one before.
        let last = rows.last().map_or(0, |last| usize::from(*last));
        if shapes.follow(text, last, source, *value, found) {
            rows.push(last as u8);
            continue;
        }
        let (start, first) = (text.len(), found.len());
        scan(source, *value, text, found);
        let Some(template) = shapes.intern(text, start) else {
            return false;
        };
        let slots = shapes.slots_of(&shapes.templates[template]);
        for (value, slot) in found[first..].iter_mut().zip(slots) {
            value.column = slot.column;
        }
        rows.push(template as u8);
    }
    if found.len() < values.len() || shapes.templates.len() * 2 > values.len() + 1 {
        return false;
    }
    out.push(shapes.templates.len() as u8);
    out.extend_from_slice(text);
    if shapes.templates.len() > 1 {
        out.extend_from_slice(rows);
    }
    work.sort();
    work.put_columns(source, strings, out);
    true
}

#[expect(
    clippy::indexing_slicing,
    reason = "`next` has a number for each column and one more, which `sort` counts from the values themselves"
)]
impl JsonWork {
    /// Puts the values of each column together, in the order of the texts.
    fn sort(&mut self) {
        self.next.clear();
        self.next.resize(self.shapes.keys.len() + 1, 0);
        for value in &self.found {
            self.next[value.column + 1] += 1;
        }
        for column in 1..self.next.len() {
            self.next[column] += self.next[column - 1];
        }
        self.kinds.resize(self.found.len(), ValueKind::String);
        self.spans.resize(self.found.len(), Span::default());
        for value in &self.found {
            let place = &mut self.next[value.column];
            self.kinds[*place] = value.kind;
            self.spans[*place] = value.span;
            *place += 1;
        }
    }

    /// Appends the values of each column, after [`JsonWork::sort`].
    fn put_columns(
        &mut self,
        source: &[u8],
        strings: &mut strings::StringsWork,
        out: &mut Vec<u8>,
    ) {
        let integers = &mut self.integers;
        let mut put_kind = |kind: ValueKind, spans: &[Span], out: &mut Vec<u8>| {
            if kind == ValueKind::Integer {
                integers.clear();
                integers.extend(spans.iter().map(|span| integer(span.of(source))));
                ints::encode(integers, out);
            } else {
                strings::encode(source, spans, strings, out);
            }
        };
        let mut start = 0;
        // Each column ends where its next value would go.
        for end in &self.next[..self.shapes.keys.len()] {
            let (kinds, spans) = (&self.kinds[start..*end], &self.spans[start..*end]);
            start = *end;
            let Some(first) = kinds.first() else {
                continue;
            };
            if kinds.iter().all(|kind| kind == first) {
                out.push(*first as u8);
                put_kind(*first, spans, out);
                continue;
            }
            out.push(MIXED);
            out.extend(kinds.iter().map(|kind| *kind as u8));
            for kind in ValueKind::ALL {
                let values = kinds.iter().zip(spans);
                let chosen = values.filter(|(own, _)| **own == kind);
                self.chosen.clear();
                self.chosen.extend(chosen.map(|(_, span)| *span));
                put_kind(kind, &self.chosen, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::arena::Arena;
    use super::super::bytes::Reader;
    use super::shapes::KEYS_MAX;
    use super::*;
    use proptest::prelude::*;

    /// The encoded size, or `None` if the texts have too many templates.
    fn there_and_back(texts: &[&[u8]]) -> Option<usize> {
        let source = texts.concat();
        let mut end = 0;
        let span = |text: &&[u8]| {
            end += text.len();
            Span::new(end - text.len(), end)
        };
        let spans: Vec<Span> = texts.iter().map(span).collect();
        let mut out = Vec::new();
        let (strings, work) = (
            &mut strings::StringsWork::default(),
            &mut JsonWork::default(),
        );
        if !encode(&source, &spans, strings, work, &mut out) {
            assert!(out.is_empty());
            return None;
        }
        assert_eq!(read(&out, texts.len(), &mut Scratch::default()), texts);
        Some(out.len())
    }

    /// The texts that a stream stands for, and nothing behind them.
    fn read(stream: &[u8], count: usize, scratch: &mut Scratch) -> Vec<Vec<u8>> {
        let (mut arena, mut spans) = (Arena::default(), Vec::new());
        arena.begin(stream, 1 << 20);
        let mut reader = Reader::new(stream);
        let strings = &mut strings::Scratch::default();
        decode(&mut reader, count, &mut arena, &mut spans, strings, scratch).unwrap();
        assert!(reader.is_empty());
        let texts = spans.iter().map(|span| span.of(arena.bytes()).to_vec());
        texts.collect()
    }

    #[test]
    fn what_is_kept_of_a_page_does_not_show_in_the_next() {
        let strings = b"\x01{\"a\":\0}\xff\x00\x00x\0y\0".as_slice();
        let integers = b"\x01{\"a\":\0}\xff\x01\x01\x0e\0\x01";
        let no_values = b"\x01{\"b\":{}}\xff";
        let mut scratch = Scratch::default();
        for _ in 0..2 {
            for (stream, first) in [
                (strings, r#"{"a":"x"}"#),
                (integers, r#"{"a":7}"#),
                (no_values, r#"{"b":{}}"#),
                (integers, r#"{"a":7}"#),
                (strings, r#"{"a":"x"}"#),
            ] {
                assert_eq!(read(stream, 2, &mut scratch)[0], first.as_bytes());
            }
        }
    }

    #[test]
    fn rows_of_one_shape_keep_only_their_values() {
        let rows: Vec<String> = (0..20)
            .map(|i| {
                format!(
                    r#"{{"id": "tt{:07}", "year": {}, "tags": ["a", 1], "x": null}}"#,
                    i + 5,
                    1990 - i
                )
            })
            .collect();
        let rows: Vec<&[u8]> = rows.iter().map(String::as_bytes).collect();
        let plain: usize = rows.iter().map(|row| row.len()).sum();
        let size = there_and_back(&rows).unwrap();
        assert!(size * 4 < plain, "{size} of {plain}");
    }

    #[test]
    fn whatever_the_spelling() {
        let odd: [&[u8]; 8] = [
            br#"{"a":1,"a":-0,"b":"x\"y"}"#,
            br#"{ "a" : 01 , "b" : 1.50e+3 }"#,
            br#"{"a":[],"b":[[1,2],{"c":"d"}],"e":"\u00e9"}"#,
            br#"{"a":12345678901234567890,"b":-5}"#,
            br#"{"open":"never closed"#,
            br#"{"n":nul, 'q': 'single', k:v}"#,
            b"",
            b"not json at all",
        ];
        for text in odd {
            let many: Vec<&[u8]> = std::iter::repeat_n(text, 6).collect();
            there_and_back(&many);
        }
        let mut all: Vec<&[u8]> = Vec::new();
        for _ in 0..4 {
            all.extend(odd);
        }
        assert!(there_and_back(&all).is_some());
        assert!(there_and_back(&[b"{\"a\":\"\0\"}".as_slice(); 3]).is_none());
    }

    #[test]
    fn a_text_of_too_many_keys_is_not_split() {
        let object = |keys: usize| {
            let members: Vec<String> = (0..keys).map(|key| format!("\"k{key}\":1")).collect();
            format!("{{{}}}", members.join(","))
        };
        let texts = |keys| vec![object(keys); 3];
        let encoded = |texts: Vec<String>| {
            let texts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
            there_and_back(&texts).is_some()
        };
        assert!(encoded(texts(KEYS_MAX)));
        assert!(!encoded(texts(KEYS_MAX + 1)));
    }

    proptest! {
        #[test]
        fn any_text_comes_back(texts in proptest::collection::vec(r#"[{\["a:, 0-9.\\\]}n]{0,14}"#, 1..12)) {
            let texts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
            there_and_back(&texts);
        }

        #[test]
        fn hostile_bytes_stay_bounded(bytes in proptest::collection::vec(any::<u8>(), 0..80), count in 0usize..40) {
            let (mut arena, mut spans) = (Arena::default(), Vec::new());
            arena.begin(&bytes, 1000);
            let (strings, json) = (&mut strings::Scratch::default(), &mut Scratch::default());
            let _ = decode(&mut Reader::new(&bytes), count, &mut arena, &mut spans, strings, json);
            prop_assert!(arena.len() <= bytes.len() + 1000);
        }
    }
}
