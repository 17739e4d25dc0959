//! A column of decimals: reals with few digits behind the point, as integers of the last digit.
//!
//! In a column of reals SQLite stores a whole number as an integer. So such a column has values of both kinds; the
//! number says which kind a value is.

use super::arena::Arena;
use super::bytes::{Malformed, Reader, Result, Span};
use super::ints;
use super::record::{self, Field, REAL, REAL_SERIAL, Values};

/// Most digits behind the point: prices, temperatures and coordinates have fewer.
const DIGITS_MAX: u8 = 9;
/// Flag beside the digits: whole numbers are reals, too.
const ALL_REAL: u8 = 0x10;
/// Up to here each integer is a real, so that its quotient by a power of ten is the real nearest to the decimal.
const INTEGER_MAX: u64 = 1 << 53;

/// The rule that turns an integer into a number.
#[derive(Clone, Copy)]
struct Scale {
    power: i64,
    all_real: bool,
}

/// A number as it is in a record.
#[derive(PartialEq)]
enum Number {
    Integer(i64),
    Real(f64),
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "an integer made of a real is used only if it gives the real back"
)]
impl Scale {
    fn new(digits: u8, all_real: bool) -> Scale {
        Scale {
            power: 10_i64.pow(digits.into()),
            all_real,
        }
    }

    fn number(self, integer: i64) -> Result<Number> {
        if integer.unsigned_abs() > INTEGER_MAX {
            return Err(Malformed);
        }
        let real = integer as f64 / self.power as f64;
        let whole = real as i64;
        Ok(if !self.all_real && whole as f64 == real {
            Number::Integer(whole)
        } else {
            Number::Real(real)
        })
    }

    /// The integer that stands for a real, if one does.
    fn of_real(self, real: f64) -> Option<i64> {
        let scaled = real * self.power as f64;
        let integer = (scaled + 0.5_f64.copysign(scaled)) as i64;
        match self.number(integer) {
            // Not `==`, which takes a negative zero for zero.
            Ok(Number::Real(back)) if back.to_bits() == real.to_bits() => Some(integer),
            _ => None,
        }
    }

    fn of_integer(self, integer: i64) -> Option<i64> {
        let scaled = integer.checked_mul(self.power)?;
        (self.number(scaled) == Ok(Number::Integer(integer))).then_some(scaled)
    }

    /// The integer that stands for a field, if that field comes back from it.
    fn of(self, page: &[u8], field: &Field) -> Option<i64> {
        if field.serial == REAL {
            return self.of_real(real_of(page, field));
        }
        let integer = record::integer_of(field.serial, field.span, page);
        let shortest = u64::from(record::serial_of(integer).0) == field.serial;
        self.of_integer(integer).filter(|_| shortest)
    }
}

fn real_of(page: &[u8], field: &Field) -> f64 {
    let bytes = field.span.of(page).first_chunk();
    f64::from_be_bytes(*bytes.expect("a real has 8 bytes"))
}

/// Appends the column `fields` of reals and integers, pieces of `page`, unless they are no decimals.
pub(super) fn encode(
    page: &[u8],
    fields: &[Field],
    integers: &mut Vec<i64>,
    out: &mut Vec<u8>,
) -> bool {
    let all_real = fields.iter().all(|field| field.serial == REAL);
    let mut digits = 0;
    for field in fields.iter().filter(|field| field.serial == REAL) {
        let real = real_of(page, field);
        let comes_back = |digits: &u8| Scale::new(*digits, all_real).of_real(real).is_some();
        // A value that needs fewer digits also fits more.
        match (digits..=DIGITS_MAX).find(comes_back) {
            Some(needed) => digits = needed,
            None => return false,
        }
    }
    let scale = Scale::new(digits, all_real);
    integers.clear();
    for field in fields {
        match scale.of(page, field) {
            Some(integer) => integers.push(integer),
            None => return false,
        }
    }
    out.push(digits | if all_real { ALL_REAL } else { 0 });
    ints::encode(integers, out);
    true
}

