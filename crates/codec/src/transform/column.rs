//! One column of the records on a page: how its values are typed, and which coder they go to.

use super::arena::Arena;
use super::bytes::{Bits, Malformed, Reader, Result, Span, put_bits, put_number};
use super::record::{self, Field, NULL, REAL, REAL_SERIAL, Values};
use super::repeated::{self, Repeated};
use super::undo::Buffers;
use super::{decimals, ints, json, strings};

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
    /// Blobs, as the JSON that they stand for.
    pub(super) const JSONB: u8 = 7;
    /// Reals and integers, as the integers of their last digit.
    pub(super) const DECIMALS: u8 = 8;
    /// Each different value once, as integers, reals, decimals or mixed, and which one each is.
    pub(super) const REPEATED: u8 = 9;
    /// Flag: a bit for each row says whether its value is NULL.
    pub(super) const SOME_NULL: u8 = 0x10;
}

/// The bytes of a real.
const REAL_LEN: usize = 8;

/// Scratch memory of encoding, reused for every page.
#[derive(Default)]
pub(crate) struct ColumnWork {
    /// The values that are not NULL, of a column that also has NULLs.
    some: Vec<Field>,
    spans: Vec<Span>,
    integers: Vec<i64>,
    strings: strings::StringsWork,
    json: json::JsonWork,
    texts: Texts,
}

/// Blobs of JSONB as texts.
#[derive(Default)]
struct Texts {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    again: Vec<u8>,
}

impl Texts {
    /// False if a blob would not come back byte for byte.
    fn fill(&mut self, page: &[u8], blobs: &[Span]) -> bool {
        self.bytes.clear();
        self.spans.clear();
        blobs.iter().all(|blob| {
            let (blob, start) = (blob.of(page), self.bytes.len());
            self.again.clear();
            let there = json::binary::looks_binary(blob)
                && json::binary::to_text(blob, &mut self.bytes).is_ok();
            let text = self.bytes.get(start..).filter(|_| there);
            let back = text.map(|text| json::binary::to_binary(text, &mut self.again));
            self.spans.push(Span::new(start, self.bytes.len()));
            back == Some(Ok(())) && self.again == blob
        })
    }
}

/// Appends the column `fields`, pieces of `page`; their number is known to the reader.
#[expect(
    clippy::indexing_slicing,
    reason = "`out` has the tag from the beginning"
)]
pub(crate) fn encode(page: &[u8], fields: &[Field], work: &mut ColumnWork, out: &mut Vec<u8>) {
    let ColumnWork {
        some,
        spans,
        integers,
        strings,
        json,
        texts,
    } = work;
    let tag = out.len();
    out.push(kind::NONE);
    let mut nulls = 0;
    let mut values = fields;
    if fields.iter().any(|field| field.serial == NULL) {
        some.clear();
        some.extend(fields.iter().filter(|field| field.serial != NULL));
        if some.is_empty() {
            return;
        }
        nulls = kind::SOME_NULL;
        put_bits(fields.iter().map(|field| field.serial == NULL), out);
        values = some;
    }
    spans.clear();
    spans.extend(values.iter().map(|value| value.span));
    let kind = if values.iter().all(|value| record::is_text(value.serial)) {
        if looks_like_json(page, spans) && json::encode(page, spans, strings, json, out) {
            kind::JSON
        } else {
            strings::encode(page, spans, strings, out);
            kind::TEXTS
        }
    } else if values.iter().all(|value| record::is_blob(value.serial)) {
        if texts.fill(page, spans) && json::encode(&texts.bytes, &texts.spans, strings, json, out) {
            kind::JSONB
        } else {
            strings::encode(page, spans, strings, out);
            kind::BLOBS
        }
    } else {
        let start = out.len();
        let kind = put_others(page, values, integers, out);
        // A byte says which value it is.
        let long = out.len() - start >= 2 * values.len();
        let has_reals = matches!(kind, kind::REALS | kind::MIXED);
        let uses = if has_reals {
            repeated::USES_OF_REALS
        } else {
            repeated::USES
        };
        let found = long && strings.repeated.find(page, spans, uses);
        let gains = has_reals || strings.repeated.come_again();
        if found && gains && put_repeated(page, values, &strings.repeated, integers, start, out) {
            kind::REPEATED
        } else {
            kind
        }
    };
    out[tag] = kind | nulls;
}

