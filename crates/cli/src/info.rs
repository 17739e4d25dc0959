//! `litepack info`: what a packed file is made of, and which tables and indexes take how much of it, for
//! people or as JSON.
//!
//! ```text
//! text.rs, json.rs   how it is shown
//! remote.rs    the report on a database on a web server
//! ```

mod json;
mod remote;
mod text;

use std::path::PathBuf;

use anyhow::{Context, Result};
use litepack_engine::content::Content;
use litepack_store::Info;

use crate::progress::Progress;
use crate::reader;
use crate::source::Source;
use remote::Access;
pub use text::printable;

/// A report during which another program commits is made anew this often.
const RETRIES: usize = 5;

/// Reports the size of a packed file and of each of its tables and indexes.
///
/// For a URL: reports what kind of database it is, and how many requests and bytes this report took.
#[derive(clap::Args)]
pub struct Arguments {
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: Access,
    /// The packed file, or the URL of a packed file, an archive or a plain database.
    #[arg(value_name = "FILE or URL")]
    file: PathBuf,
}

/// All that is told of a file.
struct Report {
    info: Info,
    content: Content,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<()> {
    if let Some(url) = remote::url(&arguments.file) {
        let report = remote::report(url, &arguments.access)?;
        if arguments.json {
            println!("{report}");
        } else {
            print!("{}", remote::text(&report));
        }
        return Ok(());
    }
    arguments.access.expect_none()?;
    litepack_rusqlite::register().map_err(anyhow::Error::msg)?;
    let mut source = Source::open(&arguments.file, false)?;
    source.expect_packed()?;
    source.hold_for_report()?;
    let report =
        report(&source).with_context(|| format!("cannot read {}", arguments.file.display()))?;
    if arguments.json {
        println!("{}", json::of(&report));
    } else {
        print!("{}", text::of(&report));
    }
    Ok(())
}

fn report(source: &Source) -> litepack_store::Result<Report> {
    let mut store = reader::open(source.file(), &reader::options())?;
    let mut retries = RETRIES;
    loop {
        let info = store.info()?;
        let content = {
            let progress = Progress::new("reading", info.logical_bytes);
            Content::of(&mut store, &info, &mut |bytes| progress.add(bytes))?
        };
        if store.seq() == info.seq || retries == 0 {
            return Ok(Report { info, content });
        }
        retries -= 1;
    }
}
