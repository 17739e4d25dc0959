//! Where a file is: an `http` or `https` URL without user, password and fragment, shown to people without its query.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::percent_decode_str;
use url::Url;

use litepack_ranges::{Error, Result};

/// Query parameters that only sign a URL begin so: they change from one presigned URL of an object to the next, and
/// never say which object it is.
const SIGNATURES: [&str; 2] = ["x-amz-", "x-goog-"];

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Location(Url);

impl Location {
    /// A user's URL, and what its `user:password@` comes to as a value of `Authorization`.
    pub(crate) fn parse(text: &str) -> Result<(Location, Option<String>)> {
        // Neither the text nor a part of it goes into the error: who mistyped it may have mistyped a secret.
        let mut url =
            Url::parse(text).map_err(|why| Error::Settings(format!("not a valid URL: {why}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Error::Settings(format!(
                "a URL begins with http://, https:// or s3://, not with {}:",
                url.scheme()
            )));
        }
        let basic = Self::take_user(&mut url);
        Ok((Location(url), basic))
    }

    /// Takes out what is not sent as a part of the URL.
    fn take_user(url: &mut Url) -> Option<String> {
        let user: Vec<u8> = percent_decode_str(url.username()).collect();
        let password: Option<Vec<u8>> = url
            .password()
            .map(|text| percent_decode_str(text).collect());
        // The parser gives every http URL a host, so these can be set.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_fragment(None);
        if user.is_empty() && password.is_none() {
            return None;
        }
        let mut pair = user;
        pair.push(b':');
        pair.extend(password.unwrap_or_default());
        Some(format!("Basic {}", BASE64_STANDARD.encode(pair)))
    }

    /// Where a redirect from here leads. It is the server's text: what it says of users is dropped.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn join(&self, target: &str) -> Result<Location, String> {
        let mut url = self
            .0
            .join(target)
            .map_err(|_| "it redirects to something that is not a URL".to_string())?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("it redirects to something that is not on the web".into());
        }
        if self.0.scheme() == "https" && url.scheme() == "http" {
            return Err(format!(
                "it redirects from https to {}, which is not encrypted",
                Location(url)
            ));
        }
        Self::take_user(&mut url);
        Ok(Location(url))
    }

    /// Scheme, host and port are the same: who is trusted with a secret there is trusted with it here.
    pub(crate) fn is_same_origin(&self, other: &Location) -> bool {
        self.0.origin() == other.0.origin()
    }

    /// All of it, for the request.
    pub(crate) fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The object's name: the whole URL, except parameters that only sign.
    pub(crate) fn name(&self) -> String {
        let mut url = self.0.clone();
        let named = |pair: &&str| {
            let lower = pair.to_ascii_lowercase();
            !SIGNATURES.iter().any(|prefix| lower.starts_with(prefix))
        };
        let query: Option<Vec<&str>> = self
            .0
            .query()
            .map(|query| query.split('&').filter(named).collect());
        let query = query
            .filter(|pairs| !pairs.is_empty())
            .map(|pairs| pairs.join("&"));
        url.set_query(query.as_deref());
        url.into()
    }
}

/// Scheme, host and port: to whom a secret may be sent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin(String);

impl Origin {
    /// Written `https://host` or `https://host:port`, and nothing more: it would be believed to count.
    ///
    /// # Errors
    /// [`Error::Settings`], which repeats nothing of the text.
    pub fn parse(text: &str) -> Result<Origin> {
        let (location, basic) = Location::parse(text)?;
        let bare = location.0.path() == "/" && location.0.query().is_none();
        if !bare || basic.is_some() || text.contains('#') {
            let text =
                "an origin is written https://host or https://host:port, and nothing behind it";
            return Err(Error::Settings(text.into()));
        }
        Ok(Origin(location.0.origin().ascii_serialization()))
    }

