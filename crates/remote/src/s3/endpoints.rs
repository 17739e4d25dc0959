//! Servers that give credentials: AWS's token service for a web identity, the endpoint of a container, and that of an
//! instance (IMDSv2).
//!
//! Each has a host that is AWS's, or that the user's environment names. Nothing that they are told or answer is shown.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusty_s3::Credentials;
use serde_json::Value;
use ureq::http::header;
use ureq::{Agent, RequestBuilder};
use url::{Host, Url, form_urlencoded};

use super::credentials::KnownCredentials;
use super::environment::{Environment, Profile, read};
use super::object::{endpoint, partition};
use super::refusal::{element, text_of};
use crate::agent::{Timeouts, agent};
use crate::options::Options;
use litepack_ranges::{Error, Result};

/// Where there is no metadata service, nothing answers.
const INSTANCE_TIMEOUT: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(5);
/// How often a server is asked before it gives none.
const ATTEMPTS: u32 = 2;
const CONTAINER: &str = "http://169.254.170.2";
/// Hosts that a container may be told to ask without encryption, beside loopback.
const CONTAINER_HOSTS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"];
const INSTANCE: &str = "http://169.254.169.254";
const INSTANCE_V6: &str = "http://[fd00:ec2::254]";
/// Seconds that the token of an instance holds.
const TOKEN_TTL: &str = "300";

/// A server to ask.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Source {
    WebIdentity {
        at: Url,
        role: String,
        session: String,
        token_file: PathBuf,
    },
    Container {
        at: Url,
        token: Option<String>,
        token_file: Option<PathBuf>,
    },
    Instance {
        at: Url,
    },
}

impl Source {
    /// A role that a token in a file opens.
    pub(crate) fn web_identity(
        environment: &Environment,
        profile: &Profile,
        region: &str,
    ) -> Result<Option<Source>> {
        let get = |variable: &str, key: &str| {
            let value = environment.get(variable);
            value.or_else(|| profile.get(key).map(str::to_string))
        };
        let token_file = get("AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file");
        let (Some(token_file), Some(role)) = (token_file, get("AWS_ROLE_ARN", "role_arn")) else {
            return Ok(None);
        };
        let session = get("AWS_ROLE_SESSION_NAME", "role_session_name");
        let own = endpoint(environment, profile, "sts")?;
        let at = own.unwrap_or_else(|| {
            let (_, domain) = partition(region);
            format!("https://sts.{region}.{domain}")
        });
        Ok(Some(Source::WebIdentity {
            at: parse(&at, "the endpoint of STS")?,
            role,
            session: session.unwrap_or_else(|| "litepack".into()),
            token_file: token_file.into(),
        }))
    }

    /// The source of credentials named in a container's environment.
    pub(crate) fn container(environment: &Environment) -> Result<Option<Source>> {
        let at = if let Some(path) = environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") {
            let at = parse(&format!("{CONTAINER}{path}"), RELATIVE)?;
            // A path that does not begin with a slash would be a part of the host's name.
            if at.host_str() != Some("169.254.170.2") || at.port().is_some() {
                return Err(Error::Credentials(format!("{RELATIVE} is not valid")));
            }
            at
        } else if let Some(full) = environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI") {
            let at = parse(&full, FULL)?;
            if at.scheme() == "http" && !is_near(&at) {
                return Err(Error::Credentials(format!(
                    "{FULL} is not encrypted, and neither loopback nor an address of containers"
                )));
            }
            at
        } else {
            return Ok(None);
        };
        Ok(Some(Source::Container {
            at,
            token: environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
            token_file: environment
                .get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
                .map(PathBuf::from),
        }))
    }

    /// The machine itself, unless the user says not to ask it.
    pub(crate) fn instance(environment: &Environment) -> Result<Option<Source>> {
        if environment.is_true("AWS_EC2_METADATA_DISABLED")? {
            return Ok(None);
        }
        let v6 = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
        let v6 = v6.is_some_and(|mode| mode.eq_ignore_ascii_case("ipv6"));
        let own = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT");
        let usual = if v6 { INSTANCE_V6 } else { INSTANCE };
        let at = own.as_deref().unwrap_or(usual);
        let at = parse(at, "AWS_EC2_METADATA_SERVICE_ENDPOINT")?;
        Ok(Some(Source::Instance { at }))
    }

    /// In words, for people.
    fn words(&self) -> &'static str {
        match self {
            Source::WebIdentity { .. } => "the web identity (AWS_WEB_IDENTITY_TOKEN_FILE)",
            Source::Container { .. } => "the container's endpoint",
            Source::Instance { .. } => "the instance's metadata service",
        }
    }
}

const RELATIVE: &str = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
const FULL: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";

