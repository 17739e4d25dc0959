//! URI parameters of a database on a web server: `url`, and its companions. None of them names a local file: a URI may
//! come from anyone who can write an ATTACH. Settings that name one are in `config.rs`.

use std::sync::Arc;
use std::time::Duration;

use litepack_cipher::Key;
use litepack_remote::Options;

use super::config;
use super::file::RemoteFile;
use crate::c::codes::MISUSE;
use crate::failure::Failure;
use crate::files::Database;
use crate::options::Setting;

/// The parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    /// `url=URL`: where the file is. Percent-encoded, as every value in a URI is.
    Url,
    /// `header=Name: value`: goes with every request. Who can see the URI can see it.
    Header,
    /// `bearer=TOKEN`: the same as `header=Authorization: Bearer TOKEN`.
    Bearer,
    /// `timeout=N`: seconds within which the server has to connect, to begin its answer, and to go on with it.
    Timeout,
    /// `retries=N`: how often a request is sent again (0 to 20).
    Retries,
}

const ALL: [(&str, Name); 5] = [
    ("url", Name::Url),
    ("header", Name::Header),
    ("bearer", Name::Bearer),
    ("timeout", Name::Timeout),
    ("retries", Name::Retries),
];

/// Names that a URI had once, with what is there instead.
const ELSEWHERE: [(&str, &str); 4] = [
    ("headers_file", "litepack_remote_headers(origin, headers)"),
    ("ca_file", "litepack_remote_config('ca_file', path)"),
    ("cache_dir", "litepack_remote_config('cache_dir', path)"),
    ("cache_dir_mb", "litepack_remote_config('cache_dir_mb', n)"),
];

/// The names of all of them.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let elsewhere = ELSEWHERE.iter().map(|(name, _)| *name);
    ALL.iter().map(|(name, _)| *name).chain(elsewhere)
}

/// Where a file on a server is, and how to ask for it.
pub(crate) struct Location {
    url: String,
    options: Options,
}

impl Location {
    /// Opens the file with these settings, and with its key if there is one.
    pub(crate) fn open(
        self,
        settings: Vec<Setting>,
        key: Option<&Arc<Key>>,
    ) -> Result<RemoteFile, Failure> {
        let mut file = RemoteFile::open(&self.url, self.options, key)?;
        let mut settings = settings.into_iter();
        let applied = settings.try_for_each(|setting| file.apply(setting));
        applied.map_err(|why| Failure::new(MISUSE, why))?;
        Ok(file)
    }
}

/// The location in the parameters of a database on a server, the others left out; `None` if it is not on one.
///
/// # Errors
/// A value that is not valid, or one that means nothing without a URL, in words that repeat no value: it may be a
/// secret.
pub(crate) fn from_uri(parameters: &[(String, String)]) -> Result<Option<Location>, String> {
    let mut options = Options::default();
    let (mut url, mut first) = (None, None);
    for (key, value) in parameters {
        if let Some((_, instead)) = ELSEWHERE.iter().find(|(known, _)| known == key) {
            return Err(format!(
                "URI parameter {key}: a URI names no local files; call {instead}"
            ));
        }
        let Some((_, name)) = ALL.iter().find(|(known, _)| known == key) else {
            continue;
        };
        let wrong = |why: String| format!("URI parameter {key}: {why}");
        let number = |min: u64, max: u64| match value.trim().parse() {
            Ok(number) if (min..=max).contains(&number) => Ok(number),
            _ => Err(wrong(format!("not a number between {min} and {max}"))),
        };
        let in_words = |error: litepack_remote::Error| wrong(error.to_string());
        match name {
            // Without a URL these are some other library's.
            Name::Timeout | Name::Retries if !parameters.iter().any(|(key, _)| key == "url") => {}
            Name::Url => url = Some(value.clone()),
            Name::Header => {
                first = first.or(Some(key));
                options.headers.add(value).map_err(in_words)?;
            }
            Name::Bearer => {
                first = first.or(Some(key));
                options.headers.add_bearer(value).map_err(in_words)?;
            }
            Name::Timeout => {
                let timeout = Duration::from_secs(number(1, 3600)?);
                (options.connect_timeout, options.read_timeout) = (timeout, timeout);
            }
            Name::Retries => options.attempts = 1 + number(0, 20)? as u32,
        }
    }
    match (url, first) {
        (Some(url), _) => {
            config::apply(&url, &mut options)?;
            Ok(Some(Location { url, options }))
        }
        (None, None) => Ok(None),
        (None, Some(key)) => Err(format!("URI parameter {key}: there is no url")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Option<Location>, String> {
        let pair = |(key, value): &(&str, &str)| (key.to_string(), value.to_string());
        from_uri(&pairs.iter().map(pair).collect::<Vec<_>>())
    }

    #[test]
    fn every_parameter_reaches_its_option() {
        assert!(parse(&[("level", "3")]).unwrap().is_none());
        let of_others = [("timeout", "none"), ("retries", "forever")];
        assert!(parse(&of_others).unwrap().is_none());
        let Location { url, options } = parse(&[
            ("url", "http://h/x"),
            ("bearer", "t"),
            ("header", "X-A: 1"),
            ("timeout", "3"),
            ("retries", "0"),
        ])
        .unwrap()
        .unwrap();
        assert_eq!(url, "http://h/x");
        assert_eq!(format!("{:?}", options.headers), "Headers(2)");
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
                [("url", "http://h/"), ("headers_file", "/etc/s3cret")],
                "call litepack_remote_headers(origin, headers)",
            ),
            (
                [("cache_dir", "/s3cret"), ("level", "3")],
                "call litepack_remote_config('cache_dir', path)",
            ),
        ] {
            let error = parse(&pairs).err().unwrap();
            assert!(
                error.contains(expected) && !error.contains("s3cret"),
                "{error}"
            );
        }
    }
}
