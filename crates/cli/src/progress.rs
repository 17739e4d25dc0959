//! What people see while they wait, and afterwards: a bar with rate and time left, on a terminal only,
//! and the summary line.

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

const TEMPLATE: &str = "{prefix:>9} [{bar:32}] {bytes}/{total_bytes} {bytes_per_sec} {eta} left";
const ROWS: &str = "{prefix:>9} [{bar:32}] {pos}/{len} rows {per_sec} {eta} left";

const STEPS: &str = "{prefix:>9} [{bar:32}] {pos}/{len} {elapsed}, {msg}";
const WAITING: &str = "{prefix:>9} {spinner} {elapsed}, {msg}";
const SIZE: &str = "{prefix} {spinner} {bytes}, {elapsed}";

/// So often is a bar drawn that nothing moves on.
const TICK: Duration = Duration::from_millis(200);

/// A bar for one step of a job; removes itself when dropped.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar for `total` bytes, shown only when stderr is a terminal.
    pub fn new(step: &'static str, total: u64) -> Progress {
        Progress::with(TEMPLATE, step, total)
    }

    /// A bar for `total` rows.
    pub fn of_rows(step: &'static str, total: u64) -> Progress {
        Progress::with(ROWS, step, total)
    }

    /// A running figure in bytes for a job whose end is not known.
    pub fn without_end(step: &'static str) -> Progress {
        Progress::with(SIZE, step, 0)
    }

    /// A bar for a number of steps, each of which [`Progress::say`] names.
    pub fn of_steps(step: &'static str, total: u64) -> Progress {
        Progress::ticking(STEPS, step, total)
    }

    /// A clock for a job that does not know how far it is, but what it is at.
    pub fn waiting(step: &'static str) -> Progress {
        Progress::ticking(WAITING, step, 0)
    }

    fn ticking(template: &str, step: &'static str, total: u64) -> Progress {
        let progress = Progress::with(template, step, total);
        progress.0.enable_steady_tick(TICK);
        progress
    }

    /// For a part of a job whose progress is not shown by itself.
    pub fn hidden() -> Progress {
        Progress(ProgressBar::hidden())
    }

    fn with(template: &str, step: &'static str, total: u64) -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress(ProgressBar::hidden());
        }
        let style =
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        Progress(
            ProgressBar::new(total)
                .with_style(style.progress_chars("=> "))
                .with_prefix(step),
        )
    }

    /// Whether anybody sees it.
    pub fn is_shown(&self) -> bool {
        !self.0.is_hidden()
    }

    /// So many more bytes (or steps) are done.
    pub fn add(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    /// There are so many steps more than was thought.
    pub fn extend(&self, steps: u64) {
        self.0.inc_length(steps);
    }

    /// What is being done.
    pub fn say(&self, text: String) {
        self.0.set_message(text);
    }

    /// So many bytes (or rows) are done in all.
    pub fn set(&self, bytes: u64) {
        self.0.set_position(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// What a job did to the size of a file, in one line.
pub fn summary(target: &Path, before: u64, after: u64, started: Instant) -> String {
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
