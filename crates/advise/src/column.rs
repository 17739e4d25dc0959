//! A sample of the values of one column: how many, how long, of which kinds, how many different ones, and some of them
//! for trying to compress them.

use std::collections::HashSet;

use litepack_btree::Encoding;
use litepack_btree::record::decoded;
use twox_hash::XxHash3_64;

use super::json::Keys;
use super::kind::Kind;

/// Values of a column that are looked at for their kind.
const CLASSIFIED: u64 = 4000;
/// Bytes of a value that are looked at.
const LOOK: usize = 4096;
/// Different values of a column that are told apart.
const DISTINCT: usize = 256;
/// Values of a column whose hashes are kept, to find those that stand twice.
const HASHES: usize = 20_000;
/// No shorter value is worth storing only once.
const TWICE_MIN: usize = 64;

/// The sample of a column.
#[derive(Debug, Default)]
pub(crate) struct ColumnSample {
    pub(crate) values: u64,
    pub(crate) nulls: u64,
    /// Bytes of all values.
    pub(crate) bytes: u64,
    /// Texts and blobs, and their bytes.
    pub(crate) strings: u64,
    pub(crate) string_bytes: u64,
    /// Text is all that is seen, but for NULL.
    pub(crate) texts: u64,
    /// Of the values that were looked at: how many of each kind, and their bytes.
    pub(crate) kinds: [(u64, u64); Kind::ALL.len()],
    looked_at: u64,
    /// Hashes of different values; `None` if there are too many.
    distinct: Option<HashSet<u64>>,
    /// Hashes of long values.
    hashes: Vec<(u64, u32)>,
    pub(crate) json: Keys,
    pub(crate) kept: Kept,
}

impl ColumnSample {
    /// One that has seen nothing.
    pub(crate) fn new() -> ColumnSample {
        ColumnSample {
            distinct: Some(HashSet::new()),
            ..ColumnSample::default()
        }
    }

    /// Shows it a value: its serial type, its length, and as much of it as is there.
    pub(crate) fn see(
        &mut self,
        serial: u64,
        len: usize,
        there: &[u8],
        encoding: Encoding,
        keep: bool,
    ) {
        self.values += 1;
        self.bytes += len as u64;
        if serial == 0 {
            self.nulls += 1;
            return;
        }
        let is_text = serial >= 13 && !serial.is_multiple_of(2);
        let whole = there.len() == len;
        if serial < 12 {
            let kind = if serial == 7 {
                Kind::Reals
            } else {
                Kind::Integers
            };
            self.count(kind, len);
            return;
        }
        self.strings += 1;
        self.string_bytes += len as u64;
        self.texts += u64::from(is_text);
        if keep && whole && len > 0 {
            self.kept.push(there);
        }
        if self.looked_at < CLASSIFIED || self.looked_at.is_multiple_of(16) {
            self.look(is_text, len, there, encoding);
        }
        self.looked_at += 1;
    }

    fn look(&mut self, is_text: bool, len: usize, there: &[u8], encoding: Encoding) {
        let whole = there.len() == len;
        let seen = there.get(..LOOK).unwrap_or(there);
        let all = whole && seen.len() == len;
        if let Some(distinct) = self.distinct.as_mut().filter(|_| whole) {
            distinct.insert(XxHash3_64::oneshot(there));
            if distinct.len() > DISTINCT {
                self.distinct = None;
            }
        }
        if whole && len >= TWICE_MIN && self.hashes.len() < HASHES {
            let len = u32::try_from(len).unwrap_or(u32::MAX);
            self.hashes.push((XxHash3_64::oneshot(there), len));
        }
        if !is_text {
            self.count(Kind::of_blob(seen), len);
            return;
        }
        let text;
        let utf8 = match encoding {
            Encoding::Utf8 => seen,
            _ => {
                text = decoded(seen, encoding);
                text.as_bytes()
            }
        };
        let mut kind = Kind::of_text(utf8, all);
        if kind == Kind::Json && encoding == Encoding::Utf8 && whole {
            self.json.see(there);
        }
        // A text that only begins like JSON.
        if kind == Kind::Json && !all && whole && encoding == Encoding::Utf8 {
            kind = Kind::of_text(there, true);
        }
        self.count(kind, len);
    }

    fn count(&mut self, kind: Kind, len: usize) {
        let (values, bytes) = &mut self.kinds[kind as usize];
        *values += 1;
        *bytes += len as u64;
    }

    /// The kind that most of the values that were looked at have, and its share of their number and of their bytes.
    pub(crate) fn kind(&self) -> Option<(Kind, f64)> {
        let values: u64 = self.kinds.iter().map(|(values, _)| values).sum();
        let bytes: u64 = self.kinds.iter().map(|(_, bytes)| bytes).sum();
        let most = Kind::ALL
            .into_iter()
            .max_by_key(|kind| (self.kinds[*kind as usize].1, self.kinds[*kind as usize].0))?;
        let (of_values, of_bytes) = self.kinds[most as usize];
        (values > 0).then(|| {
            let by_number = of_values as f64 / values as f64;
            let by_bytes = of_bytes as f64 / bytes.max(1) as f64;
            (most, if bytes == 0 { by_number } else { by_bytes })
        })
    }

