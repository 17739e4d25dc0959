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

use crate::job::job;

/// Reports the size of a packed file and of each of its tables and indexes.
///
/// For a URL: reports what kind of database it is, and how many requests and bytes this report took.
#[derive(clap::Args)]
pub struct Arguments {
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: remote::Options,
    /// The packed file, or the URL of a packed file, an archive or a plain database.
    #[arg(value_name = "FILE or URL")]
    file: PathBuf,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<()> {
    if let Some(url) = remote::url(&arguments.file) {
        let report = litepack::remote_info(url, &arguments.access.access())?;
        if arguments.json {
            println!("{}", serde_json::to_value(&report)?);
        } else {
            print!("{}", remote::text(&report));
        }
        return Ok(());
    }
    arguments.access.expect_none()?;
    let report = litepack::info(&arguments.file, &job())?;
    if arguments.json {
        println!("{}", serde_json::to_value(&report)?);
    } else {
        print!("{}", text::of(&report));
    }
    Ok(())
}
