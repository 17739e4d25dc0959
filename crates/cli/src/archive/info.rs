//! `litepack archive info`: what an archive is made of, by its seek table.

use std::path::PathBuf;

use anyhow::Result;
use indicatif::HumanBytes;
use litepack::archive::Info;

use crate::output::{json, print};

/// Reports sizes, frames and checksums of an archive.
#[derive(clap::Args)]
pub struct Arguments {
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
    /// The archive.
    archive: PathBuf,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<()> {
    let info = litepack::archive::info(&arguments.archive)?;
    if arguments.json {
        json(serde_json::to_value(&info)?)?;
    } else {
        print(text(&info))?;
    }
    Ok(())
}

/// The report for people.
pub fn text(found: &Info) -> String {
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
