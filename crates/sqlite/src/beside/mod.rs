//! The files that the process has open, and those that lie beside them.
//!
//! ```text
//! open_files.rs  the table        entry.rs   the places of a packed database in it
//! absent.rs      what need not be looked for         names.rs   names of journals and WALs
//! stamp.rs       whether a file is the same      wal_view.rs whether others may have changed the WAL
//! encrypted.rs   whether temporary files are to be sealed
//! ```

mod absent;
pub(crate) mod encrypted;
pub(crate) mod entry;
pub(crate) mod names;
pub(crate) mod open_files;
pub(crate) mod stamp;
pub(crate) mod wal_view;
