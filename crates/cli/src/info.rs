//! `litepack info`: what a packed file is made of, for people or as JSON.

use std::path::PathBuf;

use anyhow::{Context, Result};
use indicatif::HumanBytes;
use litepack_sqlite::info_json;
use litepack_store::Info;

use crate::reader;
use crate::source::Source;

/// Tells what a packed file is made of.
#[derive(clap::Args)]
pub struct Arguments {
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
    /// The packed file.
    file: PathBuf,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<()> {
    litepack_linked::register().map_err(anyhow::Error::msg)?;
    let mut source = Source::open(&arguments.file, false)?;
    source.expect_packed()?;
    source.hold_for_report()?;
    let info = reader::open(source.file(), &reader::options())
        .and_then(|mut store| store.info())
        .with_context(|| format!("cannot read {}", arguments.file.display()))?;
    if arguments.json {
        println!("{}", info_json(&info));
    } else {
        print!("{}", text(&info));
    }
    Ok(())
}

fn text(info: &Info) -> String {
    let size = |bytes: u64| format!("{} ({bytes} bytes)", HumanBytes(bytes));
    let dictionaries: u64 = info.dictionaries.iter().map(|len| u64::from(*len)).sum();
    let pages = info.logical_bytes / u64::from(info.page_size.max(1));
    let ratio = info.logical_bytes as f64 / info.file_bytes.max(1) as f64;
    let mut lines = vec![
        ("database".to_string(), size(info.logical_bytes)),
        ("packed file".into(), size(info.file_bytes)),
        ("ratio".into(), format!("{ratio:.2}")),
        (
            "pages".into(),
            format!("{pages} of {} bytes", info.page_size),
        ),
        (
            "stored in".into(),
            format!("{} units of {} bytes", info.stored_units, info.unit_size),
        ),
        ("free space".into(), size(info.free_bytes)),
        (
            "dictionaries".into(),
            format!("{}, {}", info.dictionaries.len(), size(dictionaries)),
        ),
    ];
    for (name, units, bytes) in &info.codecs {
        lines.push((
            format!("  {name}"),
            format!("{units} units, {}", size(*bytes)),
        ));
    }
    lines.push(("commit".into(), info.seq.to_string()));
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    lines
        .iter()
        .map(|(name, value)| format!("{name:width$}  {value}\n"))
        .collect()
}
