//! One signed request, and what a store says of regions and credentials.

use std::time::SystemTime;

use rusty_s3::{Bucket, Credentials, S3Action as _};
use ureq::Body;
use ureq::http::{Response, StatusCode};
use url::Url;

use super::object::{Object, SIGNED_FOR};
use super::refusal::Refusal;
use crate::answer::retry_after;
use crate::error::Error;
use crate::retry::{Failure, is_passing};

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

/// A request for a part of the object.
pub(crate) fn get(object: &Object, bucket: &Bucket, credentials: &Credentials) -> Url {
    let action = bucket.get_object(Some(credentials), object.key());
    action.sign(SIGNED_FOR)
}
