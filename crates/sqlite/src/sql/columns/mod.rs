//! The SQL functions of compressed columns, each as a safe function over the running [`Call`](crate::sql::call::Call).
//!
//! Names, arguments, defaults and results are sqlite-zstd's; `litepack_` functions are ours.
//!
//! ```text
//! values.rs        compress and decompress      training.rs   the aggregates
//! state.rs         what a connection remembers
//! bounds.rs        what one call of these may take
//! maintenance.rs   compressing rows, looking after dictionaries
//! schema.rs        which columns are compressed: enable, disable, alter
//! ```

pub(crate) mod bounds;
pub(crate) mod maintenance;
pub(crate) mod schema;
pub(crate) mod state;
pub(crate) mod training;
pub(crate) mod values;

pub(crate) use training::Training;
