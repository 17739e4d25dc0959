//! The key of an encrypted file: from a file, a variable of the environment, or the terminal.
//!
//! No option takes the key itself, for anyone on the machine can read the arguments of a process. It is nowhere in what
//! the command prints, and what is read of it is wiped.

use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal as _, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use litepack::{Access, Error, Job, Key, Padding, RemoteInfo, printable_path};
use zeroize::Zeroizing;

use crate::prompt;

/// Longest key.
const LEN_MAX: usize = 64 << 10;

/// Where the key of a file is.
#[derive(clap::Args, Default)]
pub struct KeyOptions {
    /// The key is in this file, up to the end of the line that it may end with; - is standard input. (No option takes the
    /// key itself: everyone on the machine can see arguments.)
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The key is in this variable of the environment.
    #[arg(long, value_name = "NAME", conflicts_with = "key_file")]
    key_env: Option<OsString>,
    /// It is read once, whatever is done with it.
    #[arg(skip)]
    read: OnceCell<Option<Arc<Key>>>,
}

/// Where the key is that a file gets.
#[derive(clap::Args, Default)]
pub struct NewKeyOptions {
    /// The new key is in this file, up to the end of the line that it may end with; - is standard input.
    #[arg(long, value_name = "FILE")]
    new_key_file: Option<PathBuf>,
    /// The new key is in this variable of the environment.
    #[arg(long, value_name = "NAME", conflicts_with = "new_key_file")]
    new_key_env: Option<OsString>,
}

impl KeyOptions {
    /// A job with the key of this file: the one that is given, or if it is encrypted, one that is asked for. `make` makes
    /// the job.
    ///
    /// # Errors
    /// If there is none where it should be, or none can be asked for.
    pub fn job(&self, file: &Path, make: fn() -> Job<'static>) -> Result<Job<'static>> {
        Ok(with(self.of(file)?, make))
    }

    /// The key of this file.
    ///
    /// # Errors
    /// As [`KeyOptions::job`].
    pub fn of(&self, file: &Path) -> Result<Option<Arc<Key>>> {
        if let Some(key) = self.given()? {
            return Ok(Some(key));
        }
        let asked = asked_for(file)?;
        asked.map(|text| text.key()).transpose()
    }

    /// The key of this file as it is written, for another program. It has been tried, if there is a file.
    ///
    /// # Errors
    /// As [`KeyOptions::job`]; if it is the wrong one.
    pub fn tried(&self, file: &Path) -> Result<Option<Zeroizing<Vec<u8>>>> {
        let given = given(self.key_file.as_deref(), self.key_env.as_deref())?;
        let text = match given {
            Some(text) => Some(text),
            None => asked_for(file)?,
        };
        let Some(text) = text else {
            return Ok(None);
        };
        let key = text.key()?;
        if file.exists() {
            litepack::try_key(file, &key)?;
        }
        Ok(Some(text.bytes))
    }

    /// The same for a database on a server, on which this is the report without a key.
    ///
    /// # Errors
    /// As [`KeyOptions::job`]; if it is the wrong one, or the database is not encrypted.
    pub fn tried_on_server(
        &self,
        found: &RemoteInfo,
        url: &str,
        access: &Access,
    ) -> Result<Option<Zeroizing<Vec<u8>>>> {
        let text = match given(self.key_file.as_deref(), self.key_env.as_deref())? {
            Some(text) => text,
            None if found.is_encrypted() => {
                // Not the URL, which may have a secret.
                let name = found.traffic("url").as_str().unwrap_or_default();
                asked(Path::new(name))?
            }
            None => return Ok(None),
        };
        litepack::remote_info(url, access, Some(&text.key()?))?;
        Ok(Some(text.bytes))
    }

    /// The key that is given by an option.
    ///
    /// # Errors
    /// If there is none where it should be.
    pub fn given(&self) -> Result<Option<Arc<Key>>> {
        if let Some(read) = self.read.get() {
            return Ok(read.clone());
        }
        let read = given(self.key_file.as_deref(), self.key_env.as_deref())?;
        let read = read.map(|text| text.key()).transpose()?;
        Ok(self.read.get_or_init(|| read).clone())
    }

    /// An error if the key is to be read from standard input, where something else is.
    ///
    /// # Errors
    /// In words.
    pub fn expect_elsewhere(&self, what: &str) -> Result<()> {
        let is_input = self.key_file.as_deref().is_some_and(is_input);
        ensure!(
            !is_input,
            "standard input cannot have both the key and {what}"
        );
        Ok(())
    }

    /// The variable that has it, which no other program is to have.
    pub fn variable(&self) -> Option<&OsStr> {
        self.key_env.as_deref()
    }

    /// The key for a file that is made: the one that is given, or one that is asked for twice.
    ///
    /// # Errors
    /// If there is none where it should be, or none can be asked for.
    pub fn of_new(&self, file: &Path) -> Result<Arc<Key>> {
        match self.given()? {
            Some(key) => Ok(key),
            None => ask_twice(file, "--key-file or --key-env"),
        }
    }

    /// An error if there is an option of these, which would mean nothing.
    ///
    /// # Errors
    /// In words.
    pub fn expect_none(&self, without: &str) -> Result<()> {
        let is_none = self.key_file.is_none() && self.key_env.is_none();
        ensure!(
            is_none,
            "--key-file and --key-env mean nothing without {without}"
        );
        Ok(())
    }
}

impl NewKeyOptions {
    /// Whether the new key is said to be somewhere.
    pub fn is_given(&self) -> bool {
        self.new_key_file.is_some() || self.new_key_env.is_some()
    }

