//! `litepack archive info`: what an archive is made of, by its seek table.

use std::path::PathBuf;

use anyhow::Result;
use indicatif::HumanBytes;
use litepack::archive::Info;

use crate::keys;
use crate::output::{json, print};

/// Reports sizes, frames and checksums of an archive.
#[derive(clap::Args)]
pub struct Arguments {
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
    /// The archive.
    archive: PathBuf,
    #[command(flatten)]
    key: keys::KeyOptions,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<()> {
    let key = arguments.key.of(&arguments.archive)?;
    let info = litepack::archive::info_with_key(&arguments.archive, key.as_ref())?;
    let (text, as_json) = report(&info, key.is_some())?;
    match arguments.json {
        true => json(as_json),
        false => print(text),
    }
}

/// The report for people, and as JSON.
pub fn report(info: &Info, is_encrypted: bool) -> Result<(String, serde_json::Value)> {
    let (mut text, mut json) = (text(info), serde_json::to_value(info)?);
    if is_encrypted {
        text += "the archive is encrypted\n";
        json["encrypted"] = true.into();
    }
    Ok((text, json))
}

/// The report for people.
fn text(found: &Info) -> String {
    let info = &found.archive;
    let size = |bytes: u64| format!("{} ({bytes} bytes)", HumanBytes(bytes));
    let ratio = info.size as f64 / info.stored.max(1) as f64;
    let pages = found.page_size.map(|bytes| {
        let pages = info.size / u64::from(bytes);
        format!("{pages} of {bytes} bytes")
    });
    let checksums = match info.checksums {
        true => "in the seek table",
        false => "none in the seek table; frames may have their own",
    };
    let lines = [
        ("database", size(info.size)),
        ("archive", size(info.stored)),
        ("ratio", format!("{ratio:.2}")),
        (
            "pages",
            pages.unwrap_or_else(|| "not a SQLite database, or its first frame is damaged".into()),
        ),
        (
            "frames",
            format!("{} of at most {} bytes", info.frames, info.largest_frame),
        ),
        ("  stored", size(info.frame_bytes)),
        ("seek table", size(info.table_bytes)),
        ("other bytes", size(info.other_bytes())),
        ("checksums", checksums.into()),
    ];
    lines
        .iter()
        .map(|(name, value)| format!("{name:11}  {value}\n"))
        .collect()
}
