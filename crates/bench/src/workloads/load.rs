//! Bulk load: making a database of each engine from a plain one, against plain `VACUUM INTO`.

use std::time::Instant;

use anyhow::Result;
use rusqlite::Connection;

use super::Workload;
use crate::dataset::Dataset;
use crate::engines::{Engine, Group, Journal, Synchronous, settle, stored_bytes};
use crate::lab::{Lab, Turn};
use crate::rows::{Cache, Row, Unit, compare};

/// Runs every loader of every engine.
pub struct Load {
    name: &'static str,
    about: &'static str,
    title: &'static str,
    group: Group,
    data: &'static [Dataset],
    /// The most that are worth their time.
    rounds: u32,
}

/// Whole files.
pub const FILES: Load = Load {
    name: "load",
    about: "`VACUUM INTO` runs inside the benchmark and leaves flushing to the operating system; \
         `litepack pack` is the command as a process of its own, which also flushes the new file \
         and reads it back to verify it. Aim: at most 1.3 × the time for TPC-H.",
    title: "Bulk load from a plain file",
    group: Group::Files,
    data: &[Dataset::Titles, Dataset::Tpch],
    rounds: 3,
};

/// Compressing a column of all rows that are there.
pub const COLUMNS: Load = Load {
    name: "columns-enable",
    about: "A copy of the plain file, `zstd_enable_transparent` at level 19 with one dictionary, \
         `zstd_incremental_maintenance(null, 1)` and VACUUM; plain SQLite only vacuums. \
         Aim: at most a third of sqlite-zstd's time.",
    title: "Compressed column: enable and full maintenance",
    group: Group::Columns,
    data: &[Dataset::Titles],
    rounds: 1,
};

struct Contestant<'a> {
    engine: &'a dyn Engine,
    loader: &'static str,
    file_bytes: u64,
}

impl Workload for Load {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn group(&self) -> Group {
        self.group
    }

    fn run(&self, lab: &Lab) -> Result<Vec<Vec<Row>>> {
        self.data
            .iter()
            .map(|data| self.run_data(lab, *data))
            .collect()
    }
}

impl Load {
    fn run_data(&self, lab: &Lab, data: Dataset) -> Result<Vec<Row>> {
        let source = lab.source(data)?;
        settle(&source)?;
        let mut contestants: Vec<Result<Contestant>> = lab
            .engines(self.group)
            .iter()
            .flat_map(|engine| {
                let contestant = |loader| {
                    Ok(Contestant {
                        engine: &**engine,
                        loader,
                        file_bytes: 0,
                    })
                };
                engine.loaders().iter().copied().map(contestant)
            })
            .collect();
        let ways: Vec<_> = contestants
            .iter()
            .flatten()
            .map(|one| (one.engine.name(), one.loader))
            .collect();
        let rounds = lab.rounds.min(self.rounds);
        let turns = lab.take_turns(self.title, rounds, &mut contestants, |contestant, _| {
            let target = lab.free_path();
            let start = Instant::now();
            contestant
                .engine
                .load(contestant.loader, &source, &target)?;
            let value = start.elapsed().as_secs_f64();
            contestant.file_bytes = stored_bytes(&target);
            let conn = contestant
                .engine
                .open(&target, Journal::Delete, Synchronous::Full)?;
            let answer = count(&conn, data)?;
            conn.close().map_err(|(_, error)| error)?;
            match self.group {
                Group::Files | Group::Archives | Group::Sizes | Group::Apart => {
                    std::fs::remove_file(target)?
                }
                // Compressing all rows takes minutes.
                Group::Columns => lab.keep(contestant.engine, data, &target)?,
            }
            Ok(Turn { value, answer })
        });
        let mut rows: Vec<Row> = ways
            .into_iter()
            .zip(turns)
            .zip(&contestants)
            .map(|(((engine, loader), turns), contestant)| Row {
                workload: self.name,
                title: self.title.into(),
                data: data.title(lab.scale.size),
                engine,
                way: Some(loader),
                cache: Cache::Warm,
                unit: Unit::Seconds,
                values: turns.values,
                file_bytes: contestant.as_ref().ok().map(|one| one.file_bytes),
                failure: turns.failure,
                ..Row::EMPTY
            })
            .collect();
        compare(&mut rows);
        Ok(rows)
    }
}

/// The rows of the biggest table.
fn count(conn: &Connection, data: Dataset) -> Result<u64> {
    let sql = match data {
        Dataset::Tpch => "select count(*) from lineitem",
        _ => "select count(*) from title",
    };
    let rows: u32 = conn.query_row(sql, [], |row| row.get(0))?;
    Ok(rows.into())
}
