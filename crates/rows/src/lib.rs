//! Compressed columns: dictionary compression of single columns of ordinary SQLite tables.
//!
//! Compatible in SQL and on disk with the extension sqlite-zstd 0.3.5; docs/columns.md has the layout.
//! Nothing here touches SQLite's C interface: a connection comes in as [`sql::Sql`].
//!
//! ```text
//! sql.rs         what is asked of a connection
//! frame.rs       one value and its zstd frame
//! dictionary.rs  dictionaries by id, in the database and per connection
//! train.rs       samples, and the dictionary they give
//! config.rs      the configuration of a column
//! tokens.rs      SQL text, token by token
//! ```
#![forbid(unsafe_code)]

pub mod config;
pub mod dictionary;
pub mod frame;
pub mod sql;
pub mod tokens;
pub mod train;
