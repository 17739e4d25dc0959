//! One signed request, and what a store says of regions and credentials.

use std::borrow::Cow;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rusty_s3::{Bucket, Credentials, S3Action as _};
use ureq::Body;
use ureq::http::header::HeaderMap;
use ureq::http::{Response, StatusCode};
use url::Url;

use super::object::{Object, SIGNED_FOR};
use super::refusal::Refusal;
use litepack_ranges::Error;
use litepack_ranges::{Failure, is_passing};

/// The least bytes of a secret; shorter texts are in many answers by chance.
const SECRET_MIN: usize = 8;

/// Sends a request once, and returns its answer if its status is an answer to it, with what is not to be shown. A bucket
/// in another region and credentials that have expired are each dealt with once. Redirects are not followed: what is signed is for one host.
pub(crate) fn exchange(
    object: &Object,
    sign: impl Fn(&Object, &Bucket, &Credentials) -> Url,
    mut send: impl FnMut(&str) -> Result<Response<Body>, Failure>,
    is_answer: impl Fn(StatusCode) -> bool,
) -> Result<(Response<Body>, Secrets), Failure> {
    let url = object.shown();
    let (mut has_moved, mut renewed) = (false, false);
    loop {
        let known = object.credentials()?;
        let signed = sign(object, &object.bucket()?, &known.credentials);
        let response = send(signed.as_str())?;
        let secrets = Secrets::of(&signed, &known.credentials);
        let status = response.status();
        if is_answer(status) {
            // Headers may be shown, or kept: an ETag, for one.
            if secrets.are_in_any(response.headers()) {
                let why = "its headers repeat what was sent".into();
                return Err(Error::Answer { url, why }.into());
            }
            return Ok((response, secrets));
        }
        let (head, body) = response.into_parts();
        if !has_moved && object.has_moved(&head.headers) {
            has_moved = true;
            continue;
        }
        if status.is_redirection() {
            let why = "it redirects, which is not followed with signed requests; AWS_REGION or AWS_ENDPOINT_URL may \
                       not be the bucket's";
            let why = why.into();
            return Err(Error::Redirect { url, why }.into());
        }
        let refusal = Refusal::read(&head.headers, body, &secrets);
        if is_passing(status) || refusal.code == "RequestTimeout" {
            return Err(Failure::status("store", status, &head.headers));
        }
        if !renewed && refusal.is_of_credentials() && object.renew(&known.credentials)? {
            renewed = true;
            continue;
        }
        let status = status.as_u16();
        return Err(Failure::Lasting(Error::Refused {
            hint: refusal.hint(status, &known.from),
            code: refusal.code,
            url,
            status,
        }));
    }
}

/// The parts of a request that must not be shown again.
pub(crate) struct Secrets {
    /// The signature, the id and the secret of the key, the token as it is and as it is in the URL.
    texts: Vec<String>,
    /// All that is behind the question mark.
    query: String,
}

impl Secrets {
    pub(crate) fn of(signed: &Url, credentials: &Credentials) -> Secrets {
        let of_query = |(name, value): (Cow<'_, str>, Cow<'_, str>)| {
            (name == "X-Amz-Signature").then(|| value.into_owned())
        };
        let token = credentials.token().unwrap_or_default();
        let texts = [
            signed.query_pairs().find_map(of_query).unwrap_or_default(),
            credentials.key().into(),
            credentials.secret().into(),
            token.into(),
            utf8_percent_encode(token, NON_ALPHANUMERIC).to_string(),
        ];
        Secrets {
            texts: texts.map(|text| text.to_ascii_lowercase()).into(),
            query: signed.query().unwrap_or_default().to_ascii_lowercase(),
        }
    }

    /// Whether one of them is in a header.
    fn are_in_any(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.values();
        values.any(|value| self.are_in(&String::from_utf8_lossy(value.as_bytes())))
    }

    /// Whether one of them is in a text.
    pub(crate) fn are_in(&self, text: &str) -> bool {
        let text = text.to_ascii_lowercase();
        let mut long = self.texts.iter().filter(|text| text.len() >= SECRET_MIN);
        long.any(|secret| text.contains(secret))
    }

    /// Whether a text of ASCII is a part of them, or has a part of one of them in it.
    pub(crate) fn share_with(&self, text: &str) -> bool {
        let text = text.to_ascii_lowercase();
        let is_part = |part: &str| self.texts.iter().any(|secret| secret.contains(part));
        let mut parts = text.as_bytes().windows(SECRET_MIN);
        !text.is_empty()
            && (self.query.contains(&text)
                || is_part(&text)
                || parts.any(|part| std::str::from_utf8(part).is_ok_and(is_part)))
    }
}

/// A request for a part of the object.
pub(crate) fn get(object: &Object, bucket: &Bucket, credentials: &Credentials) -> Url {
    let action = bucket.get_object(Some(credentials), object.key());
    action.sign(SIGNED_FOR)
}
