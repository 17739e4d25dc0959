//! Work on a table of which one column is compressed: the same statements as on a packed file, by the
//! engines that compress columns.

use super::again::{Again, Place};
use super::point_reads::PointReads;
use super::range_reads::RangeReads;
use super::scan::Scan;
use super::transactions::{self, Transactions};
use crate::dataset::Dataset;
use crate::engines::Group;

const PLACE: Place = Place {
    title: "Compressed column",
    group: Group::Columns,
    data: Dataset::Titles,
};

/// Reads by key.
pub const POINT_READS: Again<PointReads> = Again {
    name: "columns-point-reads",
    about: "One row by primary key, keys uniformly random. Aim: at least 0.8 × the rate.",
    place: &PLACE,
    work: PointReads,
};

/// Reads in key order.
pub const RANGE_READS: Again<RangeReads> = Again {
    name: "columns-range-reads",
    about: "1000 rows in key order from a random key on. Aim: at least 0.3 × the rate.",
    place: &PLACE,
    work: RangeReads,
};

/// Every value.
pub const SCAN: Again<Scan> = Again {
    name: "columns-scan",
    about: "Every value of the column, given to the program. Aim: at most 5 × the time.",
    place: &PLACE,
    work: Scan,
};

/// New rows, which maintenance has not seen.
pub const INSERT: Again<Transactions> = Again {
    name: "columns-insert",
    about: "1000 new rows in one transaction; the rate counts rows. Aim: at least 0.8 × the rate.",
    place: &PLACE,
    work: transactions::INSERT,
};

/// Neighbouring rows, which are uncompressed afterwards.
pub const UPDATE_SEQUENTIAL: Again<Transactions> = Again {
    name: "columns-update-sequential",
    about: "1000 neighbouring rows get new text in one transaction. Aim: at least 0.8 × the rate.",
    place: &PLACE,
    work: transactions::UPDATE_SEQUENTIAL,
};

/// Rows anywhere, which are uncompressed afterwards.
pub const UPDATE_RANDOM: Again<Transactions> = Again {
    name: "columns-update-random",
    about: "1000 random rows get new text in one transaction. Aim: at least 0.8 × the rate.",
    place: &PLACE,
    work: transactions::UPDATE_RANDOM,
};
