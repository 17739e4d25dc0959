//! Everything a user can set: URI parameters when opening, and the same names as pragmas later.

use litepack_btree::PageNumber;
use litepack_cipher::{Key, Padding};
use litepack_codec::LEVELS;

use crate::spelling::meant;

/// Parameters of `file:` URIs that belong to SQLite itself (<https://sqlite.org/uri.html>).
const OF_SQLITE: [&str; 10] = [
    "vfs",
    "mode",
    "cache",
    "immutable",
    "nolock",
    "psow",
    "modeof",
    "reserve",
    "readonly_shm",
    "8_3_names",
];
/// Prefix of every pragma of ours.
const PRAGMA_PREFIX: &str = "litepack_";
/// Most threads anyone may ask for.
const THREADS_MAX: usize = 64;

/// One setting with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// `level=N`, `PRAGMA litepack_level=N`: the zstd level (1 to 19) of pages written from now on.
    Level(i32),
    /// `threads=N`, `PRAGMA litepack_threads=N`: how many threads may compress at once (1 to 64).
    Threads(usize),
    /// `cache_mb=N`, `PRAGMA litepack_cache_mb=N`: the budget in MiB of the cache that all files of the process
    /// share. Not called `cache`: that name is SQLite's own.
    CacheMb(u64),
}

/// The request of a `PRAGMA litepack_...`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pragma {
    /// `PRAGMA litepack_level=N` and its like: change a setting and answer with its value.
    Set(Setting),
    /// `PRAGMA litepack_level`: the value of the setting with this name.
    Get(Name),
    /// `PRAGMA litepack_info`: a report on the file as JSON.
    Info,
    /// `PRAGMA litepack_check`: "ok", or what is damaged.
    Check,
    /// `PRAGMA litepack_maintain`, `PRAGMA litepack_maintain=SECONDS`: what `litepack_maintain(seconds, 1)` does.
    Maintain(Option<f64>),
    /// `PRAGMA litepack_version`: the version of this extension.
    Version,
    /// `PRAGMA litepack_remote`: where a file on a server is and what reading it took so far, as JSON.
    Remote,
    /// `PRAGMA litepack_split='ROOT PARTS'`: rowids that cut the table with this root page into parts with about as many
    /// pages, as a JSON array.
    Split(PageNumber, usize),
}

/// Most parts that a table is cut into.
const PARTS_MAX: usize = 10_000;

/// The names of the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Level,
    Threads,
    CacheMb,
}

impl Name {
    const ALL: [(&str, Name); 3] = [
        ("level", Name::Level),
        ("threads", Name::Threads),
        ("cache_mb", Name::CacheMb),
    ];

    fn parse(name: &str) -> Option<Name> {
        Name::ALL
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, name)| *name)
    }

    fn with(self, text: &str) -> Result<Setting, String> {
        let number: u64 = text
            .trim()
            .parse()
            .map_err(|_| format!("'{text}' is not a number"))?;
        let within = |min: u64, max: u64| {
            if (min..=max).contains(&number) {
                Ok(number)
            } else {
                Err(format!("{number} is not between {min} and {max}"))
            }
        };
        Ok(match self {
            Name::Level => {
                let (min, max) = (*LEVELS.start() as u64, *LEVELS.end() as u64);
                Setting::Level(within(min, max)? as i32)
            }
            Name::Threads => Setting::Threads(within(1, THREADS_MAX as u64)? as usize),
            Name::CacheMb => Setting::CacheMb(within(0, 1 << 20)?),
        })
    }
}

