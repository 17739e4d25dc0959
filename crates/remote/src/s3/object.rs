//! Which object, in which region of which store; its signed URLs.

use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use ureq::http::header::HeaderMap;
use url::Url;

use super::credentials::{KnownCredentials, Provider};
use super::environment::{Environment, Profile, S3_ENDPOINT};
use crate::lock;
use crate::options::Options;
use litepack_ranges::{Error, Result};

/// How long a signed URL holds. Each is used at once; the rest is for a clock that is wrong.
pub(crate) const SIGNED_FOR: Duration = Duration::from_secs(900);
/// S3's limit, in bytes.
const KEY_MAX: usize = 1024;
const SCHEME: &str = "s3://";
/// Says of a bucket where it is.
const REGION_HEADER: &str = "x-amz-bucket-region";

/// Whether a URL names an object in a store.
pub fn is_object(url: &str) -> bool {
    url.get(..SCHEME.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(SCHEME))
}

/// Whether endpoint and region are valid, if they are set.
///
/// # Errors
/// [`Error::Settings`], which does not repeat them.
pub fn check_settings(environment: &Environment) -> Result<()> {
    let none = Profile::default();
    region(environment, &none)?;
    Store::of(environment, &none).map(|_| ())
}

/// An object, and how to reach it.
pub(crate) struct Object {
    bucket: String,
    key: String,
    store: Store,
    style: Option<Style>,
    region: Mutex<String>,
    provider: Provider,
}

/// Whose store it is.
enum Store {
    Aws { fips: bool, dual_stack: bool },
    Other(Url),
}

/// A header that lets a request do its work only if there is no such object.
pub(crate) struct Condition {
    pub(crate) name: &'static str,
    pub(crate) value: &'static str,
    /// Whether the store wants it in the signature.
    pub(crate) is_signed: bool,
}

/// The first is that of S3. Google's XML API does not heed it, and has one of its own.
static ONLY_NEW: [Condition; 2] = [
    Condition {
        name: "if-none-match",
        value: "*",
        is_signed: false,
    },
    Condition {
        name: "x-goog-if-generation-match",
        value: "0",
        is_signed: true,
    },
];
const GOOGLE: &str = "storage.googleapis.com";

/// The partitions of AWS but the first: what names of their regions begin with, and the domain of their hosts. From
/// `partitions.json` of AWS's SDKs.
const PARTITIONS: [(&str, &str); 7] = [
    ("cn-", "amazonaws.com.cn"),
    ("us-gov-", "amazonaws.com"),
    ("us-iso-", "c2s.ic.gov"),
    ("us-isob-", "sc2s.sgov.gov"),
    ("us-isof-", "csp.hci.ic.gov"),
    ("eu-isoe-", "cloud.adc-e.uk"),
    ("eusc-", "amazonaws.eu"),
];

/// The partition of AWS that a region is in, and its domain.
pub(super) fn partition(region: &str) -> (&'static str, &'static str) {
    let known = PARTITIONS.iter();
    let found = known.copied().find(|(begin, _)| region.starts_with(begin));
    found.unwrap_or(("", "amazonaws.com"))
}

/// Signs what is to be done under conditions.
pub(crate) fn sign<'a>(mut action: impl S3Action<'a>, conditions: &[Condition]) -> Url {
    for condition in conditions.iter().filter(|condition| condition.is_signed) {
        action.headers_mut().insert(condition.name, condition.value);
    }
    action.sign(SIGNED_FOR)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Path,
    Virtual,
}

impl Object {
    /// Of a URL `s3://bucket/key`. The key is everything behind the bucket, as it is.
    ///
    /// # Errors
    /// Names that are not valid, and settings that are not.
    pub(crate) fn new(url: &str, options: &Options) -> Result<Object> {
        let (bucket, key) = split(url)?;
        if key.is_empty() {
            return Err(wrong("there is no key"));
        }
        Object::of(bucket, key, options)
    }

