//! Columns as arrays: what integers in databases look like.

use super::by_length;

/// The meaning of the 64 bits of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A signed integer.
    Integer,
    /// The bits of a double.
    Real,
}

/// Values of one column.
pub struct Column {
    /// The kind of the values.
    pub kind: Kind,
    /// Integers, or the bits of doubles.
    pub values: Vec<i64>,
}

/// How the values of a column come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// By [length](super::LENGTHS), as in the tables of the study.
    Lengths,
    /// Ascending, with gaps: ids of rows of which some are gone.
    SortedIds,
    /// Milliseconds since 1970 of events, in their order.
    Timestamps,
    /// All 64 bits are random.
    Uniform,
    /// One of eight numbers, some much more often than others.
    Enumeration,
    /// Prices with two decimals, as doubles.
    Decimals,
    /// Doubles with all their digits, each near the one before.
    Measurements,
}

impl Distribution {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Lengths,
        Self::SortedIds,
        Self::Timestamps,
        Self::Uniform,
        Self::Enumeration,
        Self::Decimals,
        Self::Measurements,
    ];

    /// As reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lengths => "by length (the tables' own)",
            Self::SortedIds => "sorted ids",
            Self::Timestamps => "timestamps",
            Self::Uniform => "uniform 64-bit",
            Self::Enumeration => "small enumeration",
            Self::Decimals => "decimals as REAL",
            Self::Measurements => "measurements as REAL",
        }
    }

    /// The kind of its values.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Decimals | Self::Measurements => Kind::Real,
            _ => Kind::Integer,
        }
    }

    /// A column of so many values.
    pub fn column(self, count: usize, seed: u64) -> Column {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (mut last, mut level) = (0_i64, 20.0);
        let mut next = || match self {
            Self::Lengths => by_length(&mut rng),
            Self::SortedIds => {
                // Every fourth id is gone, here and there more of them.
                last += 1;
                while rng.u8(..) < 64 {
                    last += 1;
                }
                last
            }
            Self::Timestamps => {
                const START: i64 = 1_746_860_400_000;
                const MEAN_MILLISECONDS: f64 = 1500.0;
                last = last.max(START);
                last += (-MEAN_MILLISECONDS * (1.0 - rng.f64()).ln()) as i64;
                last
            }
            Self::Uniform => rng.i64(..),
            // Half are 0, a quarter 1, and so on.
            Self::Enumeration => i64::from(rng.u8(1..128).leading_zeros()) - 1,
            Self::Decimals => {
                // Most prices are low: evenly spread over three orders of magnitude.
                let cents = (100.0 * 10_f64.powf(3.0 * rng.f64())).round();
                (cents / 100.0).to_bits() as i64
            }
            Self::Measurements => {
                level += rng.f64() - 0.5;
                f64::to_bits(level) as i64
            }
        };
        Column {
            kind: self.kind(),
            values: (0..count).map(|_| next()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(distribution: Distribution) -> Vec<i64> {
        distribution.column(20_000, 7).values
    }

    #[test]
    fn equal_seeds_give_equal_columns_and_others_do_not() {
        for distribution in Distribution::ALL {
            let name = distribution.name();
            assert_eq!(values(distribution), values(distribution), "{name}");
            assert_ne!(
                values(distribution),
                distribution.column(20_000, 8).values,
                "{name}"
            );
        }
    }

    #[test]
    fn ids_ascend_and_a_quarter_is_gone() {
        let ids = values(Distribution::SortedIds);
        assert!(ids.is_sorted_by(|a, b| a < b));
        let share = ids.len() as f64 / ids[ids.len() - 1] as f64;
        assert!((0.73..0.77).contains(&share), "{share}");
    }

    #[test]
    fn events_are_in_their_order_and_a_second_and_a_half_apart() {
        let times = values(Distribution::Timestamps);
        assert!(times.is_sorted());
        let mean = (times[times.len() - 1] - times[0]) as f64 / times.len() as f64;
        assert!((1450.0..1550.0).contains(&mean), "{mean}");
    }

    #[test]
    fn half_of_uniform_ones_are_negative_and_nearly_all_long() {
        let uniform = values(Distribution::Uniform);
        let negative = uniform.iter().filter(|value| **value < 0).count();
        assert!((9_500..10_500).contains(&negative), "{negative}");
        let long = uniform
            .iter()
            .filter(|value| super::super::stored_len(**value) == 8);
        assert!(long.count() > 19_990);
    }

    #[test]
    fn an_enumeration_has_a_favourite() {
        let numbers = values(Distribution::Enumeration);
        let mut counts = [0_u32; 7];
        for number in numbers {
            counts[number as usize] += 1;
        }
        assert!((9_500..10_700).contains(&counts[0]), "{counts:?}");
        assert!(counts.iter().is_sorted_by(|a, b| a > b), "{counts:?}");
    }

    #[test]
    fn measurements_have_all_digits_and_are_near_each_other() {
        let measured = values(Distribution::Measurements);
        let reals: Vec<f64> = measured
            .iter()
            .map(|bits| f64::from_bits(*bits as u64))
            .collect();
        assert!(
            reals
                .windows(2)
                .all(|pair| (pair[0] - pair[1]).abs() <= 0.5)
        );
        let round = |real: &&f64| (**real * 1e6).round() / 1e6 == **real;
        assert_eq!(reals.iter().filter(round).count(), 0);
    }

    #[test]
    fn decimals_have_two_places_and_some_none() {
        let mut whole = 0;
        for bits in values(Distribution::Decimals) {
            let value = f64::from_bits(bits as u64);
            assert_eq!((value * 100.0).round() / 100.0, value);
            assert!((1.0..=1000.0).contains(&value));
            whole += u32::from(value.fract() == 0.0);
        }
        assert!((100..400).contains(&whole), "{whole}");
    }
}
