//! One column of the records on a page: how its values are typed, and which coder they go to.

use super::bytes::{Malformed, Reader, Result, Span, put_number, put_planes};
use super::record::{self, Field, NULL, REAL, Value};
use super::{Buffers, ints, json, strings};

/// How the values that are not NULL are stored, by the number in the stream.
mod kind {
    /// There are none.
    pub(super) const NONE: u8 = 0;
    /// Integers in the serial types that SQLite chooses for them.
    pub(super) const INTEGERS: u8 = 1;
    pub(super) const REALS: u8 = 2;
    pub(super) const TEXTS: u8 = 3;
    pub(super) const BLOBS: u8 = 4;
    pub(super) const JSON: u8 = 5;
    /// Any serial types, which come first.
    pub(super) const MIXED: u8 = 6;
    /// Flag: a bit for each row says whether its value is NULL.
    pub(super) const SOME_NULL: u8 = 0x10;
}

/// What encoding needs beside its result; kept from page to page.
#[derive(Default)]
pub(crate) struct Work {
    values: Vec<Field>,
    spans: Vec<Span>,
    integers: Vec<i64>,
    json: json::Work,
}

/// Appends the column `fields`, pieces of `page`; their number is known to the reader.
pub(crate) fn encode(page: &[u8], fields: &[Field], work: &mut Work, out: &mut Vec<u8>) {
    let Work {
        values,
        spans,
        integers,
        json,
    } = work;
    values.clear();
    values.extend(fields.iter().filter(|field| field.serial != NULL));
    let tag = out.len();
    out.push(kind::NONE);
    let mut nulls = 0;
    if values.is_empty() {
        return;
    }
    if values.len() < fields.len() {
        nulls = kind::SOME_NULL;
        put_bits(fields.iter().map(|field| field.serial == NULL), out);
    }
    spans.clear();
    spans.extend(values.iter().map(|value| value.span));
    integers.clear();
    let all = |test: fn(&Field) -> bool| values.iter().all(test);
    let integer = |field: &Field| record::integer_of(field.serial, field.span.of(page));
    let mut shortest = |field: &Field| {
        record::is_integer(field.serial) && {
            integers.push(integer(field));
            integers.last().copied().map(record::serial_of) == Some(field.serial)
        }
    };
    let kind = if values.iter().all(&mut shortest) {
        ints::encode(integers, out);
        kind::INTEGERS
    } else if all(|field| field.serial == REAL) {
        put_planes(out, 8, spans.iter().map(|span| span.of(page)));
        kind::REALS
    } else if all(|field| record::is_text(field.serial)) {
        if looks_like_json(page, spans) && json::encode(page, spans, json, out) {
            kind::JSON
        } else {
            strings::encode(page, spans, out);
            kind::TEXTS
        }
    } else if all(|field| record::is_blob(field.serial)) {
        strings::encode(page, spans, out);
        kind::BLOBS
    } else {
        for value in &*values {
            put_number(out, value.serial);
        }
        let of = |test: fn(u64) -> bool| values.iter().filter(move |value| test(value.serial));
        integers.clear();
        integers.extend(of(record::is_integer).map(integer));
        ints::encode(integers, out);
        for value in of(|serial| !record::is_integer(serial)) {
            out.extend_from_slice(value.span.of(page));
        }
        kind::MIXED
    };
    out[tag] = kind | nulls;
}

fn looks_like_json(page: &[u8], texts: &[Span]) -> bool {
    let object = |text: &&Span| matches!(text.of(page).first(), Some(b'{' | b'['));
    texts.iter().filter(object).count() * 4 >= texts.len() * 3
}

/// Fills `column` with the `count` values of a column; the bytes of texts and blobs are in the arena.
pub(crate) fn decode(
    input: &mut Reader<'_>,
    count: usize,
    buffers: &mut Buffers,
    column: &mut Vec<Value>,
) -> Result<()> {
    column.clear();
    let tag = input.byte()?;
    let nulls = if tag & kind::SOME_NULL == 0 {
        None
    } else {
        Some(input.take(count.div_ceil(8))?)
    };
    let is_null = |row: usize, bits: &[u8]| bits[row / 8] >> (row % 8) & 1 == 1;
    let values = match nulls {
        None => count,
        Some(bits) => (0..count).filter(|row| !is_null(*row, bits)).count(),
    };
    match tag & !kind::SOME_NULL {
        kind::NONE => {
            column.resize(count, Value::NULL);
            return Ok(());
        }
        kind::INTEGERS => {
            buffers.integers.clear();
            ints::decode(input, values, &mut buffers.integers)?;
            column.extend(buffers.integers.iter().copied().map(Value::integer));
        }
        kind::REALS => {
            let real = |bits: u64| Value { serial: REAL, bits };
            column.resize(values, real(0));
            for plane in 0..8 {
                for (value, byte) in column.iter_mut().zip(input.take(values)?) {
                    value.bits |= u64::from(*byte) << (8 * (7 - plane));
                }
            }
        }
        coder @ (kind::TEXTS | kind::BLOBS | kind::JSON) => {
            buffers.spans.clear();
            if coder == kind::JSON {
                json::decode(input, values, buffers)?;
            } else {
                let Buffers {
                    arena,
                    spans,
                    integers,
                    ..
                } = buffers;
                strings::decode(input, values, arena, spans, integers)?;
            }
            let base = if coder == kind::BLOBS { 12 } else { 13 };
            column.extend(buffers.spans.iter().map(|span| Value {
                serial: base + 2 * u64::from(span.len),
                bits: span.start.into(),
            }));
        }
        kind::MIXED => take_mixed(input, values, buffers, column)?,
        _ => return Err(Malformed),
    }
    if let Some(bits) = nulls {
        // From the back, so that no value is overwritten before it has moved.
        let mut next = column.len();
        column.resize(count, Value::NULL);
        for row in (0..count).rev() {
            column[row] = if is_null(row, bits) {
                Value::NULL
            } else {
                next -= 1;
                column[next]
            };
        }
    }
    Ok(())
}

fn take_mixed(
    input: &mut Reader<'_>,
    count: usize,
    buffers: &mut Buffers,
    column: &mut Vec<Value>,
) -> Result<()> {
    let mut integers = 0;
    for _ in 0..count {
        let serial = input.number()?;
        record::len_of(serial).ok_or(Malformed)?;
        integers += usize::from(record::is_integer(serial));
        column.push(Value { serial, bits: 0 });
    }
    buffers.integers.clear();
    ints::decode(input, integers, &mut buffers.integers)?;
    let mut integers = buffers.integers.iter();
    for value in column {
        if record::is_integer(value.serial) {
            value.bits = *integers.next().ok_or(Malformed)? as u64;
        } else {
            value.bits = match value.serial {
                REAL => u64::from_be_bytes(input.array()?),
                _ => input.span(value.len())?.start.into(),
            };
        }
    }
    Ok(())
}

/// Appends a bit for each item, the lowest first.
pub(crate) fn put_bits(bits: impl Iterator<Item = bool>, out: &mut Vec<u8>) {
    let start = out.len();
    for (index, bit) in bits.enumerate() {
        if index % 8 == 0 {
            out.push(0);
        }
        out[start + index / 8] |= u8::from(bit) << (index % 8);
    }
}
