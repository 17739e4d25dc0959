//! One range of the file from the server: redirects, retries, and the checks that every answer has to pass.
//!
//! Redirects are followed here and not by the HTTP library, because what the user adds to requests is for the origin of
//! the user's own URL alone. Where they led is remembered; if the server there refuses one day, as those do that
//! sign URLs for some minutes, the user's own URL is asked again. For an object in a store they are not followed at all:
//! its requests are signed for one host.

use std::ops::Range;
use std::sync::Mutex;

use litepack_ranges::{Counters, Error, Expected, Failure, Fetch, Result, Retry, Version, take};
use ureq::http::header;
use ureq::http::{Response, StatusCode};
use ureq::typestate::WithoutBody;
use ureq::{Agent, Body, RequestBuilder};

use crate::agent::{Timeouts, agent};
use crate::headers::Headers;
use crate::location::Location;
use crate::lock;
use crate::options::Options;
use crate::retry::{failure, retry};
use crate::s3::{self, Object};

/// Redirects that are followed for one request.
const REDIRECTS_MAX: usize = 10;

/// Asks one server for ranges of one file.
pub struct Client {
    agent: Agent,
    headers: Headers,
    start: Start,
    /// Where redirects led to.
    led_to: Mutex<Option<Location>>,
    retry: Retry,
    counters: Counters,
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
            retry: retry(options),
            counters: Counters::default(),
        })
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

    fn take(
        &self,
        url: &str,
        response: Response<Body>,
        range: &Range<u64>,
        expected: Expected<'_>,
    ) -> Result<(Vec<u8>, Version), Failure> {
        let (head, mut body) = response.into_parts();
        let (status, body) = (head.status, body.as_reader());
        take(
            url,
            status,
            &head.headers,
            body,
            &self.counters,
            range,
            expected,
        )
    }
}

impl Fetch for Client {
    fn url(&self) -> String {
        match &self.start {
            Start::Web(location) => location.to_string(),
            Start::Store(object) => object.shown(),
        }
    }

    fn asked(&self, part: &mut dyn FnMut(&[u8])) {
        part(self.start.name().as_bytes());
        for (name, value) in self.headers.iter() {
            part(name.as_str().as_bytes());
            part(value.as_bytes());
        }
    }

    fn get(&self, range: &Range<u64>, expected: Expected<'_>) -> Result<(Vec<u8>, Version)> {
        self.retry.run(
            || self.url(),
            &self.counters,
            || self.attempt(range, expected),
        )
    }

    fn get_once(&self, range: &Range<u64>, pinned: &Version) -> Option<Vec<u8>> {
        let answer = self.attempt(range, Expected::This(pinned));
        answer.ok().map(|(bytes, _)| bytes)
    }

    fn shutdown(&self) {
        self.agent.clone().shutdown();
    }

    fn counters(&self) -> &Counters {
        &self.counters
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
