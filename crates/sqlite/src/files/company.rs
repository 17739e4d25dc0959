//! Who has a file that is encrypted, or may become so, and what else is on that connection.
//!
//! Content is given out only where it stays encrypted: not to a connection that shares the cache of another one without
//! having given the key, and not where SQLite writes temporary files in plain.

use super::Around;
use crate::c::codes::{Code, MISUSE, NOTADB};
use crate::failure::Failure;

/// Why a database is refused whose temporary files would be in plain.
const PLAIN_TEMP: &str = "temporary files of this connection are not encrypted, as its main database is not opened by \
     Litepack: open that with vfs=litepack, too, or say plain_temp=1 in the URI of the encrypted one";
/// The same where one is there already.
const PLAIN_TEMP_NOW: &str = "this connection has a temporary database in plain: open the encrypted database before \
     anything is stored in temporary tables, or say plain_temp=1 in its URI";
/// The same where nothing is known of the connection.
const UNKNOWN: &str = "the VFS above this one does not tell which connection opens an encrypted database, and what else \
     is there: say plain_temp=1 in its URI if that VFS keeps temporary files, copies and other connections from plain";
/// Why a second connection cannot share the cache of the first.
pub(crate) const SHARED: &str =
    "connections cannot share the cache of an encrypted database: open it without cache=shared";

/// What the URI says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wishes {
    /// Temporary files in plain are the user's wish.
    pub(crate) plain_temp: bool,
    /// Other connections may use what SQLite has in memory of the file.
    pub(crate) shares_cache: bool,
}

/// The connections that have a file.
#[derive(Debug)]
pub(crate) struct Company {
    wishes: Wishes,
    /// How many have joined.
    joined: usize,
    /// Of those, how many while it was encrypted and another one had it: their cache is that one's.
    strangers: usize,
    /// What is around was looked at, and nothing there was wrong.
    has_met: bool,
}

impl Company {
    pub(crate) fn new(wishes: Wishes) -> Company {
        Company {
            wishes,
            joined: 0,
            strangers: 0,
            has_met: false,
        }
    }

    /// A connection has opened the file.
    pub(crate) fn join(&mut self, is_encrypted: bool) {
        self.joined += 1;
        if self.joined > 1 && is_encrypted {
            self.strangers += 1;
        }
    }

    /// Whether any has.
    pub(crate) fn is_joined(&self) -> bool {
        self.joined > 0
    }

    /// Whether there are several, or may be.
    pub(crate) fn is_shared(&self) -> bool {
        self.joined > 1 || self.wishes.shares_cache
    }

    /// Whether one has what another one's key has opened.
    pub(crate) fn has_strangers(&self) -> bool {
        self.strangers > 0
    }

    /// The newest of these goes, with these words. Those that were there before can go on.
    pub(crate) fn turn_away(&mut self) -> Option<(Code, String)> {
        self.strangers = self.strangers.checked_sub(1)?;
        Some((MISUSE, SHARED.into()))
    }

    /// An error if content, which `matters` if it is encrypted or may have to be, cannot be given out.
    pub(crate) fn expect_known(&self, matters: impl FnOnce() -> bool) -> Result<(), Failure> {
        if self.has_strangers() {
            return Err(Failure::new(NOTADB, SHARED));
        }
        if !self.is_joined() && !self.wishes.plain_temp && matters() {
            return Err(Failure::new(MISUSE, UNKNOWN));
        }
        Ok(())
    }

    /// Whether what is around the file, which is encrypted, is still to be looked at.
    pub(crate) fn is_to_meet(&self) -> bool {
        self.is_joined() && !self.has_met
    }

    /// Has it looked at once more.
    pub(crate) fn meets_again(&mut self) {
        self.has_met = false;
    }

    /// This is around the file, which is encrypted or not.
    pub(crate) fn meet(&mut self, around: &Around, is_encrypted: bool) -> Result<(), Failure> {
        if is_encrypted {
            self.expect_sealed(around)?;
        }
        self.has_met = true;
        Ok(())
    }

    /// An error if content that is encrypted would be in plain with this around it, or nothing is known of that.
    pub(crate) fn expect_fit(&self, around: Option<&Around>) -> Result<(), Failure> {
        match around {
            Some(around) => self.expect_sealed(around),
            None => self.expect_known(|| true),
        }
    }

    fn expect_sealed(&self, around: &Around) -> Result<(), Failure> {
        let why = match (around.has_plain_temp, around.is_ours) {
            _ if self.wishes.plain_temp => return Ok(()),
            (true, _) => PLAIN_TEMP_NOW,
            (_, false) => PLAIN_TEMP,
            _ => return Ok(()),
        };
        Err(Failure::new(MISUSE, why))
    }
}
