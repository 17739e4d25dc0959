//! Options for how long and how hard a command works on a database that others use.

use std::time::Duration;

use anyhow::{Result, bail};

/// The options.
#[derive(clap::Args)]
pub struct Limits {
    /// Stop after this many seconds.
    #[arg(long, allow_negative_numbers = true)]
    seconds: Option<f64>,
    /// Hold the write lock for at most this share of the time, above 0 up to 1.
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    load: f64,
}

impl Limits {
    /// The limits that these options set.
    ///
    /// # Errors
    /// If they make no sense.
    pub fn parse(&self) -> Result<litepack::Limits> {
        if self
            .seconds
            .is_some_and(|seconds| seconds.is_nan() || seconds < 0.0)
        {
            bail!("--seconds takes a number from 0 on");
        }
        if !(self.load > 0.0 && self.load <= 1.0) {
            bail!("--load takes a number above 0, at most 1");
        }
        let time = |seconds| Duration::try_from_secs_f64(seconds).ok();
        Ok(litepack::Limits {
            time: self.seconds.and_then(time),
            load: self.load,
        })
    }
}
