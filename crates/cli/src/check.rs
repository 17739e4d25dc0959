//! `litepack check`: reads everything in a packed file and reports damage.

use std::path::PathBuf;

use anyhow::Result;
use litepack::Damage;

use crate::job::job;
use crate::output::{json, line, tell};

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
    let report = litepack::check(&arguments.file, &job())?;
    if !report.ok {
        tell!(
            "litepack: {} is damaged; restore it from a backup (`litepack info` says which tables are affected)",
            arguments.file.display()
        );
    }
    if arguments.json {
        json(serde_json::to_value(&report)?)?;
    } else {
        print(&report.damage)?;
    }
    Ok(report.ok)
}

/// "ok", or a line for each piece of damage.
///
/// # Errors
/// If it cannot be written.
pub fn print(damage: &[Damage]) -> Result<()> {
    if damage.is_empty() {
        line("ok")?;
    }
    for damage in damage {
        line(damage)?;
    }
    Ok(())
}
