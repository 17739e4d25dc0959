//! Work on a table of which one column is compressed: the same statements as on a packed file, by the
//! engines that compress columns.

use anyhow::Result;
use rusqlite::Connection;

use super::point_reads::PointReads;
use super::range_reads::RangeReads;
use super::scan::Scan;
use super::session::Session;
use super::transactions::{self, Transactions};
use crate::data::dataset::Dataset;
use crate::engines::Group;
use crate::lab::{Scale, Turn};
use crate::rows::{Setting, Unit};

/// Some work on the compressed column.
pub struct OnColumn<S> {
    name: &'static str,
    about: &'static str,
    work: S,
}

/// Reads by key.
pub const POINT_READS: OnColumn<PointReads> = OnColumn {
    name: "columns-point-reads",
    about: "One row by primary key, keys uniformly random. Aim: at least 0.8 × the rate.",
    work: PointReads,
};

/// Reads in key order.
pub const RANGE_READS: OnColumn<RangeReads> = OnColumn {
    name: "columns-range-reads",
    about: "1000 rows in key order from a random key on. Aim: at least 0.3 × the rate.",
    work: RangeReads,
};

/// Every value.
pub const SCAN: OnColumn<Scan> = OnColumn {
    name: "columns-scan",
    about: "Every value of the column, given to the program. Aim: at most 5 × the time.",
    work: Scan,
};

/// New rows, which maintenance has not seen.
pub const INSERT: OnColumn<Transactions> = OnColumn {
    name: "columns-insert",
    about: "1000 new rows in one transaction; the rate counts rows. Aim: at least 0.8 × the rate.",
    work: transactions::INSERT,
};

/// Neighbouring rows, which are uncompressed afterwards.
pub const UPDATE_SEQUENTIAL: OnColumn<Transactions> = OnColumn {
    name: "columns-update-sequential",
    about: "1000 neighbouring rows get new text in one transaction. Aim: at least 0.8 × the rate.",
    work: transactions::UPDATE_SEQUENTIAL,
};

/// Rows anywhere, which are uncompressed afterwards.
pub const UPDATE_RANDOM: OnColumn<Transactions> = OnColumn {
    name: "columns-update-random",
    about: "1000 random rows get new text in one transaction. Aim: at least 0.8 × the rate.",
    work: transactions::UPDATE_RANDOM,
};

impl<S: Session> Session for OnColumn<S> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn group(&self) -> Group {
        Group::Columns
    }

    fn title(&self) -> String {
        let title = self.work.title();
        let (first, rest) = title.split_at(1);
        format!("Compressed column: {}{rest}", first.to_lowercase())
    }

    fn data(&self) -> Dataset {
        self.work.data()
    }

    fn settings(&self) -> &'static [Setting] {
        self.work.settings()
    }

    fn unit(&self) -> Unit {
        self.work.unit()
    }

    fn writes(&self) -> bool {
        self.work.writes()
    }

    fn turn(&self, scale: Scale, conn: &Connection, round: u32) -> Result<Turn> {
        self.work.turn(scale, conn, round)
    }
}
