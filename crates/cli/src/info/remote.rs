//! The report on a database on a web server: what the file is, and what asking took. Which tables take how much is not
//! told: that would be to fetch the whole file.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use indicatif::HumanBytes;
use litepack::RemoteInfo;
use serde_json::Value;

/// How to ask the server.
#[derive(clap::Args)]
pub struct Options {
    /// For a URL: a file of headers to send with every request, one `Name: value` in a line.
    #[arg(long, value_name = "FILE")]
    headers_file: Option<PathBuf>,
    /// For a URL: a file of root certificates (PEM) to trust instead of the system's.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

impl Options {
    /// The access that these options describe.
    pub fn access(&self) -> litepack::Access {
        litepack::Access {
            headers_file: self.headers_file.clone(),
            ca_file: self.ca_file.clone(),
        }
    }

    /// An error if a file cannot be read.
    pub fn expect_readable(&self) -> Result<()> {
        for file in [&self.headers_file, &self.ca_file].into_iter().flatten() {
            File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
        }
        Ok(())
    }

    /// An error if something is set that only means something with a URL.
    pub fn expect_none(&self) -> Result<()> {
        if self.headers_file.is_some() || self.ca_file.is_some() {
            bail!("--headers-file and --ca-file are for URLs (http://..., https://...)");
        }
        Ok(())
    }
}

/// The URL that is meant by what should be a file; `None` if it is a file.
pub fn url(file: &Path) -> Option<&str> {
    let text = file.to_str()?;
    let (scheme, _) = text.split_once("://")?;
    let web = ["http", "https", "s3"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known));
    web.then_some(text)
}

/// The report for people.
pub fn text(report: &RemoteInfo) -> String {
    let size = |value: &Value| {
        let bytes = value.as_u64().unwrap_or_default();
        format!("{} ({bytes} bytes)", HumanBytes(bytes))
    };
    let plain = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), String::from)
    };
    let mut lines = vec![
        ("file", plain(report.traffic("url"))),
        ("kind", kind(report).to_string()),
        ("encrypted", encrypted(report).to_string()),
        ("version", plain(report.traffic("validator"))),
        ("database", size(report.get("logical_bytes"))),
        ("on the server", size(report.traffic("size"))),
    ];
    if let (Some(pages), Some(page_size)) = (
        report.get("pages").as_u64(),
        report.get("page_size").as_u64(),
    ) {
        lines.push(("pages", format!("{pages} of {page_size} bytes")));
    }
    lines.push(("requests", report.traffic("requests").to_string()));
    lines.push(("transferred", size(report.traffic("bytes"))));
    let lines = lines
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name:13}  {value}\n"));
    lines.collect()
}

/// Whether it is encrypted, in words; none if it is not.
fn encrypted(report: &RemoteInfo) -> &'static str {
    match (report.is_encrypted(), report.get("pages").is_null()) {
        (false, _) => "",
        (true, false) => "yes",
        (true, true) => "yes; more with its key",
    }
}

/// The kind of the file, in words.
fn kind(report: &RemoteInfo) -> &'static str {
    match report.get("format").as_str() {
        Some("sqlite") => "plain SQLite database",
        Some("zstd seekable") => "archive (seekable zstd)",
        _ => "packed file",
    }
}
