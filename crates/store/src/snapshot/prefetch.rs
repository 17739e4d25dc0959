//! Prefetching: during a scan, units are decoded before they are read.
//!
//! The handle reads the stored bytes, of contiguous extents in one call. A worker compares the checksums, decodes and
//! fills the cache; its keys have extent and checksum, so an entry stays right whatever is committed meanwhile. The
//! handle never waits for a worker: a unit that is not in the cache when it is read, the handle decodes itself. Errors
//! of prefetching are ignored until the unit is read.
//!
//! A scan that does little with a page is faster than its worker. Then both decode: the worker takes the units of a job
//! from the last to the first, so the two meet in the middle, and neither decodes what the other has. The longer a scan
//! has run, the further ahead is read, so that the worker always has a job.
//!
//! The first read of a prefetched page is not counted as a use by the cache. Otherwise every page of a scan would have
//! been used twice, and a scan of more than the cache holds would push out all that is used often.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use litepack_codec::Dictionary;
use litepack_io::scans::{Rule, Step};
use litepack_io::storage::ReadAt;

use crate::format::leaf::Entry;
use crate::format::unit::Unit;
use crate::medium::tools::Tools;
use crate::snapshot::image::Image;
use crate::snapshot::pages::{Overlay, PageReader};

/// The rule for scans. A shorter run is not worth waking a thread. Between the leaves of a b-tree lie pages of its
/// upper levels, so small steps count as "one after the other".
pub(super) const RULE: Rule = Rule {
    run_min: 8,
    step_max: 4,
};
/// Decoded bytes ahead of the reader in one scan, at first. Twice as many would cost a short scan twice as many pages
/// that are never read.
const AHEAD_MIN: u64 = 64 << 10;
/// The same in a scan that has run over four times as many.
const AHEAD_MAX: u64 = 256 << 10;
/// Jobs that may wait for the worker: one for each of several scans.
const WAITING_MAX: usize = 4;
/// A smaller cache would lose pages before they are read: what is new gets a small part of it.
pub(super) const BUDGET_MIN: u64 = 64 * AHEAD_MAX;

/// Units given to workers for one scan.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// Number of the unit that the scan read last. Workers leave out what is no longer ahead of it. Reads here and
    /// there have none: it would be allocated for each.
    position: Option<Arc<AtomicU64>>,
    /// Units that were not asked for yet, in order.
    units: VecDeque<Unit>,
    /// A unit was not in the cache when it was read. Scans of cached units look for nothing ahead.
    pub(super) has_missed: bool,
}

/// A unit whose stored bytes were read ahead.
struct Fetched {
    unit: Unit,
    entry: Entry,
    dictionary: Option<Arc<Dictionary>>,
}

