//! The summary of repeated measurements: the median, and the bounds that one in twenty lies beyond.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};

/// The middle of the values and where nine in ten of them lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// One in twenty lies below.
    pub low: f64,
    /// Half lie below.
    pub median: f64,
    /// One in twenty lies above.
    pub high: f64,
    /// How many values there are.
    pub count: usize,
}

impl Spread {
    /// Of at least one value; between two values the bounds are taken in proportion.
    ///
    /// # Panics
    /// Without values.
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * (sorted.len() - 1) as f64;
            let (below, above) = (
                sorted[place.floor() as usize],
                sorted[place.ceil() as usize],
            );
            below + (above - below) * place.fract()
        };
        Self {
            low: at(0.05),
            median: at(0.5),
            high: at(0.95),
            count: sorted.len(),
        }
    }

    /// The same in another unit.
    pub fn times(self, factor: f64) -> Self {
        Self {
            low: self.low * factor,
            median: self.median * factor,
            high: self.high * factor,
            count: self.count,
        }
    }
}

/// Seconds of the work, done over and over until the time is used up, and three times at least.
///
/// # Errors
/// The work's.
pub fn repeat(time: Duration, mut work: impl FnMut() -> Result<()>) -> Result<Spread> {
    let (start, mut values) = (Instant::now(), Vec::new());
    while values.len() < 3 || start.elapsed() < time {
        let start = Instant::now();
        work()?;
        values.push(start.elapsed().as_secs_f64());
    }
    Ok(Spread::of(&values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_leave_out_one_in_twenty() {
        let values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        let spread = Spread::of(&values);
        assert_eq!((spread.low, spread.median, spread.high), (5.0, 50.0, 95.0));
        assert_eq!(spread.count, 101);
        let two = Spread::of(&[2.0, 1.0]);
        assert_eq!(two.median, 1.5);
        assert!(1.0 < two.low && two.high < 2.0);
        assert_eq!(Spread::of(&[3.0]).times(2.0).high, 6.0);
    }

    #[test]
    fn work_is_done_three_times_at_least() {
        let mut done = 0;
        let spread = repeat(Duration::ZERO, || {
            done += 1;
            Ok(())
        });
        assert_eq!((done, spread.unwrap().count), (3, 3));
    }
}
