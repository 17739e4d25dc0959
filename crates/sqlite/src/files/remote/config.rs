//! The settings about web servers that a program makes and no URI may: its identity to them, and which local files
//! matter. They hold for the process, so they come from those who may load code into it: from the program, or by SQL
//! functions that work only on a connection that may load extensions (`sql/permission.rs`).

use std::collections::BTreeMap;
use std::mem::take;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use litepack_columns::sql::Value;
use litepack_remote::{
    DiskCache, Environment, Headers, Options, Origin, S3_ENDPOINT, S3_PROFILE, check_certificates,
    check_settings, is_object,
};

/// The limit of a cache directory unless another one is set, in MiB.
const CACHE_DIR_MB: u64 = 1024;

const CACHE_DIR_MB_NAME: &str = "cache_dir_mb";

const KNOWN: &str =
    "the settings are ca_file, cache_dir, cache_dir_mb, s3_endpoint, s3_profile and s3_region";

/// The settings.
struct Config {
    headers: BTreeMap<Origin, Headers>,
    ca_file: Option<PathBuf>,
    cache_dir: Option<PathBuf>,
    cache_dir_mb: u64,
    /// Of object stores, by the variable that it stands for.
    s3: BTreeMap<&'static str, String>,
}

/// The value of a setting.
pub(crate) enum Setting {
    Number(u64),
    Text(Option<String>),
}

/// Settings of object stores, and the variables that they stand for.
const S3: [(&str, &str); 3] = [
    ("s3_endpoint", S3_ENDPOINT),
    ("s3_profile", S3_PROFILE),
    ("s3_region", "AWS_REGION"),
];

fn s3_variable(name: &str) -> Option<&'static str> {
    let found = S3.iter().find(|(known, _)| *known == name);
    found.map(|(_, variable)| *variable)
}

static CONFIG: Mutex<Config> = Mutex::new(Config {
    headers: BTreeMap::new(),
    ca_file: None,
    cache_dir: None,
    cache_dir_mb: CACHE_DIR_MB,
    s3: BTreeMap::new(),
});

fn config() -> MutexGuard<'static, Config> {
    // Every change is one assignment.
    CONFIG.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Config {
    fn disk_cache(&self) -> Option<DiskCache> {
        let directory = self.cache_dir.clone()?;
        Some(DiskCache {
            directory,
            limit: self.cache_dir_mb << 20,
        })
    }
}

/// Adds to `options` what was told of the server of `url`.
///
/// # Errors
/// If the URL is none, or it and what was told both say who we are; in words without a secret.
pub(crate) fn apply(url: &str, options: &mut Options) -> Result<(), String> {
    let config = config();
    if is_object(url) {
        for (variable, value) in &config.s3 {
            options.environment = take(&mut options.environment).with(variable, value);
        }
    } else {
        let origin = Origin::of(url).map_err(|error| error.to_string())?;
        if let Some(headers) = config.headers.get(&origin) {
            let added = options.headers.add_all(headers);
            added.map_err(|error| error.to_string())?;
        }
    }
    options.root_certificates.clone_from(&config.ca_file);
    options.disk_cache = config.disk_cache();
    Ok(())
}

/// How the server of `url` is asked, as the process was told.
///
/// # Errors
/// If the URL is none; in words without a secret.
pub fn remote_options(url: &str) -> Result<Options, String> {
    let mut options = Options::default();
    apply(url, &mut options)?;
    Ok(options)
}

/// Sets the headers, one in a line, that go with every request of this process to an origin (`https://host`); `None`
/// takes them away. Answers how many there are.
///
/// # Errors
/// If the origin is none, or a line no header; in words without a secret.
pub fn remote_headers(origin: &str, lines: Option<&str>) -> Result<usize, String> {
    let in_words = |error: litepack_remote::Error| error.to_string();
    let origin = Origin::parse(origin).map_err(in_words)?;
    let mut headers = Headers::default();
    if let Some(lines) = lines {
        headers.add_lines(lines).map_err(in_words)?;
    }
    let count = headers.count();
    let mut config = config();
    if count == 0 {
        config.headers.remove(&origin);
    } else {
        config.headers.insert(origin, headers);
    }
    Ok(count)
}

/// Sets one of the settings of remote files of this process, which `docs/reference/sql.md` lists; `None` is the
/// default.
///
/// # Errors
/// If there is no such setting, or it does not take this value; in words without a secret.
pub fn remote_config(name: &str, value: Option<&str>) -> Result<(), String> {
    let number = value.and_then(|value| value.parse().ok());
    let value = match (name, value, number) {
        (CACHE_DIR_MB_NAME, _, Some(number)) => Value::Integer(number),
        (_, Some(text), _) => Value::Text(text.as_bytes()),
        (_, None, _) => Value::Null,
    };
    set(name, value)
}

/// The value of a setting.
///
/// # Errors
/// If there is no such setting, in words.
pub(crate) fn get(name: &str) -> Result<Setting, String> {
    let config = config();
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    Ok(match name {
        "ca_file" => Setting::Text(path(&config.ca_file)),
        "cache_dir" => Setting::Text(path(&config.cache_dir)),
        CACHE_DIR_MB_NAME => Setting::Number(config.cache_dir_mb),
        name => match s3_variable(name) {
            Some(variable) => Setting::Text(config.s3.get(variable).cloned()),
            None => return Err(KNOWN.into()),
        },
    })
}

/// A value is looked at now, where the program hears what is wrong with it, and not only when a file is opened.
pub(crate) fn set(name: &str, value: Value<'_>) -> Result<(), String> {
    let in_words = |error: litepack_remote::Error| error.to_string();
    let path = || match value {
        Value::Null => Ok(None),
        value => match value.text() {
            Some(path) => Ok(Some(PathBuf::from(&*path))),
            None => Err(format!("{name} is text, or NULL for none")),
        },
    };
    match name {
        "ca_file" => {
            let path = path()?;
            if let Some(path) = &path {
                check_certificates(path).map_err(in_words)?;
            }
            config().ca_file = path;
        }
        "cache_dir" => {
            let directory = path()?;
            if let Some(directory) = directory.clone() {
                let cache = DiskCache {
                    directory,
                    limit: 0,
                };
                cache.check().map_err(in_words)?;
            }
            config().cache_dir = directory;
        }
        CACHE_DIR_MB_NAME => {
            config().cache_dir_mb = match value {
                Value::Null => CACHE_DIR_MB,
                Value::Integer(mb) if (1..=1 << 30).contains(&mb) => mb as u64,
                _ => return Err("cache_dir_mb is a number between 1 and 1073741824".into()),
            };
        }
        name => match s3_variable(name) {
            Some(variable) => set_s3(name, variable, value)?,
            None => return Err(KNOWN.into()),
        },
    }
    Ok(())
}

fn set_s3(name: &str, variable: &'static str, value: Value<'_>) -> Result<(), String> {
    match value {
        Value::Null => {
            config().s3.remove(variable);
        }
        value => {
            let text = value.text().filter(|text| !text.trim().is_empty());
            let text =
                text.ok_or_else(|| format!("{name} is text, or NULL for the environment's"))?;
            let environment = Environment::empty().with(variable, &text);
            check_settings(&environment).map_err(|error| error.to_string())?;
            config().s3.insert(variable, text.to_string());
        }
    }
    Ok(())
}
