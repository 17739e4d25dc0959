//! One range of the file from the server: redirects, retries, and the checks that every answer has to pass.
//!
//! Redirects are followed here and not by the HTTP library, because what the user adds to requests is for the origin of
//! the user's own URL alone. Where they led is remembered; if the server there refuses one day, as those do that
//! sign URLs for some minutes, the user's own URL is asked again. For an object in a store they are not followed at all:
//! its requests are signed for one host.

use std::io::Read as _;
use std::ops::Range;
use std::sync::Mutex;

use ureq::http::header::{self, HeaderMap, HeaderName};
use ureq::http::{Response, StatusCode};
use ureq::typestate::WithoutBody;
use ureq::{Agent, Body, RequestBuilder};

use crate::agent::{Timeouts, agent};
use crate::answer::check;
use crate::error::{Error, Result};
use crate::headers::Headers;
use crate::location::Location;
use crate::lock;
use crate::options::Options;
use crate::retry::{Failure, Retry, failure, is_passing};
use crate::s3::{self, Object};
use crate::traffic::Counters;
use crate::version::Version;

/// Redirects that are followed for one request.
const REDIRECTS_MAX: usize = 10;

/// Which version of the file an answer may be of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expected<'a> {
    Any,
    /// No other than this one.
    This(&'a Version),
    /// Any, but if it is still this one, nothing needs to come.
    Another(&'a Version),
}

impl Expected<'_> {
    /// The header that says so to the server.
    fn condition(&self) -> Option<(HeaderName, &str)> {
        match self {
            Expected::Any => None,
            Expected::This(version) => version.condition(),
            Expected::Another(version) => {
                version.strong().map(|etag| (header::IF_NONE_MATCH, etag))
            }
        }
    }
}

/// Asks one server for ranges of one file.
pub(crate) struct Client {
    agent: Agent,
    headers: Headers,
    start: Start,
    /// Where redirects led to.
    led_to: Mutex<Option<Location>>,
    retry: Retry,
    pub(crate) counters: Counters,
}

/// Where the user says that the file is.
#[derive(Debug)]
pub(crate) enum Start {
    Web(Location),
    /// In a store. Each request is signed.
    Store(Box<Object>),
}

impl Start {
    /// The file's name, without parameters that only open it.
    pub(crate) fn name(&self) -> String {
        match self {
            Start::Web(location) => location.name(),
            Start::Store(object) => object.name(),
        }
    }
}

impl Client {
    pub(crate) fn new(start: Start, headers: Headers, options: &Options) -> Result<Client> {
        Ok(Client {
            agent: agent(options, Timeouts::of(options))?,
            headers,
            start,
            led_to: Mutex::new(None),
            retry: Retry::new(options),
            counters: Counters::default(),
        })
    }

    /// The user's URL, for people.
    pub(crate) fn url(&self) -> String {
        match &self.start {
            Start::Web(location) => location.to_string(),
            Start::Store(object) => object.shown(),
        }
    }

    /// The bytes `range` of the file, less only where it ends, and the version they are of: none if it is one that the
    /// caller [has](Expected::Another). Failures that may pass are tried again.
    pub(crate) fn get(
        &self,
        range: &Range<u64>,
        expected: Expected<'_>,
    ) -> Result<(Vec<u8>, Version)> {
        self.retry.run(
            || self.url(),
            &self.counters,
            || self.attempt(range, expected),
        )
    }

    /// As [`Client::get`], once. Why it failed is not said.
    pub(crate) fn get_once(&self, range: &Range<u64>, pinned: &Version) -> Option<Vec<u8>> {
        self.attempt(range, Expected::This(pinned))
            .ok()
            .map(|(bytes, _)| bytes)
    }

    /// Ends requests that other threads wait for.
    pub(crate) fn shutdown(&self) {
        self.agent.clone().shutdown();
    }

    fn attempt(
        &self,
        range: &Range<u64>,
        expected: Expected<'_>,
    ) -> Result<(Vec<u8>, Version), Failure> {
        let start = match &self.start {
            Start::Web(location) => location,
            Start::Store(object) => {
                let send = |url: &str| {
                    self.counters.requests.add(1);
                    let answer = self.request(url, range, expected).call();
                    answer.map_err(|error| failure(&object.shown(), error))
                };
                let (response, _) = s3::exchange(object, s3::get, send, is_answer)?;
                return self.take(&object.shown(), response, range, expected);
            }
        };
        let remembered = lock(&self.led_to).clone();
        let result = match remembered {
            Some(at) => match self.follow(start, at, range, expected) {
                // A URL signed for some minutes has expired, or a mirror is gone.
                Err(
                    Failure::Lasting(Error::Refused { .. }) | Failure::Passing { after: None, .. },
                ) => {
                    *lock(&self.led_to) = None;
                    self.follow(start, start.clone(), range, expected)
                }
                result => result,
            },
            None => self.follow(start, start.clone(), range, expected),
        };
        if matches!(result, Err(Failure::Passing { .. })) {
            *lock(&self.led_to) = None;
        }
        result
    }

