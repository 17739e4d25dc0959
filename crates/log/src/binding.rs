//! Which state of which file a log follows.
//!
//! The file and the log name each other by random numbers. The file has two in each commit: *current*, the log that its
//! last checkpoint came from, and *next*, which changes with each checkpoint. Each header of a log has one of its *own*,
//! and the file's *next* at that moment as the one that it begins *after*. A log follows the file if it is the current
//! one, or begins after the file's next. docs/internals/log.md argues why that is so after a power loss, too.

use std::io;

use crate::error::{Error, Result};

/// The part of a log's head that names the file it is for. An `own` of 0: nothing, so that it is applied to any. An
/// earlier Litepack wrote such logs, and where the file cannot be asked they are written still.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Binding {
    /// The file's identity.
    pub identity: [u8; 16],
    pub own: u64,
    pub after: u64,
}

/// A place where records of a log end or ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    /// Offset in the file.
    pub place: u64,
    /// The link of a record that begins there, which tells these records from others; 0 if it is not known.
    pub link: u32,
}

/// The numbers in the file's newest commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    /// The file's identity.
    pub identity: [u8; 16],
    /// The log that the last checkpoint came from.
    pub current: u64,
    /// The number that the next log begins after.
    pub next: u64,
    /// The file may have that log's records up to this place.
    pub end: End,
    /// Only a part of it is: without that log the file is no database.
    pub is_unfinished: bool,
    /// A mark says that a power loss leaves this commit.
    pub is_durable: bool,
}

/// The record of a commit of the file, which is not looked into here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseCommit(pub [u8; 256]);

/// The part of the file that a log needs: who writes to the file leaves it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum Needed {
    /// None of it.
    Nothing,
    /// All that this commit has.
    Commit(BaseCommit),
    /// It cannot be told: all that was ever written.
    Everything,
}

/// The file that a log is for.
pub trait BoundTo {
    /// Its state now; `None` if it holds nothing yet.
    ///
    /// # Errors
    /// If it cannot be read.
    fn state(&self) -> io::Result<Option<FileState>>;

    /// Returns once a power loss leaves the newest commit: what begins after it must not be left alone.
    ///
    /// # Errors
    /// If that fails.
    fn make_durable(&self) -> io::Result<()>;

    /// The commit that a log which begins now may stand on: the newest one, of which a mark says that it is durable. Who
    /// writes to the file after it looks at the log first. `None`: on nothing.
    ///
    /// # Errors
    /// If it cannot be read.
    fn base_commit(&self) -> io::Result<Option<BaseCommit>> {
        Ok(None)
    }

    /// Fills `buf` with a page as this commit has it. False if it has no such page.
    ///
    /// # Errors
    /// Of the kind `InvalidData` if it is no longer there, or damaged; the storage's.
    fn base_page(&self, _commit: &BaseCommit, _page: u32, _buf: &mut [u8]) -> io::Result<bool> {
        Ok(false)
    }

    /// The same, if it takes no read of the page. False as well if it does, or if it cannot be read.
    fn base_page_at_hand(&self, _commit: &BaseCommit, _page: u32, _buf: &mut [u8]) -> bool {
        false
    }
}

/// Nothing that changes.
impl BoundTo for Option<FileState> {
    fn state(&self) -> io::Result<Option<FileState>> {
        Ok(*self)
    }

    fn make_durable(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Why a log is not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is another file's.
    OtherFile,
    /// It follows another state of the file.
    OtherState,
    /// It is an older copy, or went on otherwise after one: the file has commits from it that it lacks.
    CutShort,
    /// There is none, or it holds nothing, and the file has a part of one.
    Missing,
    /// The file is encrypted.
    NotEncrypted,
    /// The file is not.
    Encrypted,
    /// Both are.
    OtherKey,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Refusal::OtherFile => "it belongs to another database",
            Refusal::OtherState => "it follows another state of this database",
            Refusal::CutShort => "it is an older copy, and lacks commits that this database has",
            Refusal::Missing => "it is missing, and this database has a part of what it held",
            Refusal::NotEncrypted => "it is not encrypted, and this database is",
            Refusal::Encrypted => "it is encrypted, and this database is not",
            Refusal::OtherKey => "it is encrypted with another key than this database",
        })
    }
}

/// Whether a log follows a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Follows,
    /// If its records reach as far as this place, and are those that ended there.
    FollowsWith(End),
    Refused(Refusal),
}

impl Binding {
    /// That of a new header.
    pub fn new(state: &FileState) -> Result<Binding> {
        Ok(Binding {
            identity: state.identity,
            own: random_number()?,
            after: state.next,
        })
    }

    /// Whether the log follows a file that says this.
    pub fn judge(&self, state: Option<&FileState>) -> Verdict {
        match state {
            _ if self.own == 0 => Verdict::Follows,
            Some(file) if file.identity != self.identity => Verdict::Refused(Refusal::OtherFile),
            Some(file) if file.current == self.own => Verdict::FollowsWith(file.end),
            Some(file) if file.next == self.after => Verdict::Follows,
            Some(_) => Verdict::Refused(Refusal::OtherState),
            None => Verdict::Refused(Refusal::OtherFile),
        }
    }
}

/// A random number for a log or a file, never 0.
///
/// # Errors
/// If the system gives none.
pub fn random_number() -> Result<u64> {
    let number = getrandom::u64().map_err(|error| Error::Io(io::Error::other(error)))?;
    Ok(number.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(current: u64, next: u64) -> FileState {
        FileState {
            identity: [7; 16],
            current,
            next,
            end: End { place: 5, link: 6 },
            is_unfinished: false,
            is_durable: true,
        }
    }

    #[test]
    fn a_log_follows_the_states_from_its_beginning_to_the_next_one() {
        let refused = |why| Verdict::Refused(why);
        let log = Binding {
            identity: [7; 16],
            own: 11,
            after: 3,
        };
        let judge = |current, next| log.judge(Some(&file(current, next)));
        assert_eq!(judge(9, 3), Verdict::Follows, "as it began");
        assert_eq!(
            judge(11, 4),
            Verdict::FollowsWith(file(0, 0).end),
            "checkpoints"
        );
        assert_eq!(judge(12, 5), refused(Refusal::OtherState), "a later log");
        assert_eq!(judge(9, 2), refused(Refusal::OtherState), "an earlier one");
        assert_eq!(judge(0, 0), refused(Refusal::OtherState), "without numbers");
        let other = FileState {
            identity: [8; 16],
            ..file(11, 3)
        };
        assert_eq!(log.judge(Some(&other)), refused(Refusal::OtherFile));
        assert_eq!(log.judge(None), refused(Refusal::OtherFile));
        // The first log of a file that was packed in WAL mode.
        let first = Binding { after: 0, ..log };
        assert_eq!(first.judge(Some(&file(0, 0))), Verdict::Follows);
        for state in [Some(file(1, 2)), Some(file(0, 0)), None] {
            assert_eq!(Binding::default().judge(state.as_ref()), Verdict::Follows);
        }
    }
}
