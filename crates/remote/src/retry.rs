//! Failures that may pass, and requests tried again after them.

use std::io;
use std::thread;
use std::time::{Duration, SystemTime};

use ureq::http::{HeaderMap, StatusCode};

use crate::answer::retry_after;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::traffic::Counters;

/// Why there is no answer to use.
pub(crate) enum Failure {
    /// It may be otherwise next time. `after` says that the server answered, and how long it wants to be left alone.
    Passing {
        why: String,
        after: Option<Duration>,
    },
    /// It would be the same next time.
    Lasting(Error),
}

impl Failure {
    /// A status that passes, of a server or store.
    pub(crate) fn status(of: &str, status: StatusCode, headers: &HeaderMap) -> Failure {
        Failure::Passing {
            why: format!("the {of} answered with status {status}"),
            after: Some(retry_after(headers, SystemTime::now()).unwrap_or_default()),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Lasting(error)
    }
}

/// How often and how long.
#[derive(Clone, Debug)]
pub(crate) struct Retry {
    attempts: u32,
    first_wait: Duration,
    longest_wait: Duration,
    /// How long a server may have us wait in all before one answer.
    patience: Duration,
}

impl Retry {
    pub(crate) fn new(options: &Options) -> Retry {
        Retry {
            attempts: options.attempts,
            first_wait: options.first_wait,
            longest_wait: options.longest_wait.min(options.read_timeout),
            patience: options.read_timeout,
        }
    }

    /// Tries until it works, or fails in a way that lasts, or has failed often enough.
    pub(crate) fn run<T>(
        &self,
        url: impl Fn() -> String,
        counters: &Counters,
        mut attempt_once: impl FnMut() -> Result<T, Failure>,
    ) -> Result<T> {
        let mut attempt = 1;
        // How long the server may still have us wait.
        let mut patience = self.patience;
        loop {
            match attempt_once() {
                Ok(answer) => return Ok(answer),
                Err(Failure::Lasting(error)) => return Err(error),
                Err(Failure::Passing { why, .. }) if attempt >= self.attempts => {
                    return Err(Error::Unreachable {
                        url: url(),
                        attempts: attempt,
                        why,
                    });
                }
                Err(Failure::Passing { after, .. }) => {
                    let asked = after.unwrap_or_default().min(patience);
                    let asked = asked.min(self.longest_wait);
                    patience -= asked;
                    thread::sleep(self.wait_before(attempt).max(asked));
                    counters.retries.add(1);
                    attempt += 1;
                }
            }
        }
    }

    fn wait_before(&self, attempt: u32) -> Duration {
        let doubled = self.first_wait.saturating_mul(1 << (attempt - 1).min(16));
        // Those who failed together do not come back together.
        let chance = getrandom::u32().map_or(1.0, |n| f64::from(n) / f64::from(u32::MAX));
        doubled.min(self.longest_wait).mul_f64(0.5 + chance / 2.0)
    }
}

/// Whether a status may be another one next time.
pub(crate) fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 425 | 429 | 500 | 502 | 503 | 504)
}

/// The failure that an error of the HTTP library means. Its texts are not shown where they could repeat a URL.
pub(crate) fn failure(url: &str, error: ureq::Error) -> Failure {
    let passing = |why: String| Failure::Passing { why, after: None };
    let unusable = |why: String| {
        Failure::Lasting(Error::Answer {
            url: url.to_string(),
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
