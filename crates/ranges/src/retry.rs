//! Failures that may pass, and requests tried again after them.

use std::time::Duration;

use http::{HeaderMap, StatusCode};

use crate::answer::retry_after;
use crate::error::{Error, Result};
use crate::traffic::Counters;

/// Why there is no answer to use.
pub enum Failure {
    /// It may be otherwise next time. `after` says that the server answered, and how long it wants to be left alone.
    Passing {
        /// What happened.
        why: String,
        /// The server's wish.
        after: Option<Duration>,
    },
    /// It would be the same next time.
    Lasting(Error),
}

impl Failure {
    /// A status that passes, of a server or store.
    pub fn status(of: &str, status: StatusCode, headers: &HeaderMap) -> Failure {
        Failure::Passing {
            why: format!("the {of} answered with status {status}"),
            after: Some(retry_after(headers, litepack_io::platform::now()).unwrap_or_default()),
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
pub struct Retry {
    /// How often a request is sent before its failure is an error.
    pub attempts: u32,
    /// The longest wait before the second attempt; before each further one it is twice as long.
    pub first_wait: Duration,
    /// No wait is longer.
    pub longest_wait: Duration,
    /// How long a server may have us wait in all before one answer.
    pub patience: Duration,
    /// Lets time go by.
    pub wait: fn(Duration),
}

impl Retry {
    /// Tries until it works, or fails in a way that lasts, or has failed often enough.
    ///
    /// # Errors
    /// The last failure.
    pub fn run<T>(
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
                    (self.wait)(self.wait_before(attempt).max(asked));
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
pub fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 425 | 429 | 500 | 502 | 503 | 504)
}
