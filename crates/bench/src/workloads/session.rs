//! Work on an open connection, the same for every engine and journal mode.
//!
//! The engines' connections stay open through the whole workload, as an application's would. One
//! turn goes before the measured ones, so that caches are warm and statements have been seen. Work
//! that writes leaves the same content with every engine, which is compared at the end.

use std::path::PathBuf;

use anyhow::Result;
use rusqlite::Connection;

use super::Workload;
use crate::dataset::Dataset;
use crate::engines::{Engine, Group, Journal, stored_bytes};
use crate::lab::{Lab, Scale, Turn};
use crate::rows::{Cache, Row, Setting, Unit, compare};

/// Work on an open connection.
pub trait Session {
    /// See [`Workload::name`].
    fn name(&self) -> &'static str;
    /// See [`Workload::about`].
    fn about(&self) -> &'static str;
    /// See [`Workload::group`].
    fn group(&self) -> Group {
        Group::Files
    }
    /// The work, in a few words.
    fn title(&self) -> String;
    /// On which data.
    fn data(&self) -> Dataset;
    /// Under which settings.
    fn settings(&self) -> &'static [Setting];
    /// With what in memory.
    fn cache(&self) -> Cache {
        Cache::Warm
    }
    /// The unit of a turn's value.
    fn unit(&self) -> Unit;
    /// Whether the database is changed, in which case [`content`] is compared at the end.
    fn writes(&self) -> bool;
    /// Does the work once; `round` decides on every random choice in it.
    fn turn(&self, scale: Scale, conn: &Connection, round: u32) -> Result<Turn>;
}

struct Contestant {
    path: PathBuf,
    conn: Connection,
}

impl<S: Session> Workload for S {
    fn name(&self) -> &'static str {
        Session::name(self)
    }

    fn about(&self) -> &'static str {
        Session::about(self)
    }

    fn group(&self) -> Group {
        Session::group(self)
    }

    fn run(&self, lab: &Lab) -> Result<Vec<Vec<Row>>> {
        self.settings()
            .iter()
            .map(|setting| run_setting(self, lab, *setting))
            .collect()
    }
}

fn run_setting(work: &impl Session, lab: &Lab, setting: Setting) -> Result<Vec<Row>> {
    let title = work.title();
    // Changing the journal mode writes to the file, so only DELETE mode can share one.
    let own_file = work.writes() || setting.journal != Journal::Delete;
    let enter = |engine: &dyn Engine| -> Result<Contestant> {
        let path = match own_file {
            true => lab.copy(engine, work.data())?,
            false => lab.prepared(engine, work.data())?,
        };
        let conn = engine.open(&path, setting.journal, setting.synchronous)?;
        lab.say(format!(
            "{title}, {}, {}: warming up",
            setting.name(),
            engine.name()
        ));
        work.turn(lab.scale, &conn, 0)?;
        Ok(Contestant { path, conn })
    };
    let engines = lab.engines(Session::group(work));
    let mut contestants: Vec<Result<Contestant>> =
        engines.iter().map(|engine| enter(&**engine)).collect();

    let label = format!("{title}, {}", setting.name());
    let mut all = lab.take_turns(&label, lab.rounds, &mut contestants, |contestant, round| {
        work.turn(lab.scale, &contestant.conn, round)
    });
    if work.writes() {
        lab.say(format!("{label}: comparing"));
        let contents = lab.take_turns(&label, 1, &mut contestants, |contestant, _| {
            Ok(Turn {
                value: 0.0,
                answer: content(&contestant.conn)?,
            })
        });
        for (turns, compared) in all.iter_mut().zip(contents) {
            turns.failure = turns.failure.take().or(compared.failure);
        }
    }

    let mut rows = Vec::new();
    for ((engine, contestant), turns) in engines.iter().zip(contestants).zip(all) {
        rows.push(Row {
            workload: Session::name(work),
            title: title.clone(),
            data: work.data().title(lab.scale.size),
            engine: engine.name(),
            setting: Some(setting),
            cache: work.cache(),
            unit: work.unit(),
            values: turns.values,
            file_bytes: leave(contestant, own_file).filter(|_| work.writes()),
            failure: turns.failure,
            ..Row::EMPTY
        });
    }
    compare(&mut rows);
    Ok(rows)
}

/// Closes the connection; gives the size of its own file, and removes it.
fn leave(contestant: Result<Contestant>, own_file: bool) -> Option<u64> {
    let Contestant { path, conn } = contestant.ok()?;
    drop(conn);
    if !own_file {
        return None;
    }
    let bytes = stored_bytes(&path);
    // A leftover goes with the scratch folder.
    let _ = std::fs::remove_file(path);
    Some(bytes)
}

/// A number that depends on every row of the table `title`.
pub(super) fn content(conn: &Connection) -> Result<u64> {
    let mut statement = conn.prepare("select id, data from title order by id")?;
    let mut rows = statement.query([])?;
    let mut answer = 0;
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        answer = super::mix(answer ^ id as u64, row.get_ref(1)?.as_bytes()?);
    }
    Ok(answer)
}
