//! Compression of many values on all cores, with contexts that are kept from one batch to the next.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use litepack_codec::Dictionary;
use litepack_io::interrupt::{self, is_listening};
use litepack_io::parallel::parallel;

use crate::frame::{ASIDE, Compressor, Form, compress_aside};
use crate::sql::Result;

const WORKERS_MAX: usize = 8;
/// So much is done sooner than a thread starts.
const ALONE_BYTES: usize = 16 << 10;
/// For values larger than this zstd takes up to 90 MB for each worker, so only two work.
const LARGE: usize = 2 << 20;
/// A worker keeps so many contexts prepared; each takes some megabytes.
const PREPARED_MAX: usize = 4;
/// Tasks are handed out by at most so many.
const PORTION_MAX: usize = 16;

/// A value to compress.
#[derive(Clone, Debug)]
pub(crate) struct Task<'a> {
    /// Its bytes.
    pub(crate) content: &'a [u8],
    /// With which dictionary.
    pub(crate) dictionary: Option<&'a Arc<Dictionary>>,
}

/// Compresses batches.
#[derive(Debug)]
pub(crate) struct BatchCompressor {
    level: i32,
    workers: Vec<Worker>,
}

/// The compressors of one thread.
#[derive(Debug, Default)]
struct Worker {
    prepared: HashMap<Option<u128>, Compressor>,
}

impl BatchCompressor {
    /// One that compresses at `level`.
    pub(crate) fn new(level: i32) -> BatchCompressor {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = (0..cores.min(WORKERS_MAX)).map(|_| Worker::default());
        BatchCompressor {
            level,
            workers: workers.collect(),
        }
    }

    /// The frames of all tasks, in their order.
    ///
    /// # Errors
    /// When memory is short, or zstd refuses a dictionary; when it was interrupted.
    pub(crate) fn compress(&mut self, tasks: &[Task<'_>]) -> Result<Vec<Vec<u8>>> {
        let bytes: usize = tasks.iter().map(|task| task.content.len()).sum();
        let has_large = tasks.iter().any(|task| {
            let dictionary = task
                .dictionary
                .map_or(0, |dictionary| dictionary.bytes().len());
            task.content.len().max(dictionary) > LARGE
        });
        let most = if has_large { 2 } else { WORKERS_MAX };
        let portion = (tasks.len() * ALONE_BYTES / bytes.max(1)).clamp(1, PORTION_MAX);
        let wanted = (bytes / ALONE_BYTES).clamp(1, most);
        let (level, next) = (self.level, AtomicUsize::new(0));
        let count = wanted.min(self.workers.len());
        let workers = self.workers.get_mut(..count).unwrap_or_default();
        let parts = parallel(workers, |worker| worker.work(level, tasks, &next, portion));
        in_order(tasks, parts)
    }
}

/// The frames the workers made, in the order of the tasks.
fn in_order(
    tasks: &[Task<'_>],
    parts: impl IntoIterator<Item = Result<Vec<(usize, Vec<u8>)>>>,
) -> Result<Vec<Vec<u8>>> {
    let mut frames = vec![Vec::new(); tasks.len()];
    for part in parts {
        for (index, frame) in part? {
            if let Some(place) = frames.get_mut(index) {
                *place = frame;
            }
        }
    }
    Ok(frames)
}

impl Worker {
    fn work(
        &mut self,
        level: i32,
        tasks: &[Task<'_>],
        next: &AtomicUsize,
        portion: usize,
    ) -> Result<Vec<(usize, Vec<u8>)>> {
        let mut done = Vec::new();
        let mut frame = Vec::new();
        loop {
            let from = next.fetch_add(portion, Ordering::Relaxed);
            if from >= tasks.len() {
                return Ok(done);
            }
            for (index, task) in tasks.iter().enumerate().skip(from).take(portion) {
                // A batch of short values takes seconds at the highest levels.
                interrupt::check()?;
                self.compress(level, task, &mut frame)?;
                litepack_io::memory::push(&mut done, (index, litepack_io::memory::copy(&frame)?))?;
            }
        }
    }

    fn compress(&mut self, level: i32, task: &Task<'_>, frame: &mut Vec<u8>) -> Result<()> {
        if task.content.len() > ASIDE && is_listening() {
            *frame = compress_aside(level, task.dictionary, Form::Compact, task.content)?;
            return Ok(());
        }
        let identity = task.dictionary.map(|dictionary| dictionary.hash());
        if !self.prepared.contains_key(&identity) {
            if self.prepared.len() == PREPARED_MAX {
                self.prepared.clear();
            }
            let compressor = Compressor::prepared(level, task.dictionary, Form::Compact)?;
            self.prepared.insert(identity, compressor);
        }
        let Some(compressor) = self.prepared.get_mut(&identity) else {
            return Ok(());
        };
        compressor.compress(task.content, frame)?;
        if compressor.is_bulky() {
            self.prepared.remove(&identity);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_of_short_values_ends_when_it_is_interrupted() {
        let mut compressor = BatchCompressor::new(1);
        let task = Task {
            content: b"one of many",
            dictionary: None,
        };
        // So few that the calling thread does them all: another could do them before this one looks.
        let tasks = vec![task; 1000];
        assert!(1000 * b"one of many".len() < ALONE_BYTES);
        let made = interrupt::listen(|| true, || compressor.compress(&tasks));
        assert_eq!(made.unwrap_err().code, crate::sql::INTERRUPT);
        assert_eq!(compressor.compress(&tasks).unwrap().len(), tasks.len());
    }
}
