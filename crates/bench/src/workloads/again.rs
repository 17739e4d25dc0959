//! Work that is done again: the same statements on other data or by other engines.

use anyhow::Result;
use rusqlite::Connection;

use super::session::Session;
use crate::dataset::Dataset;
use crate::engines::Group;
use crate::lab::{Scale, Turn};
use crate::rows::{Cache, Setting, Unit};

/// Where work is done again.
pub struct Place {
    /// Before the title of the work.
    pub title: &'static str,
    /// By whom.
    pub group: Group,
    /// On what, which must be [`titles`](litepack_testdata::titles).
    pub data: Dataset,
}

/// Some work in another place.
pub struct Again<S> {
    /// Of the workload.
    pub name: &'static str,
    /// As in the report.
    pub about: &'static str,
    /// Where it is done.
    pub place: &'static Place,
    /// The work.
    pub work: S,
}

impl<S: Session> Session for Again<S> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn group(&self) -> Group {
        self.place.group
    }

    fn title(&self) -> String {
        let title = self.work.title();
        let (first, rest) = title.split_at(1);
        format!("{}: {}{rest}", self.place.title, first.to_lowercase())
    }

    fn data(&self) -> Dataset {
        self.place.data
    }

    fn settings(&self) -> &'static [Setting] {
        self.work.settings()
    }

    fn cache(&self) -> Cache {
        self.work.cache()
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
