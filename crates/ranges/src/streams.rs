//! Which blocks are wanted next: more with each step of a reader that goes forward, and once it is a scan, ahead of it.

use std::ops::Range;

use litepack_io::scans::{Rule, Scans, Step};

use crate::BLOCK_SIZE;

/// Blocks in one request, at most: 1 MiB.
pub(crate) const REQUEST_MAX: u64 = (1 << 20) / BLOCK_SIZE;
/// The rule for scans: the blocks that a reader goes forward before any are fetched that it has not requested.
const RULE: Rule = Rule {
    run_min: 3,
    step_max: 2,
};
/// For each block that a reader has gone forward, so many are fetched ahead.
const AHEAD: u64 = 4;

/// The blocks to fetch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// How many a request for something that is missing should bring, if they are missing too.
    pub(crate) window: u64,
    /// The blocks that other requests should bring meanwhile.
    pub(crate) ahead: Range<u64>,
}

impl Plan {
    /// For a read of what is here.
    pub(crate) const NOTHING: Plan = Plan {
        window: 1,
        ahead: 0..0,
    };
}

/// The readers of one handle.
#[derive(Debug)]
pub(crate) struct Streams {
    scans: Scans<()>,
    /// Blocks to fetch ahead, at most.
    depth: u64,
}

impl Streams {
    /// For so many requests at once, in a cache with this budget in bytes.
    pub(crate) fn new(at_once: usize, budget: u64) -> Streams {
        let depth = (at_once as u64 - 1) * REQUEST_MAX;
        Streams {
            scans: Scans::new(RULE),
            // A fetched block must still be there when it is read.
            depth: depth.min(budget / BLOCK_SIZE / 4),
        }
    }

    /// Notes a read of blocks `first..=last`, of which `missing` is the first that is not at hand.
    pub(crate) fn note(&mut self, first: u64, last: u64, missing: Option<u64>) -> Plan {
        let step = self.scans.note(first, last);
        let stream = self.scans.current();
        let window = (1 << stream.run().min(63)).min(REQUEST_MAX);
        if let Some(missing) = missing {
            stream.ask(missing + window);
        }
        let mut ahead = 0..0;
        // Rows found by an index may lie near each other for a while, too.
        let reach = self.depth.min(AHEAD * stream.run());
        // Whole requests, not a block with each step.
        if step != Step::Other
            && let Some(wanted) = stream.wanted(reach, window)
        {
            let blocks = (wanted.end - wanted.start) / window * window;
            ahead = wanted.start..wanted.start + blocks;
            stream.ask(ahead.end);
        }
        Plan { window, ahead }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads block after block; everything planned is there at once. Returns the requests as (first, count).
    fn scan(streams: &mut Streams, blocks: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
        let mut there = std::collections::BTreeSet::new();
        let mut requests = Vec::new();
        for block in blocks {
            let missing = (!there.contains(&block)).then_some(block);
            let plan = streams.note(block, block, missing);
            if missing.is_some() {
                requests.push((block, plan.window));
                there.extend(block..block + plan.window);
            }
            let mut at = plan.ahead.start;
            while at < plan.ahead.end {
                let n = plan.window.min(plan.ahead.end - at);
                requests.push((at, n));
                there.extend(at..at + n);
                at += n;
            }
        }
        requests
    }

    #[test]
    fn a_scan_asks_for_twice_as_much_each_time_and_then_ahead_and_for_nothing_twice() {
        let mut streams = Streams::new(4, 64 << 20);
        let requests = scan(&mut streams, 100..1000);
        assert_eq!(requests[..3], [(100, 1), (101, 2), (103, 8)]);
        let mut next = 100;
        for (first, count) in requests {
            assert_eq!(first, next);
            assert!(count <= REQUEST_MAX);
            next = first + count;
        }
        assert!((1000..=1000 + 4 * REQUEST_MAX).contains(&next), "{next}");
    }

    #[test]
    fn reads_here_and_there_ask_for_nothing_else() {
        let mut streams = Streams::new(4, 64 << 20);
        for n in 0..1000 {
            let block = n * 7919 % 10_007;
            assert_eq!(
                streams.note(block, block, Some(block)),
                Plan {
                    window: 1,
                    ahead: 0..0
                }
            );
        }
    }

    /// Here and there two or three of them lie side by side.
    #[test]
    fn rows_in_order_far_between_do_not_bring_what_is_between_them() {
        let mut streams = Streams::new(4, 64 << 20);
        let scattered = |n: u64| {
            let mixed = (n ^ 0x5555).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32
        };
        let rows = || (0..20_000).filter(|n| scattered(*n) % 7 == 0);
        let requests = scan(&mut streams, rows());
        let fetched: u64 = requests.iter().map(|(_, count)| count).sum();
        assert!(fetched < 2 * rows().count() as u64, "{fetched}");
    }

    #[test]
    fn a_scan_goes_on_beside_other_reads_and_another_scan() {
        let mut streams = Streams::new(4, 64 << 20);
        let mut windows = (0, 0);
        for n in 0..40 {
            windows.0 = streams.note(n, n, Some(n)).window;
            windows.1 = streams.note(5000 + n, 5000 + n, Some(5000 + n)).window;
            let elsewhere = 10_000 + n * 97;
            assert_eq!(
                streams.note(elsewhere, elsewhere, Some(elsewhere)).window,
                1
            );
        }
        assert_eq!(windows, (REQUEST_MAX, REQUEST_MAX));
    }

    #[test]
    fn a_small_cache_is_not_filled_with_what_comes_later() {
        let mut streams = Streams::new(4, 8 * BLOCK_SIZE);
        for n in 0..100 {
            let plan = streams.note(n, n, Some(n));
            assert!(plan.ahead.end <= n + 1 + 2, "{plan:?}");
        }
        let mut alone = Streams::new(1, 64 << 20);
        assert!((0..100).all(|n| alone.note(n, n, Some(n)).ahead.is_empty()));
    }
}