    /// Of a URL `s3://bucket/` or `s3://bucket/prefix/`: what keys of objects begin with.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn of_prefix(url: &str, options: &Options) -> Result<Object> {
        let (bucket, prefix) = split(url)?;
        if !url.ends_with('/') {
            return Err(wrong("a prefix ends with a slash"));
        }
        Object::of(bucket, prefix, options)
    }

    fn of(bucket: &str, key: &str, options: &Options) -> Result<Object> {
        if options.headers.count() > 0 {
            let why = "headers and tokens are not for s3:// URLs, whose requests are signed";
            return Err(Error::Settings(why.into()));
        }
        let environment = &options.environment.now();
        let profile = Profile::load(environment)?;
        let region = region(environment, &profile)?;
        let style = match profile.get("s3.addressing_style") {
            None | Some("auto") => None,
            Some("path") => Some(Style::Path),
            Some("virtual") => Some(Style::Virtual),
            Some(_) => {
                let why = "addressing_style in the AWS profile is neither auto, path nor virtual";
                return Err(Error::Settings(why.into()));
            }
        };
        let object = Object {
            bucket: bucket.into(),
            key: key.into(),
            store: Store::of(environment, &profile)?,
            style,
            provider: Provider::new(environment.clone(), profile, region.clone(), options)?,
            region: Mutex::new(region),
        };
        object.bucket()?;
        Ok(object)
    }

    /// For people.
    pub(crate) fn shown(&self) -> String {
        format!("{SCHEME}{}/{}", self.bucket, self.key)
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// The object's name in caches. It does not depend on credentials, and on the region only as far as that tells the
    /// partition of AWS.
    pub(crate) fn name(&self) -> String {
        match &self.store {
            // Names of buckets are unique in each of these.
            Store::Aws { .. } => {
                let region = self.region();
                let (partition, _) = partition(&region);
                format!("aws {partition} {}/{}", self.bucket, self.key)
            }
            Store::Other(endpoint) => format!("{endpoint} {}/{}", self.bucket, self.key),
        }
    }

    /// Where requests go to.
    ///
    /// # Errors
    /// A bucket whose name cannot be a part of a host.
    pub(crate) fn bucket(&self) -> Result<Bucket> {
        let region = self.region();
        let endpoint = match &self.store {
            Store::Aws { fips, dual_stack } => {
                let fips = if *fips { "-fips" } else { "" };
                let dual_stack = if *dual_stack { ".dualstack" } else { "" };
                let (_, domain) = partition(&region);
                let text = format!("https://s3{fips}{dual_stack}.{region}.{domain}");
                Url::parse(&text)
                    .map_err(|_| Error::Settings("the AWS region is not valid".into()))?
            }
            Store::Other(endpoint) => endpoint.clone(),
        };
        let style = self.style.unwrap_or(match &self.store {
            // The certificates of S3 are for one label before its name.
            Store::Aws { .. } if is_label(&self.bucket) => Style::Virtual,
            _ => Style::Path,
        });
        let style = match style {
            Style::Virtual => UrlStyle::VirtualHost,
            Style::Path => UrlStyle::Path,
        };
        Bucket::new(endpoint, style, self.bucket.clone(), region).map_err(|_| {
            let why = "the bucket's name cannot be a part of the endpoint's host name";
            Error::Settings(format!("{}: {why}", self.shown()))
        })
    }

    /// The conditions of a request that must not replace anything.
    pub(crate) fn only_new(&self) -> &'static [Condition] {
        match &self.store {
            Store::Other(endpoint) if endpoint.host_str() == Some(GOOGLE) => &ONLY_NEW,
            _ => &ONLY_NEW[..1],
        }
    }

    /// Credentials to sign with.
    ///
    /// # Errors
    /// There are none, or what should give them does not.
    pub(crate) fn credentials(&self) -> Result<KnownCredentials> {
        self.provider.current()
    }

    /// Gets other credentials in place of those that were refused; false if there are none.
    pub(crate) fn renew(&self, refused: &Credentials) -> Result<bool> {
        self.provider.renew(refused)
    }

    fn region(&self) -> String {
        lock(&self.region).clone()
    }

    /// Whether an answer says that the bucket is in another region, which is then asked from now on. That is heeded
    /// from AWS alone, whose hosts the region is a part of.
    pub(crate) fn has_moved(&self, headers: &HeaderMap) -> bool {
        let told = headers
            .get(REGION_HEADER)
            .and_then(|value| value.to_str().ok());
        let Some(told) = told.filter(|region| is_region(region)) else {
            return false;
        };
        let mut region = lock(&self.region);
        let other = matches!(self.store, Store::Aws { .. }) && *region != told;
        if other {
            *region = told.to_string();
        }
        other
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({})", self.shown())
    }
}

fn region(environment: &Environment, profile: &Profile) -> Result<String> {
    let region = environment
        .get("AWS_REGION")
        .or_else(|| environment.get("AWS_DEFAULT_REGION"))
        .or_else(|| profile.get("region").map(str::to_string))
        .unwrap_or_else(|| "us-east-1".into());
    match is_region(&region) {
        true => Ok(region),
        false => Err(Error::Settings("the AWS region is not valid".into())),
    }
}

