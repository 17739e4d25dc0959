//! A column of JSON texts: the shapes once, the scalars by column.
//!
//! A text is cut into a template (keys, punctuation, white space, nesting) and its scalar values, by a
//! scanner that never has to be right about JSON: whatever it calls template or value, the pieces
//! put together are the text again. An array of scalars is one value. Values of the same key, in
//! whatever template, are one column.

use super::arena::Arena;
use super::bytes::{Malformed, Reader, Result, Span};
use super::{ints, strings};

/// Stands for a value in a template.
const SLOT: u8 = 0;
/// Ends a template; never part of UTF-8.
const END: u8 = 0xff;
/// More templates than this on one page, and the texts are not of a kind.
const TEMPLATES_MAX: usize = 64;

/// As many keys at most, so that looking for a key stays cheap whatever a page holds.
const KEYS_MAX: usize = 1000;

/// What a value is, by the number in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    /// What stands between two quotes.
    String = 0,
    /// An integer that prints back as it was written.
    Integer = 1,
    /// Anything else, as it was written.
    Verbatim = 2,
}

/// In the place of a kind: one follows for each value.
const MIXED: u8 = 3;

impl Kind {
    const ALL: [Kind; 3] = [Kind::String, Kind::Integer, Kind::Verbatim];

    fn of(number: u8) -> Result<Kind> {
        match number {
            0 => Ok(Kind::String),
            1 => Ok(Kind::Integer),
            2 => Ok(Kind::Verbatim),
            _ => Err(Malformed),
        }
    }
}

/// One value, on its way into its column.
#[derive(Clone, Copy)]
struct Value {
    column: usize,
    kind: Kind,
    span: Span,
}

/// The templates of one page and the columns of their slots; the same when writing and reading. All
/// pieces are of the buffer that the templates are in.
#[derive(Default)]
struct Shapes {
    templates: Vec<Template>,
    /// The keys of the columns.
    keys: Vec<Span>,
    /// The slots of all templates, one after the other.
    slots: Vec<Slot>,
}

#[derive(Clone, Copy)]
struct Slot {
    /// The text between it and the slot before.
    before: Span,
    column: usize,
}

#[derive(Clone, Copy)]
struct Template {
    /// Without its end.
    text: Span,
    /// Where its slots begin and end in [`Shapes::slots`].
    slots: (usize, usize),
    /// The text after the last slot.
    tail: Span,
}

impl Shapes {
    /// The number of the template that was put at `start` of `text`, all templates with their ends; the
    /// copy goes if it was known.
    fn intern(&mut self, text: &mut Vec<u8>, start: usize) -> Option<usize> {
        let (known, new) = text.split_at(start);
        if let Some(at) = self.templates.iter().position(|t| t.text.of(known) == new) {
            text.truncate(start);
            return Some(at);
        }
        if self.templates.len() == TEMPLATES_MAX {
            return None;
        }
        self.add(text, Span::new(start, text.len()))?;
        text.push(END);
        Some(self.templates.len() - 1)
    }

    fn clear(&mut self) {
        self.templates.clear();
        self.keys.clear();
        self.slots.clear();
    }

    /// Gives each slot of a template its column; `None` if there are too many.
    fn add(&mut self, buffer: &[u8], text: Span) -> Option<()> {
        let first = self.slots.len();
        let base = text.start as usize;
        let mut start = base;
        for at in memchr::memchr_iter(SLOT, text.of(buffer)) {
            let slot = base + at;
            // The first byte is a brace or a comma: the same key, first or later in its object.
            let key = Span::new((start + 1).min(slot), slot);
            let same = |known: &Span| known.of(buffer) == key.of(buffer);
            let column = match self.keys.iter().position(same) {
                Some(known) => known,
                None if self.keys.len() == KEYS_MAX => return None,
                None => {
                    self.keys.push(key);
                    self.keys.len() - 1
                }
            };
            self.slots.push(Slot {
                before: Span::new(start, slot),
                column,
            });
            start = slot + 1;
        }
        self.templates.push(Template {
            text,
            slots: (first, self.slots.len()),
            tail: Span::new(start, base + text.len()),
        });
        Some(())
    }

