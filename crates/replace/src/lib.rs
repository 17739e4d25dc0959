//! A file that takes the place of another one, by whatever part of Litepack: under which name it comes into being, that
//! nobody may do more with it than with the other, and what is left of it when its maker is killed.
//!
//! It knows nothing of what is in files. The crate `database` replaces files by it for commands, and `sqlite` where a
//! pragma of SQLite's does.
//!
//! ```text
//! leftovers.rs   temporary files, and what is left of them     identity.rs    whether two names, or a name and an open
//! rights.rs      who may do what with a file                                  file, are one
//! directory.rs   an open directory, and the files in it by their names
//! attributes.rs  what a file system notes of it besides        holders.rs     who has a database open
//! itself.rs      a file by its own name, not by a link         held.rs        how a file is closed that SQLite may have
//!                                                                             open, too
//! ```
#![forbid(unsafe_code)]

pub mod attributes;
pub mod directory;
pub mod held;
pub mod holders;
pub mod identity;
pub mod itself;
pub mod leftovers;
pub mod rights;
