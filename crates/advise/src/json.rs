//! The keys of JSON texts: what repeating them takes, and which of them would make a good index.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;
use twox_hash::XxHash3_64;

/// Texts that are parsed, and bytes of them.
const TEXTS: u64 = 2000;
const BYTES: usize = 8 << 20;
/// Longer texts are not parsed.
const LONG: usize = 256 << 10;
/// Keys of the outermost object that are told apart, and values of each.
const KEYS: usize = 100;
const DISTINCT: usize = 1000;

/// The keys seen in a column.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    pub(crate) texts: u64,
    /// Bytes of the texts, and of keys in them with quotes and colons.
    pub(crate) bytes: usize,
    pub(crate) key_bytes: usize,
    /// Those of the outermost object.
    outer: BTreeMap<String, Key>,
}

#[derive(Debug, Default)]
struct Key {
    texts: u64,
    /// Texts in which its value is a string or a number.
    scalars: u64,
    bytes: usize,
    distinct: HashSet<u64>,
}

impl Keys {
    /// Shows it a text that is JSON.
    pub(crate) fn see(&mut self, text: &[u8]) {
        if self.texts >= TEXTS || self.bytes >= BYTES || text.len() > LONG {
            return;
        }
        let Ok(value) = serde_json::from_slice::<Value>(text) else {
            return;
        };
        self.texts += 1;
        self.bytes += text.len();
        self.key_bytes += key_bytes(&value);
        let Value::Object(object) = value else {
            return;
        };
        for (key, value) in object {
            if self.outer.len() >= KEYS && !self.outer.contains_key(&key) {
                continue;
            }
            let seen = self.outer.entry(key).or_default();
            seen.texts += 1;
            let shown = match value {
                Value::String(text) => text,
                Value::Number(number) => number.to_string(),
                _ => continue,
            };
            seen.scalars += 1;
            seen.bytes += shown.len();
            if seen.distinct.len() < DISTINCT {
                seen.distinct.insert(XxHash3_64::oneshot(shown.as_bytes()));
            }
        }
    }

    /// The share of the bytes that keys take.
    pub(crate) fn share(&self) -> f64 {
        self.key_bytes as f64 / self.bytes.max(1) as f64
    }

    /// The key by which rows are most likely looked up, and the mean length of its values: it is in nearly every text,
    /// with a short value that nearly every text has another of, and it is called like a key.
    pub(crate) fn best(&self) -> Option<(&str, f64)> {
        let many = |part: u64| part * 20 >= self.texts * 19;
        let found = self.outer.iter().filter(|(name, key)| {
            let short = key.bytes as u64 <= 64 * key.scalars;
            let differs = key.distinct.len() as u64 * 2 >= key.scalars.min(DISTINCT as u64);
            let plain = name.len() <= 64
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "_-$".contains(c));
            many(key.scalars) && short && differs && plain && is_called_key(name)
        });
        let best = found.max_by_key(|(name, key)| (key.distinct.len(), std::cmp::Reverse(*name)));
        best.filter(|_| self.texts >= 100)
            .map(|(name, key)| (name.as_str(), key.bytes as f64 / key.scalars as f64))
    }
}

/// Whether a name says that something is looked up by it.
fn is_called_key(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words = [
        "id", "uuid", "key", "email", "slug", "sha", "hash", "tconst", "path", "url",
    ];
    let ends = ["_id", "-id", "_key", "_uuid", "_at", "time", "timestamp"];
    words.contains(&name.as_str())
        || ends.iter().any(|end| name.ends_with(end))
        || name.len() > 2 && name.ends_with("id")
}

fn key_bytes(value: &Value) -> usize {
    match value {
        Value::Object(object) => (object.iter())
            .map(|(key, value)| key.len() + 3 + key_bytes(value))
            .sum(),
        Value::Array(values) => values.iter().map(key_bytes).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_counted_and_one_is_found() {
        let mut keys = Keys::default();
        for i in 0..500 {
            keys.see(format!(r#"{{"userId":"u{i}","kind":"a","x":[{{"y":{i}}}]}}"#).as_bytes());
        }
        keys.see(b"[1]");
        keys.see(b"not json");
        assert_eq!(keys.texts, 501);
        assert_eq!(keys.key_bytes, 500 * (9 + 7 + 4 + 4));
        let (name, mean) = keys.best().unwrap();
        assert_eq!(name, "userId");
        assert!((2.0..5.0).contains(&mean));
        assert!((0.4..0.7).contains(&keys.share()));
    }

    #[test]
    fn no_key_is_made_up() {
        let mut keys = Keys::default();
        for i in 0..500 {
            keys.see(
                format!(r#"{{"id'); DROP TABLE t; --":{i},"kind":"a","text":"{i}"}}"#).as_bytes(),
            );
        }
        assert_eq!(keys.best(), None);
    }
}
