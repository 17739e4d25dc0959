//! The data of the study, the same for the same seed on every machine: columns as arrays, and two tables.

mod columns;
mod tables;
mod words;

pub use columns::{Column, Distribution, Kind};
pub use tables::{Row, Rows, Table, create, rows, write_csv};
pub use words::words;

/// The seed of everything.
pub const SEED: u64 = 20_250_510;

/// How many bytes SQLite stores an integer in, and of how many in 10 000 that is the length.
///
/// 0 and 1 have serial types of their own and take no byte, so none of them is drawn.
pub const LENGTHS: [(u32, u32); 6] = [(1, 9000), (2, 500), (3, 300), (4, 100), (6, 75), (8, 25)];

/// The bytes that a record of SQLite has for the value of an integer.
pub fn stored_len(value: i64) -> u32 {
    if value == 0 || value == 1 {
        return 0;
    }
    let bits = 65 - (value ^ value >> 63).leading_zeros();
    match bits.div_ceil(8) {
        5 => 6,
        7 => 8,
        len => len,
    }
}

/// An integer of one of the [`LENGTHS`], all of that length equally likely.
fn by_length(rng: &mut fastrand::Rng) -> i64 {
    let mut left = rng.u32(0..10_000);
    let mut length = 0;
    for (len, weight) in LENGTHS {
        length = len;
        if left < weight {
            break;
        }
        left -= weight;
    }
    let unused = 64 - 8 * length;
    loop {
        let value = rng.i64(..) >> unused;
        if stored_len(value) == length {
            return value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_record_format() {
        let lengths = [
            (0, 0),
            (1, 0),
            (-1, 1),
            (2, 1),
            (127, 1),
            (-128, 1),
            (128, 2),
            (-129, 2),
            (32_767, 2),
            (32_768, 3),
            (-8_388_608, 3),
            (8_388_608, 4),
            (i64::from(i32::MIN), 4),
            (1 << 31, 6),
            ((1 << 47) - 1, 6),
            (1 << 47, 8),
            (i64::MIN, 8),
        ];
        for (value, length) in lengths {
            assert_eq!(stored_len(value), length, "{value}");
        }
    }

    #[test]
    fn lengths_come_as_often_as_they_should() {
        assert_eq!(
            LENGTHS.iter().map(|(_, weight)| weight).sum::<u32>(),
            10_000
        );
        let mut rng = fastrand::Rng::with_seed(1);
        let mut counts = [0_u32; 9];
        let count = 400_000;
        for _ in 0..count {
            counts[stored_len(by_length(&mut rng)) as usize] += 1;
        }
        for (length, weight) in LENGTHS {
            let expected = f64::from(weight) / 10_000.0 * f64::from(count);
            let found = f64::from(counts[length as usize]);
            // Five standard deviations of a count that is as good as Poisson's.
            assert!(
                (found - expected).abs() < 5.0 * expected.sqrt(),
                "{found} of {length} bytes, {expected} expected"
            );
        }
        assert_eq!(counts[0] + counts[5] + counts[7], 0);
    }

    #[test]
    fn values_of_a_length_are_equally_likely() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut counts = [[0.0; 4]; 9];
        for _ in 0..400_000 {
            let value = by_length(&mut rng);
            let len = stored_len(value) as usize;
            let far = value.unsigned_abs() >> (8 * len - 2) > 0;
            counts[len][usize::from(far) + 2 * usize::from(value < 0)] += 1.0;
        }
        for (len, _) in LENGTHS {
            let counts = counts[len as usize];
            let mean = counts.iter().sum::<f64>() / 4.0;
            // Values that are shorter leave gaps of a thirtieth of a quarter at most; chance does the rest.
            for count in counts {
                assert!(
                    (count - mean).abs() < 0.1 * mean + 5.0 * mean.sqrt(),
                    "{len}: {counts:?}"
                );
            }
        }
    }
}
