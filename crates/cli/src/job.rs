//! The display of a job: a bar with rate and time left, on a terminal only; Ctrl-C, which ends the job; and the line
//! that sums it up.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::INTERRUPTED;
use crate::output::tell;
use crate::signals;
use anyhow::Result;
use indicatif::{HumanBytes, HumanDuration, ProgressBar, ProgressStyle};
use litepack::{Job, Progress, Sizes, Stop, Unit, harmless_line};

const BYTES: &str = "{prefix:>9} [{bar:32}] {bytes}/{total_bytes} {bytes_per_sec} {eta} left";
const ROWS: &str = "{prefix:>9} [{bar:32}] {pos}/{len} rows {per_sec} {eta} left";
const TASKS: &str = "{prefix:>9} [{bar:32}] {pos}/{len} {elapsed}, {msg}";
const WAITING: &str = "{prefix:>9} {spinner} {elapsed}, {msg}";
const WHOLE: &str = "{prefix:>9} [{bar:32}] {percent:>3} %{msg}";
const SIZE: &str = "{prefix} {spinner} {bytes}, {elapsed}";

/// Of fewer thousandths nothing is concluded.
const GUESSED: u64 = 20;
/// So often is a bar drawn that nothing moves on.
const TICK: Duration = Duration::from_millis(200);

/// Stops every job of this process.
static STOP: LazyLock<Stop> = LazyLock::new(Stop::default);
/// Whether the work looks at it.
static HEEDED: AtomicBool = AtomicBool::new(false);
/// The bar of the step that goes on.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);
/// The steps of the call, if it has several.
static WHOLE_CALL: Mutex<Option<Whole>> = Mutex::new(None);

/// Watches for Ctrl-C and requests to terminate. A job of [`interruptible`] ends as an ordinary error. All else ends with
/// the process, at once, wherever it waits: it leaves no more behind than if it were killed, which is nothing.
pub fn watch() -> Result<()> {
    let told = || match HEEDED.load(Ordering::SeqCst) {
        true => STOP.stop(),
        false => {
            crate::prompt::restore();
            // Not waited for: the thread that draws may hold it for as long as the terminal is stopped.
            if let Ok(bar) = BAR.try_lock()
                && let Some(bar) = &*bar
            {
                bar.finish_and_clear();
            }
            tell!("litepack: interrupted");
            std::process::exit(INTERRUPTED.into());
        }
    };
    signals::watch(told)
}

/// A job with a bar and warnings, which Ctrl-C ends as an ordinary error: temporary files go, locks are let go.
pub fn interruptible() -> Job<'static> {
    HEEDED.store(true, Ordering::SeqCst);
    job().with_stop(&STOP)
}

/// A job with a bar and warnings, which Ctrl-C ends with the process: it changes nothing.
pub fn job() -> Job<'static> {
    let job = Job::default().with_warnings(&|words| tell!("warning: {words}"));
    match std::io::stderr().is_terminal() {
        true => job.with_progress(&draw),
        false => job,
    }
}

