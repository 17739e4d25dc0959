//! One range of the file from the server: redirects, retries, and the checks that every answer has to pass.
//!
//! Redirects are followed here and not by the HTTP library, because what the user adds to requests is for the origin of
//! the user's own URL alone. Where they led is remembered; if the server there refuses one day, as those do that
//! sign URLs for some minutes, the user's own URL is asked again.

use std::fs;
use std::io::{self, Read as _};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use ureq::http::header::{self, HeaderMap};
use ureq::http::{Response, StatusCode};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body};

use crate::answer::{check, retry_after};
use crate::error::{Error, Result};
use crate::headers::Headers;
use crate::location::Location;
use crate::options::Options;
use crate::traffic::Counters;
use crate::version::Version;

/// Redirects that are followed for one request.
const REDIRECTS_MAX: usize = 10;
const USER_AGENT: &str = concat!("litepack/", env!("CARGO_PKG_VERSION"));

/// Asks one server for ranges of one file.
pub(crate) struct Client {
    agent: Agent,
    headers: Headers,
    start: Location,
    /// Where redirects led to.
    led_to: Mutex<Option<Location>>,
    attempts: u32,
    first_wait: Duration,
    longest_wait: Duration,
    /// How long a server may have us wait in all before one answer.
    patience: Duration,
    pub(crate) counters: Counters,
}

/// Why there is no answer to use.
enum Failure {
    /// It may be otherwise next time. `after` says that the server answered, and how long it wants to be left alone.
    Passing {
        why: String,
        after: Option<Duration>,
    },
    /// It would be the same next time.
    Lasting(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Lasting(error)
    }
}

impl Client {
    pub(crate) fn new(start: Location, headers: Headers, options: &Options) -> Result<Client> {
        let tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .root_certs(match &options.root_certificates {
                Some(path) => root_certificates(path)?,
                None => RootCerts::PlatformVerifier,
            })
            .build();
        let agent = Agent::config_builder()
            .tls_config(tls)
            // A guest in someone's process does not look at its environment.
            .proxy(None)
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(USER_AGENT)
            .accept_encoding("identity")
            .timeout_resolve(Some(options.connect_timeout))
            .timeout_connect(Some(options.connect_timeout))
            .timeout_send_request(Some(options.read_timeout))
            .timeout_recv_response(Some(options.read_timeout))
            .timeout_per_read(Some(options.read_timeout))
            .timeout_recv_body(Some(options.read_timeout * 3))
            .max_idle_connections_per_host(options.at_once)
            .build()
            .new_agent();
        Ok(Client {
            agent,
            headers,
            start,
            led_to: Mutex::new(None),
            attempts: options.attempts,
            first_wait: options.first_wait,
            longest_wait: options.longest_wait.min(options.read_timeout),
            patience: options.read_timeout,
            counters: Counters::default(),
        })
    }

    /// The user's URL, for people.
    pub(crate) fn url(&self) -> String {
        self.start.to_string()
    }

    /// The bytes `range` of the file, less only where it ends, and the version they are of. What fails in passing is
    /// tried again.
    pub(crate) fn get(
        &self,
        range: &Range<u64>,
        pinned: Option<&Version>,
    ) -> Result<(Vec<u8>, Version)> {
        let mut attempt = 1;
        // How long the server may still have us wait.
        let mut patience = self.patience;
        loop {
            match self.attempt(range, pinned) {
                Ok(answer) => return Ok(answer),
                Err(Failure::Lasting(error)) => return Err(error),
                Err(Failure::Passing { why, .. }) if attempt >= self.attempts => {
                    return Err(Error::Unreachable {
                        url: self.url(),
                        attempts: attempt,
                        why,
                    });
                }
                Err(Failure::Passing { after, .. }) => {
                    let asked = after.unwrap_or_default().min(patience);
                    let asked = asked.min(self.longest_wait);
                    patience -= asked;
                    std::thread::sleep(self.wait_before(attempt).max(asked));
                    self.counters.retries.add(1);
                    attempt += 1;
                }
            }
        }
    }

    /// As [`Client::get`], once. Why it failed is not said.
    pub(crate) fn get_once(&self, range: &Range<u64>, pinned: &Version) -> Option<Vec<u8>> {
        self.attempt(range, Some(pinned))
            .ok()
            .map(|(bytes, _)| bytes)
    }

    /// Ends requests that other threads wait for.
    pub(crate) fn shutdown(&self) {
        self.agent.clone().shutdown();
    }

    fn wait_before(&self, attempt: u32) -> Duration {
        let doubled = self.first_wait.saturating_mul(1 << (attempt - 1).min(16));
        // Those who failed together do not come back together.
        let chance = getrandom::u32().map_or(1.0, |n| f64::from(n) / f64::from(u32::MAX));
        doubled.min(self.longest_wait).mul_f64(0.5 + chance / 2.0)
    }

