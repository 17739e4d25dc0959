//! A client of a server that plays the store, and texts that no error may show.

use litepack_remote::{Environment, Error, Options};
use litepack_webserver::{Reply, Request, Server};

use super::options;

pub const URL: &str = "s3://shards/a.db";
pub const KEY: &str = "AKIDTEST";
pub const SECRET: &str = "s3cret/+";
pub const TOKEN: &str = "t0ken/+isLong";

/// The options of a client of that server.
pub fn asking(server: &Server, instead: &[(&str, &str)]) -> Options {
    let mut environment = Environment::empty()
        .with("AWS_ENDPOINT_URL", &server.url(""))
        .with("AWS_ACCESS_KEY_ID", KEY)
        .with("AWS_SECRET_ACCESS_KEY", SECRET)
        .with("AWS_SESSION_TOKEN", TOKEN);
    for (name, value) in instead {
        environment = environment.with(name, value);
    }
    Options {
        environment,
        ..options()
    }
}

pub fn refusal(status: &str, code: &str) -> Reply {
    let text =
        format!("<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>no</Message></Error>");
    let mut reply = Reply::whole(text.as_bytes(), "\"x\"").without("etag");
    reply.status = status.into();
    reply
}

/// The path of a request, and its query with the secret parts of its URL.
pub fn target(request: &Request) -> (&str, &str) {
    request.path.split_once('?').unwrap_or((&request.path, ""))
}

#[track_caller]
pub fn no_secret(error: &Error) {
    let text = format!("{error} {error:?}").to_lowercase();
    for secret in [KEY, SECRET, TOKEN, "t0ken", "X-Amz", "%2F"] {
        assert!(!text.contains(&secret.to_lowercase()), "{secret}: {text}");
    }
}

/// As [`no_secret`], and nothing of what this server was sent: not even eight characters of a signature.
#[track_caller]
pub fn nothing_sent(server: &Server, error: &Error) {
    no_secret(error);
    let text = format!("{error} {error:?}").to_lowercase();
    for request in server.requests() {
        for name in ["X-Amz-Signature", "X-Amz-Security-Token"] {
            let value = of_query(&request, name).to_lowercase();
            let parts: Vec<_> = value.as_bytes().windows(8).collect();
            assert!(!parts.is_empty(), "{name}");
            for part in parts {
                let part = std::str::from_utf8(part).unwrap();
                assert!(!text.contains(part), "{name}, {part}: {text}");
            }
        }
    }
}

/// A value of a request's query, as it is in it.
pub fn of_query<'a>(request: &'a Request, name: &str) -> &'a str {
    let (_, query) = target(request);
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(found, _)| *found == name).unwrap().1
}