/// Appends values that are not all texts or all blobs, and says as what kind.
#[expect(
    clippy::indexing_slicing,
    reason = "a field whose serial type is that of a real has eight bytes"
)]
fn put_others(page: &[u8], values: &[Field], integers: &mut Vec<i64>, out: &mut Vec<u8>) -> u8 {
    integers.clear();
    let integer = |value: &Field| record::integer_of(value.serial, value.span, page);
    let shortest = |value: &Field| {
        record::is_integer(value.serial) && {
            let integer = integer(value);
            integers.push(integer);
            u64::from(record::serial_of(integer).0) == value.serial
        }
    };
    if values.iter().all(shortest) {
        ints::encode(integers, out);
        return kind::INTEGERS;
    }
    let number = |value: &Field| value.serial == REAL || record::is_integer(value.serial);
    if values.iter().all(number) && decimals::encode(page, values, integers, out) {
        return kind::DECIMALS;
    }
    if values.iter().all(|value| value.serial == REAL) {
        for plane in 0..REAL_LEN {
            out.extend(values.iter().map(|value| value.span.of(page)[plane]));
        }
        return kind::REALS;
    }
    for value in values {
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
}

/// Puts each different one of such values once, from `start` on, as they were found to repeat; false, with nothing done,
/// if equal bytes are different values.
#[expect(
    clippy::indexing_slicing,
    reason = "`out` has the tag of the different values, and each value is one of them"
)]
fn put_repeated(
    page: &[u8],
    values: &[Field],
    repeated: &Repeated,
    integers: &mut Vec<i64>,
    start: usize,
    out: &mut Vec<u8>,
) -> bool {
    let mut different = vec![None; repeated.different.len()];
    for (value, which) in values.iter().zip(&repeated.which) {
        let first = different[usize::from(*which)].get_or_insert(*value);
        if first.serial != value.serial {
            return false;
        }
    }
    let different: Vec<Field> = different.into_iter().flatten().collect();
    out.truncate(start);
    put_number(out, different.len() as u64);
    let tag = out.len();
    out.push(kind::NONE);
    out[tag] = put_others(page, &different, integers, out);
    out.extend_from_slice(&repeated.which);
    true
}

fn looks_like_json(page: &[u8], texts: &[Span]) -> bool {
    let object = |text: &&Span| matches!(text.of(page).first(), Some(b'{' | b'['));
    texts.iter().filter(object).count() * 4 >= texts.len() * 3
}

/// Appends the `count` values of a column.
pub(crate) fn decode(
    input: &mut Reader<'_>,
    count: usize,
    buffers: &mut Buffers,
    values: &mut Values,
) -> Result<()> {
    let Buffers {
        arena,
        integers,
        strings,
        json,
        blob,
    } = buffers;
    let first = values.len();
    let tag = input.byte()?;
    let nulls = Bits::take(input, tag & kind::SOME_NULL != 0, count)?;
    let some = count - nulls.set;
    match tag & !kind::SOME_NULL {
        kind::NONE => values.push_nulls(some),
        kind::TEXTS => {
            strings::decode(input, some, arena, &mut values.pieces, strings)?;
            put_serials(13, values);
        }
        kind::BLOBS => {
            strings::decode(input, some, arena, &mut values.pieces, strings)?;
            put_serials(12, values);
        }
        kind::JSON => {
            json::decode(input, some, arena, &mut values.pieces, strings, json)?;
            put_serials(13, values);
        }
        kind::JSONB => {
            let new = values.pieces.len();
            json::decode(input, some, arena, &mut values.pieces, strings, json)?;
            for piece in values.pieces.iter_mut().skip(new) {
                blob.clear();
                json::binary::to_binary(piece.of(arena.bytes()), blob)?;
                let start = arena.put(blob)?;
                *piece = arena.since(start);
            }
            put_serials(12, values);
        }
        kind::REPEATED => take_repeated(input, some, arena, integers, values)?,
        kind => take_others(input, kind, some, arena, integers, values)?,
    }
    if nulls.set > 0 {
        values.spread(first, count, |index| !nulls.has(index));
    }
    Ok(())
}

/// Appends the serial types of texts or blobs, which follow from the lengths of their pieces.
fn put_serials(base: u32, values: &mut Values) {
    let new = values.pieces.get(values.serials.len()..);
    let new = new.unwrap_or_default().iter();
    values.serials.extend(new.map(|piece| base + 2 * piece.len));
}

