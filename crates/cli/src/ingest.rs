//! `litepack ingest`: reads logs into a packed database.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use litepack::{harmless_line, printable};
use litepack_ingest::{IngestOptions, Ingested, Preview, ingest, preview_ingest};

use crate::job::interruptible;
use crate::keys;
use crate::output::{failed, json, line, tell};

/// So many rows are shown of what would come of a source.
const SHOWN: usize = 3;

#[derive(Clone, Copy, ValueEnum)]
enum Time {
    Text,
    Integer,
}

/// Reads logs into a packed database, each line once.
///
/// Reads logs of nginx, Apache, Traefik, HAProxy, IIS, AWS and containers, JSON lines, logfmt, LTSV, syslog, CSV and
/// TSV, from files that may be compressed by gzip, zstd, xz or bzip2. Lines read in an earlier run are not read again,
/// also after a file was rotated and compressed. A line that is not exactly of the format is counted and kept apart.
#[derive(clap::Args)]
#[command(
    after_help = "It can be stopped at any time; what was read is kept, and the next run goes on from there."
)]
pub struct Arguments {
    /// Files, patterns such as 'logs/*.gz', named pipes, or - for standard input.
    #[arg(required = true)]
    sources: Vec<PathBuf>,
    /// The database; it is created, packed, if it does not exist, and encrypted, if there is a key.
    #[arg(long, value_name = "DB", required_unless_present = "dry_run")]
    into: Option<PathBuf>,
    /// A name, such as json, combined, main, haproxy or w3c, a log_format of nginx or a LogFormat of Apache, or a name
    /// and fields behind it, such as 'combined %D' [default: the first lines tell].
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// The table of the lines.
    #[arg(long, default_value = "logs")]
    table: String,
    /// How times are stored: as 2026-11-24T10:43:55Z, or in seconds since 1970.
    #[arg(long, value_enum, default_value = "text")]
    time: Time,
    /// Keep lines as JSON in one column.
    #[arg(long)]
    json_column: bool,
    /// Create an index on this column as well as on the time; can be repeated.
    #[arg(long, value_name = "COLUMN")]
    index: Vec<String>,
    /// Make at most this many columns of names in lines; other values go into the column extra, as JSON.
    #[arg(long, value_name = "N", default_value_t = 100)]
    max_columns: usize,
    /// Do not parse lines longer than this, from 4096 to 2097152; their beginning is kept.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    max_line: usize,
    /// Delete rows older than this, such as 30d, 12h or 90m.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    keep: Option<Duration>,
    /// Go on as files grow and are rotated.
    #[arg(long)]
    follow: bool,
    /// Show the format, columns and first rows of each source, and write nothing.
    #[arg(long, conflicts_with = "follow")]
    dry_run: bool,
    #[command(flatten)]
    key: keys::KeyOptions,
    #[command(flatten)]
    padding: keys::PaddingOption,
    /// Print what was done as JSON.
    #[arg(long)]
    json: bool,
}

/// A number with a unit: s, m, h, d or w.
fn duration(text: &str) -> Result<Duration> {
    let unit = text.chars().last().context("empty")?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => bail!("not a number with s, m, h, d or w, such as 30d"),
    };
    let number: u64 = text[..text.len() - 1]
        .parse()
        .context("not a number with a unit, such as 30d")?;
    let seconds = number
        .checked_mul(seconds)
        .filter(|s| (1..=1 << 36).contains(s));
    Ok(Duration::from_secs(seconds.context("out of range")?))
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<()> {
    let options = IngestOptions {
        table: arguments.table.clone(),
        format: arguments.format.clone(),
        integer_times: matches!(arguments.time, Time::Integer),
        json_column: arguments.json_column,
        indexes: arguments.index.clone(),
        max_columns: arguments.max_columns,
        max_line: arguments.max_line,
        keep: arguments.keep,
        follow: arguments.follow,
    };
    let started = Instant::now();
    let Some(into) = arguments.into.as_ref().filter(|_| !arguments.dry_run) else {
        let found = preview_ingest(&arguments.sources, &options, &interruptible())?;
        return show(arguments, &found);
    };
    if arguments
        .sources
        .iter()
        .any(|source| source.as_os_str() == "-")
    {
        arguments.key.expect_elsewhere("the lines")?;
    }
    let key = match arguments.key.of(into)? {
        Some(key) => Some(arguments.padding.of(key)?),
        None => arguments.padding.expect_none("a key").map(|()| None)?,
    };
    let job = keys::with(key, interruptible);
    let done = ingest(&arguments.sources, into, &options, &job)?;
    if arguments.json {
        json(serde_json::to_string_pretty(&done)?)?;
    }
    report(into, &done, started);
    let failed = done.sources.iter().filter(|source| source.error.is_some());
    all_were_read(failed.count(), done.sources.len())
}