    /// Whether a text has the shape of a template; its values are then appended.
    fn follow(
        &self,
        text: &[u8],
        template: usize,
        source: &[u8],
        value: Span,
        found: &mut Vec<Value>,
    ) -> bool {
        let first = found.len();
        let follows = self.templates.get(template).is_some_and(|template| {
            let (mut rest, mut at) = (value.of(source), value.start as usize);
            for slot in &self.slots[template.slots.0..template.slots.1] {
                let Some(after) = rest.strip_prefix(slot.before.of(text)) else {
                    return false;
                };
                at += slot.before.len();
                let Some((len, value)) = value_at(after, at) else {
                    return false;
                };
                found.push(Value {
                    column: slot.column,
                    ..value
                });
                rest = &after[len..];
                at += len;
            }
            rest == template.tail.of(text)
        });
        if !follows {
            found.truncate(first);
        }
        follows
    }

    fn slots_of(&self, template: usize) -> Option<&[Slot]> {
        let (first, end) = self.templates.get(template)?.slots;
        Some(&self.slots[first..end])
    }
}

/// What encoding needs beside its result; kept from page to page.
#[derive(Default)]
pub(crate) struct Work {
    shapes: Shapes,
    /// All templates, each with its [`END`].
    text: Vec<u8>,
    /// The template of each text.
    rows: Vec<u8>,
    found: Vec<Value>,
    /// The same by column.
    sorted: Vec<Value>,
    next: Vec<usize>,
    spans: Vec<Span>,
    integers: Vec<i64>,
}

/// Appends the texts `values` of `source`, or nothing and returns false when they are not of a kind.
/// Their number is known to the reader.
pub(crate) fn encode(source: &[u8], values: &[Span], work: &mut Work, out: &mut Vec<u8>) -> bool {
    let Work {
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
        let slots = shapes.slots_of(template).into_iter().flatten();
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
    let Work {
        sorted,
        spans,
        integers,
        ..
    } = work;
    for column in sorted.chunk_by(|a, b| a.column == b.column) {
        encode_column(source, column, spans, integers, out);
    }
    true
}

impl Work {
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
        self.sorted.clone_from(&self.found);
        for value in &self.found {
            let place = &mut self.next[value.column];
            self.sorted[*place] = *value;
            *place += 1;
        }
    }
}

fn encode_column(
    source: &[u8],
    values: &[Value],
    spans: &mut Vec<Span>,
    integers: &mut Vec<i64>,
    out: &mut Vec<u8>,
) {
    let first = values[0].kind;
    let mixed = values.iter().any(|value| value.kind != first);
    if mixed {
        out.push(MIXED);
        out.extend(values.iter().map(|value| value.kind as u8));
    } else {
        out.push(first as u8);
    }
    for kind in Kind::ALL {
        if !mixed && kind != first {
            continue;
        }
        spans.clear();
        let chosen = values.iter().filter(|value| value.kind == kind);
        spans.extend(chosen.map(|value| value.span));
        if kind == Kind::Integer {
            integers.clear();
            integers.extend(spans.iter().filter_map(|span| integer(span.of(source))));
            ints::encode(integers, out);
        } else {
            strings::encode(source, spans, out);
        }
    }
}

/// The integer that prints as exactly these bytes.
fn integer(token: &[u8]) -> Option<i64> {
    let digits = token.strip_prefix(b"-").unwrap_or(token);
    let canonical = match digits {
        [b'0'] => token.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.len() < 18 && rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !canonical {
        return None;
    }
    let value = digits
        .iter()
        .fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
    Some(if digits.len() < token.len() {
        -value
    } else {
        value
    })
}

/// Cuts a text into template and values.
fn scan(source: &[u8], text: Span, template: &mut Vec<u8>, values: &mut Vec<Value>) {
    let bytes = text.of(source);
    let base = text.start as usize;
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let key_len = match rest[0] {
            b'"' => string_len(rest).filter(|len| is_key(&rest[*len..])),
            _ => None,
        };
        if let Some(len) = key_len {
            template.extend_from_slice(&rest[..len]);
            at += len;
        } else if let Some((len, value)) = value_at(rest, base + at) {
            values.push(value);
            template.push(SLOT);
            at += len;
        } else {
            template.push(rest[0]);
            at += 1;
        }
    }
}

/// The value that `bytes`, which lie at `base` of the source, begin with, and how long it is there.
fn value_at(bytes: &[u8], base: usize) -> Option<(usize, Value)> {
    let (len, kind) = match bytes.first()? {
        b'"' => (string_len(bytes)?, Kind::String),
        b'[' => (scalars_len(bytes)?, Kind::Verbatim),
        b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
            let len = bytes.iter().take_while(|byte| is_token(**byte)).count();
            match integer(&bytes[..len]) {
                Some(_) => (len, Kind::Integer),
                None => (len, Kind::Verbatim),
            }
        }
        _ => return None,
    };
    let quotes = usize::from(kind == Kind::String);
    let value = Value {
        column: 0,
        kind,
        span: Span::new(base + quotes, base + len - quotes),
    };
    Some((len, value))
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}