    /// Of a URL.
    ///
    /// # Errors
    /// [`Error::Settings`] if it is none for the web.
    pub fn of(url: &str) -> Result<Origin> {
        let (location, _) = Location::parse(url)?;
        Ok(Origin(location.0.origin().ascii_serialization()))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut url = self.0.clone();
        url.set_query(None);
        f.write_str(url.as_str())
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Location {
        Location::parse(text).unwrap().0
    }

    #[test]
    fn secrets_are_not_shown_and_not_in_the_request_line() {
        let (location, basic) =
            Location::parse("https://us%40er:p:w@h.example:8443/a/b.db?sig=s3cret#f").unwrap();
        assert_eq!(location.to_string(), "https://h.example:8443/a/b.db");
        assert_eq!(format!("{location:?}"), "https://h.example:8443/a/b.db");
        assert_eq!(
            location.as_str(),
            "https://h.example:8443/a/b.db?sig=s3cret"
        );
        assert_eq!(basic.as_deref(), Some("Basic dXNAZXI6cDp3"));
    }

    #[test]
    fn only_the_web_is_read() {
        for text in [
            "ftp://h/x",
            "file:///etc/passwd",
            "h/x",
            "/x",
            "",
            "data:,x",
            "http://",
        ] {
            let error = Location::parse(text).unwrap_err().to_string();
            assert!(error.contains("URL"), "{text}: {error}");
        }
        let error = Location::parse("https//user:s3cret@h")
            .unwrap_err()
            .to_string();
        assert!(!error.contains("s3cret"), "{error}");
    }

    #[test]
    fn redirects_are_followed_on_the_web_and_never_to_less_protection() {
        let from = at("https://h.example/a/b.db?q=1");
        assert_eq!(
            from.join("../c?d=e").unwrap().as_str(),
            "https://h.example/c?d=e"
        );
        assert_eq!(
            from.join("//o.example/x").unwrap().as_str(),
            "https://o.example/x"
        );
        assert_eq!(
            from.join("https://u:p@o.example/x").unwrap().as_str(),
            "https://o.example/x"
        );
        assert!(from.join("file:///etc/passwd").is_err());
        assert!(from.join("https://").is_err());
        let error = from.join("http://h.example/b.db?sig=s3cret").unwrap_err();
        assert!(
            error.contains("https") && !error.contains("s3cret"),
            "{error}"
        );
        assert!(at("http://h.example/").join("https://h.example/").is_ok());
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        assert!(at("http://h/a").is_same_origin(&at("http://H:80/b")));
        for other in ["https://h/a", "http://i/a", "http://h:81/a", "http://h.h/a"] {
            assert!(!at("http://h/a").is_same_origin(&at(other)), "{other}");
        }
    }

    #[test]
    fn an_origin_is_written_without_a_path() {
        let origin = |text| Origin::parse(text).unwrap();
        for same in ["https://h", "https://H:443/", "https://h/"] {
            assert_eq!(origin(same), Origin::of("https://u:p@h/a?b#c").unwrap());
        }
        for other in ["http://h", "https://h:1", "https://i", "https://h.h"] {
            assert_ne!(origin(other), Origin::of("https://h/a").unwrap());
        }
        for wrong in [
            "https://h/s3cret",
            "https://s3cret@h",
            "https://h?s3cret",
            "https://h#s3cret",
            "h",
            "ftp://h",
            "",
        ] {
            let error = Origin::parse(wrong).unwrap_err().to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn signatures_do_not_name_an_object_and_everything_else_does() {
        let one = at("https://b/x.db?versionId=7&X-Amz-Date=1&X-Amz-Signature=aa");
        let two = at("https://b/x.db?versionId=7&X-Amz-Date=2&X-Amz-Signature=bb");
        assert_eq!(one.name(), two.name());
        assert_eq!(one.name(), "https://b/x.db?versionId=7");
        assert_eq!(at("https://b/x?X-Goog-Signature=1").name(), "https://b/x");
        assert_ne!(
            at("https://b/x?file=1").name(),
            at("https://b/x?file=2").name()
        );
    }
}
