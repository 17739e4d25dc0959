//! Encodings of a column of integers: ours, SQLite's, and those of others, all from an array to bytes and back.
//!
//! Each gets the values and how many there are, as a page or a file knows that anyway. An encoding that is not ours
//! comes from a library; the loops around it are here.

mod fixed;
mod frame;
mod leb128;
mod numeric;
mod ours;
mod planes;
mod record;
mod zstd;

use anyhow::Result;

use crate::data::Kind;
pub use zstd::Zstd;

/// An encoding, with what it keeps between calls.
pub trait Encoding {
    /// As reports call it.
    fn name(&self) -> &'static str;

    /// Whose code does the work.
    fn by(&self) -> &'static str;

    /// Whether it is for such values.
    fn takes(&self, _kind: Kind) -> bool {
        true
    }

    /// Appends the stored values.
    ///
    /// # Errors
    /// The library's.
    fn encode(&mut self, kind: Kind, values: &[i64], out: &mut Vec<u8>) -> Result<()>;

    /// Appends the `count` values that were stored.
    ///
    /// # Errors
    /// When there are no such values stored.
    fn decode(
        &mut self,
        kind: Kind,
        stored: &[u8],
        count: usize,
        values: &mut Vec<i64>,
    ) -> Result<()>;
}

/// All of them, SQLite's first.
pub fn all() -> Vec<Box<dyn Encoding>> {
    vec![
        Box::new(record::Record),
        Box::new(fixed::Fixed),
        Box::new(leb128::Leb128),
        Box::new(leb128::Deltas),
        Box::new(frame::Frames::default()),
        Box::new(planes::Planes),
        Box::new(ours::Ours::default()),
        Box::new(numeric::Pcodec),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Distribution;
    use proptest::prelude::*;

    /// Stores values, and demands them back.
    fn come_back(kind: Kind, values: &[i64]) {
        for encoding in all().iter_mut().filter(|encoding| encoding.takes(kind)) {
            let (mut stored, mut back) = (vec![1], vec![7]);
            encoding.encode(kind, values, &mut stored).unwrap();
            let stored = &stored[1..];
            encoding
                .decode(kind, stored, values.len(), &mut back)
                .unwrap();
            assert_eq!(back[1..], *values, "{} {kind:?}", encoding.name());
            if !stored.is_empty() && !values.is_empty() {
                // Bytes cut short give an error or other values, and never a panic.
                back.clear();
                let cut = &stored[..stored.len() - 1];
                let cut = encoding.decode(kind, cut, values.len(), &mut back);
                assert!(cut.is_err() || back != *values, "{}", encoding.name());
            }
        }
    }

    #[test]
    fn every_distribution_comes_back() {
        for distribution in Distribution::ALL {
            for count in [0, 1, 2, 31, 32, 33, 127, 128, 129, 400, 1000, 5000] {
                come_back(distribution.kind(), &distribution.column(count, 3).values);
            }
        }
    }

    #[test]
    fn extremes_come_back() {
        let extremes = [
            i64::MIN,
            i64::MAX,
            0,
            -1,
            1,
            i64::MIN,
            i64::MAX,
            1 << 32,
            1 << 31,
            -1 << 31,
        ];
        for count in 0..extremes.len() {
            come_back(Kind::Integer, &extremes[..count]);
        }
        let reals = [
            -0.0,
            0.0,
            1.0,
            2.5,
            -3.0,
            1e300,
            f64::MIN_POSITIVE,
            140737488355328.0,
        ];
        come_back(Kind::Real, &reals.map(|real: f64| real.to_bits() as i64));
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::HashSet<_> =
            all().iter().map(|encoding| encoding.name()).collect();
        assert_eq!(names.len(), all().len());
    }

    #[test]
    fn sizes_are_those_that_the_formats_have() {
        let len = |name: &str, values: &[i64]| {
            let mut out = Vec::new();
            let mut all = all();
            let found = all
                .iter_mut()
                .find(|encoding| encoding.name() == name)
                .unwrap();
            found.encode(Kind::Integer, values, &mut out).unwrap();
            out.len()
        };
        // A serial type each, and 0, 1, 2, 3, 4, 6 and 8 bytes.
        let lengths = [1, -5, 300, 70_000, 20_000_000, 1 << 40, 1 << 60];
        assert_eq!(len("SQLite record", &lengths), 7 + 24);
        assert_eq!(len("fixed 8 bytes", &lengths), 56);
        assert_eq!(len("LEB128", &[63, -64, 64]), 4);
        assert_eq!(
            len("zig-zag delta", &[1_000_000, 1_000_001, 1_000_003]),
            3 + 2
        );
        // 256 values of 0 to 15: four bits each, and two frames with a base and a width.
        let small: Vec<i64> = (0..256).map(|i| i % 16).collect();
        assert_eq!(len("frame + bit packing", &small), 256 / 2 + 2 * 2);
        assert_eq!(len("byte planes", &small), 2048);
    }

    proptest! {
        #[test]
        fn any_integers_come_back(values in proptest::collection::vec(any::<i64>(), 0..300), shift in 0..64) {
            let values: Vec<i64> = values.iter().map(|value| value >> shift).collect();
            come_back(Kind::Integer, &values);
        }

        #[test]
        fn any_reals_come_back(values in proptest::collection::vec(any::<i64>(), 0..300)) {
            // SQLite has no NaN.
            let number = |bits: &i64| !f64::from_bits(*bits as u64).is_nan();
            let values: Vec<i64> = values.into_iter().filter(number).collect();
            come_back(Kind::Real, &values);
        }
    }
}
