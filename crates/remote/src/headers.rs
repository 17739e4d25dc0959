//! Headers that a user adds to every request: a token, or headers of any name. All of it counts as secret: it is never
//! shown, and sent only to the origin of the user's own URL.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use ureq::http::header::{self, HeaderName, HeaderValue};

use litepack_ranges::{Error, Result};

/// A file of headers is no longer than this, in bytes.
const FILE_MAX: u64 = 64 << 10;
const TWO_NAMES: &str = "more than one of URL, token and headers sets the header authorization";
/// Headers that are ours to set, or the connection's.
const RESERVED: [HeaderName; 14] = [
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::HOST,
    header::IF_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_NONE_MATCH,
    header::IF_RANGE,
    header::IF_UNMODIFIED_SINCE,
    header::RANGE,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Headers that go with every request.
#[derive(Clone, Default)]
pub struct Headers(Vec<(HeaderName, HeaderValue)>);

impl Headers {
    /// Adds a header that is written `Name: value`.
    ///
    /// # Errors
    /// [`Error::Settings`] if it is not written so, is one that Litepack sets itself, or is a second `Authorization`.
    pub fn add(&mut self, line: &str) -> Result<()> {
        // The text may be a secret: no error repeats what stands behind the colon, or a line that has none.
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| Error::Settings("a header is written 'Name: value'".into()))?;
        let name: HeaderName = name.trim().parse().map_err(|_| {
            Error::Settings("the name of a header has a character that cannot be in it".into())
        })?;
        if RESERVED.contains(&name) {
            return Err(Error::Settings(format!(
                "the header {name} cannot be set: Litepack sets it itself"
            )));
        }
        if name == header::AUTHORIZATION && self.get(&name).is_some() {
            return Err(Error::Settings(TWO_NAMES.into()));
        }
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| {
            Error::Settings(format!(
                "the value of the header {name} has a character that cannot be in it"
            ))
        })?;
        value.set_sensitive(true);
        self.0.push((name, value));
        Ok(())
    }

    /// Adds `Authorization: Bearer TOKEN`.
    ///
    /// # Errors
    /// As [`Headers::add`].
    pub fn add_bearer(&mut self, token: &str) -> Result<()> {
        self.add(&format!("Authorization: Bearer {}", token.trim()))
    }

    /// Adds headers, one in a line. Empty lines and those that begin with `#` are passed over.
    ///
    /// # Errors
    /// [`Error::Settings`], naming the line by its number.
    pub fn add_lines(&mut self, text: &str) -> Result<()> {
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                self.add(line)
                    .map_err(|error| Error::Settings(format!("line {}: {error}", number + 1)))?;
            }
        }
        Ok(())
    }

    /// Adds others.
    ///
    /// # Errors
    /// [`Error::Settings`] if both have an `Authorization`.
    pub fn add_all(&mut self, others: &Headers) -> Result<()> {
        let authorization = &header::AUTHORIZATION;
        if self.get(authorization).is_some() && others.get(authorization).is_some() {
            return Err(Error::Settings(TWO_NAMES.into()));
        }
        self.0.extend(others.0.iter().cloned());
        Ok(())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Adds the headers in a file, as [`Headers::add_lines`] does.
    ///
    /// # Errors
    /// [`Error::Settings`], naming file and line.
    pub fn add_file(&mut self, path: &Path) -> Result<()> {
        let failed =
            |why: String| Error::Settings(format!("headers file {}: {why}", path.display()));
        let mut text = String::new();
        File::open(path)
            .and_then(|file| file.take(FILE_MAX + 1).read_to_string(&mut text))
            .map_err(|error| failed(error.to_string()))?;
        if text.len() as u64 > FILE_MAX {
            return Err(failed(format!("longer than {FILE_MAX} bytes")));
        }
        self.add_lines(&text)
            .map_err(|error| failed(error.to_string()))
    }

    fn get(&self, name: &HeaderName) -> Option<&HeaderValue> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.0.iter().map(|(name, value)| (name, value))
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Headers({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Result<Headers> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut headers = Headers::default();
        headers.add_file(file.path())?;
        Ok(headers)
    }

    #[test]
    fn a_file_has_a_header_in_each_line() {
        let headers = file("# who we are\n\nX-Api-Key:  s3cret \r\nX-Tenant: a: b\n").unwrap();
        let all: Vec<_> = headers
            .iter()
            .map(|(n, v)| (n.as_str(), v.to_str().unwrap()))
            .collect();
        assert_eq!(all, [("x-api-key", "s3cret"), ("x-tenant", "a: b")]);
        assert!(!format!("{headers:?} {:?}", headers.0).contains("s3cret"));
    }

    #[test]
    fn there_is_one_authorization() {
        let one = file("Authorization: s3cret\nX-A: 1").unwrap();
        let mut both = Headers::default();
        both.add_all(&one).unwrap();
        both.add_all(&file("X-A: 2").unwrap()).unwrap();
        assert_eq!(both.count(), 3);
        let error = both.add_all(&one).unwrap_err().to_string();
        assert!(
            error.contains("more than one") && !error.contains("s3cret"),
            "{error}"
        );
    }

    #[test]
    fn what_is_wrong_is_said_without_the_secret() {
        for (text, expected) in [
            ("X-A: 1\nBearer s3cret", "line 2: a header is written"),
            ("X s3cret: s3cret", "the name of a header"),
            ("X-A: s3\u{1}cret", "the value of the header x-a"),
            ("Range: bytes=0-1", "the header range cannot be set"),
            ("host: s3cret", "the header host cannot be set"),
            ("Authorization: a\nauthorization: s3cret", "more than one"),
        ] {
            let error = file(text).unwrap_err().to_string();
            assert!(
                error.contains(expected) && !error.contains("cret"),
                "{text}: {error}"
            );
        }
        let long = format!("X-A: {}", "a".repeat(FILE_MAX as usize));
        assert!(file(&long).unwrap_err().to_string().contains("longer than"));
        let missing = Headers::default().add_file(Path::new("/nonexistent/headers"));
        assert!(
            missing
                .unwrap_err()
                .to_string()
                .contains("/nonexistent/headers")
        );
    }
}
