//! Work on a stored database that needs its b-trees: plans of dictionaries, maintenance, reports. The store moves pages
//! without knowing what they are. This crate does not know SQLite's C interface, paths or locks.
//!
//! ```text
//! kind.rs        what a file is, by its first bytes     plan/           which dictionaries a database should have
//! content.rs     what each table and index takes        maintenance.rs  the steps that make a packed file small again
//! malformed.rs   whether its b-trees make sense         free_pages.rs   free pages, which need not be stored
//! foreign.rs     what a file is that is no database     pages.rs        reading pages, damaged or not
//! report.rs      what info and check answer, as JSON and text
//! references/    which units have text in common    archive.rs      an archive as the database in it
//! far.rs         a database on a server, whatever its kind
//! fill.rs        a whole database into an empty packed file
//! ```
//! The extension's SQL functions and pragmas and the functions of the library `litepack` are both made of these.
#![forbid(unsafe_code)]

pub mod archive;
pub mod content;
pub mod far;
mod fill;
pub mod foreign;
mod free_pages;
mod kind;
pub mod maintenance;
mod malformed;
mod pages;
pub mod plan;
pub mod references;
pub mod report;

pub use fill::{Watch, fill};
pub use free_pages::right_free_list;
pub use kind::{FileKind, expect_database_len, missing_bytes, page_size, stated_size};
pub use litepack_store::Unit;
pub use malformed::warning;
