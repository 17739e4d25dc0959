//! `litepack info`: what a packed file is made of, and which tables and indexes take how much of it, for
//! people or as JSON.
//!
//! ```text
//! text.rs  how it is shown     remote.rs  the report on a database on a web server
//! ```

pub mod remote;
mod text;

use std::path::PathBuf;

use anyhow::Result;
use litepack::advise::{AdviseOptions, advise_packed};

use crate::job::{interruptible, job};
use crate::output::{json, print};

/// Reports the size of a packed file and of each of its tables and indexes.
///
/// For a URL: reports what kind of database it is, and how many requests and bytes this report took.
#[derive(clap::Args)]
pub struct Arguments {
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
    /// Write a page of HTML as well, as `litepack advise` does. Findings and other ways are from a sample.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace the page if it exists.
    #[arg(long, requires = "html")]
    force: bool,
    #[command(flatten)]
    access: remote::Options,
    /// The packed file, or the URL of a packed file, an archive or a plain database.
    #[arg(value_name = "FILE or URL")]
    file: PathBuf,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<()> {
    if let Some(url) = remote::url(&arguments.file) {
        anyhow::ensure!(arguments.html.is_none(), "there is no page for a URL");
        let report = litepack::remote_info(url, &arguments.access.access())?;
        if arguments.json {
            json(serde_json::to_value(&report)?)?;
        } else {
            print(remote::text(&report))?;
        }
        return Ok(());
    }
    arguments.access.expect_none()?;
    let report = litepack::info(&arguments.file, &job())?;
    if arguments.html.is_some() {
        let options = AdviseOptions {
            html: arguments.html.clone(),
            replace: arguments.force,
            ..AdviseOptions::default()
        };
        advise_packed(&arguments.file, &report, &options, &interruptible()?)?;
    }
    if arguments.json {
        json(serde_json::to_value(&report)?)?;
    } else {
        print(text::of(&report))?;
    }
    Ok(())
}
