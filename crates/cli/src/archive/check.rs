//! `litepack archive check`: decodes every frame of an archive and says whether anything is wrong.

use std::path::PathBuf;

use anyhow::Result;

use crate::check::text;
use crate::job::job;
use crate::keys;
use crate::output::{json, print, tell};

/// Decompresses every frame of an archive and reports damage.
#[derive(clap::Args)]
#[command(after_help = "Exit code: 0 no damage, 1 damage found, 2 the file could not be checked.")]
pub struct Arguments {
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
    /// The archive.
    archive: PathBuf,
    #[command(flatten)]
    key: keys::KeyOptions,
}

/// Runs the command; false if there is damage.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let job = arguments.key.job(&arguments.archive, job)?;
    let report = litepack::archive::check(&arguments.archive, &job)?;
    if !report.ok {
        tell!("litepack: {} is damaged", arguments.archive.display());
    }
    if arguments.json {
        json(serde_json::to_value(&report)?)?;
    } else {
        print(text(&report.damage))?;
    }
    Ok(report.ok)
}
