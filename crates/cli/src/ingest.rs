//! `litepack ingest`: reads logs into a packed database.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use litepack::{IngestOptions, Ingested};

use crate::job::interruptible;
use crate::output::{failed, line, tell};

#[derive(Clone, Copy, ValueEnum)]
enum Time {
    Text,
    Integer,
}

/// Reads logs into a packed database, each line once.
///
/// Reads logs of nginx and Apache, JSON lines, logfmt, syslog, CSV and TSV, from files that may be compressed by gzip
/// or zstd. What was read in an earlier run is not read again, also after a file was rotated and compressed.
#[derive(clap::Args)]
#[command(
    after_help = "It can be stopped at any time; what was read is kept, and the next run goes on from there."
)]
pub struct Arguments {
    /// Files, patterns such as 'logs/*.gz', named pipes, or - for standard input.
    #[arg(required = true)]
    sources: Vec<PathBuf>,
    /// The database; it is created, packed, if it does not exist.
    #[arg(long, value_name = "DB")]
    into: PathBuf,
    /// json, combined, vhost, common, syslog, logfmt, tsv, csv, or a log_format of nginx or LogFormat of Apache
    /// [default: the first lines tell].
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
    let done = litepack::ingest(
        &arguments.sources,
        &arguments.into,
        &options,
        &interruptible()?,
    )?;
    if arguments.json {
        line(serde_json::to_string_pretty(&done)?)?;
    }
    report(arguments, &done, started);
    let failed = done
        .sources
        .iter()
        .filter(|source| source.error.is_some())
        .count();
    if failed > 0 {
        bail!(
            "{failed} of {} sources were not read to their end",
            done.sources.len()
        );
    }
    Ok(())
}

fn report(arguments: &Arguments, done: &Ingested, started: Instant) {
    for source in &done.sources {
        if let Some(error) = &source.error {
            failed(&litepack::printable(&source.path), error);
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
        arguments.into.display()
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
