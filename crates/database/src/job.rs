//! Progress reports of long calls, how to stop them, and the key of what they are about.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use litepack_cipher::Key;
use rusqlite::{Connection, InterruptHandle};

use crate::{Error, Result};

/// The progress reports of a long call, what stops it, and the key if its file is encrypted. [`Job::default`] has none
/// of these.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let (app, packed) = (place.path().join("app.db"), place.path().join("packed.db"));
/// # rusqlite::Connection::open(&app)?.execute_batch("create table t(x); insert into t values (1)")?;
/// use litepack::{Job, PackOptions, Progress, Stop};
///
/// let stop = Stop::default(); // another thread, or a handler of Ctrl-C, keeps a clone and calls `stop.stop()`
/// let show = |progress: Progress<'_>| {
///     if let Progress::Began { step, total, .. } = progress {
///         println!("{step}, {total:?} bytes");
///     }
/// };
/// let job = Job::default().with_progress(&show).with_stop(&stop);
/// litepack::pack(&app, &packed, &PackOptions::default(), &job)?;
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct Job<'a> {
    progress: Option<&'a (dyn Fn(Progress<'_>) + Sync)>,
    warning: Option<&'a (dyn Fn(&str) + Sync)>,
    stop: Stop,
    key: Option<Arc<Key>>,
}

/// A progress report. A call goes through steps one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// A step begins.
    Began {
        /// Its name: "packing", "verifying".
        step: &'static str,
        /// The unit that is counted.
        unit: Unit,
        /// How many there are, if that is known.
        total: Option<u64>,
    },
    /// This many more are done. Several threads may report at once.
    Advanced(u64),
    /// This many are done in all.
    Reached(u64),
    /// The total grows by this many.
    Extended(u64),
    /// The thing that the step is working on.
    At(&'a str),
    /// The step has ended.
    Ended,
    /// The steps that a call goes through, in order, and about which part of its time each takes, in thousandths. It comes
    /// before the first of them, and again when more is known. Calls of one step do without.
    Shares(&'a [(&'static str, u32)]),
}

/// The unit of a step's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of the database.
    Bytes,
    /// Rows.
    Rows,
    /// Things to do, each of which [`Progress::At`] names.
    Tasks,
}

