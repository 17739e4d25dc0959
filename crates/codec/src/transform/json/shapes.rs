//! The templates of the texts on a page, and which values are in the same column.

use super::super::bytes::Span;
use super::scan::{Value, value_at};

/// Stands for a value in a template.
pub(super) const SLOT: u8 = 0;
/// Ends a template; never part of UTF-8.
pub(super) const END: u8 = 0xff;
/// Texts with more templates than this on one page are not split.
const TEMPLATES_MAX: usize = 64;

/// Most keys on one page, so that searching a key stays cheap whatever a page holds.
pub(super) const KEYS_MAX: usize = 1000;

/// The templates of one page and the columns of their slots; the same when writing and reading. All
/// pieces are of the buffer that the templates are in.
#[derive(Default)]
pub(super) struct Shapes {
    pub(super) templates: Vec<Template>,
    /// The keys of the columns.
    pub(super) keys: Vec<Span>,
    /// The slots of all templates, one after the other.
    pub(super) slots: Vec<Slot>,
}

#[derive(Clone, Copy)]
pub(super) struct Slot {
    /// The text between it and the slot before.
    pub(super) before: Span,
    pub(super) column: usize,
}

#[derive(Clone, Copy)]
pub(super) struct Template {
    /// Without its end.
    pub(super) text: Span,
    /// Where its slots begin and end in [`Shapes::slots`].
    pub(super) slots: (usize, usize),
    /// The text after the last slot.
    pub(super) tail: Span,
}

impl Shapes {
    /// The number of the template that was put at `start` of `text`, all templates with their ends; the
    /// copy goes if it was known.
    pub(super) fn intern(&mut self, text: &mut Vec<u8>, start: usize) -> Option<usize> {
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

    pub(super) fn clear(&mut self) {
        self.templates.clear();
        self.keys.clear();
        self.slots.clear();
    }

    /// Gives each slot of a template its column; `None` if there are too many.
    pub(super) fn add(&mut self, buffer: &[u8], text: Span) -> Option<()> {
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
    pub(super) fn follow(
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
            for slot in self.slots_of(template) {
                let Some(after) = rest.strip_prefix(slot.before.of(text)) else {
                    return false;
                };
                at += slot.before.len();
                let value =
                    value_at(after).and_then(|(len, kind)| Some((len, kind, after.get(len..)?)));
                let Some((len, kind, behind)) = value else {
                    return false;
                };
                found.push(Value::new(slot.column, kind, at, len));
                rest = behind;
                at += len;
            }
            rest == template.tail.of(text)
        });
        if !follows {
            found.truncate(first);
        }
        follows
    }

    /// The slots of one of these templates.
    pub(super) fn slots_of(&self, template: &Template) -> &[Slot] {
        let (first, end) = template.slots;
        self.slots.get(first..end).unwrap_or_default()
    }
}
