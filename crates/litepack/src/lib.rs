//! Opens SQLite databases that are stored compressed, for `rusqlite`, and packs, unpacks and maintains them.
#![cfg_attr(feature = "rusqlite", doc = "\n", doc = include_str!("functions.md"))]
//!
//! # With another SQLite crate
//!
//! A program has one SQLite in it. If that comes with another version of `rusqlite`, or with `sqlx`, `diesel`, `sea-orm`
//! or by a build script, switch the default features off: then this crate brings none, and goes with whichever SQLite
//! (3.34 or newer) is linked. It has [`register`], [`register_vfs`], [`uri`], [`remote_uri`], [`FileKind`], [`Error`]
//! and [`Result`] only; with `remote` also `remote_info`, with its `Access` and `RemoteInfo`.
//!
//! ```toml
//! litepack = { version = "0.1", default-features = false, features = ["remote"] }
//! ```
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! litepack::register()?; // before the first connection is opened
//! let name = litepack::uri("packed.db")?; // file:///home/me/packed.db?vfs=litepack
//! # Ok(()) }
//! ```
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `rusqlite` | on | everything but what is named above; `rusqlite` 0.41 |
//! | `bundled` | on | SQLite is compiled into the program, as the feature of `rusqlite` does |
//! | `remote` | on | databases on web servers; `remote_info` |
#![forbid(unsafe_code)]

#[cfg(feature = "rusqlite")]
pub mod archive;
#[cfg(feature = "rusqlite")]
mod check;
#[cfg(feature = "rusqlite")]
pub mod columns;
#[cfg(feature = "rusqlite")]
mod database;
/// For `litepack-tune`.
#[cfg(feature = "rusqlite")]
#[doc(hidden)]
pub mod draft;
#[cfg(feature = "rusqlite")]
mod info;
/// For `litepack-adopt`.
#[cfg(feature = "rusqlite")]
#[doc(hidden)]
pub mod keep;
#[cfg(feature = "rusqlite")]
mod limits;
#[cfg(feature = "rusqlite")]
mod maintain;
#[cfg(feature = "rusqlite")]
mod pack;
#[cfg(feature = "rusqlite")]
mod rekey;
#[cfg(feature = "remote")]
mod remote;
#[cfg(feature = "rusqlite")]
mod salvage;
#[cfg(feature = "rusqlite")]
mod unpack;

/// Tables and indexes of a database, and what they take in a packed file.
#[cfg(feature = "rusqlite")]
pub mod content {
    pub use litepack_btree::{PageNumber, Tree, TreeKind};
    pub use litepack_codec::Codec;
    pub use litepack_engine::content::{Content, Damage, Other, Share};
}

#[cfg(feature = "rusqlite")]
pub use {
    check::{CheckReport, Damage, check},
    info::{Info, file_kind, info, is_encrypted, try_key, without_key},
    limits::Limits,
    litepack_cipher::{Error as KeyError, Key, Padding},
    litepack_codec::{LEVELS, Level},
    litepack_database::{Job, Progress, Stop, Unit, open, open_with_flags, open_with_key},
    litepack_database::{harmless, harmless_json, harmless_line, printable, printable_path},
    litepack_store::{DEFAULT_LEVEL, Info as FileInfo, WithoutKey},
    maintain::{MaintainOptions, Maintained, maintain},
    pack::{DICTIONARY_SIZES, PACK_LEVEL, PackOptions, Sizes, pack, pack_in_place},
    rekey::{RekeyOptions, rekey},
    salvage::{LeftOut, LostRows, SalvageOptions, Salvaged, salvage},
    unpack::{UnpackOptions, unpack, unpack_in_place},
};

#[cfg(feature = "rusqlite")]
#[doc(hidden)]
pub use pack::pack_in_place_keeping;
#[cfg(feature = "rusqlite")]
#[doc(hidden)]
pub use unpack::unpack_in_place_of;

pub use litepack_database::{Error, Result, register, remote_uri, uri};
pub use litepack_engine::FileKind;
pub use litepack_rusqlite::register_vfs;
#[cfg(feature = "remote")]
pub use litepack_rusqlite::{remote_config, remote_headers};
#[cfg(feature = "remote")]
pub use remote::{Access, RemoteInfo, remote_info};

/// The versions of Litepack and of its parts in this program.
#[cfg(feature = "rusqlite")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// Of this crate.
    pub litepack: &'static str,
    /// Of SQLite.
    pub sqlite: &'static str,
    /// Of zstd.
    pub zstd: &'static str,
    /// Of the format of packed files.
    pub format: u32,
}

/// The versions of what is in this program.
#[cfg(feature = "rusqlite")]
pub fn versions() -> Versions {
    Versions {
        litepack: env!("CARGO_PKG_VERSION"),
        sqlite: rusqlite::version(),
        zstd: litepack_codec::zstd_version(),
        format: litepack_store::VERSION,
    }
}

/// The examples of README.md.
#[cfg(all(doctest, feature = "rusqlite"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
