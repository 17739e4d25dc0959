//! Variables that AWS tools read, and the profile files that they name.
//!
//! They come from the process, or from the program. Nothing in here comes from a URI.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use litepack_ranges::{Error, Result};

/// A profile file or a file with a token is no longer than this, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// Not variables of the process, but what a program says itself: the endpoint of its stores, whatever is configured.
pub const S3_ENDPOINT: &str = "LITEPACK_S3_ENDPOINT";
/// As [`S3_ENDPOINT`]: the profile, instead of credentials in variables.
pub const S3_PROFILE: &str = "LITEPACK_S3_PROFILE";
/// Variables that a profile takes the place of that the program has chosen.
const CREDENTIALS: [&str; 5] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_ROLE_ARN",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
];

/// The variables that decide how object stores are reached: `AWS_REGION`, `AWS_PROFILE`, `AWS_ENDPOINT_URL` and so on.
/// By default those of the process.
#[derive(Clone)]
pub struct Environment {
    chosen: BTreeMap<String, String>,
    with_process: bool,
}

impl Default for Environment {
    fn default() -> Environment {
        Environment {
            chosen: BTreeMap::new(),
            with_process: true,
        }
    }
}

impl Environment {
    /// Without those of the process.
    pub fn empty() -> Environment {
        Environment {
            chosen: BTreeMap::new(),
            with_process: false,
        }
    }

    /// With another value for one of them.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Environment {
        self.chosen.insert(name.into(), value.into());
        self
    }

    /// The value of a variable as it was [`now`](Environment::now), unless it is empty.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let value = self.chosen.get(name)?.trim();
        (!value.is_empty()).then(|| value.to_string())
    }

    /// As it is now. The process may change its variables at any time, and to read them at that moment is not safe in
    /// every C library: so they are not read while queries run.
    pub(crate) fn now(&self) -> Environment {
        let mut chosen = BTreeMap::new();
        if self.with_process {
            let is_read = |name: &str| name.starts_with("AWS_") || HOMES.contains(&name);
            chosen = std::env::vars_os()
                .filter_map(|(name, value)| {
                    Some((name.into_string().ok()?, value.into_string().ok()?))
                })
                .filter(|(name, _)| is_read(name))
                .collect();
        }
        chosen.extend(self.chosen.clone());
        if let Some(profile) = chosen.get(S3_PROFILE).cloned() {
            chosen.retain(|name, _| !CREDENTIALS.contains(&name.as_str()));
            chosen.insert("AWS_PROFILE".into(), profile);
        }
        Environment {
            chosen,
            with_process: false,
        }
    }

    /// Whether a variable says `true`.
    ///
    /// # Errors
    /// It says neither `true` nor `false`. Its value is not repeated.
    pub(crate) fn is_true(&self, name: &str) -> Result<bool> {
        match self.get(name).map(|value| value.to_ascii_lowercase()) {
            None => Ok(false),
            Some(value) if value == "false" => Ok(false),
            Some(value) if value == "true" => Ok(true),
            Some(_) => {
                let why = format!("{name} is neither true nor false");
                Err(Error::Settings(why))
            }
        }
    }

    /// The path that a variable names, else a file in the user's `.aws`.
    fn path(&self, variable: &str, name: &str) -> Option<PathBuf> {
        let home = || HOMES.iter().find_map(|name| self.get(name));
        match self.get(variable) {
            Some(path) => match path.strip_prefix("~/") {
                Some(rest) => Some(Path::new(&home()?).join(rest)),
                None => Some(path.into()),
            },
            None => Some(Path::new(&home()?).join(".aws").join(name)),
        }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may be secrets.
        f.debug_set().entries(self.chosen.keys()).finish()
    }
}

/// The text of a file that a variable names.
///
/// # Errors
/// With the name of the file, and nothing of its content.
pub(crate) fn read(path: &Path) -> Result<String> {
    text_of(path).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &io::Error) -> Error {
    Error::Credentials(format!("cannot read {}: {error}", path.display()))
}