/// The length of the string at the start of `bytes`, with its quotes.
fn string_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// Whether what follows a string makes it a key.
fn is_key(after: &[u8]) -> bool {
    let next = after.iter().find(|byte| !byte.is_ascii_whitespace());
    next == Some(&b':')
}

/// The length of the array at the start of `bytes`, if it holds only scalars.
fn scalars_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match bytes.get(at)? {
            b']' => return Some(at + 1),
            b'"' => at += string_len(&bytes[at..])?,
            b'[' | b'{' | b'}' | b':' => return None,
            _ => at += 1,
        }
    }
}

/// What decoding needs beside its result; kept from page to page.
#[derive(Default)]
pub(crate) struct Scratch {
    shapes: Shapes,
    /// All templates, each with its [`END`]: what the shapes are of.
    text: Vec<u8>,
    /// The template of each text.
    rows: Vec<u8>,
    /// How many texts have each template.
    uses: Vec<usize>,
    /// The next value of each column.
    next: Vec<usize>,
    /// What stands before each slot of the templates, with the quotes of strings, and the slot's column; and likewise
    /// at the end of each, without a column.
    literals: Vec<(Span, usize)>,
    values: Values,
}

/// Appends `count` texts to the arena, which begins with the stream itself, and their places to the
/// spans.
pub(crate) fn decode(
    input: &mut Reader<'_>,
    count: usize,
    arena: &mut Arena,
    spans: &mut Vec<Span>,
    strings: &mut strings::Scratch,
    scratch: &mut Scratch,
) -> Result<()> {
    scratch.take_templates(input)?;
    let Scratch {
        shapes,
        rows,
        uses,
        next,
        values,
        ..
    } = scratch;
    rows.clear();
    match shapes.templates.len() {
        1 => rows.resize(count, 0),
        _ => rows.extend_from_slice(input.take(count)?),
    }
    uses.clear();
    uses.resize(shapes.templates.len(), 0);
    for template in &*rows {
        *uses.get_mut(usize::from(*template)).ok_or(Malformed)? += 1;
    }
    // How many values each column has, then where they begin among all values.
    next.clear();
    next.resize(shapes.keys.len() + 1, 0);
    let mut total = 0;
    for (template, uses) in shapes.templates.iter().zip(&*uses) {
        let slots = &shapes.slots[template.slots.0..template.slots.1];
        total += uses * slots.len();
        for slot in slots {
            next[slot.column + 1] += uses;
        }
    }
    // A value is at least a byte of some text, or of the comma beside it.
    if total > arena.room() {
        return Err(Malformed);
    }
    values.clear();
    for column in 0..shapes.keys.len() {
        values.take_column(input, next[column + 1], arena, strings)?;
        next[column + 1] += next[column];
    }
    scratch.put_literals(arena)?;
    scratch.put_texts(arena, spans)
}

impl Scratch {
    /// Reads the templates. Most pages have those of the page before.
    fn take_templates(&mut self, input: &mut Reader<'_>) -> Result<()> {
        let count = usize::from(input.byte()?);
        let ends = memchr::memchr_iter(END, input.rest()).take(count);
        let len = match ends.enumerate().last() {
            Some((last, end)) if last + 1 == count => end + 1,
            _ => return Err(Malformed),
        };
        let text = input.take(len)?;
        if text != self.text {
            self.shapes.clear();
            // Whatever goes wrong below, these shapes are not used again.
            self.text.clear();
            let mut start = 0;
            for end in memchr::memchr_iter(END, text) {
                let template = Span::new(start, end);
                self.shapes.add(text, template).ok_or(Malformed)?;
                start = end + 1;
            }
            self.text.extend_from_slice(text);
        }
        Ok(())
    }

    fn put_literals(&mut self, arena: &mut Arena) -> Result<()> {
        self.literals.clear();
        for template in &self.shapes.templates {
            let mut quoted = false;
            for slot in &self.shapes.slots[template.slots.0..template.slots.1] {
                let start = arena.len();
                if quoted {
                    arena.push(b'"')?;
                }
                arena.put(slot.before.of(&self.text))?;
                quoted = self.values.quoted[slot.column];
                if quoted {
                    arena.push(b'"')?;
                }
                self.literals.push((arena.since(start), slot.column));
            }
            let start = arena.len();
            if quoted {
                arena.push(b'"')?;
            }
            arena.put(template.tail.of(&self.text))?;
            self.literals.push((arena.since(start), 0));
        }
        Ok(())
    }

