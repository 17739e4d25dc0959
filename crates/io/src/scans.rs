//! Recognises scans: reads that go forward through a file, several at once, told from reads here and there.
//!
//! A plan that reads tables in turns, or a table and the index that leads through it, looks like random reads when
//! taken together. So each read goes to the stream that it continues, or begins a new one. A stream that went forward
//! often enough is a scan. Reads here and there begin streams without end; they take the places of each other, and
//! never that of a scan. So a scan goes on whatever is read beside it, until there are too many newer ones.
//!
//! The owner decides what to prefetch, when and how much, and keeps its data for that in the stream.

use std::cmp::Reverse;
use std::ops::Range;

/// Streams that are remembered.
const STREAMS: usize = 8;
/// Of these, as many may be scans: the rest is for what begins.
const SCANS: usize = 4;

/// The rule that tells a scan from other reads.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Units that a stream has gone forward before it is a scan.
    pub run_min: u64,
    /// A step of at most so many units goes forward: what lies between may belong to something else.
    pub step_max: u64,
}

/// Reads that go on from each other, and what the owner keeps with them.
#[derive(Debug, Default)]
pub struct Stream<S> {
    last: u64,
    run: u64,
    until: u64,
    /// When it began, and was last moved.
    began: u64,
    moved: u64,
    /// The owner's data, dropped with the stream.
    pub kept: S,
}

impl<S> Stream<S> {
    /// The unit read last.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Units that it has gone forward.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// The first unit ahead that was not asked for.
    pub fn unasked(&self) -> u64 {
        self.until.max(self.last.saturating_add(1))
    }

    /// Notes that the units below this were asked for.
    pub fn ask(&mut self, until: u64) {
        self.until = self.until.max(until);
    }

    /// Drops what the owner keeps, as if nothing had been asked for.
    pub fn forget(&mut self)
    where
        S: Default,
    {
        self.until = 0;
        self.kept = S::default();
    }

    /// The units ahead, up to `reach` of them, that were not asked for, if they are at least so many.
    pub fn wanted(&self, reach: u64, least: u64) -> Option<Range<u64>> {
        let end = self.last.saturating_add(1).saturating_add(reach);
        let wanted = self.unasked()..end;
        (wanted.end.saturating_sub(wanted.start) >= least.max(1)).then_some(wanted)
    }
}

/// The relation of a read to its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The first of its stream, or the same unit again, or a step of what is not a scan yet.
    Other,
    /// The step that makes a scan of it.
    Begins,
    /// A step of a scan.
    GoesOn,
}

/// The streams of one reader.
#[derive(Debug)]
pub struct Scans<S> {
    rule: Rule,
    streams: [Stream<S>; STREAMS],
    /// The stream of the last read.
    current: usize,
    /// Reads so far.
    reads: u64,
}

impl<S: Default> Scans<S> {
    /// None yet.
    pub fn new(rule: Rule) -> Scans<S> {
        Scans {
            rule,
            streams: std::array::from_fn(|_| Stream::default()),
            current: 0,
            reads: 0,
        }
    }

    /// Notes that the units from `first` to `last` are read now. Of several streams that this continues it is the
    /// nearest, or of equally near ones the one that moved last.
    pub fn note(&mut self, first: u64, last: u64) -> Step {
        self.reads += 1;
        let (now, rule) = (self.reads, self.rule);
        let streams = self.streams.iter().enumerate();
        let steps = streams.filter_map(|(at, stream)| {
            let step = first.checked_sub(stream.last)?;
            let goes_on = stream.moved > 0 && step <= rule.step_max;
            goes_on.then_some((step, Reverse(stream.moved), at))
        });
        let known = steps.min().map(|(_, _, at)| at);
        self.current = known.unwrap_or_else(|| self.begin(last));
        let stream = self.current();
        stream.moved = now;
        let before = stream.run;
        // A step over units that were left out is no sign that more is wanted.
        let new = stream.last.saturating_add(1).max(first);
        stream.run += last.saturating_add(1).saturating_sub(new);
        stream.last = stream.last.max(last);
        if stream.run == before || stream.run < rule.run_min {
            Step::Other
        } else if before < rule.run_min {
            Step::Begins
        } else {
            Step::GoesOn
        }
    }

