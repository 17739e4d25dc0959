//! How long maintenance of a file goes on trying while another connection is in the way.

use std::time::{Duration, Instant};

use crate::c::codes::BUSY;
use crate::failure::Failure;

/// Another connection may be in the way for so long.
const PATIENCE: Duration = Duration::from_secs(10);
/// Tries further apart than this are not one wait.
const APART: Duration = Duration::from_secs(1);
/// To be waited between two tries.
pub(crate) const RETRY: Duration = Duration::from_millis(5);

/// Since when a file's steps have been refused. It belongs to the file and not to a call: calls may be much shorter than
/// the wait.
#[derive(Default)]
pub(crate) struct Patience(Option<Wait>);

struct Wait {
    since: Instant,
    last: Instant,
}

impl Patience {
    /// How a step ended, which others may have refused: after ten seconds of refusals it is an error that says so.
    pub(crate) fn judge<T>(
        &mut self,
        step: Result<T, Failure>,
        now: Instant,
    ) -> Result<T, Failure> {
        if !step.as_ref().is_err_and(Failure::is_passing) {
            self.0 = None;
            return step;
        }
        let since = match &self.0 {
            Some(wait) if now - wait.last < APART => wait.since,
            _ => now,
        };
        if now - since < PATIENCE {
            self.0 = Some(Wait { since, last: now });
            return step;
        }
        self.0 = None;
        let why = "another connection has been writing for ten seconds; try again when it has ended its transaction";
        Err(Failure::told(BUSY, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::c::codes::IOERR;

    /// Judges steps that ended so, each at a tenth of a second; which of them say that it took too long.
    fn given_up(steps: impl IntoIterator<Item = (u64, Result<(), Failure>)>) -> Vec<u64> {
        let begun = Instant::now();
        let mut patience = Patience::default();
        let mut judge = |(at, step)| {
            let answer = patience.judge(step, begun + Duration::from_millis(at * 100));
            let words = answer.err().map(|failure| failure.why);
            words
                .is_some_and(|why| why.contains("ten seconds"))
                .then_some(at)
        };
        steps.into_iter().filter_map(&mut judge).collect()
    }

    fn refused() -> Result<(), Failure> {
        Err(BUSY.into())
    }

    #[test]
    fn ten_seconds_of_refusals_are_enough() {
        let all = || (0..350).step_by(2).map(|at| (at, refused()));
        // Each wait begins anew.
        assert_eq!(given_up(all()), [100, 202, 304]);
        let step_in_between = all().map(|(at, step)| (at, if at == 90 { Ok(()) } else { step }));
        assert_eq!(given_up(step_in_between), [192, 294]);
        let error = || Err(Failure::told(IOERR, "another error"));
        let error_in_between = all().map(|(at, step)| (at, if at == 90 { error() } else { step }));
        assert_eq!(given_up(error_in_between), [192, 294]);
    }

    #[test]
    fn calls_far_apart_are_not_one_wait() {
        let apart = (0..100).map(|call| (call * 10, refused()));
        assert_eq!(given_up(apart), [0_u64; 0]);
    }
}
