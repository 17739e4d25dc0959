//! One line of a report: what was measured, on what, under which conditions, and the figures.

use serde::{Deserialize, Serialize};

use crate::engines::{Journal, Synchronous};
use crate::report::name::{self, Name};
use crate::stats::Summary;

/// The bytes of a page: SQLite's default, which all databases have but those with small pages.
pub const PAGE_LEN: usize = 4096;

/// The unit of a figure, and so whether more of it is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Time for the whole work; less is better.
    Seconds,
    /// Time for a page of [`PAGE_LEN`]; less is better.
    SecondsPerPage,
    /// Operations per second; more is better.
    PerSecond,
    /// Of a file; less is better.
    Bytes,
    /// Bytes of main memory; less is better.
    Memory,
    /// To a server; less is better.
    Requests,
    /// Bytes from a server; less is better.
    Fetched,
    /// Bytes to a device; less is better.
    Written,
}

/// The state of the operating system's cache when the clock started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cache {
    /// The whole file; SQLite's own page cache is the default 2 MB.
    Warm,
    /// The whole file, and SQLite's own page cache is 100 MB.
    WarmLarge,
    /// Nothing: what it held of all files was dropped.
    ColdDropped,
    /// Nothing of the file, which it was advised to forget.
    ColdAdvised,
    /// Nothing; the file is on a server, and none of it was fetched yet.
    Unfetched,
    /// It makes no difference.
    Irrelevant,
}

impl Cache {
    /// As reports say it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::WarmLarge => "warm, page cache 100 MB",
            Self::ColdDropped => "cold (drop_caches)",
            Self::ColdAdvised => "cold (fadvise)",
            Self::Unfetched => "cold (remote)",
            Self::Irrelevant => "–",
        }
    }
}

/// The journal mode and `synchronous` of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Journal mode.
    pub journal: Journal,
    /// Flushing.
    pub synchronous: Synchronous,
}

impl Setting {
    /// SQLite's defaults.
    pub const DELETE_FULL: Self = Self {
        journal: Journal::Delete,
        synchronous: Synchronous::Full,
    };
    /// Only the journal mode differs from SQLite's defaults.
    pub const WAL_FULL: Self = Self {
        journal: Journal::Wal,
        synchronous: Synchronous::Full,
    };
    /// The choice of most applications with a WAL.
    pub const WAL_NORMAL: Self = Self {
        journal: Journal::Wal,
        synchronous: Synchronous::Normal,
    };

    /// As reports say it.
    pub fn name(self) -> String {
        format!("{}+{}", self.journal.name(), self.synchronous.name())
    }
}

/// Better or worse than plain SQLite, by more than the noise of a quiet machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// By more than three per cent.
    Better,
    /// Within three per cent.
    Even,
    /// By more than three per cent.
    Worse,
}

/// How much smaller a file got.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The bytes of the plain file divided by those of this one.
    pub times: f64,
    /// The same divided by R, the ratio of [the whole file under zstd](crate::whole_file).
    pub of_whole_file: Option<f64>,
    /// The least `of_whole_file` that we aim at.
    pub aim: Option<f64>,
}

/// One line of a report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The workload's short name.
    #[serde(deserialize_with = "name::read")]
    pub workload: Name,
    /// The work, in words.
    pub title: String,
    /// On which data.
    pub data: String,
    /// By which engine.
    #[serde(deserialize_with = "name::read")]
    pub engine: Name,
    /// By which of the engine's ways, where it has several.
    #[serde(deserialize_with = "name::read_optional")]
    pub way: Option<Name>,
    /// With which durability; none where no transaction is involved.
    pub setting: Option<Setting>,
    /// In which state of the cache.
    pub cache: Cache,
    /// The unit of the values.
    pub unit: Unit,
    /// One value for each turn.
    pub values: Vec<f64>,
    /// Of the values; none if the work failed.
    pub summary: Option<Summary>,
    /// Median divided by that of plain SQLite; for plain SQLite itself, nothing.
    pub to_plain: Option<f64>,
    /// Median less that of plain SQLite, where the difference tells more than the ratio.
    pub over_plain: Option<f64>,
    /// Median divided by the engine's own on the smallest file, where files grow.
    pub growth: Option<f64>,
    /// How much smaller the file got, where that is what is measured.
    pub ratio: Option<Ratio>,
    /// Bytes of the database on disk after work that wrote to it.
    pub file_bytes: Option<u64>,
    /// The same divided by that of plain SQLite.
    pub file_to_plain: Option<f64>,
    /// Why there are no values, or why they are not to be trusted.
    pub failure: Option<String>,
}

