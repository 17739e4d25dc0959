//! Compressed columns: dictionary compression of single columns of ordinary SQLite tables.
//!
//! Compatible in SQL and on disk with the extension sqlite-zstd 0.3.5; docs/columns.md has the layout.
//! Nothing here touches SQLite's C interface: a connection comes in as [`sql::Sql`].
//!
//! ```text
//! sql.rs         the trait of a connection, and SQL values
//! frame.rs       one value and its zstd frame; blocks.rs: the blocks of a frame
//! dictionary.rs  dictionaries by id, in the database and per connection
//! train.rs       samples, and the dictionary they give
//! config.rs      the configuration of a column
//! tokens.rs      SQL text, token by token
//! table.rs       a table, its columns and its keys
//! head.rs        what a CREATE statement creates
//! change.rs      helpers for schema changes
//! memory.rs      the texts kept for undo
//! view.rs        the view and the triggers that write through it
//! triggers.rs    users' triggers, moved to the backing table
//! refuse.rs      why a column cannot be compressed
//! transaction.rs savepoints, with triggers switched off
//! chooser.rs     which expressions may be a chooser
//! stored.rs      which tables of a database may be read
//! column.rs      a compressed column as maintenance reads and writes it
//! group.rs       from a group to its dictionary
//! batch.rs       compression on all cores
//! sampler.rs      samples by group, and whether a dictionary pays
//! state.rs       the progress of maintenance, kept between calls
//! enable.rs      compressing a column
//! disable.rs     undoing that
//! alter.rs       ADD, RENAME and DROP COLUMN
//! index.rs       CREATE INDEX
//! configure.rs   other settings for a column
//! compress_pending.rs   recompress.rs   retrain.rs   unused.rs   status.rs      one operation each
//! ```
#![forbid(unsafe_code)]

pub mod alter;
mod batch;
mod blocks;
mod change;
mod chooser;
mod column;
pub mod compress_pending;
mod config;
pub mod configure;
pub mod dictionary;
pub mod disable;
pub mod enable;
pub mod frame;
mod group;
mod head;
pub mod index;
mod memory;
pub mod recompress;
mod refuse;
pub mod retrain;
mod sampler;
pub mod sql;
mod state;
pub mod status;
mod stored;
mod table;
mod tokens;
pub mod train;
pub mod transaction;
mod triggers;
pub mod unused;
mod view;

/// The longest value that is compressed: one call of a function that a schema may call, as the view of a compressed
/// column does, handles no more.
pub const VALUE_MAX: usize = 64 << 20;
