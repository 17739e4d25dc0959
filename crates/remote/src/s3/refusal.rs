//! A store's refusal, in words for people and without the secrets of the request.

use std::io::Read as _;
use std::time::{Duration, SystemTime};

use ureq::Body;
use ureq::http::header::{self, HeaderMap};

use super::exchange::Secrets;

/// An answer that is read as text is no longer than this, in bytes, unless it is a list.
const TEXT_MAX: u64 = 64 << 10;
/// A clock that is further off makes signatures invalid.
const SKEW_MAX: Duration = Duration::from_secs(300);
/// The longest code that is shown: the longest of S3's own has 41 characters, and a signature 64.
const CODE_MAX: usize = 48;

/// The code for requests for the same object at the same time, of which one is to write it only if there is none.
pub(crate) const CONFLICT: &str = "ConditionalRequestConflict";

/// A refusal.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// `NoSuchKey`, `AccessDenied` and so on; empty if the answer has none.
    pub(crate) code: String,
    /// How far this machine's clock is ahead of the store's (or behind it), if that is too far.
    skew: Option<(Duration, &'static str)>,
}

impl Refusal {
    /// Reads one. A store may say what it was sent back to us; that is no code.
    pub(crate) fn read(headers: &HeaderMap, body: Body, secrets: &Secrets) -> Refusal {
        let text = text_of(body).unwrap_or_default();
        let mut refusal = Refusal::of(headers, &text, SystemTime::now());
        if secrets.share_with(&refusal.code) {
            refusal.code.clear();
        }
        refusal
    }

    fn of(headers: &HeaderMap, text: &str, now: SystemTime) -> Refusal {
        let code = element(text, "Code").unwrap_or_default();
        // It is the server's text: what is no code is not shown.
        let is_code = code.len() <= CODE_MAX
            && code.starts_with(|c: char| c.is_ascii_uppercase())
            && code.bytes().all(|c| c.is_ascii_alphanumeric());
        let date = headers
            .get(header::DATE)
            .and_then(|value| value.to_str().ok());
        let date = date.and_then(|text| httpdate::parse_http_date(text).ok());
        let skew = date.and_then(|date| match now.duration_since(date) {
            Ok(ahead) => (ahead > SKEW_MAX).then_some((ahead, "ahead of")),
            Err(behind) => {
                let behind = behind.duration();
                (behind > SKEW_MAX).then_some((behind, "behind"))
            }
        });
        Refusal {
            code: if is_code { code.into() } else { String::new() },
            skew,
        }
    }

    /// Whether other credentials might do.
    pub(crate) fn is_of_credentials(&self) -> bool {
        matches!(
            self.code.as_str(),
            "ExpiredToken" | "InvalidAccessKeyId" | "InvalidToken" | "TokenRefreshRequired"
        )
    }

    /// Whether all that is missing is the object.
    pub(crate) fn is_of_object(&self) -> bool {
        matches!(self.code.as_str(), "" | "NoSuchKey" | "NotFound")
    }

    /// The advice for this error; begins with a semicolon, or is empty.
    pub(crate) fn hint(&self, status: u16, from: &str) -> String {
        let code = match self.code.as_str() {
            "" => String::new(),
            code => format!(" ({code})"),
        };
        if let (Some((by, direction)), 400 | 403) = (self.skew, status) {
            let minutes = by.as_secs() / 60;
            return format!(
                "{code}; the clock of this machine is {minutes} minutes {direction} the store's: set it"
            );
        }
        let hint = match (self.code.as_str(), status) {
            ("NoSuchBucket", _) => "; there is no such bucket".into(),
            (_, 404) if self.is_of_object() => "; there is no such object".into(),
            ("ExpiredToken" | "TokenRefreshRequired", _) => {
                format!("; the credentials from {from} have expired: get new ones")
            }
            ("InvalidAccessKeyId" | "InvalidToken", _) => {
                format!("; the store does not know the credentials from {from}")
            }
            ("SignatureDoesNotMatch", _) => format!(
                "; the secret key from {from} is another one than the store's, or AWS_REGION is not the store's region"
            ),
            ("AuthorizationHeaderMalformed" | "AuthorizationQueryParametersError", _) => {
                "; AWS_REGION may not be the store's region".into()
            }
            (CONFLICT, _) => "; another request for this object was under way: try again".into(),
            (_, 501) => "; the store may not know If-None-Match: ask for the object to be replaced, once you know that \
                         there is none"
                .into(),
            (_, 403) => format!(
                "; the credentials from {from} may not do this, or there is no such object and they may not list the \
                 bucket"
            ),
            _ => String::new(),
        };
        code + &hint
    }
}

/// The text of an answer, if it is short enough and is text.
pub(crate) fn text_of(body: Body) -> Option<String> {
    text_within(body, TEXT_MAX)
}

/// The text of an answer of at most so many bytes.
pub(crate) fn text_within(mut body: Body, max: u64) -> Option<String> {
    let mut text = String::new();
    let reader = body.as_reader();
    let read = reader.take(max + 1).read_to_string(&mut text);
    (read.is_ok() && text.len() as u64 <= max).then_some(text)
}

/// The text of the first element of this name that has nothing but text in it.
pub(crate) fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (value, _) = rest.split_once(&format!("</{name}>"))?;
    (!value.contains('<')).then(|| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(code: &str, date: Option<SystemTime>) -> Refusal {
        let mut headers = HeaderMap::new();
        if let Some(date) = date {
            let date = httpdate::fmt_http_date(date);
            headers.insert(header::DATE, date.parse().unwrap());
        }
        let text = format!(
            "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>s3cret</Message></Error>"
        );
        Refusal::of(&headers, &text, SystemTime::now())
    }

    #[test]
    fn a_code_is_shown_and_nothing_else_that_the_store_says() {
        let hint = refusal("NoSuchKey", None).hint(404, "the environment");
        assert_eq!(hint, " (NoSuchKey); there is no such object");
        for code in ["A b", "S3cret&amp;", "<x>", "s3cret", &"A".repeat(49)] {
            let refusal = refusal(code, None);
            assert_eq!(refusal.code, "");
            let hint = refusal.hint(403, "the environment");
            assert!(
                hint.contains("the environment") && !hint.contains("s3cret"),
                "{hint}"
            );
        }
    }

    #[test]
    fn a_clock_that_is_wrong_is_said_to_be() {
        let now = SystemTime::now();
        let hour = Duration::from_secs(3601);
        let ahead = refusal("AccessDenied", Some(now - hour)).hint(403, "x");
        assert!(ahead.contains("60 minutes ahead of the store's"), "{ahead}");
        let behind = refusal("RequestTimeTooSkewed", Some(now + hour)).hint(403, "x");
        assert!(behind.contains("minutes behind the store's"), "{behind}");
        let right = refusal("AccessDenied", Some(now)).hint(403, "x");
        assert!(!right.contains("clock"), "{right}");
    }
}
