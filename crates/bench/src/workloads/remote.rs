//! Databases of several sizes on a web server: what one cold query asks for. Requests and bytes are counts, the same on
//! every machine; the time is what it takes where each answer is late by as much as from a server far away.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use litepack_testdata::logs::Indexes;
use litepack_webserver::{Reply, Server};
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};

use super::Workload;
use crate::dataset::{Dataset, Size};
use crate::engines::{Engine, Group};
use crate::lab::{Lab, Turn};
use crate::rows::{Cache, Row, Unit, compare};

/// Each with another key, each on a connection that has read nothing yet.
const QUERIES: u32 = 9;
/// Rows for each thousand rows of the run: 10 MB, 236 MB and 1.3 GB of titles in a full one.
const SIZES: [u64; 3] = [42, 1000, 5500];
const QUICK_SIZES: [u64; 2] = [42, 1000];
/// How late a server far away answers.
const LATE: Duration = Duration::from_millis(50);

/// One row, found in some way.
struct Query {
    /// As rows call it.
    requests: &'static str,
    bytes: &'static str,
    time: &'static str,
    data: Dataset,
    /// Gives the key of the row of this number.
    key: &'static str,
    sql: &'static str,
}

const BY_ROWID: Query = Query {
    requests: "by rowid, requests",
    bytes: "by rowid, bytes",
    time: "by rowid, time",
    data: Dataset::Titles,
    key: "select id from title where id = ?",
    sql: "select data from title where id = ?",
};

const BY_INDEX: Query = Query {
    requests: "by index, requests",
    bytes: "by index, bytes",
    time: "by index, time",
    data: Dataset::Logs(Indexes::With),
    key: "select time from log where rowid = ?",
    sql: "select count(*), sum(bytes), max(path) from log where time = ?",
};

/// Counts requests and bytes.
pub struct Remote;

struct Contestant {
    server: Server,
    /// One for each turn, and so the seconds.
    bytes: Vec<f64>,
    seconds: Vec<f64>,
}

impl Workload for Remote {
    fn name(&self) -> &'static str {
        "remote"
    }

    fn about(&self) -> &'static str {
        "One query for one row of a database on a web server, on a new connection with empty caches: HTTP requests and bytes of the \
         file that opening and the query took (`PRAGMA litepack_remote`), and the time where each answer comes 50 ms late; \
         nine queries with random keys. The plain file is read through Litepack too. Aim at 1.3 GB: 2 requests and 128 kB \
         by rowid, 3 and 192 kB by index."
    }

    fn group(&self) -> Group {
        Group::Archives
    }

    fn run(&self, lab: &Lab) -> Result<Vec<Vec<Row>>> {
        let sizes = match lab.scale.quick {
            true => &QUICK_SIZES[..],
            false => &SIZES,
        };
        let mut groups = Vec::new();
        for query in [BY_ROWID, BY_INDEX] {
            for per_thousand in sizes {
                let rows = lab.scale.size.rows * per_thousand / 1000;
                let size = Size {
                    rows,
                    ..lab.scale.size
                };
                groups.extend(self.run_query(lab, &query, size)?);
            }
        }
        Ok(groups)
    }
}

impl Remote {
    /// A group for the requests, one for the bytes, and one for the time.
    fn run_query(&self, lab: &Lab, query: &Query, size: Size) -> Result<[Vec<Row>; 3]> {
        let keys = query.keys(lab, size)?;
        let engines = lab.engines(self.group());
        let mut contestants: Vec<Result<Contestant>> = engines
            .iter()
            .map(|engine| enter(lab, &**engine, query.data, size))
            .collect();
        let label = format!("Remote: {}", query.sql);
        let all = lab.take_turns(&label, QUERIES, &mut contestants, |one, round| {
            let key = keys.get(round as usize - 1).context("there is no key")?;
            one.ask(query, key)
        });
        let mut groups = [const { Vec::new() }; 3];
        for ((engine, one), turns) in engines.iter().zip(contestants).zip(all) {
            let (bytes, seconds) = match one {
                Ok(one) if !turns.values.is_empty() => (one.bytes, one.seconds),
                _ => Default::default(),
            };
            let ways = [
                (query.requests, Unit::Requests, turns.values),
                (query.bytes, Unit::Fetched, bytes),
                (query.time, Unit::Seconds, seconds),
            ];
            for ((way, unit, values), group) in ways.into_iter().zip(&mut groups) {
                group.push(Row {
                    workload: self.name(),
                    title: "Remote: a cold query for one row".into(),
                    data: query.data.title(size),
                    engine: engine.name(),
                    way: Some(way),
                    cache: Cache::Unfetched,
                    unit,
                    values,
                    failure: turns.failure.clone(),
                    ..Row::EMPTY
                });
            }
        }
        groups.iter_mut().for_each(|group| compare(group));
        Ok(groups)
    }
}

impl Query {
    /// Of rows anywhere.
    fn keys(&self, lab: &Lab, size: Size) -> Result<Vec<Value>> {
        let conn = Connection::open(lab.source_of(self.data, size)?)?;
        let rows = match self.data {
            Dataset::Titles => size.rows,
            _ => size.rows / 2,
        };
        let mut rng = super::random(self.sql, 0);
        let keys = (0..QUERIES).map(|_| {
            let number = rng.i64(1..=rows as i64);
            conn.query_row(self.key, [number], |row| row.get(0))
        });
        Ok(keys.collect::<Result<_, _>>()?)
    }
}

/// Puts the engine's database on a server.
fn enter(lab: &Lab, engine: &dyn Engine, data: Dataset, size: Size) -> Result<Contestant> {
    let file = std::fs::read(lab.prepared_of(engine, data, size)?)?;
    let server = Server::start(move |request| {
        // The same file under every path, to a reader each time another one.
        let etag = format!("\"{}\"", request.path);
        std::thread::sleep(LATE);
        Reply::part(&file, &etag, request)
    });
    Ok(Contestant {
        server,
        bytes: Vec::new(),
        seconds: Vec::new(),
    })
}

impl Contestant {
    fn ask(&mut self, query: &Query, key: &Value) -> Result<Turn> {
        let start = Instant::now();
        let conn = open(&self.server)?;
        let row = conn.query_row(query.sql, [key], |row| Ok(format!("{:?}", row.get_ref(0)?)))?;
        self.seconds.push(start.elapsed().as_secs_f64());
        let traffic: String = conn.query_row("pragma litepack_remote", [], |row| row.get(0))?;
        let traffic: serde_json::Value = serde_json::from_str(&traffic)?;
        let count = |name| traffic[name].as_f64().context("no count in the answer");
        self.bytes.push(count("bytes")?);
        Ok(Turn {
            value: count("requests")?,
            answer: super::fingerprint(&row),
        })
    }
}

/// A connection that shares nothing with those before it: the cache knows files by their URLs.
fn open(server: &Server) -> Result<Connection> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let url = server.url(&format!("/{number}.db"));
    let escaped: String = url.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let uri = format!("file:/remote.db?vfs=litepack&mode=ro&url={escaped}");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    Ok(Connection::open_with_flags(uri, flags)?)
}
