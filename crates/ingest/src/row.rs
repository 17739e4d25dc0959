//! One parsed line, and the columns of the table that it goes into. Names of columns come from the lines, so their
//! number and length are bounded; what finds no column goes into one JSON object.

use std::borrow::Cow;
use std::collections::HashMap;

use litepack_database::Result;
use litepack_database::error::refuse;

use super::format::time::{Stamp, Times};

/// Longer names get no column.
const NAME_MAX: usize = 64;
/// The name of the column for values without a column of their own; and of that for the lines themselves.
pub(super) const EXTRA: &str = "extra";
pub(super) const JSON: &str = "json";
/// Names that mean something else in SQLite or here.
const TAKEN: [&str; 6] = ["rowid", "oid", "_rowid_", "source_id", EXTRA, JSON];
/// Always the first columns.
pub(super) const TIME: usize = 0;
pub(super) const SOURCE: usize = 1;
pub(super) const REST: usize = 2;

/// A value of a column. Text that is not UTF-8, or holds a NUL, is stored as a blob.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(Cow<'a, [u8]>),
}

impl<'a> Value<'a> {
    pub(super) fn text(bytes: &'a [u8]) -> Value<'a> {
        Value::Text(Cow::Borrowed(bytes))
    }

    /// A real that the text is, whatever its form, where nothing of it is lost: reals have 15 digits.
    pub(super) fn real_of(text: &str) -> Option<Value<'static>> {
        let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
        let digits = mantissa.bytes().filter(u8::is_ascii_digit);
        let significant = digits.skip_while(|digit| *digit == b'0').count();
        let real = text.parse::<f64>().ok().filter(|real| real.is_finite())?;
        let is_whole = significant <= 15 && (real != 0.0 || significant == 0);
        is_whole.then_some(Value::Real(real))
    }

    /// A number where the text is exactly how that number is written, so that nothing is lost.
    pub(super) fn typed(bytes: &'a [u8]) -> Value<'a> {
        let first = bytes.first().copied().unwrap_or(b' ');
        if !(first.is_ascii_digit() || first == b'-') || bytes.len() > 20 {
            return Value::text(bytes);
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Value::text(bytes);
        };
        if let Ok(integer) = text.parse::<i64>() {
            if integer.to_string() == text {
                return Value::Integer(integer);
            }
        } else if let Ok(real) = text.parse::<f64>()
            && real.to_string() == text
            && real.is_finite()
        {
            return Value::Real(real);
        }
        Value::text(bytes)
    }

    fn write_json(&self, out: &mut Vec<u8>) -> std::result::Result<(), &'static str> {
        let written = match self {
            Value::Null => serde_json::to_writer(out, &()),
            Value::Integer(integer) => serde_json::to_writer(out, integer),
            Value::Real(real) => serde_json::to_writer(out, real),
            Value::Text(text) => match std::str::from_utf8(text) {
                Ok(text) => serde_json::to_writer(out, text),
                Err(_) => return Err("bytes that are not UTF-8, which JSON cannot hold"),
            },
        };
        written.map_err(|_| "cannot be written as JSON")
    }
}

/// The columns of the table.
pub(super) struct Columns {
    names: Vec<String>,
    by_name: HashMap<String, usize>,
    most: usize,
    json: bool,
    /// So many exist in the table.
    created: usize,
    /// Lines have their fields mostly in one order: the place behind the one that was asked for last.
    likely: usize,
    pub(super) times: Times,
}

impl Columns {
    /// The columns of a table that exists, or none. At most `most`, with `json` none but the first ones.
    pub(super) fn new(
        existing: &[String],
        most: usize,
        json: bool,
        times: Times,
    ) -> Result<Columns> {
        let mut columns = Columns {
            names: Vec::new(),
            by_name: HashMap::new(),
            most: if json { 0 } else { most },
            json,
            created: existing.len(),
            likely: REST + 1,
            times,
        };
        let rest = if json { JSON } else { EXTRA };
        for name in ["time", "source_id", rest] {
            columns.add(name);
        }
        match existing.get(..3) {
            None => {}
            Some(first) if *first == columns.names => {
                for name in &existing[3..] {
                    columns.add(name);
                }
            }
            Some(_) => refuse!("the table has other columns than these options make"),
        }
        Ok(columns)
    }

    fn add(&mut self, name: &str) -> usize {
        let index = self.names.len();
        self.names.push(name.to_owned());
        self.by_name.insert(name.to_ascii_lowercase(), index);
        // Most lines write a name in the same way.
        self.by_name.insert(name.to_owned(), index);
        index
    }

