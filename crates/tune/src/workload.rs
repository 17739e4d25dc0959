//! The queries that are measured when the user names none, made from the schema: what most programs do with their
//! largest table.
//!
//! Which rows are read is chosen at random, but the same ones each time, and others in each run.

use litepack_btree::quote;
use litepack_database::error::{Context, refuse};
use litepack_database::files::schema::{ColumnSchema, columns};
use litepack_database::printable;
use litepack_io::random::SplitMix64;
use rusqlite::types::Value;
use rusqlite::{Connection, Result};

use super::measure::RUNS;
use super::part::rowid;
use super::queries::Query;

/// Single rows that are read in one run.
const POINTS: usize = 100;
/// Most rows of a range.
const RANGE: u64 = 10_000;
/// Most indexes of the table that are tried.
const INDEXES: usize = 2;

/// The queries for a plain database.
pub(crate) fn of(connection: &Connection) -> litepack_database::Result<Vec<Query>> {
    let made = largest(connection).context("cannot read the sample")?;
    match made {
        Some(queries) => Ok(queries),
        None => refuse!("no table has rows, so there is nothing to try"),
    }
}

/// Those for its largest table; none if no table has rows.
fn largest(connection: &Connection) -> Result<Option<Vec<Query>>> {
    let Some(table) = QueriedTable::largest(connection)? else {
        return Ok(None);
    };
    let QueriedTable {
        name, last, rows, ..
    } = &table;
    let shown = printable(&table.shown);
    let mut queries = vec![Query {
        name: format!("scan of all rows of {shown}"),
        sql: format!("SELECT count(*), max({last}) FROM {name} NOT INDEXED"),
        batches: vec![Vec::new()],
    }];
    let mut seed = 1;
    let mut batches = |sql: &str, columns: usize, rows: usize| -> Result<Vec<Vec<Value>>> {
        seed += 1;
        let keys = sampled(connection, sql, columns, rows * (RUNS + 1), seed)?;
        // All with as many keys as the statement has places for.
        let chunks = keys.chunks(rows.min(keys.len()).max(1));
        let full = chunks.filter(|chunk| chunk.len() == rows.min(keys.len()));
        Ok(full.map(|chunk| chunk.concat()).collect())
    };
    if !table.key.is_empty() {
        let key = table.key.join(", ");
        let select = format!("SELECT {key} FROM {name}");
        let points = batches(&select, table.key.len(), POINTS)?;
        queries.push(Query {
            name: format!("single rows of {shown} by key"),
            sql: points_by(&table.key, &points, |equal| {
                format!("SELECT t.* FROM k CROSS JOIN {name} AS t ON {equal}")
            }),
            batches: points,
        });
        let first = &table.key[0];
        let count = (rows / 20).clamp(1, RANGE);
        queries.push(Query {
            name: format!("{count} rows of {shown} side by side"),
            sql: format!("SELECT * FROM {name} WHERE {first} >= ?1 ORDER BY {first} LIMIT {count}"),
            batches: batches(&format!("SELECT {first} FROM {name}"), 1, 1)?,
        });
    }
    for (index, column) in table.indexes(connection)? {
        let select = format!("SELECT {column} FROM {name} WHERE {column} NOT NULL");
        let points = batches(&select, 1, POINTS)?;
        if points.is_empty() {
            continue;
        }
        let sql = points_by(&[column], &points, |equal| {
            format!(
                "SELECT (SELECT t.{last} FROM {name} AS t INDEXED BY {} WHERE {equal} LIMIT 1) FROM k",
                quote(&index)
            )
        });
        queries.push(Query {
            name: format!("single rows of {shown} by index {}", printable(&index)),
            sql,
            batches: points,
        });
    }
    // A query that cannot be prepared, such as one whose index needs a function of another program, is not asked.
    queries.retain(|query| connection.prepare(&query.sql).is_ok());
    Ok(Some(queries))
}

/// A query that looks keys up in the order in which they are bound, whatever the planner thinks of it.
fn points_by(
    columns: &[String],
    batches: &[Vec<Value>],
    select: impl Fn(&str) -> String,
) -> String {
    let names: Vec<String> = (0..columns.len()).map(|at| format!("c{at}")).collect();
    let values = batches.first().map_or(1, Vec::len) / columns.len();
    let marks = format!("({})", vec!["?"; columns.len()].join(", "));
    let marks = vec![marks; values].join(", ");
    let equal: Vec<String> = (columns.iter().zip(&names))
        .map(|(column, name)| format!("t.{column} = k.{name}"))
        .collect();
    let select = select(&equal.join(" AND "));
    format!("WITH k({}) AS (VALUES {marks}) {select}", names.join(", "))
}

