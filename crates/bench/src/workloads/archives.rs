//! Archives beside plain and packed files: their size, and queries that read much, on logs in columns and as JSON, with
//! and without indexes.

use std::time::Instant;

use anyhow::{Result, ensure};
use litepack_testdata::logs::Indexes;
use rusqlite::Connection;

use super::{Workload, compared, sizes};
use crate::dataset::Dataset;
use crate::engines::{Engine, Group, Journal, Synchronous, stored_bytes};
use crate::lab::{Lab, Turn};
use crate::rows::{Cache, Ratio, Row, Unit, compare};

const LOGS: [Dataset; 4] = [
    Dataset::Logs(Indexes::Without),
    Dataset::Logs(Indexes::With),
    Dataset::JsonLogs(Indexes::Without),
    Dataset::JsonLogs(Indexes::With),
];

/// Makes each file.
pub struct Size;

impl Workload for Size {
    fn name(&self) -> &'static str {
        "archive-size"
    }

    fn about(&self) -> &'static str {
        "How many times smaller than the plain file, without options: frames of 64 KiB at level 10."
    }

    fn group(&self) -> Group {
        Group::Archives
    }

    fn run(&self, lab: &Lab) -> Result<Vec<Vec<Row>>> {
        let group = |data: &Dataset| {
            let engines = lab.engines(self.group()).iter();
            let mut rows: Vec<Row> = engines
                .map(|engine| {
                    let bytes = lab.prepared(&**engine, *data);
                    let bytes = bytes.map(|path| stored_bytes(&path));
                    let data = data.title(lab.scale.size);
                    sizes::row(
                        self.name(),
                        "Archive: file size",
                        data,
                        engine.name(),
                        bytes,
                    )
                })
                .collect();
            compare(&mut rows);
            for row in &mut rows {
                row.ratio = row.to_plain.map(|to_plain| Ratio {
                    times: 1.0 / to_plain,
                    of_whole_file: None,
                    aim: None,
                });
            }
            rows
        };
        Ok(LOGS.iter().map(group).collect())
    }
}

/// One query, in the words for both layouts.
pub struct Query {
    name: &'static str,
    title: &'static str,
    about: &'static str,
    columns: &'static str,
    json: &'static str,
}

/// All rows.
pub const COUNT: Query = Query {
    name: "archive-count",
    title: "Archive: full count",
    about: "`select count(*)`: all of the table, or of its shortest index. Aim: at most 2 × the time.",
    columns: "select count(*) from log",
    json: "select count(*) from log",
};

/// A few rows, most of them found only by looking at all.
pub const FILTER: Query = Query {
    name: "archive-filter",
    title: "Archive: filter",
    about: "Requests of one status that took long: of all rows, or of those that the index on the status has. \
            Aim: at most 2 × the time.",
    columns: "select count(*), sum(bytes) from log where status = 404 and request_time > 0.5",
    json: "select count(*), sum(data ->> '$.bytes') from log
           where data ->> '$.status' = 404 and data ->> '$.request_time' > 0.5",
};

/// All rows by something in them.
pub const GROUP: Query = Query {
    name: "archive-group",
    title: "Archive: group by",
    about: "Bytes sent and the slowest request by method and browser. Aim: at most 1.1 × the time.",
    columns: "select method, user_agent, sum(bytes), max(request_time) from log
              group by method, user_agent order by 3 desc, 1, 2 limit 20",
    json: "select data ->> '$.method', data ->> '$.user_agent', sum(data ->> '$.bytes'),
             max(data ->> '$.request_time') from log
           group by 1, 2 order by 3 desc, 1, 2 limit 20",
};

impl Workload for Query {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn group(&self) -> Group {
        Group::Archives
    }

    fn run(&self, lab: &Lab) -> Result<Vec<Vec<Row>>> {
        let groups = LOGS.iter().map(|data| self.run_on(lab, *data));
        Ok(groups.collect())
    }
}

impl Query {
    fn run_on(&self, lab: &Lab, data: Dataset) -> Vec<Row> {
        let sql = match data {
            Dataset::JsonLogs(_) => self.json,
            _ => self.columns,
        };
        let title = data.title(lab.scale.size);
        let enter = |engine: &dyn Engine| -> Result<Connection> {
            let path = lab.prepared(engine, data)?;
            let conn = engine.open(&path, Journal::Delete, Synchronous::Full)?;
            lab.say(format!(
                "{}, {title}, {}: warming up",
                self.title,
                engine.name()
            ));
            answer(&conn, sql)?;
            Ok(conn)
        };
        let engines = lab.engines(Group::Archives);
        let mut contestants: Vec<_> = engines.iter().map(|engine| enter(&**engine)).collect();
        let label = format!("{}, {title}", self.title);
        let all = lab.take_turns(&label, lab.rounds, &mut contestants, |conn, _| {
            let start = Instant::now();
            let answer = answer(conn, sql)?;
            let value = start.elapsed().as_secs_f64();
            Ok(Turn { value, answer })
        });
        let row = Row {
            workload: self.name,
            title: self.title.into(),
            data: title.clone(),
            cache: Cache::Warm,
            unit: Unit::Seconds,
            ..Row::EMPTY
        };
        compared(&row, engines.iter().map(|engine| engine.name()), all)
    }
}

/// Runs a query; a number that depends on all its rows.
fn answer(conn: &Connection, sql: &str) -> Result<u64> {
    let rows = super::rows_of(conn, sql)?;
    ensure!(!rows.is_empty(), "the query found nothing");
    Ok(super::fingerprint(&rows))
}