fn parse(text: &str, what: &str) -> Result<Url> {
    let url = Url::parse(text).ok();
    url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or_else(|| Error::Credentials(format!("{what} is not a valid URL")))
}

fn is_near(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) if address.is_loopback() => true,
        Some(Host::Ipv6(address)) if address.is_loopback() => true,
        Some(Host::Domain("localhost")) => true,
        _ => url
            .host_str()
            .is_some_and(|host| CONTAINER_HOSTS.contains(&host)),
    }
}

/// Asks such servers.
pub(crate) struct Asking {
    agent: Agent,
    instance: Agent,
}

impl Asking {
    pub(crate) fn new(options: &Options) -> Result<Asking> {
        Ok(Asking {
            agent: agent(options, Timeouts::all(TIMEOUT))?,
            instance: agent(options, Timeouts::all(INSTANCE_TIMEOUT))?,
        })
    }

    /// Credentials from one of them.
    ///
    /// # Errors
    /// It does not give any.
    pub(crate) fn ask(&self, source: &Source) -> Result<KnownCredentials> {
        let mut last = String::new();
        for _ in 0..ATTEMPTS {
            match self.once(source) {
                Ok(known) => return Ok(known),
                Err(why) => last = why,
            }
        }
        let hint = match source {
            Source::Instance { .. } => {
                ", and there are none in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or in a profile \
                 file (~/.aws/credentials); an object that is public can be read by its https:// URL"
            }
            _ => "",
        };
        let from = source.words();
        let why = format!("no AWS credentials from {from}: {last}{hint}");
        Err(Error::Credentials(why))
    }

    fn once(&self, source: &Source) -> Result<KnownCredentials, String> {
        let known = match source {
            Source::WebIdentity {
                at,
                role,
                session,
                token_file,
            } => {
                let body = form_urlencoded::Serializer::new(String::new())
                    .append_pair("Action", "AssumeRoleWithWebIdentity")
                    .append_pair("Version", "2011-06-15")
                    .append_pair("RoleArn", role)
                    .append_pair("RoleSessionName", session)
                    .append_pair("WebIdentityToken", &token(token_file)?)
                    .finish();
                let form = "application/x-www-form-urlencoded";
                let request = self.agent.post(at.as_str());
                let answer = request.header(header::CONTENT_TYPE, form).send(body);
                let text = answered(answer)?;
                let get = |name: &str| element(&text, name).map(str::to_string);
                found(
                    get("AccessKeyId"),
                    get("SecretAccessKey"),
                    get("SessionToken"),
                    get("Expiration"),
                )
            }
            Source::Container {
                at,
                token: given,
                token_file,
            } => {
                let mut request = self.agent.get(at.as_str());
                let held = match token_file {
                    Some(file) => Some(token(file)?),
                    None => given.clone(),
                };
                if let Some(held) = held {
                    request = request.header(header::AUTHORIZATION, held);
                }
                of_json(&answered(request.call())?)
            }
            Source::Instance { at } => self.of_instance(at)?,
        };
        known
            .map(|known| KnownCredentials {
                from: source.words().into(),
                ..known
            })
            .ok_or_else(|| "its answer has no credentials that are valid".into())
    }

    /// A token, the name of the role, and its credentials.
    fn of_instance(&self, at: &Url) -> Result<Option<KnownCredentials>, String> {
        let base = at.as_str().trim_end_matches('/');
        let ttl = "x-aws-ec2-metadata-token-ttl-seconds";
        let request = self.instance.put(format!("{base}/latest/api/token"));
        let session = answered(request.header(ttl, TOKEN_TTL).send_empty())?;
        let get = |path: &str| -> Result<String, String> {
            let request = self.instance.get(format!("{base}{path}"));
            let request: RequestBuilder<_> =
                request.header("x-aws-ec2-metadata-token", session.trim());
            answered(request.call())
        };
        let roles = "/latest/meta-data/iam/security-credentials/";
        let role = get(roles)?;
        let role = role.lines().next().unwrap_or_default().trim();
        let of_names = |c: char| c.is_ascii_alphanumeric() || "+=,.@_-".contains(c);
        if role.is_empty() || !role.chars().all(of_names) {
            return Err("the instance has no role".into());
        }
        Ok(of_json(&get(&format!("{roles}{role}"))?))
    }
}

/// A token from a file, which another program renews.
fn token(path: &Path) -> Result<String, String> {
    let text = read(path).map_err(|error| error.to_string())?;
    Ok(text.trim().to_string())
}