    /// The column of this name, which is added if there is room.
    pub(super) fn place(&mut self, name: &str) -> Option<usize> {
        let likely = self.names.get(self.likely);
        let place = match likely.is_some_and(|likely| likely == name) {
            true => Some(self.likely),
            false => self.look_up(name),
        };
        self.likely = place.unwrap_or(REST) + 1;
        place
    }

    fn look_up(&mut self, name: &str) -> Option<usize> {
        // Only a time goes into the column of the time, by `put_time`.
        if let Some(index) = self.by_name.get(name) {
            return (*index > REST).then_some(*index);
        }
        let lower = name.to_ascii_lowercase();
        if let Some(index) = self.by_name.get(&lower) {
            return (*index > REST).then_some(*index);
        }
        let bad = lower.is_empty()
            || lower.len() > NAME_MAX
            || lower.contains('\0')
            || TAKEN.contains(&&*lower);
        (!bad && self.names.len() < self.most.saturating_add(3)).then(|| self.add(name))
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// The names for which the table has no column yet.
    pub(super) fn missing(&self) -> &[String] {
        &self.names[self.created.min(self.names.len())..]
    }

    pub(super) fn set_created(&mut self, count: usize) {
        self.created = count;
    }

    pub(super) fn keeps_json(&self) -> bool {
        self.json
    }
}

/// The values of a line.
#[derive(Default)]
pub(super) struct Row<'a> {
    values: Vec<Option<Value<'a>>>,
    extra: Vec<(Cow<'a, str>, Value<'a>)>,
    whole: Option<&'a [u8]>,
}

impl<'a> Row<'a> {
    pub(super) fn put(&mut self, columns: &mut Columns, name: Cow<'a, str>, value: Value<'a>) {
        let slot = columns.place(&name);
        self.put_at(slot, || name, value);
    }

    /// Puts a value into a column; if there is none, or it has a value, under its name into the rest.
    pub(super) fn put_at(
        &mut self,
        slot: Option<usize>,
        name: impl FnOnce() -> Cow<'a, str>,
        value: Value<'a>,
    ) {
        let Some(slot) = slot else {
            self.extra.push((name(), value));
            return;
        };
        if self.values.len() <= slot {
            self.values.resize(slot + 1, None);
        }
        match &mut self.values[slot] {
            Some(_) => self.extra.push((name(), value)),
            free => *free = Some(value),
        }
    }

    /// Puts the time; false if it cannot be written.
    pub(super) fn put_time(&mut self, columns: &mut Columns, stamp: Stamp) -> bool {
        let value = columns.times.value(stamp);
        let known = value.is_some();
        if let Some(value) = value {
            self.put_at(Some(TIME), || Cow::Borrowed("time"), value);
        }
        known
    }

    pub(super) fn has_time(&self) -> bool {
        matches!(self.values.first(), Some(Some(_)))
    }

    /// The line is JSON itself, and kept as it is where lines are kept as JSON.
    pub(super) fn is_json(&mut self, line: &'a [u8]) {
        self.whole = Some(line);
    }

    /// The values in the order of the columns; what found no column as JSON.
    pub(super) fn finish(
        mut self,
        source: i64,
        json: bool,
    ) -> std::result::Result<Vec<Option<Value<'a>>>, &'static str> {
        if self.values.len() <= REST {
            self.values.resize(REST + 1, None);
        }
        self.values[SOURCE] = Some(Value::Integer(source));
        self.values[REST] = match (json, self.whole) {
            (true, Some(line)) => Some(Value::text(line)),
            _ if self.extra.is_empty() && !json => None,
            _ => {
                let mut object = vec![b'{'];
                for (at, (name, value)) in self.extra.iter().enumerate() {
                    if at > 0 {
                        object.push(b',');
                    }
                    Value::text(name.as_bytes()).write_json(&mut object)?;
                    object.push(b':');
                    value.write_json(&mut object)?;
                }
                object.push(b'}');
                Some(Value::Text(object.into()))
            }
        };
        Ok(self.values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_which_a_real_would_lose_something_is_none() {
        for (text, real) in [
            ("0.25", Some(0.25)),
            ("-1.50", Some(-1.5)),
            ("0.00e5", Some(0.0)),
            ("1e3", Some(1000.0)),
            ("123456789.012345", Some(123_456_789.012_345)),
            ("90071992547409.93", None),
            ("1e-400", None),
            ("1e400", None),
            ("0.1234567890123456", None),
        ] {
            let found = match Value::real_of(text) {
                Some(Value::Real(real)) => Some(real),
                _ => None,
            };
            assert_eq!(found, real, "{text}");
        }
    }
}
