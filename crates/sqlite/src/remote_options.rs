//! URI parameters of a database on a web server: `url`, and its companions, which mean nothing without it.

use std::path::PathBuf;
use std::time::Duration;

use litepack_remote::{DiskCache, Options};

/// The limit of a cache directory when nobody asks for another one, in MiB.
const CACHE_DIR_MB: u64 = 1024;

/// What there is to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    /// `url=URL`: where the file is. Percent-encoded, as every value in a URI is.
    Url,
    /// `headers_file=PATH`: a file with a header in each line, `Name: value`, that go with every request.
    HeadersFile,
    /// `header=Name: value`: one more. Who can see the URI can see it.
    Header,
    /// `bearer=TOKEN`: the same as `header=Authorization: Bearer TOKEN`.
    Bearer,
    /// `ca_file=PATH`: root certificates (PEM) to trust instead of the system's.
    CaFile,
    /// `cache_dir=PATH`: a directory to keep blocks in, beyond the life of the process.
    CacheDir,
    /// `cache_dir_mb=N`: how much there may be in it, in MiB.
    CacheDirMb,
    /// `timeout=N`: seconds within which the server has to connect, to begin its answer, and to go on with it.
    Timeout,
    /// `retries=N`: how often a request is sent again (0 to 20).
    Retries,
}

const ALL: [(&str, Name); 9] = [
    ("url", Name::Url),
    ("headers_file", Name::HeadersFile),
    ("header", Name::Header),
    ("bearer", Name::Bearer),
    ("ca_file", Name::CaFile),
    ("cache_dir", Name::CacheDir),
    ("cache_dir_mb", Name::CacheDirMb),
    ("timeout", Name::Timeout),
    ("retries", Name::Retries),
];

/// The names of all of them.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}

/// What the parameters say of a database on a server, the others left out; `None` if it is not on one.
///
/// # Errors
/// A value that is not valid, or one that means nothing without a URL, in words that repeat no value: it may be a secret.
pub(crate) fn from_uri(
    parameters: &[(String, String)],
) -> Result<Option<(String, Options)>, String> {
    let mut options = Options::default();
    let (mut url, mut limit_mb, mut first) = (None, None, None);
    for (key, value) in parameters {
        let Some((_, name)) = ALL.iter().find(|(known, _)| known == key) else {
            continue;
        };
        first = first.or(Some(key));
        let wrong = |why: String| format!("URI parameter {key}: {why}");
        let number = |min: u64, max: u64| match value.trim().parse() {
            Ok(number) if (min..=max).contains(&number) => Ok(number),
            _ => Err(wrong(format!("not a number between {min} and {max}"))),
        };
        let in_words = |error: litepack_remote::Error| wrong(error.to_string());
        match name {
            Name::Url => url = Some(value.clone()),
            Name::HeadersFile => options.headers.add_file(value.as_ref()).map_err(in_words)?,
            Name::Header => options.headers.add(value).map_err(in_words)?,
            Name::Bearer => options.headers.add_bearer(value).map_err(in_words)?,
            Name::CaFile => options.root_certificates = Some(PathBuf::from(value)),
            Name::CacheDir => {
                options.disk_cache = Some(DiskCache {
                    directory: PathBuf::from(value),
                    limit: CACHE_DIR_MB << 20,
                });
            }
            Name::CacheDirMb => limit_mb = Some(number(1, 1 << 30)?),
            Name::Timeout => {
                let timeout = Duration::from_secs(number(1, 3600)?);
                (options.connect_timeout, options.read_timeout) = (timeout, timeout);
            }
            Name::Retries => options.attempts = 1 + number(0, 20)? as u32,
        }
    }
    match (&mut options.disk_cache, limit_mb) {
        (Some(cache), Some(mb)) => cache.limit = mb << 20,
        (None, Some(_)) => return Err("URI parameter cache_dir_mb: there is no cache_dir".into()),
        _ => {}
    }
    match (url, first) {
        (Some(url), _) => Ok(Some((url, options))),
        (None, None) => Ok(None),
        (None, Some(key)) => Err(format!("URI parameter {key}: there is no url")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Option<(String, Options)>, String> {
        let pair = |(key, value): &(&str, &str)| (key.to_string(), value.to_string());
        from_uri(&pairs.iter().map(pair).collect::<Vec<_>>())
    }

    #[test]
    fn every_parameter_reaches_its_option() {
        assert!(parse(&[("level", "3")]).unwrap().is_none());
        let (url, options) = parse(&[
            ("url", "http://h/x"),
            ("bearer", "t"),
            ("header", "X-A: 1"),
            ("ca_file", "/ca"),
            ("cache_dir", "/c"),
            ("cache_dir_mb", "7"),
            ("timeout", "3"),
            ("retries", "0"),
        ])
        .unwrap()
        .unwrap();
        assert_eq!(url, "http://h/x");
        assert_eq!(format!("{:?}", options.headers), "Headers(2)");
        assert_eq!(options.root_certificates, Some("/ca".into()));
        let directory = "/c".into();
        assert_eq!(
            options.disk_cache,
            Some(DiskCache {
                directory,
                limit: 7 << 20
            })
        );
        assert_eq!(options.read_timeout, Duration::from_secs(3));
        assert_eq!(options.connect_timeout, Duration::from_secs(3));
        assert_eq!(options.attempts, 1);
    }

    #[test]
    fn what_is_wrong_is_said_without_the_value() {
        for (pairs, expected) in [
            (
                [("bearer", "s3cret"), ("level", "3")],
                "bearer: there is no url",
            ),
            (
                [("url", "http://h/"), ("cache_dir_mb", "3")],
                "there is no cache_dir",
            ),
            (
                [("url", "http://h/"), ("timeout", "s3cret")],
                "timeout: not a number between 1 and 3600",
            ),
            (
                [("url", "http://h/"), ("retries", "21")],
                "between 0 and 20",
            ),
            (
                [("url", "http://h/"), ("header", "s3cret")],
                "header: a header is written",
            ),
            (
                [("url", "http://h/"), ("headers_file", "/nonexistent")],
                "/nonexistent",
            ),
        ] {
            let error = parse(&pairs).unwrap_err();
            assert!(
                error.contains(expected) && !error.contains("s3cret"),
                "{error}"
            );
        }
    }
}
