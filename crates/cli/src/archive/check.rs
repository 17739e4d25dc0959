//! `litepack archive check`: decodes every frame of an archive and says whether anything is wrong.

use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use litepack_archive::{Error, Report};
use litepack_engine::report::{archive_check_text, archive_damage_json};
use serde_json::json;

use super::{file, open};
use crate::progress::Progress;
use crate::{interrupt, reader};

/// Decompresses every frame of an archive and reports damage.
#[derive(clap::Args)]
#[command(after_help = "Exit code: 0 no damage, 1 damage found, 2 the file could not be checked.")]
pub struct Arguments {
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
    /// The archive.
    archive: PathBuf,
}

/// Runs the command; false if there is damage.
pub fn run(arguments: &Arguments) -> Result<bool> {
    interrupt::watch()?;
    let (file, _) = file(&arguments.archive)?;
    let report = match report(&file) {
        // Without a seek table no frame can be found, so this is all there is to tell.
        Err(damage @ Error::SeekTable { .. }) => Report {
            damage: vec![damage],
            ..Report::default()
        },
        Err(Error::Stopped) => return interrupt::check().and_then(|()| bail!("stopped")),
        report => report.with_context(|| format!("cannot read {}", arguments.archive.display()))?,
    };
    if arguments.json {
        println!("{}", as_json(&report));
    } else {
        println!("{}", archive_check_text(&report));
    }
    Ok(report.is_ok())
}

fn report(file: &std::fs::File) -> Result<Report, Error> {
    let archive = open(file)?;
    let bar = Progress::new("checking", archive.size());
    archive.check(reader::threads(), &mut |done| {
        bar.set(done);
        match interrupt::check() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })
}

fn as_json(report: &Report) -> serde_json::Value {
    json!({
        "ok": report.is_ok(),
        "frames": report.frames,
        "sound_bytes": report.sound,
        "damage": archive_damage_json(report),
    })
}
