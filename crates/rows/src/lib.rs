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
//! transaction.rs all or nothing, and triggers switched off meanwhile
//! column.rs      a compressed column as maintenance reads and writes it
//! group.rs       what the chooser's answer means for a row
//! crew.rs        compression on all cores
//! survey.rs      what a column holds, and whether a dictionary is worth its place
//! state.rs       what maintenance remembers between calls
//! maintain.rs   recompress.rs   retrain.rs   unused.rs   status.rs      one operation each
//! ```
#![forbid(unsafe_code)]

pub mod column;
pub mod config;
pub mod crew;
pub mod dictionary;
pub mod frame;
pub mod group;
pub mod maintain;
pub mod recompress;
pub mod retrain;
pub mod sql;
pub mod state;
pub mod status;
pub mod survey;
pub mod tokens;
pub mod train;
pub mod transaction;
pub mod unused;
