//! `litepack info`: what packed files and archives are made of, and which tables and indexes take how much of a packed
//! file, for people or as JSON.
//!
//! ```text
//! locked.rs  an encrypted file without its key
//! text.rs  how it is shown     remote.rs  the report on a database on a web server
//! ```

mod locked;
pub mod remote;
mod text;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use litepack::FileKind;
use litepack_advise::{AdviseOptions, advise_packed};

use crate::archive;
use crate::job::{interruptible, job};
use crate::keys;
use crate::several::{Layout, Said, each};

/// Reports the sizes of packed files, with each of their tables and indexes, and of archives.
///
/// For a URL: reports what kind of database it is, and how many requests and bytes this report took.
#[derive(clap::Args)]
#[command(after_help = "Exit code: 0 all are reported, 2 a file could not be read.")]
pub struct Arguments {
    /// Print a JSON object; of several files an array of them.
    #[arg(long)]
    json: bool,
    /// Write a page of HTML as well, as `litepack advise` does. Findings and other ways are from a sample. For one
    /// packed file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace the page if it exists.
    #[arg(long, requires = "html")]
    force: bool,
    #[command(flatten)]
    access: remote::Options,
    /// Packed files, archives, or URLs of packed files, archives or plain databases.
    #[arg(required = true, value_name = "FILE or URL")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    key: keys::KeyOptions,
}

/// Runs the command, and says with which code to exit.
pub fn run(arguments: &Arguments) -> Result<u8> {
    if arguments.html.is_some() {
        ensure!(arguments.files.len() == 1, "--html is for one file");
    }
    if !(arguments.files.iter()).any(|file| remote::url(file).is_some()) {
        arguments.access.expect_none()?;
    }
    each(&arguments.files, arguments.json, Layout::Blocks, |file| {
        report(arguments, file)
    })
}

fn report(arguments: &Arguments, file: &Path) -> Result<Said> {
    let said = |json, text| Said {
        json,
        text,
        ok: true,
        name: None,
    };
    if let Some(url) = remote::url(file) {
        ensure!(arguments.html.is_none(), "there is no page for a URL");
        let key = arguments.key.given()?;
        let report = litepack::remote_info(url, &arguments.access.access(), key.as_ref())?;
        let name = report.traffic("url").as_str().map(str::to_owned);
        let said = said(serde_json::to_value(&report)?, remote::text(&report));
        return Ok(Said { name, ..said });
    }
    if litepack::file_kind(file)? == FileKind::Zstd {
        ensure!(arguments.html.is_none(), "there is no page for an archive");
        let key = arguments.key.of(file)?;
        let report = litepack::archive::info_with_key(file, key.as_ref())?;
        let (text, json) = archive::info::report(&report, key.is_some())?;
        return Ok(said(json, text));
    }
    let key = arguments.key.given()?;
    if key.is_none() && litepack::is_encrypted(file)? {
        ensure!(
            arguments.html.is_none(),
            litepack::Error::Encrypted {
                path: file.to_owned()
            }
        );
        let report = litepack::without_key(file)?;
        return Ok(said(locked::json(&report), locked::text(&report)));
    }
    let is_encrypted = key.is_some();
    let report = litepack::info(file, &keys::with(key.clone(), job))?;
    if arguments.html.is_some() {
        let options = AdviseOptions {
            html: arguments.html.clone(),
            replace: arguments.force,
            ..AdviseOptions::default()
        };
        advise_packed(file, &report, &options, &keys::with(key, interruptible))?;
    }
    let (mut text, mut json) = (text::of(&report), serde_json::to_value(&report)?);
    if is_encrypted {
        text += "\nthe file is encrypted";
        if report.file.padding > 0 {
            text += &format!(", padded to {} bytes", report.file.padding);
        }
        text += "\n";
        json["encrypted"] = true.into();
    }
    Ok(said(json, text))
}
