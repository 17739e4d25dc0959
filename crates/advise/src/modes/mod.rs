//! The size of each way to keep the database, by really compressing a sample of it.
//!
//! ```text
//! packed.rs   `litepack pack`, and with --best     archive.rs   `litepack archive create`
//! columns.rs  `litepack columns`                   encode.rs    compressing units on all cores
//! gain.rs     one way of compressing beside another
//! ```

pub(crate) mod archive;
pub(crate) mod columns;
mod encode;
mod gain;
pub(crate) mod packed;

use serde::Serialize;

/// A size that was worked out from a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Predicted {
    /// The most likely one, in bytes.
    pub bytes: u64,
    /// Where the real one lies in nineteen of twenty cases.
    pub low: u64,
    /// The other end of that.
    pub high: u64,
}

/// The possible error of the rules by which a size is worked out, as a share of it.
const RULES: f64 = 0.015;

impl Predicted {
    /// A size that is known.
    pub(crate) fn exactly(bytes: u64) -> Predicted {
        Predicted {
            bytes,
            low: bytes,
            high: bytes,
        }
    }

    /// A size with the variance that sampling gives it, and a share by which the rules may be wrong besides.
    pub(crate) fn new(bytes: f64, variance: f64, more: f64) -> Predicted {
        let off = 1.96 * variance.max(0.0).sqrt() + bytes * (RULES + more);
        Predicted {
            bytes: bytes as u64,
            low: (bytes - off).max(0.0) as u64,
            high: (bytes + off) as u64,
        }
    }
}

/// The mean of something over a sample, and how sure it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mean {
    pub(crate) count: u64,
    pub(crate) sum: f64,
    squares: f64,
}

impl Mean {
    pub(crate) fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
    }

    pub(crate) fn merge(&mut self, other: Mean) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
    }

    pub(crate) fn mean(self) -> f64 {
        self.sum / self.count.max(1) as f64
    }

    /// The variance of the sum over all `of` there are, of which the sample is a part.
    pub(crate) fn variance_of_total(self, of: f64) -> f64 {
        let count = self.count as f64;
        if count < 2.0 || count >= of {
            return 0.0;
        }
        let spread = (self.squares - self.sum * self.sum / count) / (count - 1.0);
        of * of * spread.max(0.0) / count * (1.0 - count / of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_there_is_has_no_variance() {
        let mut mean = Mean::default();
        for value in [1.0, 2.0, 3.0] {
            mean.add(value);
        }
        assert_eq!(mean.mean(), 2.0);
        assert_eq!(mean.variance_of_total(3.0), 0.0);
        assert!(mean.variance_of_total(6.0) > 0.0);
        let sure = Predicted::new(1000.0, 0.0, 0.0);
        assert_eq!((sure.bytes, sure.low, sure.high), (1000, 985, 1015));
    }
}
