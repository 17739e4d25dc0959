//! What failures of the HTTP library mean, and how often a request is sent again.

use std::io;

use litepack_ranges::{Error, Failure, Retry};

use crate::options::Options;

/// How often and how long, as the options say.
pub(crate) fn retry(options: &Options) -> Retry {
    Retry {
        attempts: options.attempts,
        first_wait: options.first_wait,
        longest_wait: options.longest_wait.min(options.read_timeout),
        patience: options.read_timeout,
        wait: std::thread::sleep,
    }
}

/// The failure that an error of the HTTP library means. Its texts are not shown where they could repeat a URL.
pub(crate) fn failure(url: &str, error: ureq::Error) -> Failure {
    let passing = |why: String| Failure::Passing { why, after: None };
    let unusable = |why: String| {
        Failure::Lasting(Error::Answer {
            url: url.to_string(),
            why,
        })
    };
    match error {
        ureq::Error::Io(error) if is_certificate(&error) => unusable(format!(
            "{error}; if it is your own server, give its root certificate"
        )),
        ureq::Error::Io(error) => passing(format!("the connection failed: {error}")),
        ureq::Error::Timeout(what) => passing(format!("it took too long ({what})")),
        ureq::Error::HostNotFound => passing("the host was not found".into()),
        ureq::Error::ConnectionFailed => passing("the connection failed".into()),
        ureq::Error::Protocol(error) => passing(format!("the answer is not valid HTTP: {error}")),
        ureq::Error::Rustls(error) => unusable(format!("TLS failed: {error}")),
        ureq::Error::Tls(error) => unusable(format!("TLS failed: {error}")),
        ureq::Error::LargeResponseHeader(..) => unusable("its headers are too long".into()),
        _ => unusable("the request could not be made".into()),
    }
}

/// The server showed a certificate that is not trusted, which it will show again.
fn is_certificate(error: &io::Error) -> bool {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(tls, Some(rustls::Error::InvalidCertificate(_)))
}
