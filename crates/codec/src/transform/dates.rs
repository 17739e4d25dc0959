//! Dates and times as text, as numbers: `2026-11-21`, and with a `T` or a space also `2026-11-21 10:02`, with seconds
//! and up to six digits behind their point.
//!
//! A number counts the last unit that the text names, from 1970-01-01 on: days, hours, minutes, seconds, or the digits
//! of a fraction. So one column of integers stands for up to seven of digits, and neighbours differ by little.

use super::bytes::{Malformed, Result};
use super::digits;

/// Which text stands for a number: the byte in a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DateShape {
    /// The last unit: [`DAYS`] and the next ones; from [`SECONDS`] on, one more for each digit of a fraction.
    unit: u8,
    /// The bytes between date and time.
    between: u8,
}

const DAYS: u8 = 1;
const HOURS: u8 = 2;
const MINUTES: u8 = 3;
const SECONDS: u8 = 4;
/// More digits of seconds would not fit an `i64` in every year.
const FRACTION_MAX: u8 = 6;
/// Flag of a shape: a `T` is between date and time, and not a space.
const HAS_T: u8 = 0x10;

const DATE_LEN: usize = 10;
const SECONDS_LEN: usize = 19;

impl DateShape {
    /// The shape with this number in a pattern.
    pub(super) fn of(number: u8) -> Result<DateShape> {
        let unit = number & !HAS_T;
        if !(DAYS..=SECONDS + FRACTION_MAX).contains(&unit) || number == DAYS | HAS_T {
            return Err(Malformed);
        }
        let between = if number & HAS_T == 0 { b' ' } else { b'T' };
        Ok(DateShape { unit, between })
    }

    /// Its number in a pattern.
    pub(super) fn number(self) -> u8 {
        self.unit
            | if self.between == b'T' && self.unit > DAYS {
                HAS_T
            } else {
                0
            }
    }

