//! One range of a file from the page: what it answers is checked as a server's answer is everywhere.
//!
//! A page cannot see all that a server sends: of another origin only the headers that the server names in
//! `Access-Control-Expose-Headers`. Where something is missing, the error says so.

use std::fmt::Debug;
use std::ops::Range;
use std::time::Duration;

use litepack_ranges::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use litepack_ranges::{Counters, Error, Expected, Failure, Fetch, Result, Retry, Version, take};

/// What the page does for the reader.
pub trait Host: Debug + Send + Sync + 'static {
    /// Asks for the bytes of a URL, and waits for the answer.
    ///
    /// # Errors
    /// In words, if there is none: browsers do not say why.
    fn fetch(&self, url: &str, bytes: &Range<u64>) -> Result<HostAnswer, String>;

    /// Lets time go by.
    fn wait() -> fn(Duration);
}

/// An answer of a server.
#[derive(Clone, Debug, Default)]
pub struct HostAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The headers that the page can see, one in a line.
    pub headers: String,
    /// What follows them, no more than a byte more than was asked for.
    pub body: Vec<u8>,
}

/// Asks the page for ranges of one file.
#[derive(Debug)]
pub struct HostFetch<H> {
    host: H,
    url: String,
    /// Whether the file is on another origin than the page.
    is_elsewhere: bool,
    retry: Retry,
    counters: Counters,
}

/// What a server of another origin has to say, so that a page sees what the reader needs.
const EXPOSE: &str = "the server has to send Access-Control-Allow-Origin, and Access-Control-Expose-Headers: \
                      Content-Range, ETag";

impl<H: Host> HostFetch<H> {
    /// For the file at an absolute URL.
    pub fn new(host: H, url: &str, is_elsewhere: bool) -> HostFetch<H> {
        HostFetch {
            host,
            url: url.into(),
            is_elsewhere,
            retry: Retry {
                attempts: 3,
                first_wait: Duration::from_millis(200),
                longest_wait: Duration::from_secs(5),
                patience: Duration::from_secs(5),
                wait: H::wait(),
            },
            counters: Counters::default(),
        }
    }

    fn attempt(
        &self,
        range: &Range<u64>,
        expected: Expected<'_>,
    ) -> Result<(Vec<u8>, Version), Failure> {
        self.counters.requests.add(1);
        let answer = self.host.fetch(&self.url, range).map_err(|why| {
            let hint = match self.is_elsewhere {
                true => format!(", or does not let pages of another origin see the file: {EXPOSE}"),
                false => String::new(),
            };
            let causes = "the server is out of reach, or compresses the parts that it sends";
            Failure::Passing {
                why: format!("no answer came through ({why}): {causes}{hint}"),
                after: None,
            }
        })?;
        let url = self.url();
        let unusable = |why: &str| Error::Answer {
            url: url.clone(),
            why: why.into(),
        };
        let status = StatusCode::from_u16(answer.status)
            .map_err(|_| unusable("its status is no number of a status"))?;
        let headers = headers_of(&answer.headers);
        // What the page cannot see may well be there.
        if self.is_elsewhere && status == StatusCode::PARTIAL_CONTENT {
            let is_hidden = |name: &str| !headers.contains_key(name);
            if is_hidden("content-range") {
                return Err(
                    unusable(&format!("the page cannot see its Content-Range: {EXPOSE}")).into(),
                );
            }
            if is_hidden("etag") && is_hidden("last-modified") {
                return Err(unusable(&format!(
                    "the page can see neither its ETag nor its Last-Modified: {EXPOSE}"
                ))
                .into());
            }
        }
        take(
            &url,
            status,
            &headers,
            answer.body.as_slice(),
            &self.counters,
            range,
            expected,
        )
    }
}

impl<H: Host> Fetch for HostFetch<H> {
    /// Without what could be secret.
    fn url(&self) -> String {
        let end = self.url.find(['?', '#']).unwrap_or(self.url.len());
        let shown = self.url.get(..end).unwrap_or_default();
        let Some((scheme, rest)) = shown.split_once("://") else {
            return shown.into();
        };
        let host_end = rest.find('/').unwrap_or(rest.len());
        let (host, path) = rest.split_at(host_end);
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        format!("{scheme}://{host}{path}")
    }

    /// Browsers would ask the server for permission to send it.
    fn sends_conditions(&self) -> bool {
        false
    }

    fn asked(&self, part: &mut dyn FnMut(&[u8])) {
        part(self.url.as_bytes());
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

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// The headers in `Name: value` lines. What is no header is left out, and is missed where it is needed.
fn headers_of(text: &str) -> HeaderMap {
    let pairs = text.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        let name: HeaderName = name.trim().parse().ok()?;
        let value = HeaderValue::from_str(value.trim()).ok()?;
        Some((name, value))
    });
    let mut headers = HeaderMap::new();
    for (name, value) in pairs.take(HEADERS_MAX) {
        headers.append(name, value);
    }
    headers
}

/// Headers that are looked at.
const HEADERS_MAX: usize = 256;
