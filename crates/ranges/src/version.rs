//! Which version of the file the server has: pinned when the file is opened, compared with every answer.
//!
//! A strong ETag says that the bytes are the same (RFC 9110, 8.8.3). A weak one does not, but another weak one than
//! before is a change; beside it, or without any, it is `Last-Modified` that is pinned. The length always is.

use http::header::{self, HeaderMap, HeaderName};

use crate::answer::only;

/// The version of the file, by the headers of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    etag: Option<String>,
    modified: Option<String>,
    /// The length of the whole file in bytes.
    pub len: u64,
}

impl Version {
    /// Of a file with this length, by the headers of an answer.
    ///
    /// # Errors
    /// If they contradict each other, in words.
    pub fn of(headers: &HeaderMap, len: u64) -> Result<Version, String> {
        let text = |name: HeaderName| -> Result<Option<String>, String> {
            only(headers, &name)?;
            let value = headers.get(name).and_then(|value| value.to_str().ok());
            let value = value.map(str::trim).filter(|value| !value.is_empty());
            Ok(value.map(str::to_string))
        };
        Ok(Version {
            etag: text(header::ETAG)?
                .filter(|etag| is_quoted(etag.strip_prefix("W/").unwrap_or(etag))),
            modified: text(header::LAST_MODIFIED)?,
            len,
        })
    }

    /// The same by its ETag and length alone.
    pub fn without_date(&self) -> Version {
        Version {
            modified: None,
            ..self.clone()
        }
    }

    /// The ETag, if it says that the bytes are the same.
    pub fn strong(&self) -> Option<&str> {
        self.etag.as_deref().filter(|etag| !etag.starts_with("W/"))
    }

    /// The whole mark that tells it from other versions: a strong ETag, or a date with the weak ETag if there is one;
    /// `None` if the answer had none of them.
    pub fn validator(&self) -> Option<String> {
        if let Some(etag) = self.strong() {
            return Some(etag.into());
        }
        let date = self.modified.as_deref()?;
        let weak = self.etag.as_deref();
        Some(weak.map_or_else(|| date.into(), |weak| format!("{weak} {date}")))
    }

    /// The header that asks the server for nothing if it has another version by now.
    pub fn condition(&self) -> Option<(HeaderName, &str)> {
        match (self.strong(), self.modified.as_deref()) {
            (Some(etag), _) => Some((header::IF_MATCH, etag)),
            (None, Some(date)) => Some((header::IF_UNMODIFIED_SINCE, date)),
            (None, None) => None,
        }
    }

    /// How another answer shows another version, in words; `None` if it is the same one.
    pub fn difference(&self, later: &Version) -> Option<String> {
        let differs = |what: &str, was: &Option<String>, is: &Option<String>| {
            (was.is_some() && was != is).then(|| {
                let show = |text: &Option<String>| text.clone().unwrap_or_else(|| "nothing".into());
                format!("{what} was {} and is {}", show(was), show(is))
            })
        };
        if self.len != later.len {
            return Some(format!("its length was {} and is {}", self.len, later.len));
        }
        if let Some(words) = differs("its ETag", &self.etag, &later.etag) {
            return Some(words);
        }
        // Servers with one ETag may differ in the date.
        if self.strong().is_some() {
            return None;
        }
        differs("its Last-Modified", &self.modified, &later.modified)
    }
}

fn is_quoted(etag: &str) -> bool {
    etag.len() >= 2 && etag.starts_with('"') && etag.ends_with('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(etag: &str, modified: &str, len: u64) -> Version {
        let mut headers = HeaderMap::new();
        for (name, value) in [(header::ETAG, etag), (header::LAST_MODIFIED, modified)] {
            if !value.is_empty() {
                headers.insert(name, value.parse().unwrap());
            }
        }
        Version::of(&headers, len).unwrap()
    }

    #[test]
    fn the_strongest_that_there_is_is_pinned() {
        let date = "Sun, 22 Nov 2026 09:00:00 GMT";
        let both = version("\"a\"", date, 1);
        assert_eq!(both.condition(), Some((header::IF_MATCH, "\"a\"")));
        let weak = version("W/\"a\"", date, 1);
        assert_eq!(weak.condition(), Some((header::IF_UNMODIFIED_SINCE, date)));
        // Another weak ETag in the same second is another version.
        assert_eq!(weak.validator(), Some(format!("W/\"a\" {date}")));
        assert_eq!(version("", date, 1).validator(), Some(date.into()));
        assert_eq!(version("W/\"a\"", "", 1).validator(), None);
        assert_eq!(version("a", "", 1).validator(), None);
    }

    #[test]
    fn whatever_shows_a_change_is_a_change() {
        let pinned = version("\"a\"", "d", 1);
        assert_eq!(pinned.difference(&version("\"a\"", "e", 1)), None);
        for later in [
            version("\"b\"", "d", 1),
            version("", "d", 1),
            version("\"a\"", "d", 2),
            version("W/\"a\"", "d", 1),
        ] {
            assert!(pinned.difference(&later).is_some(), "{later:?}");
        }
        let pinned = version("W/\"a\"", "d", 1);
        assert_eq!(pinned.difference(&pinned), None);
        for later in [
            version("W/\"b\"", "d", 1),
            version("W/\"a\"", "e", 1),
            version("W/\"a\"", "", 1),
        ] {
            assert!(pinned.difference(&later).is_some(), "{later:?}");
        }
    }
}
