//! `litepack check`: reads everything in a packed file and reports damage.

use std::path::PathBuf;

use anyhow::{Context, Result};
use litepack_engine::report::{check_text, damage_json};
use litepack_store::{CheckReport, Error, Store};
use serde_json::json;

use crate::progress::Progress;
use crate::reader;
use crate::source::Source;

/// Reads everything in a packed file and reports damage.
#[derive(clap::Args)]
#[command(after_help = "Exit code: 0 no damage, 1 damage found, 2 the file could not be checked.")]
pub struct Arguments {
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
    /// The packed file.
    file: PathBuf,
}

/// Runs the command; false if there is damage.
pub fn run(arguments: &Arguments) -> Result<bool> {
    litepack_rusqlite::register().map_err(anyhow::Error::msg)?;
    let mut source = Source::open(&arguments.file, false)?;
    source.expect_packed()?;
    source.hold_for_report()?;
    let report = match report(&source) {
        // Nothing can be read below such damage, so it is all there is to tell.
        Err(Error::Damaged(damage)) => CheckReport {
            damage: vec![damage],
            ..CheckReport::default()
        },
        report => report.with_context(|| format!("cannot read {}", arguments.file.display()))?,
    };
    if arguments.json {
        println!("{}", as_json(&report));
    } else {
        println!("{}", check_text(&report));
    }
    Ok(report.is_ok())
}

fn report(source: &Source) -> litepack_store::Result<CheckReport> {
    let mut store = Store::open(source.file(), reader::options())?;
    store.refresh()?;
    // What cannot be told here is told by the check.
    let info = store.info().unwrap_or_default();
    let unit_size = u64::from(info.unit_size);
    let progress = Progress::new("checking", info.stored_units * unit_size);
    store.check(&mut |done| progress.set(done * unit_size))
}

fn as_json(report: &CheckReport) -> serde_json::Value {
    json!({
        "ok": report.is_ok(),
        "units": report.units,
        "nodes": report.nodes,
        "lost_bytes": report.lost_bytes,
        "damage": damage_json(&report.damage),
    })
}
