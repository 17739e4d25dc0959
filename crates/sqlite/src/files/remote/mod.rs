//! Databases on web servers (feature `remote`): what a URI and the program say of them, and the files themselves.
//!
//! ```text
//! parameters.rs  URI parameters       config.rs   what the program sets
//! file.rs        an open file         absent.rs   what stands for all of it without the feature: a clear refusal
//! ```

#[cfg(not(feature = "remote"))]
mod absent;
#[cfg(feature = "remote")]
pub(crate) mod config;
#[cfg(feature = "remote")]
mod file;
#[cfg(feature = "remote")]
mod parameters;

#[cfg(not(feature = "remote"))]
pub(crate) use absent::{KeyedRemoteFile, Location, RemoteFile, from_uri, keyed, names};
#[cfg(feature = "remote")]
pub use config::{remote_config, remote_headers, remote_options};
#[cfg(feature = "remote")]
pub use file::remote_info;
#[cfg(feature = "remote")]
pub(crate) use file::{KeyedRemoteFile, RemoteFile, keyed};
#[cfg(feature = "remote")]
pub(crate) use parameters::{Location, from_uri, names};
