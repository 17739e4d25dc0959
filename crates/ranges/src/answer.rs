//! The form that an answer to a request for a range must have. Nothing in it is believed that does not fit the request.

use std::borrow::Cow;
use std::ops::Range;
use std::time::{Duration, SystemTime};

use http::header::{self, HeaderMap, HeaderName};

/// No database is longer: 2^32 pages of 64 KiB. Sums of offsets within it and of lengths have room in any type.
pub(crate) const LEN_MAX: u64 = 1 << 48;

/// `Content-Range: bytes START-END/TOTAL`, with the end after the last byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContentRange {
    pub(crate) bytes: Range<u64>,
    pub(crate) total: u64,
}

impl ContentRange {
    /// RFC 9110, 14.4, for a file whose length is known.
    pub(crate) fn parse(text: &str) -> Option<ContentRange> {
        let (unit, rest) = text.trim().split_once(' ')?;
        let (bytes, total) = rest.trim().split_once('/')?;
        let (start, last) = bytes.split_once('-')?;
        if !unit.eq_ignore_ascii_case("bytes") {
            return None;
        }
        let (start, last, total) = (number(start)?, number(last)?, number(total)?);
        (start <= last && last < total).then(|| ContentRange {
            bytes: start..last + 1,
            total,
        })
    }
}

/// Digits alone: `str::parse` would take a sign.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

/// The part that an answer with status 206 says it has, if that is what was asked for: `asked`, or less only where the
/// file ends.
///
/// # Errors
/// In words.
pub(crate) fn check(headers: &HeaderMap, asked: &Range<u64>) -> Result<ContentRange, String> {
    for value in headers.get_all(header::CONTENT_ENCODING) {
        let encoding = String::from_utf8_lossy(value.as_bytes());
        let mut codings = encoding.split(',').map(str::trim);
        if !codings.all(|coding| coding.is_empty() || coding.eq_ignore_ascii_case("identity")) {
            return Err(format!(
                "it was encoded on the way (Content-Encoding: {encoding}), although no encoding was requested; switch that off for this file"
            ));
        }
    }
    let text = |name| only(headers, name);
    let shown = text(&header::CONTENT_RANGE)?
        .ok_or("it has no Content-Range and so does not say which part it is")?;
    let range = ContentRange::parse(&shown)
        .ok_or_else(|| format!("Content-Range: {shown} is not valid"))?;
    if range.total > LEN_MAX {
        return Err(format!(
            "it says that the file has {} bytes, and no database has more than {LEN_MAX}",
            range.total
        ));
    }
    let expected = asked.start..asked.end.min(range.total);
    if range.bytes != expected {
        return Err(format!(
            "it has bytes {} to {} where {} to {} were asked for",
            range.bytes.start,
            range.bytes.end - 1,
            asked.start,
            asked.end - 1
        ));
    }
    if let Some(length) = text(&header::CONTENT_LENGTH)? {
        let size = range.bytes.end - range.bytes.start;
        if number(length.trim()) != Some(size) {
            return Err(format!(
                "Content-Length: {length} does not fit its range of {size} bytes"
            ));
        }
    }
    Ok(range)
}

/// The value of a header that an answer has once. If it is there several times, all have to say the same: who is on the
/// way might have believed another.
///
/// # Errors
/// In words.
pub(crate) fn only<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<Cow<'a, str>>, String> {
    let mut values = headers.get_all(name).iter().map(|value| value.as_bytes());
    let Some(first) = values.next() else {
        return Ok(None);
    };
    if values.any(|other| other.trim_ascii() != first.trim_ascii()) {
        return Err(format!("it has two different values of {name}"));
    }
    Ok(Some(String::from_utf8_lossy(first)))
}

/// How long the server wants to be left alone (RFC 9110, 10.2.3). A date says nothing where there is no clock.
pub(crate) fn retry_after(headers: &HeaderMap, now: Option<SystemTime>) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Some(seconds) = number(text) {
        return Some(Duration::from_secs(seconds));
    }
    let then = httpdate::parse_http_date(text).ok()?;
    Some(then.duration_since(now?).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_strictly() {
        let range = |bytes, total| Some(ContentRange { bytes, total });
        assert_eq!(ContentRange::parse("bytes 0-9/100"), range(0..10, 100));
        assert_eq!(ContentRange::parse("Bytes 99-99/100"), range(99..100, 100));
        for text in [
            "",
            "bytes",
            "bytes */100",
            "bytes 0-9/*",
            "bytes 0-9",
            "bytes 9-0/100",
            "bytes 0-100/100",
            "pages 0-9/100",
            "bytes +0-9/100",
            "bytes 0-9/100 ",
            "bytes -9/100",
            "bytes 0-18446744073709551615/18446744073709551615",
            "bytes 0-9/18446744073709551616",
            "bytes=0-9/100",
        ] {
            if text.ends_with(' ') {
                assert_eq!(ContentRange::parse(text), range(0..10, 100));
            } else {
                assert_eq!(ContentRange::parse(text), None, "{text}");
            }
        }
    }

    #[test]
    fn an_answer_fits_its_request() {
        let headers = |pairs: &[(&'static str, &str)]| -> HeaderMap {
            let pair = |(name, value): &(&'static str, &str)| {
                ((*name).parse().unwrap(), value.parse().unwrap())
            };
            pairs.iter().map(pair).collect()
        };
        let fits = |pairs: &[(&'static str, &str)]| check(&headers(pairs), &(10..20));
        let ok = ("content-range", "bytes 10-19/100");
        assert!(fits(&[ok]).is_ok());
        assert!(
            fits(&[
                ok,
                ("content-length", "10"),
                ("content-encoding", "identity")
            ])
            .is_ok()
        );
        assert!(fits(&[ok, ok, ("content-length", "10"), ("content-length", "10")]).is_ok());
        assert_eq!(
            fits(&[("content-range", "bytes 10-14/15")]).unwrap().total,
            15
        );
        for wrong in [
            vec![],
            vec![("content-range", "bytes 11-19/100")],
            vec![("content-range", "bytes 9-19/100")],
            vec![("content-range", "bytes 10-19/4611686018427387904")],
            vec![("content-range", "bytes 10-19/18446744073709551615")],
            vec![("content-range", "bytes 10-18/100")],
            vec![("content-range", "bytes 10-20/100")],
            vec![ok, ("content-length", "11")],
            vec![ok, ("content-length", "9")],
            vec![ok, ("content-encoding", "gzip")],
            vec![
                ok,
                ("content-encoding", "identity"),
                ("content-encoding", "gzip"),
            ],
            vec![ok, ("content-encoding", "identity, gzip")],
            vec![ok, ("content-range", "bytes 0-9/100")],
            vec![("content-range", "bytes 0-9/100"), ok],
            vec![ok, ("content-range", "bytes 10-19/101")],
            vec![ok, ("content-length", "10"), ("content-length", "11")],
        ] {
            assert!(fits(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_server_may_ask_for_time() {
        let after = |text: &str| {
            let headers = HeaderMap::from_iter([(header::RETRY_AFTER, text.parse().unwrap())]);
            let now = httpdate::parse_http_date("Sun, 22 Nov 2026 09:00:00 GMT").ok();
            retry_after(&headers, now)
        };
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        assert_eq!(
            after("Sun, 22 Nov 2026 09:00:05 GMT"),
            Some(Duration::from_secs(5))
        );
        assert_eq!(after("Sun, 22 Nov 2026 08:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(after("soon"), None);
    }
}
