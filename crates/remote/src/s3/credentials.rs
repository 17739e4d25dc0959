//! Where credentials come from, and when they expire. The order is that of AWS tools: variables, web identity, profile
//! files, container, instance.
//!
//! Credentials from servers are kept for the process, so that ten thousand files need one answer. They are asked for
//! again some minutes before they expire.

use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use rusty_s3::Credentials;

use super::endpoints::{self, Source};
use super::environment::{Environment, Profile};
use crate::lock;
use crate::options::Options;
use litepack_ranges::{Error, Result};

/// New ones are asked for when the old ones hold for no longer than this.
const RENEW_BEFORE: Duration = Duration::from_secs(300);
/// How long a server is not asked again that gave none, while the old ones hold.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(30);
/// Sources whose credentials are kept.
const KEPT_MAX: usize = 16;
/// Settings of a profile that are not supported here, because they need a program or a browser. These come before keys
/// in the profile.
const ELSEWHERE: [&str; 4] = ["role_arn", "sso_account_id", "sso_session", "sso_start_url"];
/// And these behind them.
const ELSEWHERE_LAST: [&str; 2] = ["credential_process", "login_session"];
const VARIABLES: [&str; 3] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
];
const KEYS: [&str; 3] = [
    "aws_access_key_id",
    "aws_secret_access_key",
    "aws_session_token",
];

/// Credentials, and where they are from.
#[derive(Clone)]
pub(crate) struct KnownCredentials {
    pub(crate) credentials: Credentials,
    pub(crate) expires: Option<SystemTime>,
    /// In words, for people.
    pub(crate) from: String,
}

impl fmt::Debug for KnownCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KnownCredentials({})", self.from)
    }
}

impl KnownCredentials {
    fn holds(&self, for_long: Duration) -> bool {
        let until = self.expires.map(|at| at.duration_since(SystemTime::now()));
        until.is_none_or(|left| left.is_ok_and(|left| left > for_long))
    }
}

/// Credentials that a server gave.
#[derive(Clone)]
struct Kept {
    source: Source,
    known: KnownCredentials,
    /// When it gave no others.
    failed: Option<Instant>,
}

static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

/// Gives credentials for one object.
pub(crate) struct Provider {
    /// The caller's settings, which may change.
    given: Environment,
    region: String,
    /// Variables and profile as they were last read.
    read: Mutex<(Environment, Profile)>,
    asking: endpoints::Asking,
}

impl Provider {
    pub(crate) fn new(
        environment: Environment,
        profile: Profile,
        region: String,
        options: &Options,
    ) -> Result<Provider> {
        Ok(Provider {
            given: options.environment.clone(),
            region,
            read: Mutex::new((environment, profile)),
            asking: endpoints::Asking::new(options)?,
        })
    }

    /// Credentials that hold now.
    ///
    /// # Errors
    /// There are none, or what should give them does not.
    pub(crate) fn current(&self) -> Result<KnownCredentials> {
        let source = match self.local()? {
            Ok(known) => return Ok(known),
            Err(source) => source,
        };
        let old = lock(&KEPT)
            .iter()
            .find(|kept| kept.source == source)
            .cloned();
        if let Some(old) = &old {
            let failed = old.failed.is_some_and(|at| at.elapsed() < ASK_AGAIN_AFTER);
            let for_long = if failed { Duration::ZERO } else { RENEW_BEFORE };
            if old.known.holds(for_long) {
                return Ok(old.known.clone());
            }
        }
        // Not under the lock: a child that is forked meanwhile would find it locked for good.
        match self.asking.ask(&source) {
            Ok(known) => {
                let mut kept = lock(&KEPT);
                kept.retain(|kept| kept.source != source);
                if kept.len() == KEPT_MAX {
                    kept.remove(0);
                }
                kept.push(Kept {
                    source,
                    known: known.clone(),
                    failed: None,
                });
                Ok(known)
            }
            Err(error) => {
                let mut kept = lock(&KEPT);
                if let Some(kept) = kept.iter_mut().find(|kept| kept.source == source) {
                    kept.failed = Some(Instant::now());
                }
                // The old ones may hold for some minutes more.
                let old = old.map(|old| old.known);
                old.filter(|old| old.holds(Duration::ZERO)).ok_or(error)
            }
        }
    }

