//! Opens SQLite databases that are stored compressed, for `rusqlite`, and packs, unpacks and maintains them.
//!
//! [`open`] opens a packed database, or creates it. All of SQLite works on it.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let place = tempfile::tempdir()?;
//! # let path = place.path().join("packed.db");
//! let db = litepack::open(&path)?;
//! db.execute_batch("create table events(id integer primary key, data text)")?;
//! db.execute("insert into events(data) values (?1)", ["{}"])?;
//! # Ok(()) }
//! ```
//!
//! The other functions do what the `litepack` command does:
//!
//! | function | what it does |
//! |---|---|
//! | [`pack`], [`pack_in_place`] | create a packed file from a plain SQLite database |
//! | [`unpack`], [`unpack_in_place`] | restore the plain database, bit for bit |
//! | [`info`] | reports sizes, of each table and index too |
//! | [`check`] | reads everything and reports damage |
//! | [`maintain`] | makes a used packed file small again, while others read and write |
//! | [`archive`] | archives: read-only databases in seekable zstd files |
//! | [`columns`] | compressed columns of an ordinary database |
//! | `tune` (feature `tune`) | compares formats and settings on a copy |
//!
//! Functions that may take long have a [`Job`], which reports progress and can be stopped. `serde` serialises results
//! to the fields that the command prints with `--json`.
//!
//! Features: `remote` (on) reads databases on web servers; `bundled` (on) compiles SQLite into the program, as the
//! feature of `rusqlite` does; `tune` (off) adds the module of that name.
#![forbid(unsafe_code)]

pub mod archive;
mod check;
pub mod columns;
mod database;
mod error;
mod files;
mod info;
mod job;
mod limits;
mod maintain;
mod pack;
mod printable;
#[cfg(feature = "remote")]
mod remote;
#[cfg(feature = "tune")]
pub mod tune;
mod unpack;
mod uri;

/// Tables and indexes of a database, and what they take in a packed file.
pub mod content {
    pub use litepack_btree::{PageNumber, Tree, TreeKind};
    pub use litepack_codec::Codec;
    pub use litepack_engine::content::{Content, Damage, Other, Share};
}

use std::path::Path;
use std::sync::OnceLock;

use rusqlite::{Connection, OpenFlags};

pub use check::{CheckReport, Damage, check};
pub use error::{Error, Result};
pub use info::{Info, info};
pub use job::{Job, Progress, Stop, Unit};
pub use limits::Limits;
pub use litepack_codec::{LEVELS, Level};
pub use litepack_engine::FileKind;
pub use litepack_rusqlite::register_vfs;
pub use litepack_store::{DEFAULT_LEVEL, Info as FileInfo};
pub use maintain::{MaintainOptions, Maintained, maintain};
pub use pack::{DICTIONARY_SIZES, PackOptions, Sizes, pack, pack_in_place};
pub use printable::printable;
#[cfg(feature = "remote")]
pub use remote::{Access, RemoteInfo, remote_info};
pub use unpack::{UnpackOptions, unpack, unpack_in_place};
pub use uri::{remote_uri, uri};

/// Registers the VFS `litepack` and the SQL functions with the SQLite of this program, for connections that are opened
/// later. [`open`] does it by itself; call it before opening `file:packed.db?vfs=litepack` in another way.
///
/// # Errors
/// If that SQLite is too old or refuses.
pub fn register() -> Result<()> {
    static REGISTERED: OnceLock<()> = OnceLock::new();
    if REGISTERED.get().is_none() {
        litepack_rusqlite::register().map_err(Error::Refused)?;
        REGISTERED.get_or_init(|| ());
    }
    Ok(())
}

/// Opens a database for reading and writing: a packed file, or read-only an archive. A database that does not exist is
/// created, packed. A plain one stays plain.
///
/// # Errors
/// SQLite's.
pub fn open(path: impl AsRef<Path>) -> Result<Connection> {
    open_with_flags(path, OpenFlags::default())
}

/// The same with flags, such as `OpenFlags::SQLITE_OPEN_READ_ONLY`.
///
/// # Errors
/// SQLite's.
pub fn open_with_flags(path: impl AsRef<Path>, flags: OpenFlags) -> Result<Connection> {
    use error::Context;

    register()?;
    let path = path.as_ref();
    let cannot = || format!("cannot open {}", path.display());
    let uri = uri(path).with_context(cannot)?;
    Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI).with_context(cannot)
}

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