/// Appends the `count` values of a column.
pub(super) fn decode(
    input: &mut Reader<'_>,
    count: usize,
    arena: &mut Arena,
    integers: &mut Vec<i64>,
    values: &mut Values,
) -> Result<()> {
    let tag = input.byte()?;
    let digits = tag & !ALL_REAL;
    if digits > DIGITS_MAX {
        return Err(Malformed);
    }
    let scale = Scale::new(digits, tag & ALL_REAL != 0);
    integers.clear();
    ints::decode(input, count, integers)?;
    let first = values.len();
    let mut start = arena.len();
    values.push_nulls(count);
    let serials = values.serials.get_mut(first..).ok_or(Malformed)?;
    let pieces = values.pieces.get_mut(first..).ok_or(Malformed)?;
    let places = serials.iter_mut().zip(pieces).zip(arena.words(count)?);
    for (integer, ((serial, piece), word)) in integers.iter().zip(places) {
        let (own, len, bytes) = match scale.number(*integer)? {
            Number::Real(real) => (REAL_SERIAL, 8, real.to_be_bytes()),
            Number::Integer(whole) => {
                let (serial, len) = record::serial_of(whole);
                (serial, len, record::word_of(whole, len).to_le_bytes())
            }
        };
        *serial = own;
        *word = bytes;
        *piece = Span::new(start, start + len as usize);
        start += 8;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The fields that SQLite stores for reals: with whole numbers as integers, or all as they are.
    fn fields(reals: &[f64], all_real: bool) -> (Vec<u8>, Vec<Field>) {
        let (mut page, mut fields) = (Vec::new(), Vec::new());
        for real in reals {
            let (start, whole) = (page.len(), *real as i64);
            let is_whole = (whole as f64).to_bits() == real.to_bits();
            let (serial, len) = record::serial_of(whole);
            let serial = if is_whole && len <= 6 && !all_real {
                let word = record::word_of(whole, len).to_le_bytes();
                page.extend_from_slice(&word[..len as usize]);
                serial.into()
            } else {
                page.extend_from_slice(&real.to_be_bytes());
                REAL
            };
            let span = Span::new(start, page.len());
            fields.push(Field { serial, span });
        }
        (page, fields)
    }

    /// The length of the column, if the values are decimals; they came back then.
    fn stored(reals: &[f64], all_real: bool) -> Option<usize> {
        let (page, fields) = fields(reals, all_real);
        let (mut integers, mut out) = (Vec::new(), Vec::new());
        if !encode(&page, &fields, &mut integers, &mut out) {
            return None;
        }
        let (mut arena, mut values) = (Arena::default(), Values::default());
        arena.begin(&out, 8 * reals.len());
        let mut input = Reader::new(&out);
        let count = reals.len();
        decode(&mut input, count, &mut arena, &mut integers, &mut values).unwrap();
        assert!(input.is_empty());
        for (index, field) in fields.iter().enumerate() {
            assert_eq!(u64::from(values.serials[index]), field.serial);
            let bytes = values.pieces[index].of(arena.bytes());
            assert_eq!(bytes, field.span.of(&page));
        }
        Some(out.len())
    }

    #[test]
    fn prices_take_the_bytes_of_their_cents() {
        let prices: Vec<f64> = (0..100)
            .map(|i| f64::from(i * 7919 % 20_000) / 100.0)
            .collect();
        for all_real in [false, true] {
            assert!(stored(&prices, all_real).unwrap() <= 206);
        }
    }

    #[test]
    fn only_what_comes_back_is_taken() {
        let refused: [&[f64]; 6] = [
            &[0.5, -0.0],
            &[0.5, f64::NAN],
            &[0.5, f64::INFINITY],
            &[0.5, 1e300],
            &[0.5, std::f64::consts::PI],
            &[0.5, 2e15],
        ];
        for reals in refused {
            assert_eq!(stored(reals, false), None, "{reals:?}");
            assert_eq!(stored(reals, true), None, "{reals:?}");
        }
        // A whole number as a real beside integers; an integer in more bytes than it needs.
        let (page, mut mixed) = fields(&[0.5, 3.0], true);
        mixed.push(Field {
            serial: 8,
            span: Span::new(0, 0),
        });
        assert!(!encode(&page, &mixed, &mut Vec::new(), &mut Vec::new()));
        let long = Field {
            serial: 6,
            span: Span::new(8, 16),
        };
        assert!(!encode(&[0; 16], &[long], &mut Vec::new(), &mut Vec::new()));
    }

    #[test]
    fn an_integer_beyond_the_reals_is_refused() {
        let mut out = vec![2];
        ints::encode(&mut vec![(1 << 53) + 1], &mut out);
        let mut arena = Arena::default();
        arena.begin(&out, 8);
        let mut values = Values::default();
        let back = decode(
            &mut Reader::new(&out),
            1,
            &mut arena,
            &mut Vec::new(),
            &mut values,
        );
        assert_eq!(back, Err(Malformed));
    }

    proptest! {
        #[test]
        fn decimals_come_back(
            integers in proptest::collection::vec(-(1_i64 << 40)..1 << 40, 1..50),
            digits in 0..=DIGITS_MAX,
            shift in 0..40,
            all_real: bool,
        ) {
            let power = 10_f64.powi(digits.into());
            let reals: Vec<f64> = integers.iter().map(|i| (i >> shift) as f64 / power).collect();
            prop_assert!(stored(&reals, all_real).is_some());
        }

        #[test]
        fn any_reals_come_back_or_are_refused(
            bits in proptest::collection::vec(any::<u64>(), 1..5),
            all_real: bool,
        ) {
            let reals: Vec<f64> = bits.into_iter().map(f64::from_bits).collect();
            stored(&reals, all_real);
        }
    }
}
