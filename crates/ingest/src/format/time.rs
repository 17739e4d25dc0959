//! Times in logs, of which Unix seconds are made, and the text or number that is stored.

use time::{Date, Month};

use super::Value;

/// Seconds since 1970 in UTC, and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) seconds: i64,
    pub(crate) nanos: u32,
}

fn number(bytes: &[u8]) -> Option<u32> {
    let digit = |sum: u32, byte: &u8| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| sum * 10 + u32::from(digit))
    };
    match bytes.len() {
        1..=9 => bytes.iter().try_fold(0, digit),
        _ => None,
    }
}

fn civil(year: u32, month: u32, day: u32, hms: [u32; 3], offset: i64) -> Option<Stamp> {
    let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
    let day = Date::from_calendar_date(i32::try_from(year).ok()?, month, u8::try_from(day).ok()?);
    let [hour, minute, second] = hms;
    // 60 is a leap second.
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let midnight = day.ok()?.midnight().assume_utc().unix_timestamp();
    let within = i64::from(hour * 3600 + minute * 60 + second);
    Some(Stamp {
        seconds: midnight + within - offset,
        nanos: 0,
    })
}

fn hms(text: &[u8]) -> Option<[u32; 3]> {
    match text {
        [h @ .., b':', m1, m2, b':', s1, s2] if h.len() == 2 => {
            Some([number(h)?, number(&[*m1, *m2])?, number(&[*s1, *s2])?])
        }
        _ => None,
    }
}

/// Seconds east of UTC: `Z`, `+0200` or `+02:00`; nothing is UTC.
fn zone(text: &[u8]) -> Option<i64> {
    let (sign, hours, minutes) = match text {
        b"" | b"Z" | b"z" => return Some(0),
        [sign, h1, h2, b':', m1, m2] | [sign, h1, h2, m1, m2] => (sign, [*h1, *h2], [*m1, *m2]),
        _ => return None,
    };
    let seconds = i64::from(number(&hours)? * 3600 + number(&minutes)? * 60);
    match sign {
        b'+' => Some(seconds),
        b'-' => Some(-seconds),
        _ => None,
    }
}

pub(super) fn month(name: &[u8]) -> Option<u32> {
    const NAMES: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let at = NAMES.chunks(3).position(|month| month == name)?;
    u32::try_from(at + 1).ok()
}

/// `10/Oct/2000:13:55:36 -0700`
pub(super) fn common(text: &[u8]) -> Option<Stamp> {
    if text.len() != 26
        || text[2] != b'/'
        || text[6] != b'/'
        || text[11] != b':'
        || text[20] != b' '
    {
        return None;
    }
    civil(
        number(&text[7..11])?,
        month(&text[3..6])?,
        number(&text[..2])?,
        hms(&text[12..20])?,
        zone(&text[21..])?,
    )
}

/// `06/Feb/2009:12:14:14.655`, which has no zone; taken as UTC.
pub(super) fn haproxy(text: &[u8]) -> Option<Stamp> {
    let (whole, fraction) = text.split_at_checked(20)?;
    let stamp = common(&[whole, b" +0000"].concat())?;
    let Some(digits) = fraction.strip_prefix(b".") else {
        return fraction.is_empty().then_some(stamp);
    };
    let scale = 10_u32.checked_pow(9_u32.checked_sub(u32::try_from(digits.len()).ok()?)?)?;
    let nanos = number(digits)? * scale;
    Some(Stamp { nanos, ..stamp })
}