    /// The key for a file, given or asked for twice.
    ///
    /// # Errors
    /// If there is none where it should be, or none can be asked for.
    pub fn of(&self, file: &Path) -> Result<Arc<Key>> {
        match given(self.new_key_file.as_deref(), self.new_key_env.as_deref())? {
            Some(text) => text.key(),
            None => ask_twice(file, "--new-key-file or --new-key-env"),
        }
    }

    /// An error if both keys are to be read from standard input.
    ///
    /// # Errors
    /// In words.
    pub fn expect_apart(&self, former: &KeyOptions) -> Result<()> {
        let is_input = |file: &Option<PathBuf>| file.as_deref().is_some_and(is_input);
        let both = is_input(&self.new_key_file) && is_input(&former.key_file);
        ensure!(!both, "only one of the keys can come from standard input");
        Ok(())
    }
}

/// To what the lengths in a file are padded that is made.
#[derive(clap::Args)]
pub struct PaddingOption {
    /// Pad what is encrypted to a multiple of so many bytes, a power of two from 64 to 4096, so that lengths tell less of
    /// content. 0 for no padding.
    #[arg(long, value_name = "BYTES", value_parser = padding)]
    padding: Option<Padding>,
}

fn padding(text: &str) -> Result<Padding, String> {
    let (least, most) = Padding::BYTES.into_inner();
    let found = text.parse().ok().and_then(Padding::new);
    found.ok_or_else(|| format!("neither 0 nor a power of two from {least} to {most}"))
}

impl PaddingOption {
    /// A key for a file with this padding.
    pub fn of(&self, key: Arc<Key>) -> Result<Arc<Key>> {
        match self.padding {
            Some(padding) => Ok(Arc::new(key.with_padding(padding)?)),
            None => Ok(key),
        }
    }

    /// As a parameter of a URI, behind others.
    pub fn in_uri(&self) -> String {
        let parameter = |padding: Padding| format!("&padding={}", padding.bytes());
        self.padding.map(parameter).unwrap_or_default()
    }

