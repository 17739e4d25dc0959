//! Values of which there are few different ones: each of these once, and a byte for every value.
//!
//! zstd finds such values, too, but a match costs it some two bytes. A byte that says which one costs the bits that are
//! in it. Where values stand in order, equal ones are next to each other, and zstd needs one match for all of them.

use super::bytes::{Malformed, Result, Span};

/// Fewer values gain nothing.
const VALUES_MIN: usize = 16;
/// How often each value has to be there, on average.
pub(super) const USES: usize = 3;
/// The same of reals: eight bytes are more than a match of zstd.
pub(super) const USES_OF_REALS: usize = 2;
/// A byte says which one.
pub(super) const MOST: usize = 256;

/// Places of a table of hashes, of which at most half are taken.
const PLACES: usize = 2 * MOST;
/// No value is at this place.
const FREE: u16 = u16::MAX;

/// The different values of a column; the memory is reused for every page.
#[derive(Default)]
pub(super) struct Repeated {
    /// In ascending order.
    pub(super) different: Vec<Span>,
    /// Which one each value is.
    pub(super) which: Vec<u8>,
    /// How many values are not the same as the one before.
    changes: usize,
    places: Vec<u16>,
    order: Vec<u8>,
    ranks: Vec<u8>,
}

impl Repeated {
    /// Looks for the different ones among `values`, pieces of `source`; false if there are too many for so many uses of
    /// each, or only one.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::indexing_slicing,
        reason = "there are at most `MOST` different values, so their numbers have a byte, and a place is a remainder"
    )]
    pub(super) fn find(&mut self, source: &[u8], values: &[Span], uses: usize) -> bool {
        let most = (values.len() / uses).min(MOST);
        if values.len() < VALUES_MIN {
            return false;
        }
        self.different.clear();
        self.which.clear();
        self.places.clear();
        self.places.resize(PLACES, FREE);
        self.changes = 0;
        let mut last = None;
        for value in values {
            let text = value.of(source);
            let mut place = hash(text) % PLACES;
            let number = loop {
                match self.places[place] {
                    FREE => {
                        let number = self.different.len();
                        if number == most {
                            return false;
                        }
                        self.places[place] = number as u16;
                        self.different.push(*value);
                        break number as u8;
                    }
                    number if self.different[usize::from(number)].of(source) == text => {
                        break number as u8;
                    }
                    _ => place = (place + 1) % PLACES,
                }
            };
            self.changes += usize::from(last != Some(number));
            last = Some(number);
            self.which.push(number);
        }
        self.sort(source);
        self.different.len() > 1
    }

    /// Whether the values come again, and do not stand together: otherwise zstd needs few matches for many values.
    pub(super) fn come_again(&self) -> bool {
        self.changes >= 2 * self.different.len()
    }

    /// Puts the different ones in order: then they are alike from page to page.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::indexing_slicing,
        reason = "`order` and `ranks` have the numbers of all different values, each of a byte"
    )]
    fn sort(&mut self, source: &[u8]) {
        let Repeated {
            different,
            which,
            order,
            ranks,
            ..
        } = self;
        order.clear();
        order.extend((0..different.len()).map(|number| number as u8));
        order.sort_unstable_by_key(|number| different[usize::from(*number)].of(source));
        ranks.clear();
        ranks.resize(different.len(), 0);
        for (rank, number) in order.iter().enumerate() {
            ranks[usize::from(*number)] = rank as u8;
        }
        for number in which.iter_mut() {
            *number = ranks[usize::from(*number)];
        }
        different.sort_unstable_by_key(|value| value.of(source));
    }
}

/// A hash of the length and of the bytes at both ends: equal values have equal ones.
fn hash(text: &[u8]) -> usize {
    let word = |bytes: Option<&[u8; 8]>| bytes.map(|bytes| u64::from_le_bytes(*bytes));
    let (first, last) = match (word(text.first_chunk()), word(text.last_chunk())) {
        (Some(first), Some(last)) => (first, last),
        _ => (
            text.iter()
                .fold(0, |word, byte| word << 8 | u64::from(*byte)),
            0,
        ),
    };
    let mixed = (first ^ last.rotate_left(23) ^ (text.len() as u64) << 56)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 48) as usize
}

/// Appends the value of each number in `which`.
pub(super) fn put(which: &[u8], different: &[Span], values: &mut Vec<Span>) -> Result<()> {
    values.reserve(which.len());
    for number in which {
        let value = different.get(usize::from(*number));
        values.push(*value.ok_or(Malformed)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(values: &[&str]) -> Option<(Vec<String>, Vec<u8>, usize)> {
        let (mut source, mut spans) = (Vec::new(), Vec::new());
        for value in values {
            let start = source.len();
            source.extend_from_slice(value.as_bytes());
            spans.push(Span::new(start, source.len()));
        }
        let mut repeated = Repeated::default();
        repeated.find(&source, &spans, USES).then(|| {
            let text = |span: &Span| String::from_utf8(span.of(&source).to_vec()).unwrap();
            let different = repeated.different.iter().map(text).collect();
            (different, repeated.which.clone(), repeated.changes)
        })
    }

    #[test]
    fn different_values_are_in_order_and_counted() {
        let values: Vec<&str> = "GET POST GET GET HEAD GET a-longer-one GET "
            .repeat(2)
            .split_terminator(' ')
            .map(|value| &*String::leak(value.to_owned()))
            .collect();
        let (different, which, changes) = found(&values).unwrap();
        assert_eq!(different, ["GET", "HEAD", "POST", "a-longer-one"]);
        assert_eq!(which[..8], [0, 2, 0, 0, 1, 0, 3, 0]);
        assert_eq!(changes, 13);
    }

    #[test]
    fn values_that_differ_too_much_are_not_taken() {
        assert_eq!(found(&["a", "b", "a"]), None);
        assert_eq!(found(&["a"; 40]), None);
        let many: Vec<String> = (0..40).map(|i| (i % 14).to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(found(&many), None);
        assert!(found(&many[..14].repeat(3)).is_some());
        // As many as a byte can tell apart, and one more; the same hash for many.
        for (count, taken) in [(256, true), (257, false)] {
            let names: Vec<String> = (0..count)
                .map(|i| format!("12345678{i:03}12345678"))
                .collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            assert_eq!(found(&names.repeat(3)).is_some(), taken, "{count}");
        }
    }

    #[test]
    fn a_number_that_no_value_has_is_refused() {
        let (a, b) = (Span::new(0, 1), Span::new(1, 3));
        let mut values = vec![];
        assert_eq!(put(&[1, 0, 1], &[a, b], &mut values), Ok(()));
        assert_eq!(values, [b, a, b]);
        assert_eq!(put(&[2], &[a, b], &mut values), Err(Malformed));
    }
}