    /// Gets other credentials in place of those that were refused; false if there are none.
    ///
    /// # Errors
    /// As [`Provider::current`].
    pub(crate) fn renew(&self, refused: &Credentials) -> Result<bool> {
        lock(&KEPT).retain(|kept| kept.known.credentials != *refused);
        // Another program may have written new ones into the files.
        let environment = self.given.now();
        let profile = Profile::load(&environment)?;
        *lock(&self.read) = (environment, profile);
        Ok(self.current()?.credentials != *refused)
    }

    /// Credentials in variables and files, or else the server to ask.
    fn local(&self) -> Result<Result<KnownCredentials, Source>> {
        let read = lock(&self.read);
        let (environment, profile) = &*read;
        let values = VARIABLES.map(|name| environment.get(name));
        if let Some(known) = known(values, VARIABLES, "the environment")? {
            return Ok(Ok(known));
        }
        if let Some(source) = Source::web_identity(environment, profile, &self.region)? {
            return Ok(Err(source));
        }
        let elsewhere = |keys: &[&str]| match keys.iter().find(|key| profile.get(key).is_some()) {
            Some(key) => Err(Error::Credentials(format!(
                "the AWS profile {:?} gets credentials by {key}, which Litepack does not do; `aws configure \
                 export-credentials --profile {} --format env` prints them as variables for its environment",
                profile.name, profile.name
            ))),
            None => Ok(()),
        };
        elsewhere(&ELSEWHERE)?;
        let values = profile
            .together(KEYS)
            .map(|value| value.map(str::to_string));
        if let Some(known) = known(values, KEYS, &format!("the AWS profile {:?}", profile.name))? {
            return Ok(Ok(known));
        }
        elsewhere(&ELSEWHERE_LAST)?;
        if let Some(source) = Source::container(environment)? {
            return Ok(Err(source));
        }
        match Source::instance(environment)? {
            Some(source) => Ok(Err(source)),
            None => Err(Error::Credentials(
                "no AWS credentials: neither in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) nor in a \
                 profile file (~/.aws/credentials), and AWS_EC2_METADATA_DISABLED says not to ask the machine; an \
                 object that is public can be read by its https:// URL"
                    .into(),
            )),
        }
    }
}