    fn attempt(
        &self,
        range: &Range<u64>,
        pinned: Option<&Version>,
    ) -> Result<(Vec<u8>, Version), Failure> {
        let remembered = self.lock().clone();
        let result = match remembered {
            Some(at) => match self.follow(at, range, pinned) {
                // What was signed for some minutes has expired, or a mirror is gone.
                Err(
                    Failure::Lasting(Error::Refused { .. }) | Failure::Passing { after: None, .. },
                ) => {
                    *self.lock() = None;
                    self.follow(self.start.clone(), range, pinned)
                }
                result => result,
            },
            None => self.follow(self.start.clone(), range, pinned),
        };
        if matches!(result, Err(Failure::Passing { .. })) {
            *self.lock() = None;
        }
        result
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Location>> {
        self.led_to.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks at `at` and wherever that leads to.
    fn follow(
        &self,
        mut at: Location,
        range: &Range<u64>,
        pinned: Option<&Version>,
    ) -> Result<(Vec<u8>, Version), Failure> {
        for _ in 0..=REDIRECTS_MAX {
            let response = self.send(&at, range, pinned)?;
            if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
                let answer = self.take(&at, response, range, pinned)?;
                if at != self.start {
                    *self.lock() = Some(at);
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
        at: &Location,
        range: &Range<u64>,
        pinned: Option<&Version>,
    ) -> Result<Response<Body>, Failure> {
        let mut request = self.agent.get(at.as_str()).header(
            header::RANGE,
            format!("bytes={}-{}", range.start, range.end - 1),
        );
        if let Some((name, value)) = pinned.and_then(Version::condition) {
            request = request.header(name, value);
        }
        if at.is_same_origin(&self.start) {
            for (name, value) in self.headers.iter() {
                request = request.header(name, value);
            }
        }
        self.counters.requests.add(1);
        request.call().map_err(|error| failure(at, error))
    }

    /// Takes the bytes out of an answer that is not a redirect.
    fn take(
        &self,
        at: &Location,
        response: Response<Body>,
        range: &Range<u64>,
        pinned: Option<&Version>,
    ) -> Result<(Vec<u8>, Version), Failure> {
        let url = at.to_string();
        let (head, mut body) = response.into_parts();
        let changed = |what: String| Error::Changed {
            url: url.clone(),
            what,
        };
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
        write!(f, "Client({})", self.start)
    }
}

/// What a status means that is neither success nor a redirect.
fn refused(url: String, status: StatusCode, headers: &HeaderMap) -> Failure {
    match status.as_u16() {
        408 | 425 | 429 | 500 | 502 | 503 | 504 => Failure::Passing {
            why: format!("the server answered with status {status}"),
            after: Some(retry_after(headers, SystemTime::now()).unwrap_or_default()),
        },
        status => Failure::Lasting(Error::Refused {
            url,
            status,
            hint: match status {
                400 | 403 => "; if the URL is signed, it may have expired: get a new one",
                401 => "; it requires authentication: give a token or headers",
                404 | 410 => "; there is no such file",
                _ => "",
            },
        }),
    }
}

/// What an error of the HTTP library means. Its texts are not shown where they could repeat a URL.
fn failure(at: &Location, error: ureq::Error) -> Failure {
    let passing = |why: String| Failure::Passing { why, after: None };
    let unusable = |why: String| {
        Failure::Lasting(Error::Answer {
            url: at.to_string(),
            why,
        })
    };
    match error {
        ureq::Error::Io(error) if is_certificate(&error) => unusable(format!(
            "{error}; if it is your own server, give its root certificate"
        )),
        ureq::Error::Io(error) => passing(format!("the connection failed: {error}")),
        ureq::Error::Timeout(what) => passing(format!("it took too long ({what})")),
        ureq::Error::HostNotFound => passing("the host was not found".into()),
        ureq::Error::ConnectionFailed => passing("the connection failed".into()),
        ureq::Error::Protocol(error) => passing(format!("the answer is not valid HTTP: {error}")),
        ureq::Error::Rustls(error) => unusable(format!("TLS failed: {error}")),
        ureq::Error::Tls(error) => unusable(format!("TLS failed: {error}")),
        ureq::Error::LargeResponseHeader(..) => unusable("its headers are too long".into()),
        _ => unusable("the request could not be made".into()),
    }
}

/// The server showed a certificate that is not trusted, which it will show again.
fn is_certificate(error: &io::Error) -> bool {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(tls, Some(rustls::Error::InvalidCertificate(_)))
}

/// Whether there are root certificates in a file.
///
/// # Errors
/// [`Error::Settings`], which repeats nothing of the file.
pub fn check_certificates(path: &Path) -> Result<()> {
    root_certificates(path).map(|_| ())
}

fn root_certificates(path: &Path) -> Result<RootCerts> {
    let failed =
        |why: &str| Error::Settings(format!("root certificates {}: {why}", path.display()));
    let text = fs::read(path).map_err(|error| failed(&error.to_string()))?;
    let items = parse_pem(&text).map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Ok(Some(certificate)),
        Ok(_) => Ok(None),
        Err(_) => Err(failed("not valid PEM")),
    });
    let certificates: Result<Vec<Option<Certificate<'static>>>> = items.collect();
    let certificates: Vec<_> = certificates?.into_iter().flatten().collect();
    if certificates.is_empty() {
        return Err(failed("no certificate in it"));
    }
    Ok(RootCerts::new_with_certs(&certificates))
}
