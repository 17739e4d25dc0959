//! Compressed columns: what they answer, what they survive, and sqlite-zstd beside them.
//!
//! One program for all of them: each one more takes seconds to link.

mod dictionaries;
mod functions;
mod hostile;
mod interrupted;
mod maintenance;
mod peer;
mod schema;
mod schema_objects;
mod schema_random;
