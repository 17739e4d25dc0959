//! Work on a database with pages of 1 KiB: four times as many pages, each with less to find in it.

use super::again::{Again, Place};
use super::point_reads::PointReads;
use super::range_reads::RangeReads;
use super::transactions::{self, Transactions};
use crate::dataset::Dataset;
use crate::engines::Group;

const PLACE: Place = Place {
    title: "Pages of 1 KiB",
    group: Group::Files,
    data: Dataset::SmallPages,
};

/// Reads by key.
pub const POINT_READS: Again<PointReads> = Again {
    name: "small-pages-point-reads",
    about: "One row by primary key, keys uniformly random, on the same titles in pages of 1 KiB.",
    place: &PLACE,
    work: PointReads,
};

/// Reads in key order.
pub const RANGE_READS: Again<RangeReads> = Again {
    name: "small-pages-range-reads",
    about: "1000 rows in key order from a random key on, of the same.",
    place: &PLACE,
    work: RangeReads,
};

/// Rows anywhere.
pub const UPDATE_RANDOM: Again<Transactions> = Again {
    name: "small-pages-update-random",
    about: "1000 random rows of the same get new text in one transaction.",
    place: &PLACE,
    work: transactions::UPDATE_RANDOM,
};