impl Store {
    fn of(environment: &Environment, profile: &Profile) -> Result<Store> {
        let own = endpoint(environment, profile, "s3")?;
        let Some(own) = own else {
            return Ok(Store::Aws {
                fips: environment.is_true("AWS_USE_FIPS_ENDPOINT")?,
                dual_stack: environment.is_true("AWS_USE_DUALSTACK_ENDPOINT")?,
            });
        };
        // The text is not repeated: it may have a password in it.
        let wrong = |why: &str| Error::Settings(format!("AWS_ENDPOINT_URL: {why}"));
        let url = Url::parse(&own).map_err(|_| wrong("not a valid URL"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("it begins with http:// or https://"));
        }
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
            return Err(wrong("no user, password or query can be in it"));
        }
        Ok(Store::Other(url))
    }
}

/// The endpoint that the program or the user has chosen for a service.
///
/// # Errors
/// A variable that says neither yes nor no.
pub(super) fn endpoint(
    environment: &Environment,
    profile: &Profile,
    service: &str,
) -> Result<Option<String>> {
    let of_program = environment.get(S3_ENDPOINT).filter(|_| service == "s3");
    if of_program.is_some() {
        return Ok(of_program);
    }
    if environment.is_true("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")? {
        return Ok(None);
    }
    let of_service = format!("AWS_ENDPOINT_URL_{}", service.to_ascii_uppercase());
    Ok(environment
        .get(&of_service)
        .or_else(|| environment.get("AWS_ENDPOINT_URL"))
        .or_else(|| profile.endpoint(service).map(str::to_string)))
}

fn wrong(why: &str) -> Error {
    Error::Settings(format!("{why}; an object is written s3://bucket/key"))
}

/// Bucket and key of a URL; the key may be empty.
fn split(url: &str) -> Result<(&str, &str)> {
    let rest = url.get(SCHEME.len()..).filter(|_| is_object(url));
    let rest = rest.ok_or_else(|| wrong("not the URL of an object"))?;
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    let of_names = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if !(3..=63).contains(&bucket.len()) || !bucket.chars().all(of_names) || bucket.contains("..") {
        return Err(wrong("the name of the bucket is not valid"));
    }
    // To a parser of URLs these parts are a way up; in the store they name another object.
    let is_way = |part: &str| matches!(part, "." | "..");
    if key.len() > KEY_MAX || key.chars().any(char::is_control) || key.split('/').any(is_way) {
        return Err(wrong("the key is not valid"));
    }
    Ok((bucket, key))
}

/// A region is a part of a host's name: nothing else can be in it.
fn is_region(text: &str) -> bool {
    let of_names = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    (1..=32).contains(&text.len()) && text.bytes().all(of_names)
}

