//! `litepack check`: reads everything in packed files and archives, and reports damage.

use std::path::{Path, PathBuf};

use anyhow::Result;
use litepack::{Damage, FileKind, printable_path};

use crate::job::job;
use crate::keys;
use crate::output::tell;
use crate::several::{Layout, Said, each};

/// Reads everything in packed files and archives, and reports damage.
#[derive(clap::Args)]
#[command(
    after_help = "Exit code: 0 no damage, 1 damage found, 2 a file could not be checked, whatever others are."
)]
pub struct Arguments {
    /// Print a JSON object; of several files an array of them.
    #[arg(long)]
    json: bool,
    /// The packed files and archives.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    key: keys::KeyOptions,
}

/// Runs the command, and says with which code to exit.
pub fn run(arguments: &Arguments) -> Result<u8> {
    each(&arguments.files, arguments.json, Layout::Lines, |file| {
        if litepack::file_kind(file)? == FileKind::Zstd {
            let job = arguments.key.job(file, job)?;
            let report = litepack::archive::check(file, &job)?;
            if !report.ok {
                tell!("litepack: {} is damaged", printable_path(file));
            }
            return Ok(said(
                report.ok,
                &report.damage,
                serde_json::to_value(&report)?,
            ));
        }
        let job = arguments.key.job(file, job)?;
        let report = litepack::check(file, &job)?;
        if !report.ok {
            tell_damage(file);
        }
        Ok(said(
            report.ok,
            &report.damage,
            serde_json::to_value(&report)?,
        ))
    })
}

fn tell_damage(file: &Path) {
    tell!(
        "litepack: {} is damaged; restore it from a backup, or get out what is left with `litepack salvage` (`litepack info` says which tables are affected)",
        printable_path(file)
    );
}

fn said(ok: bool, damage: &[Damage], json: serde_json::Value) -> Said {
    Said {
        json,
        text: text(damage),
        ok,
        name: None,
    }
}

/// "ok", or a line for each piece of damage.
pub fn text(damage: &[Damage]) -> String {
    match damage {
        [] => "ok\n".into(),
        damage => damage.iter().map(|damage| format!("{damage}\n")).collect(),
    }
}
