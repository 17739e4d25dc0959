//! SQLite's b-tree pages, and which table or index of a database each belongs to. Pages come through a
//! closure: no I/O and nothing of how the database is stored.
//!
//! ```text
//! header.rs   the database header: page size, page count, ...     owners.rs   the answer
//! page.rs     b-tree pages and their cells                        walk.rs     finding it
//! record.rs   records, and the rows of sqlite_schema
//! ```
//! Nothing is trusted. A page belongs to whatever names it first and is read at most once, so that trees
//! with cycles, shared or damaged pages cost no more than sound ones; what they leave unclear is
//! [`Owner::Unknown`] and listed as [`Damage`]. Memory is bounded by four bytes for each page, and the names
//! in the schema.
//!
//! The format is <https://sqlite.org/fileformat2.html>.
#![forbid(unsafe_code)]

mod header;
mod owners;
pub mod page;
pub mod record;
mod walk;

pub use header::{Encoding, HEADER_LEN, Header};
pub use owners::{Damage, Owner, Owners, Role, Tree, TreeKind};
