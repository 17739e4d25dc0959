//! `litepack archive info`: what an archive is made of, by its seek table.

use std::path::PathBuf;

use anyhow::{Context, Result};
use indicatif::HumanBytes;
use litepack_archive::Info;
use litepack_engine::page_size;
use litepack_engine::report::archive_info_json;

use super::{file, open};

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
    let named = || format!("cannot read {}", arguments.archive.display());
    let (file, _) = file(&arguments.archive)?;
    let mut archive = open(&file).with_context(named)?;
    let info = archive.info().with_context(named)?;
    let mut head = [0; 100];
    // What the seek table says can be told of an archive with damaged frames, too.
    let found = archive.read_at(0, &mut head).unwrap_or(0);
    let head = &head[..found];
    if arguments.json {
        println!("{}", archive_info_json(&info, head));
    } else {
        print!("{}", text(&info, page_size(head)));
    }
    Ok(())
}

/// The report for people.
fn text(info: &Info, page_size: Option<u32>) -> String {
    let size = |bytes: u64| format!("{} ({bytes} bytes)", HumanBytes(bytes));
    let ratio = info.size as f64 / info.stored.max(1) as f64;
    let pages = page_size.map(|bytes| {
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