/// `2026-11-24T10:43:55.123+01:00`, also with a space for the T, a comma for the point, and without a zone.
pub(super) fn iso(text: &[u8]) -> Option<Stamp> {
    let day = text.get(..10)?;
    let clock = text.get(11..19)?;
    if day[4] != b'-' || day[7] != b'-' || !matches!(text[10], b'T' | b't' | b' ') {
        return None;
    }
    let mut rest = &text[19..];
    let mut nanos = 0;
    if let [b'.' | b',', fraction @ ..] = rest {
        let digits = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
        let (digits, zone) = fraction.split_at(digits);
        let scale = 10_u32.checked_pow(9_u32.checked_sub(u32::try_from(digits.len()).ok()?)?)?;
        nanos = number(digits)? * scale;
        rest = zone;
    }
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    let ymd = (number(&day[..4])?, number(&day[5..7])?, number(&day[8..])?);
    let stamp = civil(ymd.0, ymd.1, ymd.2, hms(clock)?, zone(rest)?)?;
    Some(Stamp { nanos, ..stamp })
}

/// Unix time: seconds with or without a fraction, or milli-, micro- or nanoseconds, which their size tells.
pub(super) fn unix(text: &[u8]) -> Option<Stamp> {
    let (whole, fraction) = match memchr::memchr(b'.', text) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &b""[..]),
    };
    let plain = whole.iter().chain(fraction).all(u8::is_ascii_digit);
    if !plain || text.ends_with(b".") {
        return None;
    }
    // As many digits as nanoseconds have; of milliseconds with a fraction more may be written.
    let (digits, most) = match whole.len() {
        9 | 10 => (0, 9),
        13 => (3, 6),
        16 => (6, 3),
        19 => (9, 0),
        _ => return None,
    };
    let fraction = match digits {
        0 if fraction.len() > most => return None,
        _ => fraction.get(..most.min(fraction.len()))?,
    };
    let digits = digits + fraction.len();
    let all: Vec<u8> = [whole, fraction].concat();
    let all: i64 = std::str::from_utf8(&all).ok()?.parse().ok()?;
    let unit = 10_i64.pow(u32::try_from(digits).ok()?);
    let nanos = all % unit * (1_000_000_000 / unit);
    Some(Stamp {
        seconds: all / unit,
        nanos: u32::try_from(nanos).ok()?,
    })
}

/// `Nov 24 10:43:55`, which has no year: the last one in which that is not after tomorrow; taken as UTC. A day of one
/// digit has a space before it, which is lost where somebody joined words again.
pub(super) fn yearless(text: &[u8], now: i64) -> Option<Stamp> {
    let (month_name, rest) = text.split_at_checked(3)?;
    let (day, clock) = rest
        .strip_prefix(b" ")?
        .split_at_checked(rest.len().checked_sub(10)?)?;
    let day = match day {
        [b' ', day] | [day @ b'1'..=b'9'] => number(&[*day])?,
        [_, _] => number(day)?,
        _ => return None,
    };
    let (month, clock) = (month(month_name)?, hms(clock.strip_prefix(b" ")?)?);
    let now_date = time::OffsetDateTime::from_unix_timestamp(now).ok()?;
    let year = u32::try_from(now_date.year()).ok()?;
    // The 29th of February may be eight years back.
    (0..9)
        .filter_map(|back| civil(year + 1 - back, month, day, clock, 0))
        .find(|stamp| stamp.seconds <= now + 86_400)
}

/// Any of them, that of the common format also in brackets, and a date with slashes for hyphens.
pub(super) fn any(text: &[u8]) -> Option<Stamp> {
    let bare = text
        .strip_prefix(b"[")
        .and_then(|text| text.strip_suffix(b"]"));
    iso(text)
        .or_else(|| common(bare.unwrap_or(text)))
        .or_else(|| unix(text))
        .or_else(|| slashed(text))
}

/// `2026/11/24 10:43:55`
fn slashed(text: &[u8]) -> Option<Stamp> {
    match text {
        [a, b, c, d, b'/', m1, m2, b'/', d1, d2, rest @ ..] => {
            let day = [*a, *b, *c, *d, b'-', *m1, *m2, b'-', *d1, *d2];
            iso(&[&day[..], rest].concat())
        }
        _ => None,
    }
}

