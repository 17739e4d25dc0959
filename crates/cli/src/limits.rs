//! How long and how hard a command works on a database that others use: in short calls of a SQL function that
//! takes both, so that progress can be shown and Ctrl-C is heard.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::interrupt;

/// A call does not take longer.
const CALL: Duration = Duration::from_millis(250);

/// The options for it.
#[derive(clap::Args)]
pub struct Limits {
    /// Stop after this many seconds.
    #[arg(long)]
    seconds: Option<f64>,
    /// Hold the write lock for at most this share of the time, above 0 up to 1.
    #[arg(long, default_value_t = 1.0)]
    load: f64,
}

impl Limits {
    /// An error if the options make no sense.
    pub fn check(&self) -> Result<()> {
        if self
            .seconds
            .is_some_and(|seconds| seconds.is_nan() || seconds < 0.0)
        {
            bail!("--seconds takes a number from 0 on");
        }
        if !(self.load > 0.0 && self.load <= 1.0) {
            bail!("--load takes a number above 0, at most 1");
        }
        Ok(())
    }

    /// Makes calls, each for some seconds at a load, until one says that nothing is left to do or the time is
    /// over; true if there is more to do. `shown` is called in between.
    pub fn work(
        &self,
        call: impl Fn(f64, f64) -> Result<bool>,
        shown: impl Fn() -> Result<()>,
    ) -> Result<bool> {
        let started = Instant::now();
        let time = self
            .seconds
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        loop {
            let left = time.map(|time| time.saturating_sub(started.elapsed()));
            let seconds = left.map_or(CALL, |left| left.min(CALL));
            let more = call(seconds.as_secs_f64(), self.load)?;
            interrupt::check()?;
            if !more || left.is_some_and(|left| left <= CALL) {
                return Ok(more);
            }
            shown()?;
        }
    }
}
