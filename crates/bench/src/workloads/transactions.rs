//! Transactions of 1000 rows: appended, updated in key order, updated all over the table.

use std::time::{Duration, Instant};

use anyhow::Result;
use litepack_testdata::titles::Titles;
use rusqlite::{Connection, params};

use super::session::Session;
use crate::dataset::{Dataset, SEED};
use crate::lab::{Scale, Turn};
use crate::rows::{Setting, Unit};

const TRANSACTIONS: u32 = 20;
const ROWS: usize = 1000;

/// Which rows a transaction touches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    New,
    Neighbours,
    Scattered,
}

/// One kind of transaction.
pub struct Transactions {
    name: &'static str,
    about: &'static str,
    title: &'static str,
    rows: Rows,
}

/// New rows at the end.
pub const INSERT: Transactions = Transactions {
    name: "insert",
    about: "1000 new rows at the end of the table in one transaction; the rate counts rows. \
            Aim: at least 1 × the rate.",
    title: "Insert 1000 in one transaction",
    rows: Rows::New,
};

/// Neighbouring rows.
pub const UPDATE_SEQUENTIAL: Transactions = Transactions {
    name: "update-sequential",
    about: "1000 neighbouring rows get new text in one transaction; the rate counts rows. \
            Aim: at least 1 × the rate.",
    title: "Update 1000 sequential in one transaction",
    rows: Rows::Neighbours,
};

/// Rows anywhere.
pub const UPDATE_RANDOM: Transactions = Transactions {
    name: "update-random",
    about: "1000 random rows get new text in one transaction; the rate counts rows. \
            Aim: at least 1 × the rate.",
    title: "Update 1000 random in one transaction",
    rows: Rows::Scattered,
};

impl Session for Transactions {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn title(&self) -> String {
        self.title.into()
    }

    fn data(&self) -> Dataset {
        Dataset::Titles
    }

    fn settings(&self) -> &'static [Setting] {
        &[Setting::DELETE_FULL, Setting::WAL_FULL]
    }

    fn unit(&self) -> Unit {
        Unit::PerSecond
    }

    fn writes(&self) -> bool {
        true
    }

    fn turn(&self, scale: Scale, conn: &Connection, round: u32) -> Result<Turn> {
        let transactions = scale.operations(TRANSACTIONS);
        let mut rng = super::random(self.name, round);
        let mut titles = Titles::new(SEED + 1 + u64::from(round));
        let mut taken = Duration::ZERO;
        for _ in 0..transactions {
            let work = self
                .rows
                .choose(scale.size.rows as i64, &mut rng, &mut titles);
            let start = Instant::now();
            self.rows.commit(conn, &work)?;
            taken += start.elapsed();
        }
        let value = f64::from(transactions) * ROWS as f64 / taken.as_secs_f64();
        // Not every engine can tell how many rows have changed; the content is compared at the end.
        Ok(Turn { value, answer: 0 })
    }
}

impl Rows {
    /// Keys and texts, made before the clock starts.
    fn choose(self, last: i64, rng: &mut fastrand::Rng, titles: &mut Titles) -> Vec<(i64, String)> {
        let first = rng.i64(1..=(last - ROWS as i64).max(1));
        let id = |index: i64| match self {
            Self::Scattered => rng.i64(1..=last),
            Self::New | Self::Neighbours => first + index,
        };
        (0..ROWS as i64)
            .map(id)
            .zip(titles.map(|title| title.to_json()))
            .collect()
    }

    fn commit(self, conn: &Connection, work: &[(i64, String)]) -> rusqlite::Result<()> {
        let transaction = conn.unchecked_transaction()?;
        if self == Self::New {
            let mut insert = transaction.prepare_cached("insert into title(data) values (?)")?;
            for (_, text) in work {
                insert.execute([text])?;
            }
        } else {
            let sql = "update title set data = ? where id = ?";
            let mut update = transaction.prepare_cached(sql)?;
            for (id, text) in work {
                update.execute(params![text, id])?;
            }
        }
        transaction.commit()
    }
}