fn all_were_read(failed: usize, all: usize) -> Result<()> {
    if failed > 0 {
        bail!("{failed} of {all} sources were not read to their end");
    }
    Ok(())
}

/// Shows what would come of the sources.
fn show(arguments: &Arguments, found: &[Preview]) -> Result<()> {
    if arguments.json {
        json(serde_json::to_string_pretty(found)?)?;
    }
    for one in found.iter().filter(|_| !arguments.json) {
        let path = printable(&one.path);
        match &one.format {
            Some(format) => line(format_args!(
                "{path}: format '{}', which {} of {} lines fit",
                printable(format),
                one.fits,
                one.sample
            ))?,
            None => line(format_args!("{path}: format not known"))?,
        }
        let width = one.columns.iter().map(|name| name.chars().count()).max();
        for row in one.rows.iter().take(SHOWN) {
            line("")?;
            for (name, value) in one.columns.iter().zip(row) {
                let value = match value {
                    serde_json::Value::Null => continue,
                    serde_json::Value::String(text) => printable(text),
                    other => other.to_string(),
                };
                let name = printable(name);
                line(format_args!("  {name:<0$}  {value}", width.unwrap_or(0)))?;
            }
        }
        for (why, text) in one.unparsed_lines.iter().take(SHOWN) {
            line(format_args!(
                "\n  not parsed, {why}: {}",
                harmless_line(text)
            ))?;
        }
        line("")?;
    }
    for (one, error) in found
        .iter()
        .filter_map(|one| Some((one, one.error.as_ref()?)))
    {
        failed(&one.path, error);
    }
    let failed = found.iter().filter(|one| one.error.is_some());
    all_were_read(failed.count(), found.len())
}

fn report(into: &Path, done: &Ingested, started: Instant) {
    for source in &done.sources {
        if let Some(error) = &source.error {
            failed(&source.path, error);
            continue;
        }
        let path = printable(&source.path);
        let (half, waiting) = (source.half_line_bytes, source.waiting);
        if half > 0 {
            tell!("{path}: its last line has no end yet ({half} bytes); a later run reads it");
        }
        if waiting > 0 {
            tell!(
                "{path}: {waiting} parts of a line wait for the rest of it, which a later run reads"
            );
        }
    }
    let Ingested {
        lines,
        rows,
        unparsed,
        cut,
        deleted,
        ..
    } = done;
    let mut more = String::new();
    if *unparsed > 0 {
        more += &format!(", {unparsed} lines not parsed (table litepack_unparsed)");
    }
    if *cut > 0 {
        more += &format!(", {cut} of them too long and cut");
    }
    if *deleted > 0 {
        more += &format!(", {deleted} old rows deleted");
    }
    let seconds = started.elapsed().as_secs_f64();
    tell!(
        "{}: {lines} lines read, {rows} rows added{more}, {seconds:.1} s",
        into.display()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(duration("30d").unwrap(), Duration::from_secs(30 * 86_400));
        for bad in ["", "30", "d", "-1d", "1é", "0s", "99999999999999999999d"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
