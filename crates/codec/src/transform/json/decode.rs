//! Decoding: from templates and columns of values to JSON texts.

use super::super::arena::{Arena, copy};
use super::super::bytes::{Malformed, Reader, Result, Span};
use super::super::{ints, strings};
use super::shapes::{END, Shapes};
use super::{MIXED, ValueKind};

/// Scratch memory of decoding, reused for every page.
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
    values: Values,
    /// What stands before each slot of the templates, with the quotes of strings, and the slot's column; and likewise
    /// at the end of each, without a column. All are pieces of `printed`.
    literals: Vec<(Span, usize)>,
    printed: Vec<u8>,
    /// The columns whose values had quotes in them.
    quoted: Vec<bool>,
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
        let slots = shapes.slots_of(template);
        total += uses * slots.len();
        for slot in slots {
            *next.get_mut(slot.column + 1).ok_or(Malformed)? += uses;
        }
    }
    // A value is at least a byte of some text, or of the comma beside it.
    if total > arena.room() {
        return Err(Malformed);
    }
    values.clear();
    let mut end = 0;
    for next in next.iter_mut().skip(1) {
        values.take_column(input, *next, arena, strings)?;
        end += *next;
        *next = end;
    }
    scratch.make_literals();
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
            // If something fails below, the parsed templates must not be reused.
            self.text.clear();
            self.literals.clear();
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

    /// Makes the literals. Most pages have those of the page before.
    fn make_literals(&mut self) {
        if !self.literals.is_empty() && self.quoted == self.values.quoted {
            return;
        }
        self.quoted.clone_from(&self.values.quoted);
        let Scratch {
            shapes,
            text,
            quoted,
            literals,
            printed,
            ..
        } = self;
        literals.clear();
        printed.clear();
        for template in &shapes.templates {
            let mut open = false;
            let mut put = |before: Span, column: Option<usize>| {
                let start = printed.len();
                printed.extend(open.then_some(b'"'));
                printed.extend_from_slice(before.of(text));
                open = column.and_then(|column| quoted.get(column)) == Some(&true);
                printed.extend(open.then_some(b'"'));
                literals.push((Span::new(start, printed.len()), column.unwrap_or(0)));
            };
            for slot in shapes.slots_of(template) {
                put(slot.before, Some(slot.column));
            }
            put(template.tail, None);
        }
    }

    /// Puts the texts together.
    fn put_texts(&mut self, arena: &mut Arena, spans: &mut Vec<Span>) -> Result<()> {
        let printed = arena.put(&self.printed)?;
        for row in &self.rows {
            let row = usize::from(*row);
            let (first, end) = self.shapes.templates.get(row).ok_or(Malformed)?.slots;
            // Each template before it has a literal more than slots.
            let literals = self.literals.get(first + row..=end + row);
            let (tail, literals) = literals.and_then(<[_]>::split_last).ok_or(Malformed)?;
            let (from, mut to) = arena.join();
            for (literal, column) in literals {
                to = copy(from, literal.behind(printed), to)?;
                let next = self.next.get_mut(*column).ok_or(Malformed)?;
                let value = self.values.spans.get(*next).ok_or(Malformed)?;
                to = copy(from, *value, to)?;
                *next += 1;
            }
            let rest = copy(from, tail.0.behind(printed), to)?.len();
            spans.push(arena.joined(rest)?);
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
            let kind = ValueKind::of(tag)?;
            self.quoted.push(kind == ValueKind::String);
            return self.take_kind(input, kind, count, arena, strings);
        }
        self.quoted.push(false);
        let kinds = input.take(count)?;
        let mut counts = [0; 3];
        for kind in kinds {
            *counts.get_mut(usize::from(*kind)).ok_or(Malformed)? += 1;
        }
        // The stream has the values kind by kind; here they go to their places in the column.
        let first = self.spans.len();
        for (kind, count) in ValueKind::ALL.into_iter().zip(counts) {
            self.take_kind(input, kind, count, arena, strings)?;
        }
        for string in self.spans.iter_mut().skip(first).take(counts[0]) {
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
            let at = at.get_mut(usize::from(*kind)).ok_or(Malformed)?;
            self.spans.push(*self.sorted.get(*at).ok_or(Malformed)?);
            *at += 1;
        }
        Ok(())
    }

    fn take_kind(
        &mut self,
        input: &mut Reader<'_>,
        kind: ValueKind,
        count: usize,
        arena: &mut Arena,
        strings: &mut strings::Scratch,
    ) -> Result<()> {
        if kind != ValueKind::Integer {
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
