//! Samples of a column, in bounded memory however many rows there are, and the dictionary they give.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use litepack_codec::Samples;
use litepack_io::random::SplitMix64;

use crate::sql::{Error, Result};

/// zstd looks at no more of one sample.
const SAMPLE_MAX: usize = 128 << 10;
/// Smallest dictionary zstd makes.
pub(crate) const DICTIONARY_MIN: usize = 256;
/// Largest dictionary made here: preparing it costs a multiple of it for each connection.
pub(crate) const DICTIONARY_MAX: usize = 16 << 20;

/// A sample of what is pushed, every value with the same chance, within two limits.
///
/// Each value draws a random number, and those with the lowest numbers stay. So the sample is as
/// fair under the limit of bytes as under that of items, and its memory is bounded by both. The
/// numbers are the same in each run: the same rows give the same dictionary.
#[derive(Debug)]
pub struct Reservoir {
    items_max: usize,
    bytes_max: usize,
    bytes: usize,
    kept: BinaryHeap<Sample>,
    /// Numbers from here on have been turned away before, so they are turned away for ever.
    limit: u64,
    random: SplitMix64,
}

/// A kept value; compared by its number, and the highest is the first to go.
#[derive(Debug)]
struct Sample {
    number: u64,
    value: Box<[u8]>,
}

impl PartialEq for Sample {
    fn eq(&self, other: &Sample) -> bool {
        self.number == other.number
    }
}

impl Eq for Sample {}

impl PartialOrd for Sample {
    fn partial_cmp(&self, other: &Sample) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Sample {
    fn cmp(&self, other: &Sample) -> Ordering {
        self.number.cmp(&other.number)
    }
}

impl Reservoir {
    /// An empty one that keeps at most so many values and bytes.
    pub fn new(items_max: usize, bytes_max: usize) -> Reservoir {
        Reservoir {
            items_max,
            bytes_max,
            bytes: 0,
            kept: BinaryHeap::new(),
            limit: u64::MAX,
            random: SplitMix64::new(0),
        }
    }

    /// Shows it a value. Of a long one the beginning is kept.
    pub fn push(&mut self, value: &[u8]) {
        let number = self.random.next_u64();
        if number >= self.limit {
            return;
        }
        // Without memory for it, it is not in the sample.
        let kept = value.get(..SAMPLE_MAX.min(self.bytes_max));
        let value = kept.unwrap_or(value);
        let Ok(value) = litepack_io::memory::copy(value).map(Vec::into_boxed_slice) else {
            return;
        };
        self.bytes += value.len();
        self.kept.push(Sample { number, value });
        while self.kept.len() > self.items_max || self.bytes > self.bytes_max {
            let Some(dropped) = self.kept.pop() else {
                break;
            };
            self.bytes -= dropped.value.len();
            self.limit = dropped.number;
        }
    }

    /// How many values it keeps.
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// How many bytes these have.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The values kept, in no particular order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &[u8]> {
        self.kept.iter().map(|sample| &*sample.value)
    }

    /// A dictionary of at most `size` bytes made of these values.
    ///
    /// # Errors
    /// When the size is out of range, or zstd finds too little in the values; when it was interrupted.
    pub fn train(&self, size: usize) -> Result<Vec<u8>> {
        if !(DICTIONARY_MIN..=DICTIONARY_MAX).contains(&size) {
            return Err(Error::new(format!(
                "a dictionary has between {DICTIONARY_MIN} and {DICTIONARY_MAX} bytes, not {size}"
            )));
        }
        let mut samples = Samples::with_room(self.len(), self.bytes)?;
        for value in self.values() {
            samples.push(value)?;
        }
        match Arc::new(samples).train(size)? {
            Some(dictionary) => Ok(litepack_io::memory::copy(dictionary.bytes())?),
            None => Err(Error::new(format!(
                "{} values with {} bytes are too few, too short or too different for a dictionary \
                 of {size} bytes: give it more rows, or ask for a smaller one",
                self.len(),
                self.bytes
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_limits_hold_and_every_value_has_its_chance() {
        let mut early = 0;
        let (mut items, mut bytes) = (Reservoir::new(100, 1 << 20), Reservoir::new(9999, 1000));
        for i in 0..10_000_u32 {
            items.push(&i.to_le_bytes());
            bytes.push(&i.to_le_bytes());
            assert!(items.len() <= 100 && bytes.bytes() <= 1000);
        }
        assert_eq!((items.len(), bytes.len()), (100, 250));
        for value in items.values().chain(bytes.values()) {
            early += u32::from(u32::from_le_bytes(value.try_into().unwrap()) < 5000);
        }
        // Of 350 values half are expected from the first half; the deviation is about 9.
        assert!((130..=220).contains(&early), "{early} of 350");
    }

    #[test]
    fn of_a_long_value_the_beginning_is_kept() {
        let mut reservoir = Reservoir::new(10, 100);
        reservoir.push(&[1; 1000]);
        assert_eq!((reservoir.len(), reservoir.bytes()), (1, 100));
    }

    #[test]
    fn a_dictionary_comes_of_enough_values() {
        let mut reservoir = Reservoir::new(5000, 1 << 20);
        assert!(reservoir.train(4096).is_err());
        for i in 0..5000 {
            let name = i * 7919 % 1000;
            reservoir.push(format!("{{\"id\":{i},\"title\":\"name {name}\"}}").as_bytes());
        }
        let dictionary = reservoir.train(4096).unwrap();
        assert!((256..=4096).contains(&dictionary.len()));
        assert!(reservoir.train(255).is_err());
        assert!(reservoir.train(DICTIONARY_MAX + 1).is_err());
    }
}
