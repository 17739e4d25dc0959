//! Decoding: from templates and columns of values to JSON texts.

use super::super::arena::{Arena, CHUNK, copy, copy_exactly};
use super::super::bytes::{Malformed, Reader, Result, Span};
use super::super::{digits, ints, strings};
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
    /// How the texts of all templates are put together.
    steps: Vec<Step>,
    /// Where the steps of each template begin and end.
    programs: Vec<(usize, usize)>,
    /// The columns whose values had quotes in them.
    quoted: Vec<bool>,
}

/// So much text, and then the next value of a column.
#[derive(Clone, Copy)]
struct Step {
    /// The text before the value, with the quotes of strings.
    text: [u8; CHUNK],
    /// Less than a chunk.
    len: u8,
    /// [`NO_COLUMN`] at the end of a template, and where there is more text before the value than fits.
    column: u16,
}

/// Most text of a step.
const TEXT_MAX: usize = CHUNK - 1;

/// No page has so many columns.
const NO_COLUMN: u16 = u16::MAX;

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
    scratch.make_programs();
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
            self.programs.clear();
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

    #[expect(
        clippy::cast_possible_truncation,
        reason = "there are at most `KEYS_MAX` columns"
    )]
    /// Makes the programs. Most pages have those of the page before.
    fn make_programs(&mut self) {
        if !self.programs.is_empty() && self.quoted == self.values.quoted {
            return;
        }
        self.quoted.clone_from(&self.values.quoted);
        self.steps.clear();
        self.programs.clear();
        let mut before = Vec::new();
        for template in &self.shapes.templates {
            let first = self.steps.len();
            let mut open = false;
            for slot in self.shapes.slots_of(template) {
                before.extend(open.then_some(b'"'));
                before.extend_from_slice(slot.before.of(&self.text));
                open = self.quoted.get(slot.column) == Some(&true);
                before.extend(open.then_some(b'"'));
                put_steps(&mut self.steps, &before, slot.column as u16);
                before.clear();
            }
            before.extend(open.then_some(b'"'));
            before.extend_from_slice(template.tail.of(&self.text));
            put_steps(&mut self.steps, &before, NO_COLUMN);
            before.clear();
            self.programs.push((first, self.steps.len()));
        }
    }

    /// Puts the texts together.
    fn put_texts(&mut self, arena: &mut Arena, spans: &mut Vec<Span>) -> Result<()> {
        spans.reserve(self.rows.len());
        let values = self.values.spans.as_slice();
        // The last values are copied as whole chunks, too, if there is something behind them.
        let _ = arena.leave(CHUNK);
        let mut start = arena.len();
        let (from, mut to) = arena.join();
        for row in &self.rows {
            let room = to.len();
            let program = self.programs.get(usize::from(*row));
            let (first, end) = *program.ok_or(Malformed)?;
            for step in self.steps.get(first..end).ok_or(Malformed)? {
                let value = match self.next.get_mut(usize::from(step.column)) {
                    Some(next) => {
                        let value = values.get(*next).ok_or(Malformed)?;
                        *next += 1;
                        *value
                    }
                    None => Span::default(),
                };
                to = step.put(value, from, to)?;
            }
            let end = start + (room - to.len());
            spans.push(Span::new(start, end));
            start = end;
        }
        let rest = to.len();
        arena.joined(rest)?;
        Ok(())
    }
}

/// Appends the steps for a text and the value behind it.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a part has at most `TEXT_MAX` bytes"
)]
fn put_steps(steps: &mut Vec<Step>, before: &[u8], column: u16) {
    let last = before.len().saturating_sub(1) / TEXT_MAX * TEXT_MAX;
    let (others, last) = before.split_at(last);
    let step = |part: &[u8], column| {
        let mut text = [0; CHUNK];
        text.iter_mut().zip(part).for_each(|(to, from)| *to = *from);
        let len = part.len() as u8;
        Step { text, len, column }
    };
    let others = others.chunks(TEXT_MAX);
    steps.extend(others.map(|part| step(part, NO_COLUMN)));
    steps.push(step(last, column));
}

impl Step {
    /// Writes the text and a value, a piece of `from`, and returns what is behind it.
    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        reason = "there is room for two chunks, and the text is shorter than one"
    )]
    fn put<'a>(&self, value: Span, from: &[u8], to: &'a mut [u8]) -> Result<&'a mut [u8]> {
        let (len, start) = (usize::from(self.len) % CHUNK, value.start as usize);
        let chunk = from.get(start..start + CHUNK).and_then(<[u8]>::first_chunk);
        match (chunk, to.first_chunk_mut::<{ 2 * CHUNK }>()) {
            (Some(chunk), Some(place)) if value.len() <= CHUNK => {
                place[..CHUNK].copy_from_slice(&self.text);
                place[len..len + CHUNK].copy_from_slice(chunk as &[u8; CHUNK]);
                to.get_mut(len + value.len()..).ok_or(Malformed)
            }
            _ => self.put_exactly(value, from, to),
        }
    }

    #[inline(never)]
    fn put_exactly<'a>(&self, value: Span, from: &[u8], to: &'a mut [u8]) -> Result<&'a mut [u8]> {
        let to = copy_exactly(&self.text, self.len.into(), to)?;
        copy(from, value, to)
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
        self.spans.reserve(count);
        let mut start = arena.len();
        let (_, mut to) = arena.join();
        for integer in &self.integers {
            let room = to.len();
            if *integer < 0 {
                let (sign, behind) = to.split_first_mut().ok_or(Malformed)?;
                *sign = b'-';
                to = behind;
            }
            to = digits::put(integer.unsigned_abs(), 0, to).ok_or(Malformed)?;
            let end = start + (room - to.len());
            self.spans.push(Span::new(start, end));
            start = end;
        }
        let rest = to.len();
        arena.joined(rest)?;
        Ok(())
    }
}