impl<R: ReadAt> PageReader<R> {
    /// Notes that `unit` is read now, and has a worker decode what probably comes next.
    pub(crate) fn prefetch(&mut self, image: &Image, newer: &impl Overlay, unit: Unit) {
        if self.workers_max() == 0 {
            return;
        }
        let unit_size = u64::from(image.unit_size);
        let least = (AHEAD_MIN / unit_size).max(2);
        let step = self.scans.note(unit.0, unit.0);
        let scan = self.scans.current();
        let is_cached = !scan.kept.has_missed && scan.kept.units.is_empty();
        if step == Step::Other || is_cached {
            return;
        }
        let position = scan.kept.position.get_or_insert_default();
        position.store(unit.0, Ordering::Relaxed);
        let position = Arc::clone(position);
        let reach = (scan.run() / 4).clamp(least, (AHEAD_MAX / unit_size).max(2));
        let Some(range) = scan.wanted(reach, least / 2 + 1) else {
            return;
        };
        scan.ask(range.end);
        // A scan can be faster than its worker, and then does a share of the decoding itself.
        if self.workers.waiting() >= WAITING_MAX || self.medium.cache.cache.share() < BUDGET_MIN {
            return;
        }
        if litepack_io::memory::check().is_err() {
            return;
        }
        let end = Unit(range.end.min(image.units()));
        let mut fetched = self.fetchable(image, newer, Unit(range.start).up_to(end));
        self.scans.current().kept.has_missed &= !fetched.is_empty();
        let mut bytes = Vec::new();
        let read = self.read_together(&fetched, &mut bytes);
        if read == 0 {
            return;
        }
        fetched.truncate(read);
        let given = &mut self.scans.current().kept;
        let units = fetched.iter().map(|fetched| fetched.unit);
        given.units.extend(units);
        let (guard, cache) = (self.medium.guard.clone(), self.medium.cache.clone());
        let page_len = image.unit_size as usize;
        let job = move |tools: &mut Tools| {
            let mut page = vec![0; page_len];
            let mut rest = bytes.as_mut_slice();
            for fetched in fetched.iter().rev() {
                let before = rest.len() - fetched.entry.len as usize;
                let (before, stored) = std::mem::take(&mut rest).split_at_mut(before);
                rest = before;
                // The reader is about to load the next one itself.
                let position = position.load(Ordering::Relaxed);
                let ahead = position + 2..position + 1 + 2 * reach;
                if !ahead.contains(&fetched.unit.0) {
                    continue;
                }
                let Ok(Some(stored)) = guard.open_unit(stored, &fetched.entry.extent()) else {
                    continue;
                };
                let codec = fetched.entry.storage.codec;
                let dictionary = fetched.dictionary.as_deref();
                if tools
                    .decoder
                    .decode(codec, stored, dictionary, &mut page)
                    .is_ok()
                {
                    cache.put_page(fetched.unit, &fetched.entry, &page, &mut tools.spare);
                }
            }
        };
        self.workers.give(1, Box::new(job));
    }

    /// Whether a worker was given the unit that is read now, and it was not asked for since.
    pub(super) fn is_first_use(&mut self, unit: Unit) -> bool {
        let scan = self.scans.current();
        let is_given = scan.last() == unit.0 && !scan.kept.units.is_empty();
        if !is_given {
            return false;
        }
        let given = &mut scan.kept.units;
        while given.pop_front_if(|given| *given < unit).is_some() {}
        given.pop_front_if(|given| *given == unit).is_some()
    }

    /// Those of the units that are stored and not in memory yet, up to the first that makes trouble.
    fn fetchable(
        &mut self,
        image: &Image,
        newer: &impl Overlay,
        units: impl Iterator<Item = Unit>,
    ) -> Vec<Fetched> {
        let mut fetchable = Vec::new();
        for unit in units {
            if newer.unit(unit).is_some() {
                continue;
            }
            let Ok(entry) = self.entry(image, unit) else {
                break;
            };
            let longest = image.unit_size + self.medium.guard.unit_excess();
            let known = || self.medium.cache.has_page(&entry, image.unit_size);
            // The handle itself decodes a unit that needs other extents: workers have none but those they are given.
            if entry.is_zero() || !entry.is_alone() || entry.len > longest || known() {
                continue;
            }
            let Ok(dictionary) = self.medium.dictionary_for(&image.catalog, entry.storage) else {
                break;
            };
            fetchable.push(Fetched {
                unit,
                entry,
                dictionary: dictionary.map(|found| Arc::clone(&found)),
            });
        }
        fetchable
    }

    /// Reads stored units into `bytes`, end to end, neighbouring extents in one call. Returns how many
    /// units could be read.
    fn read_together(&self, units: &[Fetched], bytes: &mut Vec<u8>) -> usize {
        let mut rest = units;
        while let Some(first) = rest.first() {
            let mut stop = first.entry.offset;
            let together = rest
                .iter()
                .take_while(|next| {
                    let adjoins = next.entry.offset == stop;
                    stop += u64::from(next.entry.len);
                    adjoins
                })
                .count();
            let (run, behind) = rest.split_at(together);
            let len: usize = run.iter().map(|next| next.entry.len as usize).sum();
            let start = bytes.len();
            if litepack_io::memory::resize(bytes, start + len).is_err() {
                break;
            }
            let (_, room) = bytes.split_at_mut(start);
            match self.medium.disk.read_at(room, first.entry.offset.0) {
                Ok(found) if found == len => rest = behind,
                _ => {
                    bytes.truncate(start);
                    break;
                }
            }
        }
        units.len() - rest.len()
    }
}