    /// The longest shape that `text` begins with, whatever its digits are.
    pub(super) fn at_start(text: &[u8]) -> Option<DateShape> {
        let is = |at: usize, byte: u8| text.get(at) == Some(&byte);
        let digit = |at: usize| text.get(at).is_some_and(u8::is_ascii_digit);
        let pair = |at: usize| digit(at) && digit(at + 1);
        if !(is(4, b'-') && is(7, b'-') && pair(0) && pair(2) && pair(5) && pair(8)) {
            return None;
        }
        let mut shape = DateShape {
            unit: DAYS,
            between: b' ',
        };
        match text.get(DATE_LEN) {
            Some(between @ (b' ' | b'T')) if pair(11) => shape.between = *between,
            _ => return Some(shape),
        }
        shape.unit = HOURS;
        for (at, unit) in [(13, MINUTES), (16, SECONDS)] {
            if !(is(at, b':') && pair(at + 1)) {
                return Some(shape);
            }
            shape.unit = unit;
        }
        let fraction = text.get(SECONDS_LEN + 1..).unwrap_or_default();
        let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit());
        match digits.take(usize::from(FRACTION_MAX) + 1).count() {
            digits @ 1.. if is(SECONDS_LEN, b'.') && digits <= FRACTION_MAX.into() => {
                shape.unit += u8::try_from(digits).unwrap_or(0);
            }
            _ => {}
        }
        Some(shape)
    }

    /// The same without a fraction.
    pub(super) fn without_fraction(self) -> DateShape {
        DateShape {
            unit: self.unit.min(SECONDS),
            ..self
        }
    }

    /// How many bytes its texts have.
    pub(super) fn len(self) -> usize {
        match self.unit {
            DAYS => DATE_LEN,
            HOURS => 13,
            MINUTES => 16,
            SECONDS => SECONDS_LEN,
            unit => SECONDS_LEN + 1 + usize::from(unit - SECONDS),
        }
    }

    /// The number of the unit in one of the next coarser one, and the shape that ends with that. `None` for days.
    pub(super) fn coarser(self) -> Option<(i64, DateShape)> {
        let (times, unit) = match self.unit {
            DAYS => return None,
            HOURS => (24, DAYS),
            MINUTES | SECONDS => (60, self.unit - 1),
            unit => (10_i64.pow((unit - SECONDS).into()), SECONDS),
        };
        Some((times, DateShape { unit, ..self }))
    }

    /// The number that a text of this shape begins with; `None` if it is none, or if it would not come back.
    pub(super) fn parse(self, text: &[u8]) -> Option<i64> {
        let text = text.get(..self.len())?;
        let mut bad = 0;
        let mut digits = |from: usize, to: usize| {
            text.get(from..to)
                .unwrap_or_default()
                .iter()
                .fold(0, |number: i64, byte| {
                    let digit = byte.wrapping_sub(b'0');
                    bad |= u8::from(digit > 9);
                    number * 10 + i64::from(digit)
                })
        };
        let (year, month, day) = (digits(0, 4), digits(5, 7), digits(8, 10));
        let mut number = days_of(year, month, day);
        let date = (year as u64, month as u64, day as u64);
        let mut fits = date_of(number) == Some(date);
        let is = |at: usize, byte: u8| text.get(at) == Some(&byte);
        fits &= is(4, b'-') && is(7, b'-');
        if self.unit >= HOURS {
            let hours = digits(11, 13);
            number = number * 24 + hours;
            fits &= hours < 24 && is(DATE_LEN, self.between);
        }
        for (at, unit) in [(13, MINUTES), (16, SECONDS)] {
            if self.unit >= unit {
                let sixtieths = digits(at + 1, at + 3);
                number = number * 60 + sixtieths;
                fits &= sixtieths < 60 && is(at, b':');
            }
        }
        if self.unit > SECONDS {
            let (times, _) = self.coarser()?;
            number = number * times + digits(SECONDS_LEN + 1, self.len());
            fits &= is(SECONDS_LEN, b'.');
        }
        (fits && bad == 0).then_some(number)
    }

    /// Writes texts of this shape.
    pub(super) fn writer(self) -> DateWriter {
        DateWriter {
            shape: self,
            fractions: match self.coarser() {
                Some((times, _)) if self.unit > SECONDS => times,
                _ => 1,
            },
            day: 0,
            date: *b"1970-01-01",
        }
    }
}

/// Writes texts of one shape. Most dates are that of the row before.
pub(super) struct DateWriter {
    shape: DateShape,
    /// How many units of the fraction are a second.
    fractions: i64,
    day: i64,
    /// The text of the day.
    date: [u8; DATE_LEN],
}

impl DateWriter {
    /// Fills a place as long as the texts are. An error if the number is not of the years 0 to 9999.
    #[inline]
    pub(super) fn fill(&mut self, place: &mut [u8], mut number: i64) -> Result<()> {
        let unit = self.shape.unit;
        let mut place = place;
        if unit > SECONDS {
            let (rest, fraction) = place.split_at_mut_checked(SECONDS_LEN).ok_or(Malformed)?;
            let (point, fraction) = fraction.split_first_mut().ok_or(Malformed)?;
            *point = b'.';
            digits::fill(fraction, number.rem_euclid(self.fractions) as u64);
            number = number.div_euclid(self.fractions);
            place = rest;
        }
        for (at, at_least) in [(16, SECONDS), (13, MINUTES)] {
            if unit >= at_least {
                let sixtieths = number.rem_euclid(60) as u64;
                number = number.div_euclid(60);
                put(place, at, b':', sixtieths)?;
            }
        }
        if unit >= HOURS {
            let hours = number.rem_euclid(24) as u64;
            number = number.div_euclid(24);
            put(place, DATE_LEN, self.shape.between, hours)?;
        }
        if number != self.day {
            self.date = date_text(number).ok_or(Malformed)?;
            self.day = number;
        }
        *place.first_chunk_mut().ok_or(Malformed)? = self.date;
        Ok(())
    }
}

