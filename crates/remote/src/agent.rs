//! The HTTP client: what it trusts, how long it waits, and what it does not do by itself.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::options::Options;
use litepack_ranges::{Error, Result};

const USER_AGENT: &str = concat!("litepack/", env!("CARGO_PKG_VERSION"));

/// How long it waits.
#[derive(Clone, Copy)]
pub(crate) struct Timeouts {
    /// For the server's address, and again for a connection.
    connect: Duration,
    /// For an answer to begin, and for it to go on.
    read: Duration,
    /// For all of it.
    body: Duration,
}

impl Timeouts {
    /// The same for everything.
    pub(crate) fn all(timeout: Duration) -> Timeouts {
        Timeouts {
            connect: timeout,
            read: timeout,
            body: timeout * 3,
        }
    }

    /// Those of a file's server.
    pub(crate) fn of(options: &Options) -> Timeouts {
        Timeouts {
            connect: options.connect_timeout,
            read: options.read_timeout,
            body: options.read_timeout * 3,
        }
    }

    /// For an answer that is a long time coming, all of it.
    pub(crate) fn with_answer(self, timeout: Duration) -> Timeouts {
        Timeouts {
            read: timeout,
            body: timeout,
            ..self
        }
    }
}

/// A client with connections of its own.
///
/// # Errors
/// Root certificates that cannot be read.
pub(crate) fn agent(options: &Options, timeouts: Timeouts) -> Result<Agent> {
    let tls = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(match &options.root_certificates {
            Some(path) => root_certificates(path)?,
            None => RootCerts::PlatformVerifier,
        })
        .build();
    let Timeouts {
        connect,
        read,
        body,
    } = timeouts;
    let config = Agent::config_builder()
        .tls_config(tls)
        // A guest in someone's process does not look at its environment.
        .proxy(None)
        .http_status_as_error(false)
        .max_redirects(0)
        .user_agent(USER_AGENT)
        .accept_encoding("identity")
        .timeout_resolve(Some(connect))
        .timeout_connect(Some(connect))
        .timeout_send_request(Some(read))
        .timeout_per_write(Some(read))
        .timeout_recv_response(Some(read))
        .timeout_per_read(Some(read))
        .timeout_recv_body(Some(body))
        .max_idle_connections_per_host(options.at_once);
    Ok(config.build().new_agent())
}

/// Whether there are root certificates in a file.
///
/// # Errors
/// [`Error::Settings`], which repeats nothing of the file.
pub fn check_certificates(path: &Path) -> Result<()> {
    root_certificates(path).map(|_| ())
}

fn root_certificates(path: &Path) -> Result<RootCerts> {
    let failed =
        |why: &str| Error::Settings(format!("root certificates {}: {why}", path.display()));
    let text = fs::read(path).map_err(|error| failed(&error.to_string()))?;
    let items = parse_pem(&text).map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Ok(Some(certificate)),
        Ok(_) => Ok(None),
        Err(_) => Err(failed("not valid PEM")),
    });
    let certificates: Result<Vec<Option<Certificate<'static>>>> = items.collect();
    let certificates: Vec<_> = certificates?.into_iter().flatten().collect();
    if certificates.is_empty() {
        return Err(failed("no certificate in it"));
    }
    Ok(RootCerts::new_with_certs(&certificates))
}