    /// Begins a stream in the place of the one that moved longest ago, of the scans if there are too many, else of the
    /// others.
    #[expect(
        clippy::indexing_slicing,
        reason = "`place` was found in the array, or is the first of it"
    )]
    fn begin(&mut self, last: u64) -> usize {
        let is_scan = |stream: &Stream<S>| stream.run >= self.rule.run_min;
        let too_many = self.streams.iter().filter(|s| is_scan(s)).count() > SCANS;
        let streams = self.streams.iter().enumerate();
        let places = streams.filter(|(_, stream)| is_scan(stream) == too_many);
        let oldest = places.min_by_key(|(_, stream)| stream.moved);
        let place = oldest.map_or(0, |(at, _)| at);
        self.streams[place] = Stream {
            // One read alone, however long, does not yet go forward.
            last,
            began: self.reads,
            ..Stream::default()
        };
        place
    }

    /// The stream of the last read.
    #[expect(
        clippy::indexing_slicing,
        reason = "`current` is where a stream was found or begun"
    )]
    pub fn current(&mut self) -> &mut Stream<S> {
        &mut self.streams[self.current]
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Stream<S>> {
        self.streams.iter()
    }

    /// Those that stood still since the stream of the last read began.
    pub fn stood_still(&mut self) -> impl Iterator<Item = &mut Stream<S>> {
        let began = self.current().began;
        self.streams.iter_mut().filter(move |s| s.moved < began)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scans() -> Scans<u64> {
        Scans::new(Rule {
            run_min: 3,
            step_max: 2,
        })
    }

    /// Reads these units; returns those that were steps of a scan.
    fn steps(scans: &mut Scans<u64>, units: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let units = units.into_iter();
        units
            .filter(|unit| scans.note(*unit, *unit) != Step::Other)
            .collect()
    }

    #[test]
    fn small_steps_forward_make_a_scan() {
        let mut scans = scans();
        assert_eq!(scans.note(0, 0), Step::Other);
        assert_eq!(steps(&mut scans, [1, 1, 3]), []);
        assert_eq!(scans.note(4, 4), Step::Begins);
        assert_eq!(scans.note(4, 4), Step::Other);
        assert_eq!(scans.note(6, 6), Step::GoesOn);
        assert_eq!(steps(&mut scans, [9, 5]), []);
        assert_eq!(
            scans.note(7, 7),
            Step::GoesOn,
            "the nearest stream is continued"
        );
    }

    #[test]
    fn a_long_read_goes_forward_by_what_is_new_and_not_alone() {
        let mut scans = scans();
        assert_eq!(scans.note(10, 30), Step::Other);
        assert_eq!(scans.current().run(), 0);
        assert_eq!(scans.note(30, 31), Step::Other);
        assert_eq!(scans.note(32, 33), Step::Begins);
        assert_eq!(scans.current().run(), 3);
    }

    #[test]
    fn several_scans_are_told_apart_and_keep_what_is_theirs() {
        let mut scans = scans();
        for n in 0..20 {
            for scan in 0..4 {
                let unit = scan * 1000 + n;
                assert_eq!(scans.note(unit, unit) != Step::Other, n >= 3, "{unit}");
                let kept = std::mem::replace(&mut scans.current().kept, unit);
                assert_eq!(kept, unit.saturating_sub((n > 0).into()) * u64::from(n > 0));
            }
        }
    }

    #[test]
    fn reads_here_and_there_end_no_scan_and_make_none() {
        let mut scans = scans();
        assert_eq!(steps(&mut scans, 100..104), [103]);
        let elsewhere = (0..500).map(|n| 1000 + n * 7919 % 10_007);
        assert_eq!(steps(&mut scans, elsewhere), []);
        assert_eq!(steps(&mut scans, [104]), [104]);
    }

    #[test]
    fn of_too_many_scans_the_one_that_moved_longest_ago_ends() {
        let mut scans = scans();
        for scan in 0..6 {
            steps(&mut scans, scan * 1000..scan * 1000 + 4);
        }
        assert_eq!(scans.note(4, 4), Step::Other);
        assert_eq!(scans.note(5004, 5004), Step::GoesOn);
        assert_eq!(scans.note(2004, 2004), Step::GoesOn);
    }

    #[test]
    fn what_stood_still_while_a_scan_began_is_known() {
        let mut scans = scans();
        steps(&mut scans, 100..104);
        steps(&mut scans, [200, 201, 300, 202, 203]);
        let mut old: Vec<u64> = scans.stood_still().map(|stream| stream.last()).collect();
        old.retain(|last| *last > 0);
        assert_eq!(old, [103]);
    }

    #[test]
    fn a_scan_asks_again_when_half_of_its_reach_is_read() {
        let mut scans = Scans::<()>::new(Rule {
            run_min: 8,
            step_max: 4,
        });
        let asked = (0..=20).filter_map(|unit| {
            let step = scans.note(unit, unit);
            let scan = scans.current();
            let wanted = scan.wanted(16, 9).filter(|_| step != Step::Other)?;
            scan.ask(wanted.end);
            Some(wanted)
        });
        assert!(asked.eq([9..25, 25..34]));
    }

    #[test]
    fn what_is_wanted_lies_ahead_and_was_not_asked_for() {
        let mut scans = scans();
        steps(&mut scans, 10..14);
        let stream = scans.current();
        assert_eq!(stream.wanted(8, 5), Some(14..22));
        stream.ask(20);
        assert_eq!(stream.wanted(8, 5), None);
        assert_eq!(stream.wanted(8, 2), Some(20..22));
        stream.ask(17);
        assert_eq!(stream.unasked(), 20);
    }
}