    /// An error if it is given.
    pub fn expect_none(&self, without: &str) -> Result<()> {
        let is_none = self.padding.is_none();
        ensure!(is_none, "--padding means nothing without {without}");
        Ok(())
    }
}

/// A job with a key, if there is one.
pub fn with(key: Option<Arc<Key>>, make: fn() -> Job<'static>) -> Job<'static> {
    // Ctrl-C at a prompt ends the process: a job that heeds it is not made before.
    match key {
        Some(key) => make().with_key(&key),
        None => make(),
    }
}

fn is_input(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// A key as it is written, and where.
struct Text {
    bytes: Zeroizing<Vec<u8>>,
    place: String,
}

impl Text {
    fn key(&self) -> Result<Arc<Key>> {
        let (text, place) = (&self.bytes, &self.place);
        ensure!(
            text.len() <= LEN_MAX,
            "the key in {place} is longer than {LEN_MAX} bytes"
        );
        ensure!(!text.is_empty(), "there is no key: {place} is empty");
        let key = Key::written(text).with_context(|| format!("the key in {place} is none"))?;
        Ok(Arc::new(key))
    }
}

fn given(file: Option<&Path>, variable: Option<&OsStr>) -> Result<Option<Text>> {
    if let Some(file) = file {
        let place = match is_input(file) {
            true => "standard input".to_owned(),
            false => printable_path(file),
        };
        let text = match is_input(file) {
            true => from_input(),
            false => std::fs::File::open(file).and_then(all_of),
        };
        let mut bytes = text.with_context(|| format!("cannot read the key from {place}"))?;
        let len = without_line_end(&bytes).len();
        bytes.truncate(len);
        return Ok(Some(Text { bytes, place }));
    }
    let Some(variable) = variable else {
        return Ok(None);
    };
    let place = format!("the variable {}", printable_path(Path::new(variable)));
    let Some(value) = std::env::var_os(variable) else {
        bail!("there is no key: {place} is not set");
    };
    let bytes = Zeroizing::new(value.into_encoded_bytes());
    Ok(Some(Text { bytes, place }))
}

/// The key of a file, asked for if it is encrypted.
fn asked_for(file: &Path) -> Result<Option<Text>> {
    // If the file cannot be read, opening it is the error.
    match litepack::is_encrypted(file).unwrap_or(false) {
        true => asked(file).map(Some),
        false => Ok(None),
    }
}

/// The key of an encrypted file, asked for.
fn asked(file: &Path) -> Result<Text> {
    if !prompt::is_possible() {
        let path = file.to_owned();
        return Err(Error::Encrypted { path }.into());
    }
    ask(&format!("key for {}: ", printable_path(file)))
}

fn from_input() -> io::Result<Zeroizing<Vec<u8>>> {
    if io::stdin().is_terminal() {
        let why = "it is a terminal, which would show it; leave out the option to be asked";
        return Err(io::Error::other(why));
    }
    // Not by the library's own handle, which keeps what it has read.
    #[cfg(unix)]
    {
        use std::os::fd::AsFd as _;
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        all_of(std::fs::File::from(input))
    }
    #[cfg(not(unix))]
    all_of(io::stdin())
}

/// All that there is, in memory that is wiped and never moved.
fn all_of(mut from: impl Read) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut room = Zeroizing::new(vec![0; LEN_MAX + 3]);
    let mut len = 0;
    while let Some(rest) = room.get_mut(len..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) => break,
            Ok(n) => len += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    room.truncate(len);
    Ok(room)
}

fn without_line_end(text: &[u8]) -> &[u8] {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    text.strip_suffix(b"\r").unwrap_or(text)
}

fn ask(question: &str) -> Result<Text> {
    Ok(Text {
        bytes: prompt::line(question, LEN_MAX + 1)?,
        place: "the answer".into(),
    })
}

fn ask_twice(file: &Path, options: &str) -> Result<Arc<Key>> {
    let name = printable_path(file);
    ensure!(
        prompt::is_possible(),
        "there is no new key for {name}: give {options}"
    );
    let first = ask(&format!("new key for {name}: "))?.key()?;
    let again = ask("the same again: ")?.key()?;
    ensure!(first.is_same(&again), "the two are not the same");
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_end_of_a_line_is_not_part_of_a_key() {
        for (text, key) in [
            ("a", "a"),
            ("a\n", "a"),
            ("a\r\n", "a"),
            ("a\n\n", "a\n"),
            (" a \n", " a "),
            ("\n", ""),
        ] {
            assert_eq!(without_line_end(text.as_bytes()), key.as_bytes());
        }
    }

    #[test]
    fn a_key_is_read_whole_or_refused() {
        let key = |text: &[u8]| {
            let bytes = Zeroizing::new(text.to_vec());
            let place = "it".into();
            Text { bytes, place }.key()
        };
        let longest = vec![b'k'; LEN_MAX];
        let read = all_of(&longest[..]).unwrap();
        assert_eq!(*read, longest);
        assert!(key(&read).is_ok());
        // However much more there is, it is not read.
        let read = all_of(io::repeat(b'k')).unwrap();
        let refused = key(without_line_end(&read)).unwrap_err().to_string();
        assert!(refused.contains("is longer than 65536 bytes"), "{refused}");
        assert!(key(b"").is_err());
        let refused = format!("{:#}", key(b"x'12'").unwrap_err());
        assert_eq!(
            refused,
            "the key in it is none: a raw key has 64 hexadecimal digits"
        );
    }
}