/// A table that queries are made for; names are quoted where they go into SQL.
struct QueriedTable {
    shown: String,
    name: String,
    rows: u64,
    /// The columns of the key by which rows are in order; empty if it has no name.
    key: Vec<String>,
    /// The last column, to reach which all of a row is read.
    last: String,
}

impl QueriedTable {
    /// The table with the most pages, if it has rows.
    fn largest(connection: &Connection) -> Result<Option<QueriedTable>> {
        // Not by `pragma_table_list`: it prepares a statement for each view, which a file can make long. Of the name of a
        // table, `pragma_index_info` knows something if it is WITHOUT ROWID.
        let sql = "SELECT s.name, EXISTS (SELECT 1 FROM pragma_index_info(s.name, 'main'))
                   FROM dbstat AS d JOIN main.sqlite_schema AS s ON s.type = 'table' AND s.name = d.name
                   WHERE d.aggregate = TRUE AND s.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
                   ORDER BY d.pageno DESC, s.name";
        let mut statement = connection.prepare(sql)?;
        let tables = statement.query_map([], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?))
        })?;
        for table in tables {
            let (shown, without_rowid) = table?;
            let name = quote(&shown);
            let count = format!("SELECT count(*) FROM {name}");
            let rows = connection.query_row(&count, [], |row| row.get::<_, i64>(0))?;
            if rows == 0 {
                continue;
            }
            let mut columns = columns(connection, "main", &shown)?;
            columns.retain(|column| column.hidden == 0);
            let last = columns.last().ok_or(rusqlite::Error::QueryReturnedNoRows)?;
            return Ok(Some(QueriedTable {
                key: key(&columns, without_rowid),
                last: quote(&last.name),
                shown,
                name,
                rows: rows.unsigned_abs(),
            }));
        }
        Ok(None)
    }

    /// Some indexes on all rows that begin with a column, and that column, quoted.
    fn indexes(&self, connection: &Connection) -> Result<Vec<(String, String)>> {
        let sql =
            "SELECT l.name, i.name FROM pragma_index_list(?1) AS l, pragma_index_info(l.name) AS i
                   WHERE l.partial = 0 AND l.origin <> 'pk' AND i.seqno = 0 AND i.name NOT NULL
                   ORDER BY l.seq DESC LIMIT ?2";
        let mut statement = connection.prepare(sql)?;
        let found = statement.query_map((&self.shown, INDEXES as i64), |row| {
            Ok((row.get(0)?, quote(&row.get::<_, String>(1)?)))
        })?;
        found.collect()
    }
}

/// The columns of the key of a table with these columns.
fn key(columns: &[ColumnSchema], without_rowid: bool) -> Vec<String> {
    if without_rowid {
        let mut key: Vec<_> = columns.iter().filter(|column| column.key > 0).collect();
        key.sort_by_key(|column| column.key);
        return key.into_iter().map(|column| quote(&column.name)).collect();
    }
    let alias = rowid(columns.iter().map(|column| &column.name));
    alias.into_iter().map(String::from).collect()
}

/// Some of the rows that a statement gives, at random, as many of them as there are at most.
fn sampled(
    connection: &Connection,
    sql: &str,
    columns: usize,
    count: usize,
    seed: u64,
) -> Result<Vec<Vec<Value>>> {
    let mut random = SplitMix64::new(seed);
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut kept: Vec<Vec<Value>> = Vec::new();
    let mut seen = 0_u64;
    while let Some(row) = rows.next()? {
        // Text that is not UTF-8 is not looked for.
        let Ok(key) = (0..columns).map(|at| row.get(at)).collect::<Result<_>>() else {
            continue;
        };
        seen += 1;
        if kept.len() < count {
            kept.push(key);
        } else if let Some(place) = kept.get_mut(random.below(seen) as usize) {
            *place = key;
        }
    }
    for at in (1..kept.len()).rev() {
        kept.swap(at, random.below(at as u64 + 1) as usize);
    }
    Ok(kept)
}
