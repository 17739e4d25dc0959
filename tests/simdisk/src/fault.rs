//! Which calls are to fail, and how.
//!
//! A [`Fault`] counts the calls that it applies to from the moment it is armed, so "the k-th
//! call of a workload" is `Fault::new(..).at(k)` armed before the workload starts.

use rusqlite::ffi;

/// The kinds of calls that can fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Call {
    /// `xOpen`.
    Open,
    /// `xDelete`.
    Delete,
    /// `xAccess`.
    Access,
    /// `xRead`.
    Read,
    /// `xWrite`.
    Write,
    /// `xTruncate`.
    Truncate,
    /// `xSync`.
    Sync,
    /// `xFileSize`.
    Size,
    /// `xLock`.
    Lock,
    /// `xShmMap`.
    ShmMap,
}

impl Call {
    /// The code with which SQLite's own VFS would report that this call failed.
    pub fn code(self) -> i32 {
        match self {
            Call::Open => ffi::SQLITE_CANTOPEN,
            Call::Delete => ffi::SQLITE_IOERR_DELETE,
            Call::Access => ffi::SQLITE_IOERR_ACCESS,
            Call::Read => ffi::SQLITE_IOERR_READ,
            Call::Write => ffi::SQLITE_IOERR_WRITE,
            Call::Truncate => ffi::SQLITE_IOERR_TRUNCATE,
            Call::Sync => ffi::SQLITE_IOERR_FSYNC,
            Call::Size => ffi::SQLITE_IOERR_FSTAT,
            Call::Lock => ffi::SQLITE_IOERR_LOCK,
            Call::ShmMap => ffi::SQLITE_IOERR_SHMMAP,
        }
    }
}

/// A set of kinds of calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallSet(u16);

impl CallSet {
    /// Every kind.
    pub const ALL: CallSet = CallSet(u16::MAX);
    /// The calls that reach the disk: all but locks and shared memory.
    pub const IO: CallSet = CallSet(!(1 << Call::Lock as u16 | 1 << Call::ShmMap as u16));
    /// Writes alone.
    pub const WRITES: CallSet = CallSet::of(Call::Write);

    /// The set of one kind.
    pub const fn of(call: Call) -> CallSet {
        CallSet(1 << call as u16)
    }

    /// This set and one more kind.
    pub const fn and(self, call: Call) -> CallSet {
        CallSet(self.0 | 1 << call as u16)
    }

    fn has(self, call: Call) -> bool {
        self.0 & (1 << call as u16) != 0
    }
}

/// How a call fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultError {
    /// The I/O error of its kind ([`Call::code`]); nothing is changed.
    Io,
    /// `SQLITE_FULL` from writes; other calls go on as usual and are not counted.
    Full,
    /// `SQLITE_FULL` from writes that make their file longer; others are not counted.
    FullWhenExtending,
    /// A write stores the first half of its sectors, then reports `SQLITE_FULL`.
    ShortWrite,
    /// A sync fails, and the system gives up what it could not write: a part has reached the medium, and the next sync
    /// that succeeds does not write the rest. All who run still see it.
    GivesUp,
    /// The same, and no one sees any more what was given up.
    Forgets,
    /// A deletion is done, but it is not made durable if that is asked for; others go on as usual.
    DirSync,
}

/// A plan for calls to fail.
#[derive(Clone, Debug)]
pub struct Fault {
    calls: CallSet,
    error: FaultError,
    first: u64,
    times: u64,
    suffix: Option<String>,
}

impl Fault {
    /// Fails the first call of `calls` once.
    pub fn new(calls: CallSet, error: FaultError) -> Fault {
        Fault {
            calls,
            error,
            first: 1,
            times: 1,
            suffix: None,
        }
    }

    /// Starts at the `first`-th call, counted from 1.
    pub fn at(self, first: u64) -> Fault {
        Fault { first, ..self }
    }

    /// Fails so many calls in a row.
    pub fn times(self, times: u64) -> Fault {
        Fault { times, ..self }
    }

    /// Fails from the first call on.
    pub fn forever(self) -> Fault {
        self.times(u64::MAX)
    }

    /// Only calls on files whose name ends so (temporary files have the empty name).
    pub fn on_names_ending(self, suffix: &str) -> Fault {
        Fault {
            suffix: Some(suffix.to_owned()),
            ..self
        }
    }

    fn applies(&self, call: Call, name: &str, extends: bool) -> bool {
        let kind = match self.error {
            FaultError::Io => true,
            FaultError::Full | FaultError::ShortWrite => call == Call::Write,
            FaultError::FullWhenExtending => call == Call::Write && extends,
            FaultError::GivesUp | FaultError::Forgets => call == Call::Sync,
            FaultError::DirSync => call == Call::Delete,
        };
        let named = self
            .suffix
            .as_ref()
            .is_none_or(|suffix| name.ends_with(suffix.as_str()));
        kind && named && self.calls.has(call)
    }
}

/// The armed faults of a disk and the calls it has seen.
#[derive(Default)]
pub(crate) struct Faults {
    armed: Vec<(Fault, u64)>,
    hits: u64,
    calls: u64,
}

impl Faults {
    pub fn arm(&mut self, fault: Fault) {
        self.armed.push((fault, 0));
    }

    pub fn clear(&mut self) {
        self.armed.clear();
    }

    /// How many calls the armed faults applied to, made to fail or not.
    pub fn candidates(&self) -> u64 {
        self.armed.iter().map(|(_, seen)| seen).sum()
    }

    pub fn hits(&self) -> u64 {
        self.hits
    }

    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Counts a call and says whether it is to fail.
    pub fn check(&mut self, call: Call, name: &str, extends: bool) -> Option<FaultError> {
        self.calls += 1;
        let mut verdict = None;
        for (fault, seen) in &mut self.armed {
            if fault.applies(call, name, extends) {
                *seen += 1;
                let nth = *seen;
                if nth >= fault.first && nth - fault.first < fault.times {
                    verdict = verdict.or(Some(fault.error));
                }
            }
        }
        self.hits += u64::from(verdict.is_some());
        verdict
    }
}