    /// Puts the texts together.
    fn put_texts(&mut self, arena: &mut Arena, spans: &mut Vec<Span>) -> Result<()> {
        for row in &self.rows {
            let row = usize::from(*row);
            let (first, end) = self.shapes.templates[row].slots;
            // Each template before it has a literal more than slots.
            let literals = &self.literals[first + row..=end + row];
            let (tail, literals) = literals.split_last().ok_or(Malformed)?;
            let mut joint = arena.join();
            for (literal, column) in literals {
                joint.copy(*literal)?;
                let next = &mut self.next[*column];
                joint.copy(self.values.spans[*next])?;
                *next += 1;
            }
            joint.copy(tail.0)?;
            let end = joint.at;
            spans.push(arena.joined(end));
        }
        Ok(())
    }
}

/// The values of all columns, as they are to be printed: pieces of the arena.
#[derive(Default)]
struct Values {
    spans: Vec<Span>,
    /// Whether the values of each column stand between quotes that they do not have themselves.
    quoted: Vec<bool>,
    /// For sorting values of mixed kinds into their places.
    sorted: Vec<Span>,
    integers: Vec<i64>,
}

impl Values {
    fn clear(&mut self) {
        self.spans.clear();
        self.quoted.clear();
    }

    fn take_column(
        &mut self,
        input: &mut Reader<'_>,
        count: usize,
        arena: &mut Arena,
        strings: &mut strings::Scratch,
    ) -> Result<()> {
        let tag = input.byte()?;
        if tag != MIXED {
            let kind = Kind::of(tag)?;
            self.quoted.push(kind == Kind::String);
            return self.take_kind(input, kind, count, arena, strings);
        }
        self.quoted.push(false);
        let kinds = input.take(count)?;
        let mut counts = [0; 3];
        for kind in kinds {
            *counts.get_mut(usize::from(*kind)).ok_or(Malformed)? += 1;
        }
        // The kinds come one after another and go to their places in the column.
        let first = self.spans.len();
        for (kind, count) in Kind::ALL.into_iter().zip(counts) {
            self.take_kind(input, kind, count, arena, strings)?;
        }
        for string in &mut self.spans[first..first + counts[0]] {
            let start = arena.len();
            arena.push(b'"')?;
            arena.copy(*string)?;
            arena.push(b'"')?;
            *string = arena.since(start);
        }
        self.sorted.clear();
        self.sorted.extend(self.spans.drain(first..));
        let mut at = [0, counts[0], counts[0] + counts[1]];
        for kind in kinds {
            let at = &mut at[usize::from(*kind)];
            self.spans.push(self.sorted[*at]);
            *at += 1;
        }
        Ok(())
    }

    fn take_kind(
        &mut self,
        input: &mut Reader<'_>,
        kind: Kind,
        count: usize,
        arena: &mut Arena,
        strings: &mut strings::Scratch,
    ) -> Result<()> {
        if kind != Kind::Integer {
            return strings::decode(input, count, arena, &mut self.spans, strings);
        }
        self.integers.clear();
        ints::decode(input, count, &mut self.integers)?;
        for integer in &self.integers {
            let start = arena.len();
            if *integer < 0 {
                arena.push(b'-')?;
            }
            arena.put_digits(integer.unsigned_abs(), 0)?;
            self.spans.push(arena.since(start));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The encoded size, or `None` if the texts are not of a kind.
    fn there_and_back(texts: &[&[u8]]) -> Option<usize> {
        let source = texts.concat();
        let mut end = 0;
        let span = |text: &&[u8]| {
            end += text.len();
            Span::new(end - text.len(), end)
        };
        let spans: Vec<Span> = texts.iter().map(span).collect();
        let mut out = Vec::new();
        if !encode(&source, &spans, &mut Work::default(), &mut out) {
            assert!(out.is_empty());
            return None;
        }
        let mut reader = Reader::new(&out);
        let (mut arena, mut spans) = (Arena::default(), Vec::new());
        arena.begin(&out, 1 << 20);
        decode(
            &mut reader,
            texts.len(),
            &mut arena,
            &mut spans,
            &mut strings::Scratch::default(),
            &mut Scratch::default(),
        )
        .unwrap();
        assert!(reader.is_empty());
        let back: Vec<&[u8]> = spans.iter().map(|span| span.of(arena.bytes())).collect();
        assert_eq!(back, texts);
        Some(out.len())
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