/// Puts a byte and two digits at a place.
#[inline]
fn put(place: &mut [u8], at: usize, byte: u8, number: u64) -> Result<()> {
    let place = place
        .get_mut(at..)
        .and_then(|place| place.first_chunk_mut());
    let place: &mut [u8; 3] = place.ok_or(Malformed)?;
    let [tens, ones] = digits::two(number);
    *place = [byte, tens, ones];
    Ok(())
}

fn date_text(day: i64) -> Option<[u8; DATE_LEN]> {
    let (year, month, day) = date_of(day)?;
    let [[a, b], [c, d]] = [digits::two(year / 100), digits::two(year)];
    let [[e, f], [g, h]] = [digits::two(month), digits::two(day)];
    Some([a, b, c, d, b'-', e, f, b'-', g, h])
}

/// Days in 400 years, after which the calendar repeats.
const ERA: i64 = 146_097;
/// From 0000-03-01 to 1970-01-01. Years are taken to begin with March, so that a leap day ends one.
const EPOCH: i64 = 719_468;
/// The days of the years 0000 to 9999.
const DAYS_RANGE: std::ops::RangeInclusive<i64> = -719_528..=2_932_896;

/// The days from 1970-01-01 to a date of the Gregorian calendar (Howard Hinnant, "chrono-compatible low-level date
/// algorithms").
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * ERA + of_era * 365 + of_era / 4 - of_era / 100 + of_year - EPOCH
}

