//! The files that paths and URLs name.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::Path;

use litepack_database::error::{Context, cannot_read, refuse};
use litepack_database::files::patterns::expand;
use litepack_database::files::rights::Rights;
use litepack_database::names::is_same_file;
use litepack_database::{Error, Job, Result};
use litepack_engine::expect_database_len;
use litepack_sqlite::Listed;

use super::identity::{self, Identity};
use super::{absolute, text_of};

/// The ending of the names of files in directories and prefixes.
const SUFFIX: &str = ".db";
/// Objects of one prefix that are kept in memory.
const OBJECTS_MAX: usize = 1_000_000;

/// A file, by its absolute path, or a file on a server, by its URL.
pub(super) struct Shard {
    pub(super) path: String,
    /// Which version of it a store has listed.
    pub(super) listed: Option<Identity>,
}

impl Shard {
    pub(super) fn is_remote(&self) -> bool {
        self.path.contains("://")
    }

    /// Who may do what with a local file.
    pub(super) fn rights(&self) -> Option<Rights> {
        (!self.is_remote()).then(|| Rights::at(Path::new(&self.path)))?
    }
}

/// The files, each once; without the catalog, which may be among them.
pub(super) fn find(paths: &[&Path], target: &Path, job: &Job<'_>) -> Result<Vec<Shard>> {
    let mut shards = Vec::new();
    for path in paths {
        job.check()?;
        match path.to_str().filter(|text| text.contains("://")) {
            Some(url) => of_url(url, job, &mut shards)?,
            None => of_path(path, target, &mut shards)?,
        }
    }
    let mut seen = HashSet::new();
    shards.retain(|shard| seen.insert(shard.path.clone()));
    Ok(shards)
}

fn of_path(path: &Path, target: &Path, shards: &mut Vec<Shard>) -> Result<()> {
    let name = path.display();
    let files = if path.is_dir() {
        let cannot = || cannot_read(path);
        let mut files = Vec::new();
        for entry in path.read_dir().with_context(cannot)? {
            let found = entry.with_context(cannot)?;
            let name = found.file_name();
            let name = name.to_string_lossy();
            if name.ends_with(SUFFIX) && !name.starts_with('.') && found.path().is_file() {
                files.push(found.path());
            }
        }
        files.sort_unstable();
        files
    } else {
        expand(&[path])?
    };
    let is_target =
        |file: &Path| Ok(absolute(file)? == absolute(target)? || is_same_file(file, target));
    let before = shards.len();
    for file in files {
        if is_target(&file)? {
            if file == path {
                refuse!("{name} is the catalog itself");
            }
            continue;
        }
        if !file.exists() {
            refuse!("{} does not exist", file.display());
        }
        shards.push(Shard {
            path: text_of(&absolute(&file)?)?.to_owned(),
            listed: None,
        });
    }
    if shards.len() == before {
        refuse!("{name} has no files *{SUFFIX}");
    }
    Ok(())
}

fn of_url(url: &str, job: &Job<'_>, shards: &mut Vec<Shard>) -> Result<()> {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    match scheme.to_ascii_lowercase().as_str() {
        "s3" if rest.ends_with('/') => return of_prefix(url, job, shards),
        "s3" => {}
        "http" | "https" => {
            let authority = rest.split('/').next().unwrap_or_default();
            // In a URL, slashes before the host and control characters anywhere are passed over.
            if authority.is_empty() || url.contains(|c: char| c.is_ascii_control()) {
                refuse!("a URL of a web server is written https://HOST/PATH");
            }
            if url.contains(['?', '#', '\\']) || authority.contains('@') {
                refuse!(
                    "a URL in a catalog has no user, password or query, which may be secrets: every reader of the \
                     catalog would see them; use --headers-file"
                );
            }
        }
        _ => refuse!("a URL begins with http://, https:// or s3://"),
    }
    shards.push(Shard {
        path: url.to_owned(),
        listed: None,
    });
    Ok(())
}

fn of_prefix(url: &str, job: &Job<'_>, shards: &mut Vec<Shard>) -> Result<()> {
    let before = shards.len();
    let mut each = |objects: Vec<Listed>| {
        let wanted = |object: &Listed| object.url.ends_with(SUFFIX);
        shards.extend(objects.into_iter().filter(wanted).map(|object| {
            // A length that no file has is not believed, and the file says what it is.
            let is_possible = expect_database_len(&[], object.size).is_ok();
            let has_etag = !object.etag.is_empty() && is_possible;
            let listed = identity::of_object(object.size, &object.etag);
            Shard {
                path: object.url,
                listed: has_etag.then_some(listed),
            }
        }));
        match job.check().is_err() || shards.len() - before > OBJECTS_MAX {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let options = litepack_sqlite::remote_options(url).map_err(Error::Refused)?;
    let listed = litepack_sqlite::list(url, &options, &mut each);
    job.check()?;
    if shards.len() - before > OBJECTS_MAX {
        refuse!("{url} has more than {OBJECTS_MAX} objects; use a longer prefix");
    }
    listed.map_err(|error| Error::Refused(error.to_string()))?;
    if shards.len() == before {
        refuse!("{url} has no objects *{SUFFIX}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_no_secrets_in_them() {
        let find = |url: &str| find(&[Path::new(url)], Path::new("c.db"), &Job::default());
        for url in ["https://h/a.db", "HTTP://h:80/a@b.db", "s3://bucket/a?b.db"] {
            assert_eq!(find(url).unwrap()[0].path, url);
        }
        for url in [
            "https://u:s3cret@h/a.db",
            "https://h/a.db?s3cret",
            "ftp://h/s3cret",
            "https:\\\\s3cret@h/a://",
            "https:///u:s3cret@h/a.db",
            "https://\t/u:s3cret@h/a.db",
        ] {
            let error = find(url).err().unwrap().to_string();
            assert!(
                error.contains("URL") && !error.contains("s3cret"),
                "{error}"
            );
        }
    }
}
