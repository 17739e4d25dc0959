//! How long queries take on one file, and what they answer.
//!
//! Each query is run once to warm up, when its answer is taken, and then several times; the median counts. The file
//! is in the memory of the operating system; what is decompressed is kept in a cache that is as small
//! beside the sample as the real one is beside the real database.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::{Duration, Instant};

use litepack_database::error::{Context, refuse};
use litepack_database::files::source::distrust;
use litepack_database::job::Interrupts;
use litepack_database::names::uri::of_path;
use litepack_database::{Error, Job, Result};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Params, Statement, params_from_iter};

use super::queries::Query;

/// Most times that a query is run after it was warmed up.
pub(crate) const RUNS: usize = 9;
/// Not run again after so long.
const LONG: Duration = Duration::from_secs(1);

/// One query on one file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// The median.
    pub(crate) time: Duration,
    /// The query's answer when it was warmed up.
    pub(crate) answer: Answer,
}

/// A query on the plain file and on another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    /// On the plain file.
    pub(crate) plain: Timing,
    /// On the other.
    pub(crate) other: Timing,
}

/// A query's answer: its rows in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    rows: u64,
    hash: u64,
}

/// A file that queries are run on.
pub(crate) struct Measured {
    _interrupts: Interrupts,
    connection: Connection,
}

impl Measured {
    /// Opens a plain, packed or archived database. `cache_mb` is for what is decompressed.
    pub(crate) fn open(file: &Path, cache_mb: u64, job: &Job<'_>) -> Result<Measured> {
        let uri = of_path(file);
        let uri = format!("{uri}?mode=ro&vfs=litepack&cache_mb={cache_mb}");
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let cannot = || format!("cannot open {}", file.display());
        let connection = Connection::open_with_flags(uri, flags).with_context(cannot)?;
        distrust(&connection).with_context(cannot)?;
        Ok(Measured::of(connection, job))
    }

    fn of(connection: Connection, job: &Job<'_>) -> Measured {
        Measured {
            _interrupts: job.interrupts(&connection),
            connection,
        }
    }

    /// The connection.
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }
}

/// Runs every query on the plain file and on another, in turn, so that what else the machine does slows both.
pub(crate) fn run(
    plain: &Measured,
    other: &Measured,
    queries: &[Query],
    job: &Job<'_>,
) -> Result<Vec<Pair>> {
    let pairs = queries.iter().map(|query| {
        job.check()?;
        time(plain, other, query, job).map_err(|error| failed(query, error))
    });
    pairs.collect()
}

fn time(
    plain: &Measured,
    other: &Measured,
    query: &Query,
    job: &Job<'_>,
) -> rusqlite::Result<Pair> {
    let mut batches = query.batches.iter().cycle();
    let mut batch = || params_from_iter(batches.next().into_iter().flatten());
    let (mut plain, mut other) = (
        plain.connection.prepare(&query.sql)?,
        other.connection.prepare(&query.sql)?,
    );
    let first = batch();
    let answers = (
        answer(&mut plain, first.clone())?,
        answer(&mut other, first)?,
    );
    let started = Instant::now();
    let (mut times_of_plain, mut times) = (Vec::new(), Vec::new());
    while times.is_empty() || times.len() < RUNS && started.elapsed() < LONG {
        let parameters = batch();
        times_of_plain.push(once(&mut plain, parameters.clone())?);
        times.push(once(&mut other, parameters)?);
        if job.check().is_err() {
            break;
        }
    }
    let timing = |mut times: Vec<Duration>, answer| {
        times.sort_unstable();
        // A time of nothing could not be compared with others.
        let time = times[times.len() / 2].max(Duration::from_nanos(1));
        Timing { time, answer }
    };
    Ok(Pair {
        plain: timing(times_of_plain, answers.0),
        other: timing(times, answers.1),
    })
}

