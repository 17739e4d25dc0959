//! Files as calls use them: opened, locked, read, replaced.
//!
//! ```text
//! source.rs       a database that is read and does not change     content.rs      its bytes, plain or packed
//! origin.rs       a database that is only read, whatever others do
//! replacement.rs  a new file in place of a name, or everything         object.rs       a target in an object store
//!                 as it was                                            patterns.rs     files that are named by patterns
//! directory.rs    the open directory of a database
//! durable.rs      the steps by which a file takes a name, and a power loss between them
//! leftovers.rs    what is left of commands that were killed, and of SQLite
//! not_applied.rs  WALs that are another database's
//! structure.rs    whether its pages make trees                         bound.rs        SQL on it has an end
//! schema.rs       columns of tables
//! ```
//! How a file takes the place of another one is in the crate `litepack-replace`, whatever takes its place.

pub mod bound;
pub mod content;
pub mod directory;
pub mod durable;
pub mod leftovers;
pub mod not_applied;
pub mod object;
pub mod origin;
#[cfg(feature = "patterns")]
pub mod patterns;
pub mod replacement;
pub mod schema;
pub mod source;
pub mod structure;

pub use litepack_replace::{attributes, held, itself, rights};
