//! The report on a database on a web server. It has no sizes of tables: that would fetch the whole file.

use std::path::PathBuf;
use std::sync::Arc;

use litepack_cipher::Key;
use litepack_sqlite::RemoteOptions;
use serde::Serialize;
use serde_json::Value;

use crate::{Error, Result};

/// How to ask a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// A file of headers to send with every request, one `Name: value` in a line.
    pub headers_file: Option<PathBuf>,
    /// A file of root certificates (PEM) to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
}

/// A report on a database on a web server. docs/reference/json.md lists its fields when serialised.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct RemoteInfo(Value);

impl RemoteInfo {
    /// A field of the report: `format`, `page_size`, `pages`, `logical_bytes`.
    pub fn get(&self, field: &str) -> &Value {
        &self.0[field]
    }

    /// Whether it is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.0["encrypted"] == true
    }

    /// A field of `remote`: `url`, `size`, `validator`, `requests`, `bytes`.
    pub fn traffic(&self, field: &str) -> &Value {
        &self.0["remote"][field]
    }
}

/// Reports what kind of database is at a URL, and its size; of an encrypted one without its key what anyone can see.
///
/// # Errors
/// If the server does not answer, or has no database there; if the key is wrong, or for a file that is not encrypted.
pub fn remote_info(url: &str, access: &Access, key: Option<&Arc<Key>>) -> Result<RemoteInfo> {
    let mut options = RemoteOptions {
        root_certificates: access.ca_file.clone(),
        ..RemoteOptions::default()
    };
    if let Some(file) = &access.headers_file {
        let added = options.headers.add_file(file);
        added.map_err(|error| Error::Refused(error.to_string()))?;
    }
    let report = litepack_sqlite::remote_info(url, options, key);
    report.map(RemoteInfo).map_err(Error::Refused)
}