impl Row {
    /// A row without values, for the fields that a workload does not set.
    pub const EMPTY: Self = Self {
        workload: "",
        title: String::new(),
        data: String::new(),
        engine: "",
        way: None,
        setting: None,
        cache: Cache::Irrelevant,
        unit: Unit::Bytes,
        values: Vec::new(),
        summary: None,
        to_plain: None,
        over_plain: None,
        growth: None,
        ratio: None,
        file_bytes: None,
        file_to_plain: None,
        failure: None,
    };

    /// How many times better than plain SQLite: twice the rate and half the time are both 2. Nothing
    /// for plain SQLite itself and for figures that are not to be trusted.
    pub fn gain(&self) -> Option<f64> {
        let ratio = self.to_plain.filter(|_| self.failure.is_none())?;
        Some(if self.unit == Unit::PerSecond {
            ratio
        } else {
            1.0 / ratio
        })
    }

    /// How the row compares, if it does.
    pub fn verdict(&self) -> Option<Verdict> {
        Some(match self.gain()? {
            gain if gain > 1.03 => Verdict::Better,
            gain if gain < 0.97 => Verdict::Worse,
            _ => Verdict::Even,
        })
    }
}

/// Fills in summaries, and ratios to the first row, which is plain SQLite's.
pub fn compare(rows: &mut [Row]) {
    for row in rows.iter_mut() {
        row.summary = Summary::of(&row.values);
    }
    let plain = rows.first().and_then(|row| row.summary);
    let plain_file = rows.first().and_then(|row| row.file_bytes);
    for row in rows.iter_mut().skip(1) {
        row.file_to_plain = match (row.file_bytes, plain_file) {
            (Some(own), Some(plain)) => Some(own as f64 / plain as f64),
            _ => None,
        };
        let (Some(own), Some(plain)) = (row.summary, plain) else {
            continue;
        };
        row.to_plain = (plain.median > 0.0).then(|| own.median / plain.median);
        row.over_plain = (row.unit == Unit::Memory).then_some(own.median - plain.median);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(unit: Unit, values: &[f64]) -> Row {
        Row {
            unit,
            values: values.to_vec(),
            ..Row::EMPTY
        }
    }

    #[test]
    fn twice_the_time_is_worse_and_twice_the_rate_is_better() {
        for (unit, verdict) in [
            (Unit::Seconds, Verdict::Worse),
            (Unit::PerSecond, Verdict::Better),
        ] {
            let mut rows = [row(unit, &[1.0]), row(unit, &[2.0])];
            compare(&mut rows);
            assert_eq!(rows[0].to_plain, None);
            assert_eq!(rows[1].to_plain, Some(2.0));
            assert_eq!(rows[1].verdict(), Some(verdict));
        }
    }

    #[test]
    fn memory_is_compared_by_difference_too() {
        let mut rows = [row(Unit::Memory, &[5e6]), row(Unit::Memory, &[2e7])];
        compare(&mut rows);
        assert_eq!(rows[1].over_plain, Some(1.5e7));
        assert_eq!(rows[1].verdict(), Some(Verdict::Worse));
    }

    #[test]
    fn files_are_compared_after_writing() {
        let after = |file_bytes| Row {
            file_bytes,
            ..row(Unit::PerSecond, &[1.0])
        };
        let mut rows = [after(Some(1000)), after(Some(100)), after(None)];
        compare(&mut rows);
        let found = rows.map(|row| row.file_to_plain);
        assert_eq!(found, [None, Some(0.1), None]);
    }

    #[test]
    fn a_failed_row_compares_with_nothing() {
        let mut rows = [row(Unit::Bytes, &[1.0]), row(Unit::Bytes, &[])];
        compare(&mut rows);
        assert_eq!(rows[1].verdict(), None);
    }
}
