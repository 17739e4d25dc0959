//! Recognises scans: which units to prefetch, from the order in which units are read.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Units read in a row that make a scan; a shorter one is not worth waking a thread.
pub(crate) const RUN_MIN: u64 = 8;
/// Steps this small still count as "one after the other": between the leaves of a b-tree lie
/// pages of its upper levels.
const STEP_MAX: u64 = 4;
/// The order in which a handle reads units.
#[derive(Debug, Default)]
pub(crate) struct Prefetcher {
    /// The unit read last of those read one after the other. Helpers leave out what is no longer ahead of it.
    pub(crate) position: Arc<AtomicU64>,
    /// How many these are.
    run: u64,
    /// The unit read since, if that was one elsewhere.
    aside: Option<u64>,
    /// Units below this were given to a worker.
    pub(crate) until: u64,
    /// Units that were given to a worker and not asked for yet, in order.
    pub(crate) given: VecDeque<u64>,
}

impl Prefetcher {
    /// Whether a worker was given this unit and nobody has asked for it since.
    pub(crate) fn is_first_use(&mut self, unit: u64) -> bool {
        if self.aside == Some(unit) {
            return false;
        }
        while self.given.front().is_some_and(|given| *given < unit) {
            self.given.pop_front();
        }
        self.given.pop_front_if(|given| *given == unit).is_some()
    }

    /// Notes that `unit` is read now, and says which units to fetch, looking at most `reach` ahead.
    pub(crate) fn next(&mut self, unit: u64, reach: u64) -> Option<Range<u64>> {
        let last = self.position.load(Ordering::Relaxed);
        if unit == last || self.aside == Some(unit) {
            return None;
        }
        let follows = |last: u64| unit > last && unit - last <= STEP_MAX;
        let aside = self.aside.take();
        if !follows(last) && aside.is_none() && self.run >= RUN_MIN {
            // After the leaves of one inner page of a b-tree comes the next inner page, wherever that lies.
            self.aside = Some(unit);
            return None;
        }
        self.position.store(unit, Ordering::Relaxed);
        if !follows(last) {
            (self.run, self.until) = (u64::from(aside.is_some_and(follows)), 0);
            self.given.clear();
            return None;
        }
        self.run += 1;
        if self.run < RUN_MIN || self.until > unit + reach / 2 {
            return None;
        }
        let range = self.until.max(unit + 1)..unit + 1 + reach;
        self.until = range.end;
        Some(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is fetched ahead while units are read in this order: (first, end).
    fn fetched(
        prefetcher: &mut Prefetcher,
        units: impl IntoIterator<Item = u64>,
    ) -> Vec<(u64, u64)> {
        let ranges = units
            .into_iter()
            .filter_map(|unit| prefetcher.next(unit, 16));
        ranges.map(|range| (range.start, range.end)).collect()
    }

    #[test]
    fn one_read_elsewhere_does_not_end_a_scan_and_two_do() {
        let mut prefetcher = Prefetcher::default();
        assert_eq!(fetched(&mut prefetcher, 1..=20), [(9, 25), (25, 34)]);
        prefetcher.given.extend(21..34);
        assert!(fetched(&mut prefetcher, [900]).is_empty());
        assert!(!prefetcher.is_first_use(900));
        assert_eq!(fetched(&mut prefetcher, 21..=26), [(34, 43)]);
        assert!(
            prefetcher.is_first_use(26),
            "it was given before the read elsewhere"
        );
        assert!(fetched(&mut prefetcher, [900, 500, 27]).is_empty());
        assert_eq!(fetched(&mut prefetcher, 28..40), [(36, 52)]);
    }
}
