//! A target that is an object in a store: `s3://bucket/key`.

use std::fs::File;
use std::path::Path;

use crate::error::refuse;
use crate::{Job, Result};

const SCHEME: &str = "s3";

/// The URL of an object that is meant by what may be the name of a file; `None` for a file.
///
/// # Errors
/// A URL that nothing can be written to.
pub fn url(target: &Path) -> Result<Option<&str>> {
    let found = target.to_str().and_then(|text| text.split_once("://"));
    let Some((scheme, _)) = found else {
        return Ok(None);
    };
    let is = |known: &str| scheme.eq_ignore_ascii_case(known);
    if is("http") || is("https") {
        refuse!(
            "a file cannot be written to a web server; write it to a directory, or to s3://bucket/key"
        );
    }
    Ok(target.to_str().filter(|_| is(SCHEME)))
}

/// Makes sure that the store can be reached, and that nothing is there unless it is to be replaced.
pub fn expect_absent(url: &str, replace: bool) -> Result<()> {
    of_store::expect_absent(url, replace)
}

/// Writes the file as the object.
pub fn upload(url: &str, file: &File, replace: bool, job: &Job<'_>) -> Result<()> {
    of_store::upload(url, file, replace, job)
}

#[cfg(feature = "remote")]
mod of_store {
    use std::fs::File;
    use std::ops::ControlFlow;

    use litepack_io::storage::ReadAt as _;
    use litepack_sqlite::{RemoteError, RemoteOptions, UploadOptions};

    use crate::error::Context as _;
    use crate::{Error, Job, Result};

    fn explained(url: &str, error: RemoteError) -> Error {
        match error {
            RemoteError::Stopped => Error::interrupted(),
            RemoteError::Exists { .. } => Error::Exists { path: url.into() },
            error => Error::Refused(error.to_string()),
        }
    }

    /// As the process was told to ask this store.
    fn options(url: &str) -> Result<RemoteOptions> {
        litepack_sqlite::remote_options(url).map_err(Error::Refused)
    }

    pub(super) fn expect_absent(url: &str, replace: bool) -> Result<()> {
        match litepack_sqlite::expect_absent(url, &options(url)?) {
            Err(RemoteError::Exists { .. }) if replace => Ok(()),
            found => found.map_err(|error| explained(url, error)),
        }
    }

    pub(super) fn upload(url: &str, file: &File, replace: bool, job: &Job<'_>) -> Result<()> {
        let len = file.len().context("cannot read the new file")?;
        let step = job.bytes("uploading", len);
        let how = UploadOptions {
            replace,
            ..UploadOptions::default()
        };
        let mut progress = |sent| {
            step.set(sent);
            match job.check() {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        };
        litepack_sqlite::upload(url, file, len, &how, &options(url)?, &mut progress)
            .map_err(|error| explained(url, error))
    }
}

#[cfg(not(feature = "remote"))]
mod of_store {
    use std::fs::File;

    use crate::error::refuse;
    use crate::{Job, Result};

    pub(super) fn expect_absent(_: &str, _: bool) -> Result<()> {
        refuse!(
            "this build of Litepack cannot write to object stores; build it with the feature 'remote'"
        );
    }

    pub(super) fn upload(url: &str, _: &File, replace: bool, _: &Job<'_>) -> Result<()> {
        expect_absent(url, replace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_file_or_an_object() {
        let url = |text: &'static str| url(Path::new(text));
        assert_eq!(url("S3://logs/a.db").unwrap(), Some("S3://logs/a.db"));
        for file in ["a.db", "/s3/a.db", "s3:/logs/a.db", "x://a"] {
            assert_eq!(url(file).unwrap(), None, "{file}");
        }
        assert!(url("https://user:s3cret@h/a").is_err_and(|error| {
            let text = error.to_string();
            text.contains("web server") && !text.contains("s3cret")
        }));
    }
}
