//! The bytes in an answer, or why there are none: the checks that every answer has to pass.

use std::io::Read;
use std::ops::Range;

use http::{HeaderMap, StatusCode, header};

use crate::answer::check;
use crate::error::Error;
use crate::fetch::Expected;
use crate::retry::{Failure, is_passing};
use crate::traffic::Counters;
use crate::version::Version;

/// Takes the bytes `range` out of an answer that is not a redirect: less of them only where the file ends, and none if it
/// is of the version that the caller [has](Expected::Another). `url` is for people.
///
/// # Errors
/// The answer is none, or not to this request, or of another version of the file.
pub fn take(
    url: &str,
    status: StatusCode,
    headers: &HeaderMap,
    body: impl Read,
    counters: &Counters,
    range: &Range<u64>,
    expected: Expected<'_>,
) -> Result<(Vec<u8>, Version), Failure> {
    let url = url.to_string();
    let changed = |what: String| Error::Changed {
        url: url.clone(),
        what,
    };
    let pinned = match expected {
        Expected::This(pinned) => Some(pinned),
        _ => None,
    };
    if let (StatusCode::NOT_MODIFIED, Expected::Another(known)) = (status, expected) {
        // It should say which version it means (RFC 9110, 15.4.5), but was asked for one alone.
        let version = Version::of(headers, known.len);
        let is_known = version.is_ok_and(|version| {
            let says_nothing = !headers.contains_key(header::ETAG);
            says_nothing || known.difference(&version).is_none()
        });
        let why = "it says that another version than the one asked about is not modified";
        return match is_known {
            true => Ok((Vec::new(), known.clone())),
            false => Err(Error::Answer {
                url,
                why: why.into(),
            }
            .into()),
        };
    }
    match status {
        StatusCode::PARTIAL_CONTENT => {}
        StatusCode::OK => return Err(Error::NoRanges { url }.into()),
        StatusCode::PRECONDITION_FAILED => {
            let what = "the server no longer has the version that was opened";
            return Err(changed(what.into()).into());
        }
        StatusCode::RANGE_NOT_SATISFIABLE if pinned.is_some() => {
            return Err(changed(format!("it ends before byte {}", range.start)).into());
        }
        StatusCode::RANGE_NOT_SATISFIABLE => return Err(Error::Empty { url }.into()),
        status => return Err(refused(url, status, headers)),
    }
    let unusable = |why: String| Error::Answer {
        url: url.clone(),
        why,
    };
    let part = check(headers, range).map_err(unusable)?;
    let version = Version::of(headers, part.total).map_err(unusable)?;
    if let Some(what) = pinned.and_then(|pinned| pinned.difference(&version)) {
        return Err(changed(what).into());
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a range that is asked for has room in memory"
    )]
    let size = (part.bytes.end - part.bytes.start) as usize;
    let passing = |why: String| Failure::Passing { why, after: None };
    // One byte more than there should be: a longer body is not cut off in silence.
    let mut bytes =
        litepack_io::memory::with_room(size + 1).map_err(|error| passing(error.to_string()))?;
    let result = body.take(size as u64 + 1).read_to_end(&mut bytes);
    counters.bytes.add(bytes.len() as u64);
    match result {
        Err(error) => Err(passing(format!(
            "the answer broke off after {} of {size} bytes: {error}",
            bytes.len()
        ))),
        Ok(n) if n < size => Err(passing(format!(
            "the answer ended after {n} of {size} bytes"
        ))),
        Ok(n) if n > size => Err(unusable(format!("it goes on after its {size} bytes")).into()),
        Ok(_) => Ok((bytes, version)),
    }
}

/// The failure that a status means which is neither success nor a redirect.
fn refused(url: String, status: StatusCode, headers: &HeaderMap) -> Failure {
    if is_passing(status) {
        return Failure::status("server", status, headers);
    }
    let status = status.as_u16();
    let hint = match status {
        400 | 403 => "; if the URL is signed, it may have expired: get a new one",
        401 => "; it requires authentication: give a token or headers",
        404 | 410 => "; there is no such file",
        _ => "",
    };
    Failure::Lasting(Error::Refused {
        url,
        status,
        code: String::new(),
        hint: hint.into(),
    })
}
