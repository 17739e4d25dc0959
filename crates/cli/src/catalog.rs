//! `litepack catalog`: writes down which files there are and what is in them.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use litepack_catalog::{CatalogOptions, Cataloged, catalog};

use crate::info::remote;
use crate::job::interruptible;
use crate::output::{failed, json, tell};

/// Writes a catalog of databases, by which readers skip files that have nothing for them.
///
/// It has the tables of each file, their rows, and the least and greatest value of the INTEGER PRIMARY KEY and of the
/// first column of each index. An existing catalog is brought up to date: files that did not change are not read again.
#[derive(clap::Args)]
#[command(
    after_help = "Exit code: 0 all files were read, 1 some could not be read (readers try them), 2 an error; the catalog is as it was."
)]
pub struct Arguments {
    /// Databases, packed, plain or archives: files, patterns such as 'logs/*.db', directories (their *.db), URLs, or
    /// s3://bucket/prefix/ (its *.db).
    #[arg(required = true, value_name = "PATH or URL")]
    paths: Vec<PathBuf>,
    /// The catalog, an SQLite database; paths in it are relative to its directory.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Also this column, as TABLE.COLUMN, which may take a scan of the table; can be repeated.
    #[arg(long, value_name = "TABLE.COLUMN")]
    column: Vec<String>,
    #[command(flatten)]
    access: remote::Options,
    /// Print what was done as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command; false if files could not be read.
pub fn run(arguments: &Arguments) -> Result<bool> {
    if !arguments
        .paths
        .iter()
        .any(|path| remote::url(path).is_some())
    {
        arguments.access.expect_none()?;
    }
    arguments.access.expect_readable()?;
    let options = CatalogOptions {
        columns: arguments.column.clone(),
        access: arguments.access.access(),
    };
    let started = Instant::now();
    let done = catalog(
        &arguments.paths,
        &arguments.output,
        &options,
        &interruptible(),
    )?;
    if arguments.json {
        json(serde_json::to_string_pretty(&done)?)?;
    }
    report(arguments, &done, started);
    Ok(done.unreadable.is_empty())
}

fn report(arguments: &Arguments, done: &Cataloged, started: Instant) {
    for file in &done.unreadable {
        failed(&file.path, &file.error);
    }
    for file in &done.incomplete {
        for left_out in &file.left_out {
            tell!(
                "warning: {}: left out of the catalog: {left_out}",
                file.path
            );
        }
    }
    let Cataloged {
        files,
        read,
        unchanged,
        removed,
        unreadable,
        incomplete: _,
    } = done;
    let sound = read - unreadable.len();
    let others = match unreadable.len() {
        0 => String::new(),
        count => format!(", {count} could not be read"),
    };
    let seconds = started.elapsed().as_secs_f64();
    tell!(
        "{}: {files} files: {sound} read{others}, {unchanged} unchanged, {removed} removed, {seconds:.1} s",
        arguments.output.display()
    );
}
