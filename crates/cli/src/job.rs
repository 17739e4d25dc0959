//! What people see while a job runs, a bar with rate and time left, on a terminal only, and Ctrl-C, which ends it; and
//! the line that sums it up.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::output::tell;
use anyhow::{Context, Result};
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use litepack::{Job, Progress, Sizes, Stop, Unit};

const BYTES: &str = "{prefix:>9} [{bar:32}] {bytes}/{total_bytes} {bytes_per_sec} {eta} left";
const ROWS: &str = "{prefix:>9} [{bar:32}] {pos}/{len} rows {per_sec} {eta} left";
const TASKS: &str = "{prefix:>9} [{bar:32}] {pos}/{len} {elapsed}, {msg}";
const WAITING: &str = "{prefix:>9} {spinner} {elapsed}, {msg}";
const SIZE: &str = "{prefix} {spinner} {bytes}, {elapsed}";

/// So often is a bar drawn that nothing moves on.
const TICK: Duration = Duration::from_millis(200);

/// Stops every job of this process.
static STOP: LazyLock<Stop> = LazyLock::new(Stop::default);
/// The bar of the step that goes on.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// A job with a bar and warnings, which Ctrl-C (or a request to terminate) ends as an ordinary error: temporary files
/// go, locks are let go.
pub fn interruptible() -> Result<Job<'static>> {
    ctrlc::set_handler(|| STOP.stop()).context("cannot watch for Ctrl-C")?;
    Ok(job().with_stop(&STOP))
}

/// A job with a bar and warnings, which Ctrl-C ends with the process: it changes nothing.
pub fn job() -> Job<'static> {
    let job = Job::default().with_warnings(&|words| tell!("warning: {words}"));
    match std::io::stderr().is_terminal() {
        true => job.with_progress(&draw),
        false => job,
    }
}

fn draw(progress: Progress<'_>) {
    let mut bar = BAR.lock().unwrap_or_else(PoisonError::into_inner);
    match (progress, &*bar) {
        (Progress::Began { step, unit, total }, _) => *bar = Some(begin(step, unit, total)),
        (Progress::Advanced(more), Some(bar)) => bar.inc(more),
        (Progress::Reached(done), Some(bar)) => bar.set_position(done),
        (Progress::Extended(more), Some(bar)) => bar.inc_length(more),
        (Progress::At(what), Some(bar)) => bar.set_message(what.to_owned()),
        (Progress::Ended, Some(ended)) => {
            ended.finish_and_clear();
            *bar = None;
        }
        _ => {}
    }
}

fn begin(step: &'static str, unit: Unit, total: Option<u64>) -> ProgressBar {
    let template = match (unit, total) {
        (Unit::Bytes, Some(_)) => BYTES,
        (Unit::Bytes, None) => SIZE,
        (Unit::Rows, _) => ROWS,
        (Unit::Tasks, Some(_)) => TASKS,
        (Unit::Tasks, None) => WAITING,
    };
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(total.unwrap_or(0))
        .with_style(style.progress_chars("=> "))
        .with_prefix(step);
    if unit == Unit::Tasks {
        bar.enable_steady_tick(TICK);
    }
    bar
}

/// What a job did to the size of a file, in one line.
pub fn summary(target: &Path, sizes: Sizes, started: Instant) -> String {
    let Sizes { before, after } = sizes;
    let change = if before == 0 || after == 0 {
        String::new()
    } else if after <= before {
        format!(", {:.2} x smaller", before as f64 / after as f64)
    } else {
        format!(", {:.2} x larger", after as f64 / before as f64)
    };
    format!(
        "{}: {} -> {}{change}, {:.1} s",
        target.display(),
        HumanBytes(before),
        HumanBytes(after),
        started.elapsed().as_secs_f64(),
    )
}