/// `2026-11-24T10:43:55Z`, with the fraction if there is one.
pub(crate) fn text(stamp: Stamp) -> Option<String> {
    use std::fmt::Write;
    let at = time::OffsetDateTime::from_unix_timestamp(stamp.seconds).ok()?;
    if !(0..10_000).contains(&at.year()) {
        return None;
    }
    let (date, clock) = (at.date(), at.time());
    let mut text = format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
        date.year(),
        u8::from(date.month()),
        date.day(),
        clock.hour(),
        clock.minute(),
        clock.second()
    );
    if stamp.nanos > 0 {
        let fraction = format!("{:09}", stamp.nanos);
        let _ = write!(text, ".{}", fraction.trim_end_matches('0'));
    }
    text.push('Z');
    Some(text)
}

/// Makes values of times, and remembers the last one: neighbours often have the same second.
#[derive(Default)]
pub(crate) struct Times {
    as_integer: bool,
    last: Option<(Stamp, String)>,
}

impl Times {
    pub(crate) fn new(as_integer: bool) -> Times {
        Times {
            as_integer,
            last: None,
        }
    }

    /// Text, or Unix seconds: an integer, with a fraction a real.
    pub(crate) fn value(&mut self, stamp: Stamp) -> Option<Value<'static>> {
        if self.as_integer {
            return Some(match stamp.nanos {
                0 => Value::Integer(stamp.seconds),
                nanos => Value::Real(stamp.seconds as f64 + f64::from(nanos) / 1e9),
            });
        }
        if self.last.as_ref().is_none_or(|(last, _)| *last != stamp) {
            self.last = Some((stamp, text(stamp)?));
        }
        let (_, text) = self.last.as_ref()?;
        Some(Value::Text(text.clone().into_bytes().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written() {
        let shown = |stamp: Option<Stamp>| stamp.and_then(text);
        let is = |stamp, wanted: &str| assert_eq!(shown(stamp).as_deref(), Some(wanted));
        is(
            common(b"10/Oct/2000:13:55:36 -0700"),
            "2000-10-10T20:55:36Z",
        );
        is(
            iso(b"2026-11-24T10:43:55.120+01:00"),
            "2026-11-24T09:43:55.12Z",
        );
        is(iso(b"2026-11-24 10:43:55,001"), "2026-11-24T10:43:55.001Z");
        is(iso(b"2016-12-31T23:59:60Z"), "2017-01-01T00:00:00Z");
        is(unix(b"1764000000"), "2025-11-24T16:00:00Z");
        is(unix(b"1764000000.25"), "2025-11-24T16:00:00.25Z");
        is(unix(b"1764000000250"), "2025-11-24T16:00:00.25Z");
        is(unix(b"1764000000250.5"), "2025-11-24T16:00:00.2505Z");
        is(
            haproxy(b"06/Feb/2009:12:14:14.655"),
            "2009-02-06T12:14:14.655Z",
        );
        is(any(b"[28/Feb/2013:12:00:00 +0900]"), "2013-02-28T03:00:00Z");
        is(any(b"2022/03/09 21:30:01.524"), "2022-03-09T21:30:01.524Z");
        let now = 1_767_225_600; // 2026-01-01
        is(yearless(b"Dec 31 23:00:00", now), "2025-12-31T23:00:00Z");
        is(yearless(b"Jan  1 01:02:03", now), "2026-01-01T01:02:03Z");
        is(yearless(b"Feb 29 01:02:03", now), "2024-02-29T01:02:03Z");
        for bad in [
            &b"10/Oct/2000:13:55:61 -0700"[..],
            b"30/Feb/2000:13:55:36 -0700",
            b"2026-13-01T00:00:00Z",
            b"2026-11-24T10:43:55+1",
            b"+1764000000",
            b"",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xffT10:43:55",
        ] {
            assert_eq!(any(bad), None, "{:?}", String::from_utf8_lossy(bad));
        }
    }
}
