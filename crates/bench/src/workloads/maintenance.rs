//! The size of a packed file after changes, and after maintenance.

use std::path::Path;

use anyhow::{Result, ensure};
use litepack_testdata::titles::Titles;
use rusqlite::{Connection, params};

use super::Workload;
use super::session::content;
use super::sizes::row;
use crate::dataset::{Dataset, SEED};
use crate::engines::{Engine, Group, Journal, Synchronous, stored_bytes};
use crate::lab::Lab;
use crate::rows::{Row, compare};

const DATA: Dataset = Dataset::Titles;
/// One row in so many is changed, on average.
const CHANGED: u64 = 5;
const ROWS_PER_TRANSACTION: u64 = 2000;

/// The size of a file after random updates, after maintenance, and of a new one with the same content.
pub struct Maintenance;

impl Maintenance {
    /// The file that the others are compared with, in the place of plain SQLite.
    const YARDSTICK: &'static str = "packed afresh";
}

impl Workload for Maintenance {
    fn name(&self) -> &'static str {
        "maintenance"
    }

    fn about(&self) -> &'static str {
        "A fifth as many updates as there are rows, anywhere, in transactions of 2000, then `select litepack_maintain(null, 1)`. \
         Ratios are to a fresh `litepack pack` of the same database. Aim: at most 1.03 × the size."
    }

    fn group(&self) -> Group {
        Group::Files
    }

    fn yardstick(&self) -> &'static str {
        Self::YARDSTICK
    }

    fn run(&self, lab: &Lab) -> Result<Vec<Vec<Row>>> {
        let [plain, litepack] = lab.engines(Group::Files) else {
            return Ok(Vec::new());
        };
        let (plain, litepack) = (&**plain, &**litepack);
        lab.say("updating a fifth of the rows");
        let plain_file = lab.copy(plain, DATA)?;
        let expected = update(lab, plain, &plain_file)?;
        let packed = lab.copy(litepack, DATA)?;
        let found = update(lab, litepack, &packed)?;
        ensure!(found == expected, "the answer differs from plain SQLite's");
        let used = stored_bytes(&packed);
        lab.say("maintenance");
        let conn = litepack.open(&packed, Journal::Delete, Synchronous::Full)?;
        conn.query_row("select litepack_maintain(null, 1)", [], |_| Ok(()))?;
        let same = content(&conn)? == expected;
        drop(conn);
        ensure!(same, "maintenance has changed the content");
        let fresh = lab.free_path();
        litepack.prepare(&plain_file, &fresh)?;
        let mut rows = [
            (Self::YARDSTICK, stored_bytes(&fresh)),
            ("after the updates", used),
            ("after maintenance", stored_bytes(&packed)),
        ]
        .map(|(state, bytes)| {
            let title = "File size after updates of a fifth of the rows";
            row(
                self.name(),
                title,
                DATA.title(lab.scale.size),
                state,
                Ok(bytes),
            )
        });
        compare(&mut rows);
        for file in [plain_file, packed, fresh] {
            std::fs::remove_file(file)?;
        }
        Ok(vec![rows.into()])
    }
}

/// Changes rows, the same ones with every engine, and gives the [`content`] afterwards.
fn update(lab: &Lab, engine: &dyn Engine, path: &Path) -> Result<u64> {
    let conn: Connection = engine.open(path, Journal::Delete, Synchronous::Full)?;
    let (mut rng, mut titles) = (super::random("maintenance", 0), Titles::new(SEED + 1));
    let mut left = lab.scale.size.rows / CHANGED;
    while left > 0 {
        let rows = left.min(ROWS_PER_TRANSACTION);
        let transaction = conn.unchecked_transaction()?;
        let mut update = transaction.prepare_cached("update title set data = ? where id = ?")?;
        for title in titles.by_ref().take(rows as usize) {
            let id = rng.i64(1..=lab.scale.size.rows as i64);
            update.execute(params![title.to_json(), id])?;
        }
        drop(update);
        transaction.commit()?;
        left -= rows;
    }
    content(&conn)
}