fn once(statement: &mut Statement<'_>, parameters: impl Params) -> rusqlite::Result<Duration> {
    let begun = Instant::now();
    let mut rows = statement.query(parameters)?;
    while rows.next()?.is_some() {}
    Ok(begun.elapsed())
}

fn failed(query: &Query, error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::OperationInterrupted) => Error::interrupted(),
        _ => Error::Sqlite {
            what: format!("the query failed: {}", query.name),
            error,
        },
    }
}

fn answer(statement: &mut Statement<'_>, parameters: impl Params) -> rusqlite::Result<Answer> {
    let columns = statement.column_count();
    let mut rows = statement.query(parameters)?;
    // The same for the same rows in every run of the program.
    let mut hasher = DefaultHasher::new();
    let mut count = 0;
    while let Some(row) = rows.next()? {
        count += 1;
        for at in 0..columns {
            match row.get_ref(at)? {
                ValueRef::Null => 0.hash(&mut hasher),
                ValueRef::Integer(value) => (1, value).hash(&mut hasher),
                ValueRef::Real(value) => (2, value.to_bits()).hash(&mut hasher),
                ValueRef::Text(value) => (3, value).hash(&mut hasher),
                ValueRef::Blob(value) => (4, value).hash(&mut hasher),
            }
        }
    }
    Ok(Answer {
        rows: count,
        hash: hasher.finish(),
    })
}

/// An error unless every query answered on the other file as on the plain one. Is that one plain, too, then the
/// query is to blame.
pub(crate) fn expect_same(queries: &[Query], pairs: &[Pair], is_plain: bool) -> Result<()> {
    for (query, Pair { plain, other }) in queries.iter().zip(pairs) {
        let name = &query.name;
        match plain.answer == other.answer {
            true => {}
            false if is_plain => refuse!(
                "the query gives a different answer each time, so answers cannot be compared: {name}"
            ),
            false => refuse!(
                "the query gives another answer than on the plain file ({} rows, there {}); if it does \
                 not ask for the time or random numbers, this is a defect of Litepack: {name}",
                other.answer.rows,
                plain.answer.rows,
            ),
        }
    }
    Ok(())
}

/// The mean of ratios: what is twice as slow in one query and twice as fast in another is as fast.
pub(crate) fn mean(ratios: &[f64]) -> f64 {
    let logarithms: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    (logarithms / ratios.len().max(1) as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(sql: &str) -> Query {
        Query {
            name: sql.into(),
            sql: sql.into(),
            batches: vec![Vec::new()],
        }
    }

    #[test]
    fn answers_differ_if_anything_in_them_does() {
        let job = Job::default();
        let file = Measured::of(Connection::open_in_memory().unwrap(), &job);
        let answers = [
            "select 1",
            "select 2",
            "select 1.0",
            "select '1'",
            "select x'31'",
            "select null",
            "select 1, 1",
            "select 1 union all select 1",
            "select 1 union all select 2",
            "select 2 union all select 1",
            "select 1 where 0",
        ];
        let queries = answers.map(query);
        let pairs = run(&file, &file, &queries, &job).unwrap();
        for (at, pair) in pairs.iter().enumerate() {
            let same = pairs.iter().filter(|p| p.other.answer == pair.plain.answer);
            assert_eq!(same.count(), 1, "{}", answers[at]);
            assert!(pair.other.time > Duration::ZERO);
        }
        expect_same(&queries, &pairs, false).unwrap();
        let other = Pair {
            other: pairs[1].other,
            ..pairs[0]
        };
        let error = |is_plain| {
            expect_same(&queries, &[other], is_plain)
                .unwrap_err()
                .to_string()
        };
        assert!(error(false).contains("a defect of Litepack: select 1"));
        assert!(error(true).contains("a different answer each time"));
    }

    #[test]
    fn the_mean_of_a_ratio_and_its_inverse_is_one() {
        assert!((mean(&[4.0, 0.25]) - 1.0).abs() < 1e-9);
        assert!((mean(&[2.0, 8.0]) - 4.0).abs() < 1e-9);
    }
}
