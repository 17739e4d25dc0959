//! Signals to a command that is at work.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Run;

/// So often a signal may come too late.
const TRIES: u32 = 8;

/// A signal that is to meet a command at work: as soon as `begun` says that it is, or so much `after` that.
///
/// The command may come to its end before: on a machine that is faster, or that does not run this process for a while.
/// Then `undo` takes back what it did, and it is tried again, sooner.
pub struct Signal<'a> {
    /// As `kill` has it, `-INT`.
    pub name: &'a str,
    pub command: &'a dyn Fn() -> Command,
    pub begun: &'a dyn Fn() -> bool,
    pub after: Duration,
    pub undo: &'a dyn Fn(),
}

impl Signal<'_> {
    /// The run of a command that it ended.
    pub fn ends(&self) -> Run {
        self.meets(&|run, _| run.code != 0)
    }

    /// The run in which it had this effect, by what came of it and how long after the signal.
    pub fn meets(&self, effect: &dyn Fn(&Run, Duration) -> bool) -> Run {
        let mut runs = Vec::new();
        for number in 0..TRIES {
            let mut child = (self.command)().stderr(Stdio::piped()).spawn().unwrap();
            let mut is_running = || child.try_wait().unwrap().is_none();
            while is_running() && !(self.begun)() {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(self.after / (1 << number));
            let is_met = is_running();
            let told = Instant::now();
            if is_met {
                // It has its number until it is waited for.
                let pid = child.id().to_string();
                let sent = Command::new("kill").args([self.name, &pid]).status();
                assert!(sent.unwrap().success());
            }
            let run = Run::of(child.wait_with_output().unwrap());
            let took = told.elapsed();
            if is_met && effect(&run, took) {
                return run;
            }
            assert!(is_met || run.code == 0, "{run:?}");
            runs.push((is_met, took, run));
            (self.undo)();
        }
        panic!("{} comes too late or has no effect: {runs:?}", self.name);
    }
}