/// The settings in the parameters of a URI. Those named `elsewhere` are another's to read, and names that are not known
/// are other libraries', as SQLite takes them to be.
///
/// # Errors
/// A bad value, or a name that is one of ours misspelt, in words.
pub(crate) fn from_uri(
    parameters: &[(String, String)],
    elsewhere: &[&'static str],
) -> Result<Vec<Setting>, String> {
    let mut settings = Vec::new();
    for (key, value) in parameters {
        if let Some(name) = Name::parse(key) {
            let setting = name.with(value);
            settings.push(setting.map_err(|why| format!("URI parameter {key}: {why}"))?);
        } else if !OF_SQLITE.contains(&key.as_str()) && !elsewhere.contains(&key.as_str()) {
            let ours = Name::ALL.iter().map(|(name, _)| *name);
            if let Some(meant) = meant(key, ours.chain(elsewhere.iter().copied())) {
                return Err(format!(
                    "unknown URI parameter '{key}': did you mean '{meant}'?"
                ));
            }
        }
    }
    Ok(settings)
}

/// The parameters for an encrypted database: its key as text or as digits; to what lengths are padded in a new one; and
/// that temporary files may be in plain.
pub(crate) const OF_KEYS: [&str; 4] = ["key", "hexkey", "padding", "plain_temp"];

/// The key in the parameters of a URI.
///
/// # Errors
/// In words, without what was given.
pub(crate) fn key_from_uri(parameters: &[(String, String)]) -> Result<Option<Key>, String> {
    let value = |name: &str| {
        let found = parameters.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    };
    let (name, key) = match (value("hexkey"), value("key")) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            return Err("URI parameters key and hexkey cannot be used together".into());
        }
        (Some(digits), None) => ("hexkey", Key::hexadecimal(digits.as_bytes())),
        // What is not UTF-8 has lost its bytes by now.
        (None, Some(text)) if text.contains(char::REPLACEMENT_CHARACTER) => {
            return Err("URI parameter key: it is not UTF-8; use PRAGMA key".into());
        }
        (None, Some(text)) => ("key", Key::written(text.as_bytes())),
    };
    match key {
        Ok(key) => Ok(Some(key)),
        Err(why) => Err(format!("URI parameter {name}: {why}")),
    }
}

/// The padding in the parameters of a URI.
///
/// # Errors
/// In words.
pub(crate) fn padding_from_uri(parameters: &[(String, String)]) -> Result<Option<Padding>, String> {
    let found = parameters.iter().find(|(key, _)| key == "padding");
    let Some((_, value)) = found else {
        return Ok(None);
    };
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let bytes = is_number.then(|| value.parse().ok()).flatten();
    let padding = bytes.and_then(Padding::new);
    let (least, most) = Padding::BYTES.into_inner();
    padding.map(Some).ok_or_else(|| {
        format!("URI parameter padding: '{value}' is neither 0 nor a power of two from {least} to {most}")
    })
}

/// Whether temporary files of an encrypted database may be in plain, by the parameters of a URI.
///
/// # Errors
/// In words.
pub(crate) fn plain_temp_from_uri(parameters: &[(String, String)]) -> Result<bool, String> {
    let found = parameters.iter().find(|(key, _)| key == "plain_temp");
    match found.map(|(_, value)| value.as_str()) {
        None | Some("0") => Ok(false),
        Some("1") => Ok(true),
        Some(other) => Err(format!(
            "URI parameter plain_temp: '{other}' is neither 0 nor 1"
        )),
    }
}

/// Whether a pragma of this name is a request that may take long: it reads the whole file, or writes it.
pub(crate) fn is_long(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let ours = lower.strip_prefix(PRAGMA_PREFIX);
    let is_rekey = matches!(&*lower, "rekey" | "hexrekey");
    is_rekey || ours.is_some_and(|name| matches!(name, "info" | "check" | "maintain" | "split"))
}