/// The text of a good answer.
fn answered(
    answer: std::result::Result<ureq::http::Response<ureq::Body>, ureq::Error>,
) -> Result<String, String> {
    let answer = answer.map_err(|error| match error {
        ureq::Error::Timeout(_) => "no answer in time".to_string(),
        ureq::Error::Io(error) => format!("the connection failed: {error}"),
        // Its text could repeat what was sent.
        _ => "the request failed".to_string(),
    })?;
    let (head, body) = answer.into_parts();
    if !head.status.is_success() {
        return Err(format!("status {}", head.status.as_u16()));
    }
    text_of(body).ok_or_else(|| "its answer is too long, or no text".into())
}

fn of_json(text: &str) -> Option<KnownCredentials> {
    let answer: Value = serde_json::from_str(text).ok()?;
    let get = |name: &str| answer.get(name)?.as_str().map(str::to_string);
    found(
        get("AccessKeyId"),
        get("SecretAccessKey"),
        get("Token"),
        get("Expiration"),
    )
}

fn found(
    key: Option<String>,
    secret: Option<String>,
    token: Option<String>,
    expires: Option<String>,
) -> Option<KnownCredentials> {
    let whole = |text: &String| !text.is_empty();
    let (key, secret) = (key.filter(whole)?, secret.filter(whole)?);
    let expires = match expires {
        Some(text) => Some(SystemTime::from(text.parse::<jiff::Timestamp>().ok()?)),
        None => None,
    };
    Some(KnownCredentials {
        credentials: match token.filter(whole) {
            Some(token) => Credentials::new_with_token(key, secret, token),
            None => Credentials::new(key, secret),
        },
        expires,
        from: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_asks_nobody_without_encryption_but_those_beside_it() {
        let full = |uri: &str| Source::container(&Environment::empty().with(FULL, uri));
        for uri in [
            "http://127.0.0.1:80/x",
            "http://localhost/x",
            "http://[::1]/x",
            "http://169.254.170.23/v1/credentials",
            "http://[fd00:ec2::23]/v1/credentials",
            "https://h.example/x",
        ] {
            assert!(full(uri).unwrap().is_some(), "{uri}");
        }
        for uri in [
            "http://h.example/x",
            "http://127.0.0.1.h.example/",
            "http://169.254.169.254/x",
            "x",
        ] {
            assert!(full(uri).is_err(), "{uri}");
        }
        let relative = |path: &str| Source::container(&Environment::empty().with(RELATIVE, path));
        assert!(relative("/v2/credentials/x").unwrap().is_some());
        for path in [".h.example/x", ":80@h.example/x", "@h.example/x", ":8080/x"] {
            assert!(relative(path).is_err(), "{path}");
        }
    }

    /// The program's endpoint is its stores', and changes nothing for the token service.
    #[test]
    fn the_token_service_is_not_where_the_program_has_its_stores() {
        let environment = Environment::empty()
            .with(crate::s3::S3_ENDPOINT, "http://stores")
            .with("AWS_ENDPOINT_URL", "http://ignored")
            .with("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
            .with("AWS_WEB_IDENTITY_TOKEN_FILE", "/x")
            .with("AWS_ROLE_ARN", "r");
        let profile = Profile::default();
        let stores = endpoint(&environment, &profile, "s3").unwrap();
        assert_eq!(stores.as_deref(), Some("http://stores"));
        let source = Source::web_identity(&environment, &profile, "eu-west-1").unwrap();
        let Some(Source::WebIdentity { at, .. }) = source else {
            panic!("no web identity");
        };
        assert_eq!(at.as_str(), "https://sts.eu-west-1.amazonaws.com/");
    }

    #[test]
    fn a_machine_is_asked_unless_the_variable_is_plain() {
        let instance = |value| {
            Source::instance(&Environment::empty().with("AWS_EC2_METADATA_DISABLED", value))
        };
        assert!(instance("false").unwrap().is_some());
        assert!(instance("TRUE").unwrap().is_none());
        let error = instance("1").err().unwrap().to_string();
        assert!(error.contains("AWS_EC2_METADATA_DISABLED"), "{error}");
    }

    #[test]
    fn an_answer_without_all_of_it_gives_nothing() {
        let whole = r#"{"AccessKeyId":"A","SecretAccessKey":"b","Token":"c","Expiration":"2026-11-24T12:00:00Z"}"#;
        let known = of_json(whole).unwrap();
        assert_eq!(known.credentials.token(), Some("c"));
        assert!(known.expires.is_some());
        for wrong in [
            "",
            "{}",
            "[]",
            r#"{"AccessKeyId":"A","SecretAccessKey":""}"#,
            r#"{"AccessKeyId":"A","SecretAccessKey":"b","Expiration":"soon"}"#,
        ] {
            assert!(of_json(wrong).is_none(), "{wrong}");
        }
    }
}