/// Appends integers in the serial types that SQLite chooses for them.
fn put_integers(integers: &[i64], arena: &mut Arena, values: &mut Values) -> Result<()> {
    let first = values.len();
    let mut start = arena.len();
    let words = arena.words(integers.len())?;
    values.push_nulls(integers.len());
    let serials = values.serials.get_mut(first..).ok_or(Malformed)?;
    let pieces = values.pieces.get_mut(first..).ok_or(Malformed)?;
    let places = serials.iter_mut().zip(pieces).zip(words);
    for (integer, ((serial, piece), word)) in integers.iter().zip(places) {
        let (own, len) = record::serial_of(*integer);
        *serial = own;
        *piece = Span::new(start, start + len as usize);
        *word = record::word_of(*integer, len).to_le_bytes();
        start += 8;
    }
    Ok(())
}

#[expect(
    clippy::indexing_slicing,
    reason = "each plane has `count` bytes, and there are `count` words"
)]
fn take_reals(
    input: &mut Reader<'_>,
    count: usize,
    arena: &mut Arena,
    values: &mut Values,
) -> Result<()> {
    let mut planes: [&[u8]; REAL_LEN] = [&[]; REAL_LEN];
    for plane in &mut planes {
        *plane = input.take(count)?;
    }
    let mut start = arena.len();
    for (index, word) in arena.words(count)?.iter_mut().enumerate() {
        *word = planes.map(|plane| plane[index]);
        values.push(REAL_SERIAL, Span::new(start, start + REAL_LEN));
        start += REAL_LEN;
    }
    Ok(())
}

/// Appends values of the kinds that are not of texts or blobs alone.
#[inline]
fn take_others(
    input: &mut Reader<'_>,
    kind: u8,
    count: usize,
    arena: &mut Arena,
    integers: &mut Vec<i64>,
    values: &mut Values,
) -> Result<()> {
    match kind {
        kind::INTEGERS => {
            integers.clear();
            ints::decode(input, count, integers)?;
            put_integers(integers, arena, values)
        }
        kind::REALS => take_reals(input, count, arena, values),
        kind::DECIMALS => decimals::decode(input, count, arena, integers, values),
        kind::MIXED => take_mixed(input, count, arena, integers, values),
        _ => Err(Malformed),
    }
}

#[inline(never)]
fn take_repeated(
    input: &mut Reader<'_>,
    count: usize,
    arena: &mut Arena,
    integers: &mut Vec<i64>,
    values: &mut Values,
) -> Result<()> {
    let first = values.len();
    let different = input.count(repeated::MOST)?;
    if different == 0 {
        return Err(Malformed);
    }
    let kind = input.byte()?;
    take_others(input, kind, different, arena, integers, values)?;
    let found = first..values.len();
    for which in input.take(count)? {
        let at = first + usize::from(*which);
        if !found.contains(&at) {
            return Err(Malformed);
        }
        let value = (values.serials.get(at), values.pieces.get(at));
        let (Some(serial), Some(piece)) = value else {
            return Err(Malformed);
        };
        values.push(*serial, *piece);
    }
    values.serials.drain(found.clone());
    values.pieces.drain(found);
    Ok(())
}

fn take_mixed(
    input: &mut Reader<'_>,
    count: usize,
    arena: &mut Arena,
    integers: &mut Vec<i64>,
    values: &mut Values,
) -> Result<()> {
    let mut serials = *input;
    let mut integral = 0;
    for _ in 0..count {
        integral += usize::from(record::is_integer(input.number()?));
    }
    integers.clear();
    ints::decode(input, integral, integers)?;
    let mut integers = integers.iter();
    for _ in 0..count {
        let serial = serials.number()?;
        let len = litepack_btree::record::len_of(serial).ok_or(Malformed)?;
        let piece = if record::is_integer(serial) {
            let start = arena.len();
            let value = integers.next().ok_or(Malformed)?;
            arena.put_word(
                record::word_of(*value, u32::try_from(len).map_err(|_| Malformed)?),
                len,
            )?;
            arena.since(start)
        } else {
            input.span(len)?
        };
        values.push(u32::try_from(serial).map_err(|_| Malformed)?, piece);
    }
    Ok(())
}
