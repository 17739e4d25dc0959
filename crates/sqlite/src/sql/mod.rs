//! Litepack in SQL: functions and pragmas.
//!
//! ```text
//! functions.rs  the table of the functions     call.rs   one that is running
//! packed.rs     those on the file of a database          maintain.rs, step.rs   maintenance
//! remote.rs     those that configure access to servers   permission.rs   who may configure
//! columns/      those of compressed columns
//! pragma.rs     the pragmas                              keys.rs   those for keys, and attaching with one
//! ```

#[allow(unsafe_code)]
pub(crate) mod call;
pub(crate) mod columns;
pub(crate) mod functions;
mod keys;
pub(crate) mod maintain;
pub(crate) mod packed;
#[allow(unsafe_code)]
pub(crate) mod permission;
pub(crate) mod pragma;
#[cfg(feature = "remote")]
pub(crate) mod remote;
#[allow(unsafe_code)]
pub(crate) mod step;

/// The version of this extension.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