/// The next job has a bar of its own.
#[cfg(unix)]
pub fn another() {
    *WHOLE_CALL.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

fn draw(progress: Progress<'_>) {
    let mut whole = WHOLE_CALL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Progress::Shares(shares) = progress {
        let whole = whole.get_or_insert_with(Whole::begin);
        whole.shares = shares.to_vec();
        return;
    }
    if let Some(whole) = &mut *whole
        && whole.draw(progress)
    {
        return;
    }
    let mut bar = BAR.lock().unwrap_or_else(PoisonError::into_inner);
    match (progress, &*bar) {
        (Progress::Began { step, unit, total }, _) => *bar = Some(begin(step, unit, total)),
        (Progress::Advanced(more), Some(bar)) => bar.inc(more),
        (Progress::Reached(done), Some(bar)) => bar.set_position(done),
        (Progress::Extended(more), Some(bar)) => bar.inc_length(more),
        (Progress::At(what), Some(bar)) => bar.set_message(harmless_line(what)),
        (Progress::Ended, Some(ended)) => {
            ended.finish_and_clear();
            *bar = None;
        }
        _ => {}
    }
}

/// A call of several steps: one bar for all, with the time that is left for all.
struct Whole {
    shares: Vec<(&'static str, u32)>,
    started: Instant,
    bar: Option<ProgressBar>,
    step: &'static str,
    total: u64,
    done: u64,
    /// Thousandths of all, which never become fewer.
    reached: u64,
}

impl Whole {
    fn begin() -> Whole {
        Whole {
            shares: Vec::new(),
            started: Instant::now(),
            bar: None,
            step: "",
            total: 0,
            done: 0,
            reached: 0,
        }
    }

    /// Draws a step of it; false if it is of something else.
    fn draw(&mut self, progress: Progress<'_>) -> bool {
        match progress {
            Progress::Began { step, total, .. } => {
                if !self.shares.iter().any(|(known, _)| *known == step) {
                    return false;
                }
                (self.step, self.total, self.done) = (step, total.unwrap_or(0), 0);
                let style = ProgressStyle::with_template(WHOLE);
                let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
                let bar = ProgressBar::new(1000).with_style(style.progress_chars("=> "));
                bar.set_prefix(step);
                bar.enable_steady_tick(TICK);
                self.bar = Some(bar);
            }
            _ if self.bar.is_none() => return false,
            Progress::Advanced(more) => self.done += more,
            Progress::Reached(done) => self.done = self.done.max(done),
            Progress::Extended(more) => self.total += more,
            Progress::Ended => {
                if let Some(bar) = self.bar.take() {
                    bar.finish_and_clear();
                }
            }
            _ => {}
        }
        if let Some(bar) = &self.bar {
            self.reached = self.reached.max(self.part());
            bar.set_position(self.reached);
            bar.set_message(left(self.reached, self.started.elapsed()));
        }
        true
    }

    /// Thousandths of all that are done.
    fn part(&self) -> u64 {
        let before = self
            .shares
            .iter()
            .take_while(|(step, _)| *step != self.step);
        let before: u32 = before.map(|(_, share)| share).sum();
        let own = self.shares.iter().find(|(step, _)| *step == self.step);
        let own = own.map_or(0, |(_, share)| u64::from(*share));
        let own = (own * self.done.min(self.total)).checked_div(self.total);
        (u64::from(before) + own.unwrap_or(0)).min(1000)
    }
}

/// In words how much time is left, when so many thousandths took so long. Nothing as long as that would be a guess.
fn left(thousandths: u64, elapsed: Duration) -> String {
    if thousandths < GUESSED || elapsed < TICK {
        return String::new();
    }
    let all = elapsed.as_secs_f64() * 1000.0 / thousandths as f64;
    let left = (all - elapsed.as_secs_f64()).max(0.0);
    format!(", {} left", HumanDuration(Duration::from_secs_f64(left)))
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

/// The sizes of a file before and after a job, in one line.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_is_left_is_that_of_all_steps() {
        let mut whole = Whole::begin();
        whole.shares = vec![("choosing", 100), ("packing", 800), ("verifying", 100)];
        let began = |step, total| Progress::Began {
            step,
            unit: Unit::Bytes,
            total: Some(total),
        };
        assert!(!whole.draw(began("uploading", 10)));
        let mut parts = Vec::new();
        for step in ["choosing", "packing", "verifying"] {
            assert!(whole.draw(began(step, 50)));
            for _ in 0..2 {
                whole.draw(Progress::Advanced(25));
                parts.push(whole.reached);
            }
            whole.draw(Progress::Ended);
        }
        assert_eq!(parts, [50, 100, 500, 900, 950, 1000]);
        let seconds = Duration::from_secs;
        assert_eq!(left(10, seconds(60)), "");
        assert_eq!(left(500, seconds(60)), ", 60 seconds left");
        assert_eq!(left(1000, seconds(60)), ", 0 seconds left");
    }
}