/// The date so many days after 1970-01-01: year, month and day. `None` if the year does not have four digits.
/// (Cassio Neri and Lorenz Schneider, "Euclidean affine functions and their application to calendar algorithms".)
#[expect(
    clippy::cast_possible_truncation,
    reason = "the days of ten thousand years have 22 bits, four times as many 24, and the product's low half is wanted"
)]
fn date_of(days: i64) -> Option<(u64, u64, u64)> {
    if !DAYS_RANGE.contains(&days) {
        return None;
    }
    // An era later, so that no number is negative.
    let quarters = 4 * (days + EPOCH + ERA) as u32 + 3;
    let (century, of_century) = (quarters / ERA as u32, (quarters % ERA as u32) | 3);
    const YEAR: u32 = 2_939_745;
    let product = u64::from(of_century) * u64::from(YEAR);
    let (year, of_year) = ((product >> 32) as u32, product as u32 / YEAR / 4);
    let year = 100 * century + year;
    let month = 2_141 * of_year + 197_913;
    let day = (month & 0xffff) / 2_141 + 1;
    let month = month >> 16;
    let (year, month) = if month > 12 {
        (year + 1, month - 12)
    } else {
        (year, month)
    };
    Some(((year - 400).into(), month.into(), day.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text_of(shape: DateShape, number: i64) -> Result<String> {
        let mut text = vec![0; shape.len()];
        shape.writer().fill(&mut text, number)?;
        Ok(String::from_utf8(text).unwrap())
    }

    #[test]
    fn every_shape_has_its_text() {
        for (number, text, value) in [
            (1, "1970-01-01", 0),
            (1, "2000-02-29", 11_016),
            (2, "1970-01-02 03", 27),
            (3, "1970-01-01 01:02", 62),
            (0x13, "1970-01-01T01:02", 62),
            (4, "2026-11-21 10:02:03", 1_795_255_323),
            (0x14, "1969-12-31T23:59:59", -1),
            (7, "1970-01-01 00:01:00.007", 60_007),
            (0x1a, "2026-11-21T10:02:03.000001", 1_795_255_323_000_001),
        ] {
            let shape = DateShape::of(number).unwrap();
            assert_eq!(shape.number(), number);
            assert_eq!(shape.len(), text.len());
            assert_eq!(DateShape::at_start(text.as_bytes()), Some(shape));
            assert_eq!(
                DateShape::at_start(format!("{text}Z").as_bytes()),
                Some(shape)
            );
            assert_eq!(shape.parse(text.as_bytes()), Some(value), "{text}");
            assert_eq!(text_of(shape, value).as_deref(), Ok(text));
        }
        for number in [0, 11, 0x10, 0x11, 0x1b, 0x20, 0x24, 0xff] {
            assert_eq!(DateShape::of(number), Err(Malformed), "{number}");
        }
    }

    #[test]
    fn no_number_stands_for_what_is_no_date() {
        for text in [
            "2026-02-29",
            "2026-00-01",
            "2026-13-01",
            "2026-11-00",
            "2026-11-31",
            "2026/11/21",
            "2026-11-2x",
            "2026-11-21 24:00:00",
            "2026-11-21 10:60:00",
            "2026-11-21 10:02:60",
            "2026-11-21_10:02:03",
            "2026-11-21",
        ] {
            assert_eq!(
                DateShape::of(4).unwrap().parse(text.as_bytes()),
                None,
                "{text}"
            );
            if text.len() == DATE_LEN && text != "2026-11-21" {
                assert_eq!(
                    DateShape::of(1).unwrap().parse(text.as_bytes()),
                    None,
                    "{text}"
                );
            }
        }
        // More digits than a number has room for.
        let shape = DateShape::at_start(b"2026-11-21T10:02:03.1234567Z").unwrap();
        assert_eq!(shape.number(), 0x14);
    }

    #[test]
    fn years_have_four_digits() {
        let days = DateShape::of(1).unwrap();
        let (first, last) = (
            days.parse(b"0000-01-01").unwrap(),
            days.parse(b"9999-12-31").unwrap(),
        );
        assert_eq!(text_of(days, first).as_deref(), Ok("0000-01-01"));
        assert_eq!(text_of(days, last).as_deref(), Ok("9999-12-31"));
        for number in [first - 1, last + 1, i64::MIN, i64::MAX] {
            assert_eq!(text_of(days, number), Err(Malformed));
        }
        for number in (1..=10).chain(0x12..=0x1a) {
            for value in [i64::MIN, i64::MAX] {
                let _ = text_of(DateShape::of(number).unwrap(), value);
            }
        }
    }

    #[test]
    fn every_day_comes_back() {
        let days = DateShape::of(1).unwrap();
        let mut writer = days.writer();
        let mut text = [0; DATE_LEN];
        let mut day = *DAYS_RANGE.start();
        for year in 0..=9999 {
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            for month in 1..=12 {
                let last = match month {
                    2 => 28 + u64::from(leap),
                    4 | 6 | 9 | 11 => 30,
                    _ => 31,
                };
                for of_month in 1..=last {
                    assert_eq!(date_of(day), Some((year, month, of_month)));
                    writer.fill(&mut text, day).unwrap();
                    assert_eq!(days.parse(&text), Some(day));
                    day += 1;
                }
            }
        }
        assert_eq!(day, DAYS_RANGE.end() + 1);
    }

    proptest! {
        #[test]
        fn numbers_come_back(number in (1..=10_u8).prop_flat_map(|unit| (Just(unit), 0..1_000_000_000_000_000_i64)), has_t: bool) {
            let (unit, value) = number;
            let shape = DateShape::of(if has_t && unit > DAYS { unit | HAS_T } else { unit }).unwrap();
            if let Ok(text) = text_of(shape, value) {
                prop_assert_eq!(shape.parse(text.as_bytes()), Some(value));
            }
        }

        #[test]
        fn what_is_parsed_comes_back(text in "[0-2][0-9]{3}-[01][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-6][0-9]:[0-6][0-9][.,][0-9]{1,7}") {
            if let Some(shape) = DateShape::at_start(text.as_bytes()) {
                let value = shape.parse(text.as_bytes());
                if let Some(value) = value {
                    let text = &text[..shape.len()];
                    let back = text_of(shape, value);
                    prop_assert_eq!(back.as_deref(), Ok(text));
                }
            }
        }
    }
}