    /// Asks at `at` and wherever that leads to.
    fn follow(
        &self,
        start: &Location,
        mut at: Location,
        range: &Range<u64>,
        expected: Expected<'_>,
    ) -> Result<(Vec<u8>, Version), Failure> {
        for _ in 0..=REDIRECTS_MAX {
            let response = self.send(start, &at, range, expected)?;
            if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
                let answer = self.take(&at.to_string(), response, range, expected)?;
                if at != *start {
                    *lock(&self.led_to) = Some(at);
                }
                return Ok(answer);
            }
            let stop = |why: String| Error::Redirect {
                url: at.to_string(),
                why,
            };
            let target = response.headers().get(header::LOCATION);
            let target = target.and_then(|value| value.to_str().ok());
            at = target
                .ok_or_else(|| "it redirects, but not to a URL".to_string())
                .and_then(|target| at.join(target))
                .map_err(stop)?;
        }
        Err(Failure::Lasting(Error::Redirect {
            url: self.url(),
            why: format!("it redirects more than {REDIRECTS_MAX} times"),
        }))
    }

    fn send(
        &self,
        start: &Location,
        at: &Location,
        range: &Range<u64>,
        expected: Expected<'_>,
    ) -> Result<Response<Body>, Failure> {
        let mut request = self.request(at.as_str(), range, expected);
        if at.is_same_origin(start) {
            for (name, value) in self.headers.iter() {
                request = request.header(name, value);
            }
        }
        self.counters.requests.add(1);
        request
            .call()
            .map_err(|error| failure(&at.to_string(), error))
    }

    fn request(
        &self,
        url: &str,
        range: &Range<u64>,
        expected: Expected<'_>,
    ) -> RequestBuilder<WithoutBody> {
        let bytes = format!("bytes={}-{}", range.start, range.end - 1);
        let request = self.agent.get(url).header(header::RANGE, bytes);
        match expected.condition() {
            Some((name, value)) => request.header(name, value),
            None => request,
        }
    }

    /// Takes the bytes out of an answer that is not a redirect.
    fn take(
        &self,
        url: &str,
        response: Response<Body>,
        range: &Range<u64>,
        expected: Expected<'_>,
    ) -> Result<(Vec<u8>, Version), Failure> {
        let url = url.to_string();
        let (head, mut body) = response.into_parts();
        let changed = |what: String| Error::Changed {
            url: url.clone(),
            what,
        };
        let pinned = match expected {
            Expected::This(pinned) => Some(pinned),
            _ => None,
        };
        if let (StatusCode::NOT_MODIFIED, Expected::Another(known)) = (head.status, expected) {
            // It should say which version it means (RFC 9110, 15.4.5), but was asked for one alone.
            let version = Version::of(&head.headers, known.len);
            let is_known = version.is_ok_and(|version| {
                let says_nothing = !head.headers.contains_key(header::ETAG);
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
        match head.status {
            StatusCode::PARTIAL_CONTENT => {}
            StatusCode::OK => return Err(Error::NoRanges { url }.into()),
            StatusCode::PRECONDITION_FAILED => {
                return Err(
                    changed("the server no longer has the version that was opened".into()).into(),
                );
            }
            StatusCode::RANGE_NOT_SATISFIABLE if pinned.is_some() => {
                return Err(changed(format!("it ends before byte {}", range.start)).into());
            }
            StatusCode::RANGE_NOT_SATISFIABLE => return Err(Error::Empty { url }.into()),
            status => return Err(refused(url, status, &head.headers)),
        }
        let unusable = |why: String| Error::Answer {
            url: url.clone(),
            why,
        };
        let part = check(&head.headers, range).map_err(unusable)?;
        let version = Version::of(&head.headers, part.total).map_err(unusable)?;
        if let Some(what) = pinned.and_then(|pinned| pinned.difference(&version)) {
            return Err(changed(what).into());
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a range that is asked for has room in memory"
        )]
        let size = (part.bytes.end - part.bytes.start) as usize;
        // One byte more than there should be: a longer body is not cut off in silence.
        let mut bytes =
            litepack_io::memory::with_room(size + 1).map_err(|error| Failure::Passing {
                why: error.to_string(),
                after: None,
            })?;
        let result = body
            .as_reader()
            .take(size as u64 + 1)
            .read_to_end(&mut bytes);
        self.counters.bytes.add(bytes.len() as u64);
        match result {
            Err(error) => Err(Failure::Passing {
                why: format!(
                    "the answer broke off after {} of {size} bytes: {error}",
                    bytes.len()
                ),
                after: None,
            }),
            Ok(n) if n < size => Err(Failure::Passing {
                why: format!("the answer ended after {n} of {size} bytes"),
                after: None,
            }),
            Ok(n) if n > size => Err(unusable(format!("it goes on after its {size} bytes")).into()),
            Ok(_) => Ok((bytes, version)),
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({})", self.url())
    }
}

/// Whether a status answers a request for a range, good or bad.
fn is_answer(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 206 | 304 | 412 | 416)
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