/// Whether a bucket's name can be one label of a host's name.
fn is_label(bucket: &str) -> bool {
    let of_labels = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    bucket.bytes().all(of_labels) && !bucket.starts_with('-') && !bucket.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::Headers;

    fn object(url: &str, variables: &[(&str, &str)]) -> Result<Object> {
        let mut environment = Environment::empty();
        for (name, value) in variables {
            environment = environment.with(name, value);
        }
        let options = Options {
            environment,
            ..Options::default()
        };
        Object::new(url, &options)
    }

    fn base(url: &str, variables: &[(&str, &str)]) -> String {
        let bucket = object(url, variables).unwrap().bucket().unwrap();
        bucket.base_url().to_string()
    }

    #[test]
    fn a_url_is_a_bucket_and_a_key_and_nothing_else() {
        assert_eq!(
            split("S3://logs/2026/a b?c#d%20").unwrap(),
            ("logs", "2026/a b?c#d%20")
        );
        for wrong in [
            "s3://",
            "s3://logs",
            "s3://logs/",
            "s3://lo/x",
            "s3://evil.example:80/x",
            "s3://user:s3cret@logs/x",
            "s3://lo\\gs/x",
            "s3://a..b/x",
            "s3://logs/../other/x",
            "s3://logs/a/./x",
            "s3://logs/a\nb",
            "http://logs/x",
            "s3:/logs/x",
        ] {
            let error = object(wrong, &[]).unwrap_err().to_string();
            assert!(
                error.contains("s3://bucket/key") && !error.contains("s3cret"),
                "{error}"
            );
        }
    }

    #[test]
    fn requests_go_where_the_environment_says() {
        assert_eq!(
            base("s3://logs/x", &[]),
            "https://logs.s3.us-east-1.amazonaws.com/"
        );
        assert_eq!(
            base(
                "s3://logs.example/x",
                &[("AWS_DEFAULT_REGION", "eu-west-1")]
            ),
            "https://s3.eu-west-1.amazonaws.com/logs.example/"
        );
        assert_eq!(
            base("s3://Old_Logs/x", &[("AWS_REGION", "cn-north-1")]),
            "https://s3.cn-north-1.amazonaws.com.cn/Old_Logs/"
        );
        for (region, host) in [
            ("us-gov-west-1", "us-gov-west-1.amazonaws.com"),
            ("us-iso-east-1", "us-iso-east-1.c2s.ic.gov"),
            ("us-isob-east-1", "us-isob-east-1.sc2s.sgov.gov"),
            ("eusc-de-east-1", "eusc-de-east-1.amazonaws.eu"),
        ] {
            let found = base("s3://logs/x", &[("AWS_REGION", region)]);
            assert_eq!(found, format!("https://logs.s3.{host}/"));
        }
        assert_eq!(
            base(
                "s3://logs/x",
                &[
                    ("AWS_USE_FIPS_ENDPOINT", "true"),
                    ("AWS_USE_DUALSTACK_ENDPOINT", "true")
                ]
            ),
            "https://logs.s3-fips.dualstack.us-east-1.amazonaws.com/"
        );
        let own = [
            ("AWS_ENDPOINT_URL", "http://127.0.0.1:9000"),
            ("AWS_REGION", "auto"),
        ];
        assert_eq!(base("s3://logs/x", &own), "http://127.0.0.1:9000/logs/");
        let both = [own[0], ("AWS_ENDPOINT_URL_S3", "https://s3.example/in")];
        assert_eq!(base("s3://logs/x", &both), "https://s3.example/in/logs/");
        let ignored = [own[0], ("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")];
        assert!(base("s3://logs/x", &ignored).contains("amazonaws.com"));
    }

    #[test]
    fn what_is_not_to_replace_anything_says_so_in_the_words_of_the_store() {
        let signed = |variables: &[(&str, &str)]| {
            let object = object("s3://logs/x", variables).unwrap();
            let conditions = object.only_new();
            let names: Vec<_> = conditions.iter().map(|condition| condition.name).collect();
            let credentials = Credentials::new("A", "b");
            let bucket = object.bucket().unwrap();
            let action = bucket.put_object(Some(&credentials), object.key());
            let url = sign(action, conditions);
            let signed = url
                .query_pairs()
                .find(|(name, _)| name == "X-Amz-SignedHeaders");
            (names, signed.unwrap().1.into_owned())
        };
        assert_eq!(signed(&[]), (vec!["if-none-match"], "host".into()));
        let google = ("AWS_ENDPOINT_URL", "https://storage.googleapis.com");
        let own = "x-goog-if-generation-match";
        assert_eq!(
            signed(&[google]),
            (vec!["if-none-match", own], format!("host;{own}"))
        );
    }

    #[test]
    fn settings_that_are_not_valid_are_refused_without_their_value() {
        for variable in [
            ("AWS_REGION", "evil.example/s3cret"),
            ("AWS_ENDPOINT_URL", "ftp://s3cret"),
            ("AWS_ENDPOINT_URL", "https://user:s3cret@host"),
            ("AWS_ENDPOINT_URL", "s3cret"),
            ("AWS_USE_FIPS_ENDPOINT", "s3cret"),
            ("AWS_USE_DUALSTACK_ENDPOINT", "1"),
            ("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "yes"),
        ] {
            let error = object("s3://logs/x", &[variable]).unwrap_err();
            assert!(matches!(error, Error::Settings(_)), "{error}");
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
        let mut options = Options {
            environment: Environment::empty(),
            headers: Headers::default(),
            ..Options::default()
        };
        options.headers.add_bearer("s3cret").unwrap();
        let error = Object::new("s3://logs/x", &options).unwrap_err();
        assert!(error.to_string().contains("signed"), "{error}");
    }

    #[test]
    fn a_bucket_moves_to_another_region_of_aws_and_to_nothing_else() {
        let told = |region: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(REGION_HEADER, region.parse().unwrap());
            headers
        };
        let logs = object("s3://logs/x", &[]).unwrap();
        for region in ["us-east-1", "evil.example", "eu/west", ""] {
            assert!(!logs.has_moved(&told(region)), "{region}");
        }
        assert!(logs.has_moved(&told("eu-north-1")));
        assert_eq!(
            logs.bucket().unwrap().base_url().as_str(),
            "https://logs.s3.eu-north-1.amazonaws.com/"
        );
        assert!(!logs.has_moved(&told("eu-north-1")));
        let own = object("s3://logs/x", &[("AWS_ENDPOINT_URL", "http://h")]).unwrap();
        assert!(!own.has_moved(&told("eu-north-1")));
        assert_eq!(own.name(), "http://h/ logs/x");
        // Another bucket, which only has the same name.
        let china = object("s3://logs/x", &[("AWS_REGION", "cn-north-1")]).unwrap();
        assert_ne!(china.name(), logs.name());
    }
}
