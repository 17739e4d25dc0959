//! Files as calls use them: opened, locked, read, replaced.
//!
//! ```text
//! source.rs       a database that is read and does not change     content.rs      its bytes, plain or packed
//! origin.rs       a database that is only read, whatever others do     held.rs         how both are closed
//! replacement.rs  a new file in place of a name, or everything         object.rs       a target in an object store
//!                 as it was                                            patterns.rs     files that are named by patterns
//! directory.rs    an open directory, and the files in it by their names
//! durable.rs      the steps by which a file takes a name, and a power loss between them
//! leftovers.rs    temporary files, and what is left of them
//! not_applied.rs  WALs that are another database's
//! structure.rs    whether its pages make trees                         bound.rs        SQL on it has an end
//! schema.rs       columns of tables                            rights.rs       who may do what with a file
//! itself.rs       a file by its own name, not by a link        attributes.rs   what a file system notes of it besides
//! ```

pub mod attributes;
pub mod bound;
pub mod content;
pub mod directory;
pub mod durable;
pub mod held;
pub mod itself;
pub mod leftovers;
pub mod not_applied;
pub mod object;
pub mod origin;
#[cfg(feature = "patterns")]
pub mod patterns;
pub mod replacement;
pub mod rights;
pub mod schema;
pub mod source;
pub mod structure;