/// Credentials of a key, its secret and perhaps a token; `None` without key and secret.
///
/// # Errors
/// One of them is not there: another one that is elsewhere would not belong to it.
fn known(
    [key, secret, token]: [Option<String>; 3],
    names: [&str; 3],
    from: &str,
) -> Result<Option<KnownCredentials>> {
    let half = |there: &str, missing: &str| {
        let why = format!("half a pair of AWS credentials in {from}: {there} without {missing}");
        Err(Error::Credentials(why))
    };
    let (key, secret) = match (key, secret) {
        (Some(key), Some(secret)) => (key, secret),
        (Some(_), None) => return half(names[0], names[1]),
        (None, Some(_)) => return half(names[1], names[0]),
        (None, None) => return Ok(None),
    };
    Ok(Some(KnownCredentials {
        credentials: match token {
            Some(token) => Credentials::new_with_token(key, secret, token),
            None => Credentials::new(key, secret),
        },
        expires: None,
        from: from.into(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(variables: &[(&str, &str)]) -> Provider {
        let mut environment = Environment::empty();
        for (name, value) in variables {
            environment = environment.with(name, value);
        }
        let options = Options {
            environment: environment.clone(),
            ..Options::default()
        };
        let profile = Profile::load(&environment).unwrap();
        Provider::new(environment, profile, "eu-west-1".into(), &options).unwrap()
    }

    #[test]
    fn variables_come_before_files() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("credentials");
        std::fs::write(
            &file,
            "[default]\naws_access_key_id = F\naws_secret_access_key = f\naws_session_token = t\n",
        )
        .unwrap();
        let of_file = ("AWS_SHARED_CREDENTIALS_FILE", file.to_str().unwrap());
        let found = provider(&[of_file]).current().unwrap();
        assert_eq!(found.credentials.key(), "F");
        assert_eq!(found.credentials.token(), Some("t"));
        assert!(found.from.contains("default"));
        let both = [
            of_file,
            ("AWS_ACCESS_KEY_ID", "V"),
            ("AWS_SECRET_ACCESS_KEY", "v"),
        ];
        let found = provider(&both).current().unwrap();
        assert_eq!(
            (found.credentials.key(), found.credentials.token()),
            ("V", None)
        );
    }

    /// A profile in these two files, with these variables.
    fn of_files(
        config: &str,
        credentials: &str,
        variables: &[(&str, &str)],
    ) -> Result<KnownCredentials> {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str, text: &str| {
            let path = place.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_string()
        };
        let (config, credentials) = (path("config", config), path("credentials", credentials));
        let mut all = vec![
            ("AWS_CONFIG_FILE", config.as_str()),
            ("AWS_SHARED_CREDENTIALS_FILE", &credentials),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ];
        all.extend(variables);
        provider(&all).current()
    }

    #[test]
    fn half_a_pair_is_an_error_that_names_the_other_half() {
        let files = "[default]\naws_access_key_id = F\naws_secret_access_key = s3cret\n";
        for (there, missing) in [
            ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
            ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"),
        ] {
            let error = of_files("", files, &[(there, "s3cret")]).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(&format!("without {missing}")), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn key_secret_and_token_are_from_one_section() {
        let key = "[default]\naws_access_key_id = ";
        let secret = "\naws_secret_access_key = s3cret\n";
        let token = "aws_session_token = t\n";
        let whole = format!("{key}C{secret}");
        let found = of_files(&format!("[default]\n{token}"), &whole, &[]).unwrap();
        assert_eq!(found.credentials.token(), None);
        let found = of_files(&format!("{key}D{secret}{token}"), &whole, &[]).unwrap();
        let credentials = found.credentials;
        assert_eq!((credentials.key(), credentials.token()), ("C", None));
        let found = of_files(&format!("{key}D{secret}{token}"), "", &[]).unwrap();
        assert_eq!(found.credentials.token(), Some("t"));
        for (config, credentials) in [
            (format!("[default]{secret}"), format!("{key}C\n")),
            (whole.clone(), format!("[default]{secret}")),
        ] {
            let error = of_files(&config, &credentials, &[]).unwrap_err();
            let error = error.to_string();
            assert!(
                error.contains("half a pair") && error.contains("\"default\""),
                "{error}"
            );
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn a_role_or_a_browser_comes_before_keys_of_the_profile() {
        let keys = "[default]\naws_access_key_id = C\naws_secret_access_key = s3cret\n";
        for elsewhere in ["role_arn", "sso_session", "sso_start_url", "sso_account_id"] {
            let error = of_files(&format!("[default]\n{elsewhere} = x\n"), keys, &[]);
            let error = error.unwrap_err().to_string();
            assert!(
                error.contains(elsewhere) && error.contains("export-credentials"),
                "{error}"
            );
        }
        assert!(of_files("[default]\ncredential_process = x\n", keys, &[]).is_ok());
    }

    #[test]
    fn files_that_were_written_again_are_read_again() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("credentials");
        let write = |key: &str| {
            let text = format!("[default]\naws_access_key_id = {key}\naws_secret_access_key = f\n");
            std::fs::write(&file, text).unwrap();
        };
        write("ONE");
        let provider = provider(&[("AWS_SHARED_CREDENTIALS_FILE", file.to_str().unwrap())]);
        let one = provider.current().unwrap().credentials;
        assert!(!provider.renew(&one).unwrap());
        write("TWO");
        assert!(provider.renew(&one).unwrap());
        assert_eq!(provider.current().unwrap().credentials.key(), "TWO");
    }

    #[test]
    fn what_cannot_be_done_is_said() {
        let error = provider(&[("AWS_EC2_METADATA_DISABLED", "true")]).current();
        let error = error.unwrap_err().to_string();
        assert!(error.contains("no AWS credentials"), "{error}");
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("config");
        std::fs::write(&file, "[default]\nsso_session = s3cret\n").unwrap();
        let error = provider(&[("AWS_CONFIG_FILE", file.to_str().unwrap())]).current();
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("sso_session") && error.contains("export-credentials"),
            "{error}"
        );
        assert!(!error.contains("s3cret"), "{error}");
    }
}
