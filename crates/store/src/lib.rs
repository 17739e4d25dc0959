//! The copy-on-write page store: one file that holds a SQLite database in compressed units.
//!
//! ```text
//! format/       the bytes of the file: header, commit records, map nodes, catalog
//! medium/       verified reads, coalesced and ahead of scans; caches, tools of worker threads
//! space/        free space, what others need of the file, and where new extents go
//! snapshot/     reading: which commit a file is at, the page map, pages
//! transaction/  writing: buffer, encoding, commit, flush
//! maintenance/  giving space back, order, recompression
//! inspect/      check and info
//! testing/      files made to be wrong, for tests and fuzzing
//! ```
//! Nothing that a commit refers to is ever overwritten while a crash could make the file fall back to
//! that commit; docs/design.md argues why, docs/format.md gives every byte.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )
)]

mod error;
mod format;
mod inspect;
mod maintenance;
mod medium;
mod options;
mod snapshot;
mod space;
#[cfg(any(test, fuzzing))]
#[allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "only tests and fuzzing use it"
)]
mod testing;
mod transaction;

pub use error::{Damage, Error, Result};
pub use format::basis::{BASES_MAX, ItemNumber};
pub use format::beside::{JOURNAL_SUFFIX, WAL_SUFFIX};
pub use format::file_state::FileState;
pub use format::header::{HEAD_LEN, Header, HeaderKind, identity, kind_of};
pub use format::key_place::{is_encrypted, try_key, unlock};
pub use format::layout::{FileUuid, HEADER_LEN, MAGIC, VERSION};
pub use format::offset::FileOffset;
pub use format::prefetch_segment::{OPENING, Opening};
pub use format::record::{CommitRecord, LogNumbers};
pub use format::unit::Unit;
pub use inspect::check::CheckReport;
pub use inspect::info::{Info, StoredKind, StoredUnit};
pub use inspect::without_key::{WithoutKey, without_key};
pub use litepack_io::cache::{Cache, FileId};
pub use maintenance::recompress::Listed;
pub use maintenance::reorder::Reordering;
pub use options::{DEFAULT_LEVEL, Options, Spare};
pub use snapshot::former::FormerPages;
pub use snapshot::handle::Snapshot;
pub use space::erase::Erase;
pub use space::held::{Needed, Needs};
#[cfg(any(test, fuzzing))]
pub use testing::{forged, hostile};
pub use transaction::changes::Transaction;
pub use transaction::commit::Published;
pub use transaction::groups::Group;
pub use transaction::references::Reference;
pub use transaction::store::Store;