fn text_of(path: &Path) -> io::Result<String> {
    // Reading other kinds may never end, or wait for a writer.
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    let file = File::open(path)?;
    file.take(FILE_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_MAX {
        let why = format!("it is longer than {FILE_MAX} bytes");
        return Err(io::Error::other(why));
    }
    Ok(text)
}

/// Whether this means that there is no such file. A file at the default path may also be one that we may not read.
fn is_none(error: ErrorKind, is_named: bool) -> bool {
    match error {
        ErrorKind::NotFound | ErrorKind::NotADirectory => true,
        ErrorKind::PermissionDenied => !is_named,
        _ => false,
    }
}

const HOMES: [&str; 2] = ["HOME", "USERPROFILE"];

type Section = BTreeMap<String, String>;

/// A profile of `~/.aws/config` and `~/.aws/credentials`. A setting of a nested block has its name before a dot:
/// `s3.addressing_style`.
#[derive(Default)]
pub(crate) struct Profile {
    pub(crate) name: String,
    values: Section,
    services: Section,
    /// Of `credentials` and of `config`, as they are.
    sections: [Section; 2],
}

impl Profile {
    /// The one that `AWS_PROFILE` names, or `default`.
    ///
    /// # Errors
    /// A file that cannot be read, and a profile that is named and is nowhere.
    pub(crate) fn load(environment: &Environment) -> Result<Profile> {
        let chosen = environment
            .get("AWS_PROFILE")
            .or_else(|| environment.get("AWS_DEFAULT_PROFILE"));
        let name = chosen.clone().unwrap_or_else(|| "default".into());
        let sections = |variable, file| -> Result<BTreeMap<String, Section>> {
            let Some(path) = environment.path(variable, file) else {
                return Ok(BTreeMap::new());
            };
            // So it is said that there is none.
            if path == Path::new("/dev/null") {
                return Ok(BTreeMap::new());
            }
            match text_of(&path) {
                Ok(text) => Ok(parse(&text)),
                Err(error) if is_none(error.kind(), environment.get(variable).is_some()) => {
                    Ok(BTreeMap::new())
                }
                Err(error) => Err(unreadable(&path, &error)),
            }
        };
        let mut config = sections("AWS_CONFIG_FILE", "config")?;
        let mut credentials = sections("AWS_SHARED_CREDENTIALS_FILE", "credentials")?;
        let long = format!("profile {name}");
        let short = (name == "default").then(|| config.remove("default"));
        let configured = config.remove(&long).or(short.flatten());
        let secret = credentials.remove(&name);
        if chosen.is_some() && configured.is_none() && secret.is_none() {
            let why = format!(
                "there is no profile {name:?} in the AWS files; see AWS_PROFILE or s3_profile"
            );
            return Err(Error::Credentials(why));
        }
        let sections = [secret, configured].map(Option::unwrap_or_default);
        let mut values = sections[1].clone();
        let services = values
            .get("services")
            .and_then(|services| config.remove(&format!("services {services}")));
        values.extend(sections[0].clone());
        Ok(Profile {
            name,
            values,
            services: services.unwrap_or_default(),
            sections,
        })
    }

    /// A value, unless it is empty.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        of_section(&self.values, key)
    }

    /// Values that belong together: from the first section that has any of the first two.
    pub(crate) fn together(&self, keys: [&str; 3]) -> [Option<&str>; 3] {
        let all = |section| keys.map(|key| of_section(section, key));
        let mut found = self.sections.iter().map(all);
        found
            .find(|[one, other, _]| one.is_some() || other.is_some())
            .unwrap_or_default()
    }

    /// The endpoint that the profile has for a service.
    pub(crate) fn endpoint(&self, service: &str) -> Option<&str> {
        let of_service = self.services.get(&format!("{service}.endpoint_url"));
        of_service
            .map(String::as_str)
            .or_else(|| self.get("endpoint_url"))
    }
}

fn of_section<'a>(section: &'a Section, key: &str) -> Option<&'a str> {
    let value = section.get(key).map(String::as_str);
    value.filter(|value| !value.is_empty())
}

fn parse(text: &str) -> BTreeMap<String, Section> {
    let mut sections: BTreeMap<String, Section> = BTreeMap::new();
    let (mut section, mut block) = (String::new(), None::<String>);
    for line in text.lines() {
        let is_nested = line.starts_with([' ', '\t']);
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            let name = name.split(']').next().unwrap_or_default();
            section = name.split_whitespace().collect::<Vec<_>>().join(" ");
            section = section.replace('"', "");
            block = None;
            sections.entry(section.clone()).or_default();
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let (key, value) = (key.trim().to_ascii_lowercase(), without_comment(value));
        let key = match &block {
            Some(block) if is_nested => format!("{block}.{key}"),
            _ => {
                block = value.is_empty().then(|| key.clone());
                key
            }
        };
        let values = sections.entry(section.clone()).or_default();
        values.insert(key, value.to_string());
    }
    sections
}

