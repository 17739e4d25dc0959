//! SQLite's b-tree pages, and which table or index of a database owns each page. A closure reads the pages: this crate
//! does no I/O and does not know how the database is stored.
//!
//! ```text
//! free_list.rs       the list of free pages
//! header.rs          the database header: page size, page count, ...
//! page_number.rs     how pages are counted
//! page.rs            b-tree pages and their cells
//! record.rs          records, and the rows of sqlite_schema
//! page_ownership.rs  the owner of each page
//! walk.rs            the walk that finds it
//! sql_name.rs        names in SQL text
//! mend/              trees without the pages that are lost
//! split.rs           where to cut a table into parts
//! ```
//! The content is not trusted. A page belongs to the first that names it and is read at most once, so trees with
//! cycles, shared or damaged pages cost no more than sound ones. Pages whose owner stays unclear are
//! [`Owner::Unknown`], and the reason is listed as [`Damage`]. Memory is bounded by four bytes for each page, and the
//! names in the schema.
//!
//! The format is <https://sqlite.org/fileformat2.html>.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )
)]

mod free_list;
mod header;
pub mod mend;
pub mod page;
mod page_number;
mod page_ownership;
pub mod record;
pub mod split;
mod sql_name;
mod walk;

pub use free_list::FreeList;
pub use header::{Encoding, HEADER_LEN, Header, SQLITE_MAGIC, page_size};
pub use page_number::PageNumber;
pub use page_ownership::{Damage, Owner, PageOwnership, Role, Tree, TreeKind};
pub use sql_name::quote;
