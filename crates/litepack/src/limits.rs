//! How long and how hard a call works on a database that others use: in short calls of a SQL function that takes both,
//! so that progress can be reported and a stop is heard.

use std::time::{Duration, Instant};

use crate::error::refuse;
use crate::{Job, Result};

/// A call does not take longer.
const CALL: Duration = Duration::from_millis(250);

/// How long and how hard to work on a database that others use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// When to stop, if there is no less to do.
    pub time: Option<Duration>,
    /// The share of the time in which others may be kept from writing, above 0 up to 1.
    pub load: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            time: None,
            load: 1.0,
        }
    }
}

impl Limits {
    pub(crate) fn check(&self) -> Result<()> {
        if !(self.load > 0.0 && self.load <= 1.0) {
            refuse!("the load is a number above 0, at most 1");
        }
        Ok(())
    }

    /// Makes calls, each for some seconds at a load, until one says that nothing is left to do or the time is
    /// over; true if there is more to do. `shown` is called in between.
    pub(crate) fn work(
        &self,
        job: &Job<'_>,
        call: impl Fn(f64, f64) -> Result<bool>,
        shown: impl Fn() -> Result<()>,
    ) -> Result<bool> {
        let started = Instant::now();
        loop {
            let left = self.time.map(|time| time.saturating_sub(started.elapsed()));
            let seconds = left.map_or(CALL, |left| left.min(CALL));
            let more = call(seconds.as_secs_f64(), self.load)?;
            job.check()?;
            if !more || left.is_some_and(|left| left <= CALL) {
                return Ok(more);
            }
            shown()?;
        }
    }
}
