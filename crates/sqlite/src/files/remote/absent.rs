//! Litepack without the feature `remote`: a URI with `url` is refused, and the functions that configure access to
//! servers are missing.

use std::sync::Arc;

use litepack_cipher::Key;

use crate::failure::Failure;
use crate::files::company::Wishes;
pub(crate) use crate::files::refused::{Refused as RemoteFile, Refused as KeyedRemoteFile};
use crate::options::Setting;

const URL: &str = "url";

/// A file on a server, of which there are none.
pub(crate) enum Location {}

impl Location {
    /// Never called.
    pub(crate) fn open(self, _: Vec<Setting>, _: Option<&Arc<Key>>) -> Result<RemoteFile, Failure> {
        match self {}
    }
}

/// Never called.
pub(crate) fn keyed(file: RemoteFile, _: Wishes) -> Result<KeyedRemoteFile, RemoteFile> {
    Err(file)
}

/// The parameters that are known.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    std::iter::once(URL)
}

/// Nothing.
///
/// # Errors
/// If there is a URL.
pub(crate) fn from_uri(parameters: &[(String, String)]) -> Result<Option<Location>, String> {
    if parameters.iter().any(|(key, _)| key == URL) {
        return Err(format!(
            "URI parameter {URL}: this build of Litepack cannot read from web servers; build it with the feature 'remote'"
        ));
    }
    Ok(None)
}