impl<'a> Job<'a> {
    /// Reports progress to a function.
    #[must_use]
    pub fn with_progress(mut self, progress: &'a (dyn Fn(Progress<'_>) + Sync)) -> Job<'a> {
        self.progress = Some(progress);
        self
    }

    /// Passes warnings to a function, as text. The call can still succeed.
    #[must_use]
    pub fn with_warnings(mut self, warning: &'a (dyn Fn(&str) + Sync)) -> Job<'a> {
        self.warning = Some(warning);
        self
    }

    /// Ends with [`Error::Interrupted`] after `stop` was called.
    #[must_use]
    pub fn with_stop(mut self, stop: &Stop) -> Job<'a> {
        self.stop = stop.clone();
        self
    }

    /// Opens the packed file that the call is about with this key, which is an error if the file is not encrypted. A call
    /// that makes a packed file encrypts it.
    #[must_use]
    pub fn with_key(mut self, key: &Arc<Key>) -> Job<'a> {
        self.key = Some(Arc::clone(key));
        self
    }

    /// The key of [`Job::with_key`].
    #[doc(hidden)]
    pub fn key(&self) -> Option<&Arc<Key>> {
        self.key.as_ref()
    }

    /// The same job without reports, for a part of the work.
    #[doc(hidden)]
    pub fn silent(&self) -> Job<'static> {
        Job {
            stop: self.stop.clone(),
            key: self.key.clone(),
            ..Job::default()
        }
    }

    /// An error if the job was stopped.
    #[doc(hidden)]
    pub fn check(&self) -> Result<()> {
        match self.stop.is_requested() {
            true => Err(Error::interrupted()),
            false => Ok(()),
        }
    }

    /// For callbacks of the store: any error, if the job was stopped. The caller then asks [`Job::check`].
    #[doc(hidden)]
    pub fn go_on(&self) -> litepack_store::Result<()> {
        match self.stop.is_requested() {
            true => Err(std::io::Error::from(std::io::ErrorKind::Interrupted).into()),
            false => Ok(()),
        }
    }

    /// Does work of the layers below that looks for an interrupt by itself ([`litepack_io::interrupt`]). The caller then
    /// asks [`Job::check`].
    #[doc(hidden)]
    pub fn listening<R>(&self, work: impl FnOnce() -> R) -> R {
        let stop = self.stop.clone();
        litepack_io::interrupt::listen(move || stop.is_requested(), work)
    }

    /// Passes a warning on.
    #[doc(hidden)]
    pub fn warn(&self, words: &str) {
        if let Some(warning) = self.warning {
            warning(words);
        }
    }

    /// Also interrupts statements on a connection, as long as the returned value lives.
    #[doc(hidden)]
    pub fn interrupts(&self, connection: &Connection) -> Interrupts {
        self.stop.interrupts(connection)
    }

    /// Says which part of the time each step takes, by what they cost.
    #[doc(hidden)]
    pub fn shares(&self, costs: &[(&'static str, f64)]) {
        let Some(tell) = self.progress else {
            return;
        };
        let all: f64 = costs.iter().map(|(_, cost)| cost).sum();
        let share = |(step, cost): &(&'static str, f64)| (*step, (cost / all * 1000.0) as u32);
        let shares: Vec<_> = costs.iter().map(share).collect();
        tell(Progress::Shares(&shares));
    }

    /// Begins a step, which ends when the returned value is dropped.
    #[doc(hidden)]
    pub fn step(&self, step: &'static str, unit: Unit, total: Option<u64>) -> Step<'a> {
        let step_of = Step(self.progress);
        step_of.tell(Progress::Began { step, unit, total });
        step_of
    }

    /// A step of this many bytes.
    #[doc(hidden)]
    pub fn bytes(&self, step: &'static str, total: u64) -> Step<'a> {
        self.step(step, Unit::Bytes, Some(total))
    }
}

/// A running step.
pub struct Step<'a>(Option<&'a (dyn Fn(Progress<'_>) + Sync)>);

impl Step<'_> {
    /// Whether its reports go anywhere.
    pub fn is_watched(&self) -> bool {
        self.0.is_some()
    }

    /// So many more are done.
    pub fn add(&self, more: u64) {
        self.tell(Progress::Advanced(more));
    }

    /// So many are done in all.
    pub fn set(&self, done: u64) {
        self.tell(Progress::Reached(done));
    }

    /// There are so many more to do.
    pub fn extend(&self, more: u64) {
        self.tell(Progress::Extended(more));
    }

    /// Names the thing that is worked on.
    pub fn at(&self, what: &str) {
        self.tell(Progress::At(what));
    }

    fn tell(&self, progress: Progress<'_>) {
        if let Some(tell) = self.0 {
            tell(progress);
        }
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        self.tell(Progress::Ended);
    }
}

/// Stops calls from another thread: each ends soon after [`Stop::stop`], and leaves nothing half done. Clones are the
/// same stop.
#[derive(Clone, Default)]
pub struct Stop(Arc<Requests>);

#[derive(Default)]
struct Requests {
    requested: AtomicBool,
    next: AtomicU64,
    /// Connections whose statements are interrupted.
    running: Mutex<Vec<(u64, InterruptHandle)>>,
}

impl Stop {
    /// Stops all calls that use this, now and later.
    pub fn stop(&self) {
        self.0.requested.store(true, Ordering::Relaxed);
        let running = self.0.running.lock();
        for (_, connection) in &*running.unwrap_or_else(PoisonError::into_inner) {
            connection.interrupt();
        }
    }

    /// Whether [`Stop::stop`] was called.
    pub fn is_requested(&self) -> bool {
        self.0.requested.load(Ordering::Relaxed)
    }

    fn interrupts(&self, connection: &Connection) -> Interrupts {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let running = self.0.running.lock();
        let handle = connection.get_interrupt_handle();
        running
            .unwrap_or_else(PoisonError::into_inner)
            .push((number, handle));
        Interrupts {
            stop: self.clone(),
            number,
        }
    }
}

impl std::fmt::Debug for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Stop").field(&self.is_requested()).finish()
    }
}

/// How long to wait for others that have a file locked, and between two tries.
const PATIENCE: Duration = Duration::from_secs(2);
const TRY: Duration = Duration::from_millis(10);

impl Job<'_> {
    /// The busy handler of a connection, by the number of tries while others have the file locked: it waits, unless the
    /// job is stopped.
    pub fn patience(&self) -> impl FnMut(i32) -> bool + Send + 'static {
        let stop = self.stop.clone();
        move |tries| {
            let tries = u32::try_from(tries).unwrap_or(u32::MAX);
            if stop.is_requested() || TRY.saturating_mul(tries) >= PATIENCE {
                return false;
            }
            std::thread::sleep(TRY);
            true
        }
    }
}

/// As long as this lives, [`Stop::stop`] interrupts statements on a connection.
pub struct Interrupts {
    stop: Stop,
    number: u64,
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        let running = self.stop.0.running.lock();
        let mut running = running.unwrap_or_else(PoisonError::into_inner);
        running.retain(|(number, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_interrupts_statements_and_steps() {
        let stop = Stop::default();
        let job = Job::default().with_stop(&stop);
        job.check().unwrap();
        let connection = Connection::open_in_memory().unwrap();
        let guard = job.interrupts(&connection);
        let (other, ended) = (stop.clone(), Arc::new(AtomicBool::new(false)));
        let is_over = Arc::clone(&ended);
        let thread = std::thread::spawn(move || {
            // A statement that has not begun yet hears nothing of a stop.
            while !is_over.load(Ordering::Relaxed) {
                std::thread::sleep(std::time::Duration::from_millis(50));
                other.stop();
            }
        });
        let endless =
            "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n";
        let error = connection.execute_batch(endless).unwrap_err();
        ended.store(true, Ordering::Relaxed);
        assert_eq!(
            error.sqlite_error_code(),
            Some(rusqlite::ErrorCode::OperationInterrupted)
        );
        thread.join().unwrap();
        assert!(job.check().unwrap_err().is_interrupted());
        assert!(job.silent().check().is_err());
        assert!(job.listening(litepack_io::interrupt::is_interrupted));
        drop(guard);
        assert!(stop.0.running.lock().unwrap().is_empty());
    }

    #[test]
    fn steps_begin_and_end() {
        let seen = Mutex::new(Vec::new());
        let tell = |progress: Progress<'_>| seen.lock().unwrap().push(format!("{progress:?}"));
        let job = Job::default().with_progress(&tell);
        let step = job.bytes("packing", 3);
        step.add(2);
        step.set(3);
        drop(step);
        assert_eq!(
            *seen.lock().unwrap(),
            [
                "Began { step: \"packing\", unit: Bytes, total: Some(3) }",
                "Advanced(2)",
                "Reached(3)",
                "Ended"
            ]
        );
        assert!(!job.silent().bytes("packing", 3).is_watched());
    }
}
