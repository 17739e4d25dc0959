//! The copy-on-write page store: one file that holds a SQLite database in compressed units.
//!
//! ```text
//! store.rs    a handle: open, refresh, read          txn.rs      write, truncate, rollback
//! recover.rs  which commit a file is at              commit.rs   publish, flush, close
//! map.rs      the page map tree      node.rs         leaf.rs     where units are
//! train.rs    dictionaries for growing files
//! space.rs    free space   ranges.rs   place.rs      compact.rs  giving space back
//! erase.rs    what was deleted is overwritten
//! maintain.rs storing pages again                    arrange.rs  extents in order
//! catalog.rs  dictionaries           queue.rs        check.rs    info.rs   survey.rs
//! batch.rs    encoding pages     crew.rs     helper threads   results.rs   what they bring
//! medium.rs   verified reads         cache.rs        disk.rs     the six calls to the medium
//! at_hand.rs  nodes, dictionaries   nearby.rs   neighbours read at once    ahead.rs    decoding ahead
//! bundle.rs   copies for readers far away
//! layout.rs   offsets, checksums     header.rs       record.rs   commit records
//! ```
//! Nothing that a commit refers to is ever overwritten while a crash could make the file fall back to
//! that commit; docs/design.md argues why, docs/format.md gives every byte.
#![forbid(unsafe_code)]

mod ahead;
mod arrange;
mod at_hand;
mod batch;
mod bundle;
mod bytes;
mod cache;
mod catalog;
mod check;
mod commit;
mod compact;
mod crew;
mod disk;
mod erase;
mod error;
#[cfg(any(test, fuzzing))]
pub mod forged;
#[cfg(test)]
mod format_test;
mod header;
#[cfg(any(test, fuzzing))]
pub mod hostile;
mod info;
mod layout;
mod leaf;
mod maintain;
mod map;
mod medium;
mod nearby;
mod node;
mod place;
mod queue;
mod ranges;
mod record;
mod recover;
mod results;
mod space;
mod store;
mod survey;
mod train;
mod txn;

pub use arrange::Arranged;
pub use cache::{Cache, DEFAULT_BUDGET, FileId};
pub use check::CheckReport;
pub use disk::{Disk, MemDisk};
pub use erase::Erase;
pub use error::{Damage, Error, Result};
pub use header::{FileKind, HEAD_LEN, Header, kind_of};
pub use info::{Info, StoredUnit};
pub use layout::{FileUuid, HEADER_LEN, MAGIC, VERSION};
pub use maintain::Listed;
pub use store::{DEFAULT_LEVEL, Options, Store};
pub use txn::SQLITE_MAGIC;