    /// Of hexadecimal texts whether they are of upper case; `None` if of both.
    pub(crate) fn hex_case(&self) -> Option<bool> {
        let letters = self.kept.values.iter().flat_map(|value| &**value);
        let mut letters = letters.filter(|byte| byte.is_ascii_alphabetic());
        let upper = letters.next()?.is_ascii_uppercase();
        letters
            .all(|byte| byte.is_ascii_uppercase() == upper)
            .then_some(upper)
    }

    /// How many different texts or blobs there are, if they are few and each stands often.
    pub(crate) fn few(&self) -> Option<u64> {
        let distinct = self.distinct.as_ref()?.len() as u64;
        let strings = self.strings.min(CLASSIFIED);
        (distinct > 0 && strings >= 100 && distinct * 10 <= strings).then_some(distinct)
    }

    /// The share of the bytes of long values that a value before has as well.
    pub(crate) fn twice(&self) -> f64 {
        let mut sorted = self.hashes.clone();
        sorted.sort_unstable();
        let all: u64 = sorted.iter().map(|(_, len)| u64::from(*len)).sum();
        let pairs = sorted.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        let again: u64 = pairs.map(|pair| u64::from(pair[1].1)).sum();
        let looked: u64 = self.kinds.iter().map(|(_, bytes)| bytes).sum();
        if all == 0 {
            0.0
        } else {
            again as f64 / looked.max(all) as f64
        }
    }

    /// The mean length of texts and blobs.
    pub(crate) fn mean(&self) -> f64 {
        self.string_bytes as f64 / self.strings.max(1) as f64
    }
}

/// Some of the values: every one at first, then every second, and so on, so that memory is bounded.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) values: Vec<Box<[u8]>>,
    pub(crate) bytes: usize,
    seen: u64,
    /// One value in so many is kept: a power of two of it.
    halved: u32,
}

impl Kept {
    /// The most that is kept of a column.
    const MOST: usize = 6 << 20;
    /// zstd looks at no more of one value.
    const VALUE: usize = 128 << 10;

    fn push(&mut self, value: &[u8]) {
        let turn = self.seen.is_multiple_of(1 << self.halved);
        self.seen += 1;
        if !turn {
            return;
        }
        let value = &value[..value.len().min(Kept::VALUE)];
        let Ok(value) = litepack_io::memory::copy(value) else {
            return;
        };
        self.bytes += value.len();
        self.values.push(value.into());
        if self.bytes > Kept::MOST {
            self.halve();
        }
    }

    /// Drops every second value.
    pub(crate) fn halve(&mut self) {
        let mut at = 0;
        self.values.retain(|_| {
            at += 1;
            at % 2 == 1
        });
        self.values.shrink_to_fit();
        self.bytes = self.values.iter().map(|value| value.len()).sum();
        self.halved = (self.halved + 1).min(62);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_old_and_new_values_stay() {
        let mut kept = Kept::default();
        for i in 0..100_000_u32 {
            kept.push(&[(i >> 12) as u8; 500]);
            assert!(kept.bytes <= Kept::MOST);
        }
        assert!(kept.bytes > Kept::MOST / 4);
        assert_eq!(kept.values[0][0], 0);
        assert_eq!(kept.values.last().unwrap()[0], 24);
    }

    #[test]
    fn columns_say_what_they_hold() {
        let mut column = ColumnSample::new();
        for i in 0..1000 {
            let text = format!("2026-11-{:02}", i % 28 + 1);
            column.see(13 + 2 * 10, 10, text.as_bytes(), Encoding::Utf8, true);
        }
        column.see(0, 0, &[], Encoding::Utf8, true);
        assert_eq!(
            (column.values, column.nulls, column.bytes),
            (1001, 1, 10_000)
        );
        assert_eq!(column.kind(), Some((Kind::IsoDates, 1.0)));
        assert_eq!(column.few(), Some(28));
        assert_eq!(column.twice(), 0.0);

        let mut long = ColumnSample::new();
        for i in 0..1000 {
            let text = format!("{:0>100}x", i / 2);
            long.see(13 + 2 * 101, 101, text.as_bytes(), Encoding::Utf8, false);
        }
        assert!((0.49..0.51).contains(&long.twice()), "{}", long.twice());
        assert_eq!(long.few(), None);
        assert!(long.kept.values.is_empty());
        let wide: Vec<u8> = "550e8400-e29b-41d4-a716-446655440000"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        let mut utf16 = ColumnSample::new();
        utf16.see(13 + 2 * 72, 72, &wide, Encoding::Utf16Le, false);
        assert_eq!(utf16.kind(), Some((Kind::Uuids, 1.0)));
    }
}
