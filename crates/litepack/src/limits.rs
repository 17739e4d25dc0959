//! Limits on time and load for maintenance of a database that others use. The work is done in short calls of a SQL
//! function, so that progress can be reported and the job can be stopped.

use std::time::{Duration, Instant};

use litepack_database::error::refuse;

use crate::{Job, Result};

/// Longest time of a call.
const CALL: Duration = Duration::from_millis(250);

/// Limits on time and load for work on a database that others use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// When to stop; without it, when all is done.
    pub time: Option<Duration>,
    /// Largest share of the time in which the write lock is held, above 0 up to 1.
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

    /// Makes calls with some seconds and a load, until one says that nothing is left to do, or the time limit is
    /// reached; true if there is more to do. `shown` is called in between.
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
