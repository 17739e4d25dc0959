//! The few numbers that sum up repeated measurements.

use serde::{Deserialize, Serialize};

/// Median and extremes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The middle value, or the mean of the two middle ones.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

impl Summary {
    /// Of at least one value.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = match sorted.len() {
            0 => return None,
            length if length % 2 == 1 => sorted[middle],
            _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
        };
        Some(Self {
            median,
            min: sorted[0],
            max: sorted[sorted.len() - 1],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[3.0, 1.0, 9.0]).unwrap().median, 3.0);
        assert_eq!(
            Summary::of(&[4.0, 1.0, 2.0, 9.0]),
            Some(Summary {
                median: 3.0,
                min: 1.0,
                max: 9.0
            })
        );
    }
}