/// The request of a pragma; `None` if it is none of ours.
///
/// # Errors
/// A pragma that begins like ours and is none, or a bad value, in words.
pub(crate) fn from_pragma(name: &str, value: Option<&str>) -> Option<Result<Pragma, String>> {
    let lower = name.to_ascii_lowercase();
    let name = lower.strip_prefix(PRAGMA_PREFIX)?;
    Some(match (Name::parse(name), value) {
        (Some(name), None) => Ok(Pragma::Get(name)),
        (Some(name), Some(value)) => name
            .with(value)
            .map(Pragma::Set)
            .map_err(|why| format!("{lower}: {why}")),
        (None, None) if name == "info" => Ok(Pragma::Info),
        (None, None) if name == "check" => Ok(Pragma::Check),
        (None, None) if name == "version" => Ok(Pragma::Version),
        (None, None) if name == "remote" => Ok(Pragma::Remote),
        (None, None) if name == "maintain" => Ok(Pragma::Maintain(None)),
        (None, Some(value)) if name == "maintain" => match value.trim().parse() {
            Ok(seconds) if seconds >= 0.0 => Ok(Pragma::Maintain(Some(seconds))),
            _ => Err(format!("{lower}: '{value}' is not a number of seconds")),
        },
        (None, value) if name == "split" => {
            let mut words = value.unwrap_or_default().split_ascii_whitespace();
            let root = words.next().and_then(|word| word.parse().ok());
            let parts = words.next().and_then(|word| word.parse().ok());
            match (root.and_then(PageNumber::new), parts, words.next()) {
                (Some(root), Some(parts @ 1..=PARTS_MAX), None) => Ok(Pragma::Split(root, parts)),
                _ => Err(format!(
                    "{lower} takes 'ROOT PARTS': a page, and 1 to {PARTS_MAX}"
                )),
            }
        }
        (None, Some(_)) if ["info", "check", "version", "remote"].contains(&name) => {
            Err(format!("{lower} takes no value"))
        }
        (None, _) => Err(format!("unknown pragma {lower}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(pairs: &[(&str, &str)]) -> Result<Vec<Setting>, String> {
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(k, v)| ((*k).to_string(), (*v).to_string()))
            .collect();
        from_uri(&pairs, &["url"])
    }

    #[test]
    fn a_padding_is_a_power_of_two() {
        let read = |value: &str| padding_from_uri(&[("padding".into(), value.into())]);
        assert_eq!(padding_from_uri(&[]), Ok(None));
        assert_eq!(read("0"), Ok(Some(Padding::NONE)));
        assert_eq!(read("256"), Ok(Padding::new(256)));
        for value in [
            "",
            "yes",
            "-64",
            "+64",
            " 64",
            "32",
            "100",
            "8192",
            "99999999999",
        ] {
            let why = read(value).unwrap_err();
            assert!(
                why.ends_with("is neither 0 nor a power of two from 64 to 4096"),
                "{why}"
            );
        }
    }

    #[test]
    fn uri_parameters_are_checked() {
        let known = uri(&[("vfs", "litepack"), ("level", "7"), ("cache", "private")]);
        assert_eq!(known, Ok(vec![Setting::Level(7)]));
        assert!(
            uri(&[("level", "99")])
                .unwrap_err()
                .contains("between 1 and 19")
        );
        assert!(
            uri(&[("level", "high")])
                .unwrap_err()
                .contains("not a number")
        );
        assert_eq!(
            uri(&[("levle", "3")]).unwrap_err(),
            "unknown URI parameter 'levle': did you mean 'level'?"
        );
        assert!(
            uri(&[("ulr", "3")])
                .unwrap_err()
                .contains("did you mean 'url'?")
        );
    }

    #[test]
    fn keys_are_read_and_never_shown() {
        let read = |pairs: &[(&str, &str)]| {
            let pair = |(k, v): &(&str, &str)| ((*k).to_string(), (*v).to_string());
            key_from_uri(&pairs.iter().map(pair).collect::<Vec<_>>())
        };
        let digits = "0f".repeat(32);
        let raw = Key::raw(&[15; 32]).unwrap();
        assert!(read(&[("level", "7")]).unwrap().is_none());
        for (name, value) in [("hexkey", digits.clone()), ("key", format!("x'{digits}'"))] {
            assert!(read(&[(name, &value)]).unwrap().unwrap().is_same(&raw));
        }
        let passphrase = Key::passphrase(b"secret").unwrap();
        let found = read(&[("key", "secret")]).unwrap().unwrap();
        assert!(found.is_same(&passphrase));
        for wrong in [
            &[("hexkey", "secret")][..],
            &[("hexkey", "")],
            &[("key", "")],
            &[("key", "x'secret'")],
            &[("key", "secret\u{fffd}")],
            &[("key", "secret"), ("hexkey", &digits)],
        ] {
            let why = read(wrong).unwrap_err();
            assert!(why.starts_with("URI parameter") && !why.contains("secret"));
        }
    }

    #[test]
    fn parameters_of_other_libraries_pass() {
        let others = [
            ("_journal_mode", "WAL"),
            ("_pragma", "foreign_keys(1)"),
            ("uri", "true"),
            ("check_same_thread", "0"),
            ("level", "7"),
            ("vfs", "litepack"),
            ("modeof", "x"),
            ("", ""),
        ];
        assert_eq!(uri(&others), Ok(vec![Setting::Level(7)]));
    }

    #[test]
    fn pragmas_are_checked() {
        assert_eq!(from_pragma("journal_mode", None), None);
        assert_eq!(
            from_pragma("Litepack_Level", None),
            Some(Ok(Pragma::Get(Name::Level)))
        );
        let set = Some(Ok(Pragma::Set(Setting::Threads(2))));
        assert_eq!(from_pragma("litepack_threads", Some("2")), set);
        assert!(from_pragma("litepack_nonsense", None).unwrap().is_err());
        assert!(from_pragma("litepack_info", Some("1")).unwrap().is_err());
        let split = |value| from_pragma("litepack_split", value).unwrap();
        let root = PageNumber::new(7).unwrap();
        assert_eq!(split(Some(" 7 16 ")), Ok(Pragma::Split(root, 16)));
        for wrong in ["", "7", "0 16", "7 0", "7 10001", "7 16 1", "-7 16", "t 16"] {
            assert!(split(Some(wrong)).is_err(), "{wrong}");
        }
        assert!(split(None).is_err());
    }
}
