//! One signed request, and what a store says of regions and credentials.

use std::borrow::Cow;
use std::time::SystemTime;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rusty_s3::{Bucket, Credentials, S3Action as _};
use ureq::Body;
use ureq::http::header::HeaderMap;
use ureq::http::{Response, StatusCode};
use url::Url;

use super::object::{Object, SIGNED_FOR};
use super::refusal::Refusal;
use crate::answer::retry_after;
use crate::error::Error;
use crate::retry::{Failure, is_passing};

/// What is shorter is no secret, and is in many answers by chance.
const SECRET_MIN: usize = 8;

/// Sends a request once, and returns its answer if its status is an answer to it. A bucket in another region and
/// credentials that have expired are each dealt with once. Redirects are not followed: what is signed is for one host.
pub(crate) fn exchange(
    object: &Object,
    sign: impl Fn(&Object, &Bucket, &Credentials) -> Url,
    mut send: impl FnMut(&str) -> Result<Response<Body>, Failure>,
    is_answer: impl Fn(StatusCode) -> bool,
) -> Result<Response<Body>, Failure> {
    let url = object.shown();
    let (mut has_moved, mut renewed) = (false, false);
    loop {
        let known = object.credentials()?;
        let signed = sign(object, &object.bucket()?, &known.credentials);
        let response = send(signed.as_str())?;
        let status = response.status();
        if is_answer(status) {
            // What headers say may be shown, or kept: an ETag, for one.
            if repeats(response.headers(), &signed, &known.credentials) {
                let why = "its headers repeat what was sent".into();
                return Err(Error::Answer { url, why }.into());
            }
            return Ok(response);
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
        let refusal = Refusal::read(&head.headers, body);
        if is_passing(status) || refusal.code == "RequestTimeout" {
            return Err(Failure::Passing {
                why: format!("the store answered with status {status}"),
                after: Some(retry_after(&head.headers, SystemTime::now()).unwrap_or_default()),
            });
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

/// Whether there is something secret of a request in the headers of its answer.
fn repeats(headers: &HeaderMap, signed: &Url, credentials: &Credentials) -> bool {
    let of_query = |(name, value): (Cow<'_, str>, Cow<'_, str>)| {
        (name == "X-Amz-Signature").then(|| value.into_owned())
    };
    let signature = signed.query_pairs().find_map(of_query).unwrap_or_default();
    // A token as it is, or as it is in the URL.
    let token = credentials.token().unwrap_or_default();
    let encoded = utf8_percent_encode(token, NON_ALPHANUMERIC).to_string();
    let secrets = [signature.as_str(), credentials.secret(), token, &encoded];
    headers.values().any(|value| {
        let value = String::from_utf8_lossy(value.as_bytes());
        secrets
            .iter()
            .any(|secret| secret.len() >= SECRET_MIN && value.contains(secret))
    })
}

/// A request for a part of the object.
pub(crate) fn get(object: &Object, bucket: &Bucket, credentials: &Credentials) -> Url {
    let action = bucket.get_object(Some(credentials), object.key());
    action.sign(SIGNED_FOR)
}
