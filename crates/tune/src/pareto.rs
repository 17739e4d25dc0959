//! Which of the measured settings are worth having, and which one is recommended.
//!
//! The Pareto front has what nothing else beats in size without being slower. A gain in time of less than
//! [`NOISE`] does not count: repeated measurements differ by as much.

use super::candidates::Candidate;

/// Times that differ by less are the same.
const NOISE: f64 = 0.03;
/// The recommended candidate takes at most this many times as long as the fastest compressed one.
const SLOWER: f64 = 1.5;
/// A candidate that saves less than this share of the plain file is not recommended.
const WORTHWHILE: f64 = 0.05;

/// A candidate that was made and measured.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The candidate.
    pub candidate: Candidate,
    /// Bytes of its file.
    pub bytes: u64,
    /// Seconds that it took to make.
    pub seconds: f64,
    /// For each query, its time by that on the plain file.
    pub ratios: Vec<f64>,
    /// Their geometric mean.
    pub time: f64,
}

/// The places of what is on the front, from small to large.
pub(crate) fn front(results: &[Outcome]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..results.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&results[*a], &results[*b]);
        a.bytes.cmp(&b.bytes).then(a.time.total_cmp(&b.time))
    });
    let mut front: Vec<usize> = Vec::new();
    for at in order {
        let faster = |last: &usize| results[at].time < results[*last].time * (1.0 - NOISE);
        if front.last().is_none_or(faster) {
            front.push(at);
        }
    }
    front
}

/// The place of what is recommended among those that are `wanted`: the smallest that takes at most [`SLOWER`] times
/// as long as the fastest compressed one of them; none if that saves nothing worth having.
pub(crate) fn recommended(
    results: &[Outcome],
    wanted: impl Fn(Candidate) -> bool,
) -> Option<usize> {
    let plain = results
        .iter()
        .find(|result| !result.candidate.is_compressed())?;
    let compressed = || {
        let all = results.iter().enumerate();
        all.filter(|(_, result)| result.candidate.is_compressed() && wanted(result.candidate))
    };
    let times = compressed().map(|(_, result)| result.time);
    let fastest = times.min_by(f64::total_cmp)?;
    let (at, found) = compressed()
        .filter(|(_, result)| result.time <= fastest * SLOWER)
        .min_by(|(_, a), (_, b)| a.bytes.cmp(&b.bytes).then(a.time.total_cmp(&b.time)))?;
    let limit = plain.bytes as f64 * (1.0 - WORTHWHILE);
    (found.bytes as f64 <= limit).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::super::candidates::Form;
    use super::*;

    fn results(sizes_and_times: &[(u64, f64)]) -> Vec<Outcome> {
        let of = |(at, (bytes, time)): (usize, &(u64, f64))| Outcome {
            candidate: Candidate {
                page_size: 4096,
                form: match at {
                    0 => Form::Plain,
                    _ => Form::Packed { best: false },
                },
            },
            bytes: *bytes,
            seconds: 0.0,
            ratios: vec![*time],
            time: *time,
        };
        sizes_and_times.iter().enumerate().map(of).collect()
    }

    #[test]
    fn the_front_has_what_nothing_beats() {
        let found = results(&[
            (100, 1.0),
            (50, 2.0),
            (60, 2.1),
            (60, 1.5),
            (20, 9.0),
            (120, 1.0),
        ]);
        assert_eq!(front(&found), [4, 1, 3, 0]);
        assert_eq!(front(&[]), [] as [usize; 0]);
        // Equal in both: one of them.
        assert_eq!(front(&results(&[(1, 1.0), (1, 1.0)])), [0]);
    }

    #[test]
    fn noise_is_no_gain_and_does_not_add_up() {
        let found = results(&[
            (104, 0.96),
            (100, 1.0),
            (101, 0.99),
            (102, 0.98),
            (103, 0.97),
        ]);
        // Each is faster than the one before it by too little; the last one is faster than the first by enough.
        assert_eq!(front(&found), [1, 0]);
    }

    #[test]
    fn the_smallest_is_recommended_that_is_not_much_slower_than_the_fastest() {
        let found = results(&[(100, 1.0), (50, 2.0), (40, 3.0), (30, 3.1), (90, 2.5)]);
        assert_eq!(recommended(&found, |_| true), Some(2));
        assert_eq!(recommended(&found, Candidate::is_written), Some(2));
        assert_eq!(recommended(&found, |_| false), None);
        // Slower than plain as all may be, something is recommended, if it saves anything.
        assert_eq!(
            recommended(&results(&[(100, 1.0), (95, 9.0)]), |_| true),
            Some(1)
        );
        assert_eq!(
            recommended(&results(&[(100, 1.0), (96, 1.0)]), |_| true),
            None
        );
    }
}