/// A comment begins with a space before its sign.
fn without_comment(value: &str) -> &str {
    let value = value.trim();
    let comment = [" #", " ;", "\t#", "\t;"].iter();
    let end = comment.filter_map(|sign| value.find(sign)).min();
    value[..end.unwrap_or(value.len())].trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(config: &str, credentials: &str, profile: Option<&str>) -> Result<Profile> {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join(".aws")).unwrap();
        std::fs::write(place.path().join(".aws/config"), config).unwrap();
        std::fs::write(place.path().join(".aws/credentials"), credentials).unwrap();
        let mut environment = Environment::empty().with("HOME", place.path().to_str().unwrap());
        if let Some(profile) = profile {
            environment = environment.with("AWS_PROFILE", profile);
        }
        Profile::load(&environment)
    }

    #[test]
    fn a_profile_is_in_two_files() {
        let config = "# ours\n[default]\nregion = eu-west-1 ; near\n\n[profile \"work\"]\nregion=eu-north-1\ns3 =\n  \
                      addressing_style = path\nservices = own\n[services own]\ns3 =\n  endpoint_url = http://h:1\n";
        let credentials = "[default]\naws_access_key_id = A\naws_secret_access_key = b=/+#c\n[work]\n\
                           aws_access_key_id=C\n";
        let profile = load(config, credentials, None).unwrap();
        assert_eq!(profile.get("region"), Some("eu-west-1"));
        assert_eq!(profile.get("aws_secret_access_key"), Some("b=/+#c"));
        assert_eq!(profile.endpoint("s3"), None);
        let work = load(config, credentials, Some("work")).unwrap();
        assert_eq!(work.get("region"), Some("eu-north-1"));
        assert_eq!(work.get("aws_access_key_id"), Some("C"));
        assert_eq!(work.get("s3.addressing_style"), Some("path"));
        assert_eq!(work.endpoint("s3"), Some("http://h:1"));
        assert_eq!(work.get("aws_secret_access_key"), None);
    }

    #[test]
    fn a_profile_that_is_named_has_to_be_there() {
        let Err(error) = load("[default]\n", "s3cret", Some("other")) else {
            panic!("a profile from nowhere");
        };
        let error = error.to_string();
        assert!(
            error.contains("\"other\"") && !error.contains("s3cret"),
            "{error}"
        );
        assert!(load("", "", None).is_ok());
    }

    #[test]
    fn a_file_that_cannot_be_there_is_none_and_what_is_no_file_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        std::fs::write(&file, "").unwrap();
        let load = |path: &Path| {
            let path = path.to_str().unwrap();
            Profile::load(&Environment::empty().with("AWS_CONFIG_FILE", path))
        };
        for none in [
            place.path().join("none"),
            file.join("x"),
            "/dev/null".into(),
        ] {
            assert!(load(&none).is_ok(), "{none:?}");
        }
        let home = Environment::empty().with("HOME", file.to_str().unwrap());
        assert!(Profile::load(&home).is_ok());
        let error = load(place.path()).err().unwrap().to_string();
        assert!(error.contains("not a regular file"), "{error}");
        // Root may read everything: so not with a file.
        for (kind, is_named, expected) in [
            (ErrorKind::NotFound, true, true),
            (ErrorKind::NotADirectory, true, true),
            (ErrorKind::PermissionDenied, false, true),
            (ErrorKind::PermissionDenied, true, false),
            (ErrorKind::Other, false, false),
        ] {
            assert_eq!(is_none(kind, is_named), expected, "{kind:?}");
        }
    }

    /// To open it would wait for a writer.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_pipe_is_refused() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let place = tempfile::tempdir().unwrap();
        let pipe = place.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let (done, waits) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let path = pipe.to_str().unwrap();
            let environment = Environment::empty().with("AWS_SHARED_CREDENTIALS_FILE", path);
            let loaded = Profile::load(&environment).map(|_| ()).and(Ok(()));
            let _ = done.send((loaded, read(&pipe)));
        });
        let (loaded, read) = waits
            .recv_timeout(std::time::Duration::from_secs(60))
            .unwrap();
        for error in [loaded.unwrap_err(), read.unwrap_err()] {
            assert!(error.to_string().contains("not a regular file"), "{error}");
        }
    }

    #[test]
    fn a_variable_that_is_no_word_for_yes_or_no_is_an_error() {
        let is_true = |value| Environment::empty().with("X", value).is_true("X");
        for (value, expected) in [
            ("true", true),
            ("True", true),
            ("FALSE", false),
            ("", false),
        ] {
            assert_eq!(is_true(value).unwrap(), expected, "{value}");
        }
        for value in ["1", "0", "yes", "s3cret"] {
            let error = is_true(value).unwrap_err().to_string();
            assert_eq!(error, "X is neither true nor false");
        }
    }

    #[test]
    fn a_profile_of_the_programs_choice_takes_the_place_of_variables() {
        let environment = Environment::empty()
            .with("AWS_ACCESS_KEY_ID", "A")
            .with("AWS_WEB_IDENTITY_TOKEN_FILE", "/x")
            .with("AWS_PROFILE", "other");
        assert!(environment.now().get("AWS_ACCESS_KEY_ID").is_some());
        let now = environment.with(S3_PROFILE, "work").now();
        assert_eq!(now.get("AWS_PROFILE").as_deref(), Some("work"));
        for name in CREDENTIALS {
            assert_eq!(now.get(name), None);
        }
    }

    #[test]
    fn variables_are_read_at_one_moment() {
        let home = "HOME";
        assert_eq!(Environment::default().get(home), None);
        let now = Environment::default().with("AWS_REGION", "eu").now();
        assert_eq!(now.get(home), std::env::var(home).ok());
        assert_eq!(now.get("AWS_REGION").as_deref(), Some("eu"));
        assert_eq!(now.get("PATH"), None);
        assert_eq!(Environment::empty().now().get(home), None);
    }

    #[test]
    fn values_are_not_shown() {
        let environment = Environment::empty().with("AWS_SECRET_ACCESS_KEY", "s3cret");
        assert_eq!(format!("{environment:?}"), "{\"AWS_SECRET_ACCESS_KEY\"}");
        assert!(environment.with("X", " ").get("X").is_none());
    }
}
