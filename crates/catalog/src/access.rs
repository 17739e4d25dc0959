//! How servers are asked, told to the process.

use std::collections::BTreeSet;

use litepack::Access;
use litepack_database::error::{Context, cannot_read};
use litepack_database::{Error, Result};

/// Has connections of this process use it for these URLs, as no URI names local files.
pub(super) fn apply<'a>(access: &Access, urls: impl Iterator<Item = &'a str>) -> Result<()> {
    let told = |why| Error::Refused(format!("cannot set how servers are asked: {why}"));
    if let Some(file) = &access.ca_file {
        let file = file.to_string_lossy();
        litepack_sqlite::remote_config("ca_file", Some(&file)).map_err(told)?;
    }
    if let Some(file) = &access.headers_file {
        let text = std::fs::read_to_string(file);
        let text = text.with_context(|| cannot_read(file))?;
        for origin in urls.filter_map(origin).collect::<BTreeSet<_>>() {
            litepack_sqlite::remote_headers(origin, Some(&text)).map_err(told)?;
        }
    }
    Ok(())
}

/// Scheme and host of a URL of a web server that has no user in it.
fn origin(url: &str) -> Option<&str> {
    let is_web = url
        .get(..4)
        .is_some_and(|start| start.eq_ignore_ascii_case("http"));
    let start = url.find("://").filter(|_| is_web)? + 3;
    let end = url[start..].find('/').map_or(url.len(), |len| start + len);
    Some(&url[..end])
}
