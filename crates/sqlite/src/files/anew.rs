//! A packed database becomes encrypted, or is not any more: a new file takes the place of the one that is open.
//!
//! The new file is made and compared under another name, is durable before it has the name, and has it durably before
//! the old one is touched. So a crash leaves the one or the other under the name, and both are whole. All the while the
//! old file is locked as by `BEGIN EXCLUSIVE`. Who has it open without a lock, in another process, finds zeros for its
//! head later, and is told to open the name anew: it does not go on in a database that nobody else sees.
//!
//! No lock is needed on the new file. It is like any database that another process has made: SQLite has no transaction
//! here, and what it has in memory is the same in both.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;

use litepack_cipher::Key;
use litepack_io::interrupt;
use litepack_io::storage::{ReadAt as _, Storage as _};
use litepack_replace::directory::Directory;
use litepack_replace::held::Held;
use litepack_replace::leftovers;
use litepack_replace::rights::Rights;
use litepack_replace::{attributes, itself};
use litepack_store::{HEAD_LEN, JOURNAL_SUFFIX, WAL_SUFFIX};
use tempfile::NamedTempFile;

use super::File as _;
use super::packed::PackedFile;
use super::place::Place;
use crate::beside::names::{REPLACED, path_of};
use crate::c::codes::{
    BUSY, CANTOPEN, ERROR, LOCK_EXCLUSIVE, LOCK_NONE, LOCK_RESERVED, LOCK_SHARED, READONLY,
};
use crate::failure::{Failure, code_of_system, read};
use crate::host::file::BusyHandler;

/// Why the database is in use by its own connection.
pub(super) const IN_TRANSACTION: &str =
    "not inside a transaction, while a statement runs, or in locking_mode=exclusive";
/// In the words of SQLite3 Multiple Ciphers.
const ENCRYPTS_WAL: &str = "Rekeying an unencrypted database is not supported in WAL journal mode.";
const DECRYPTS_WAL: &str = "Decrypting a database is not supported in WAL journal mode.";
/// Why a file is refused that is not as SQLite's own VFS for files has it.
const NOT_HERE: &str = "the whole file has to be written anew, which this VFS or system does not allow for: \
     use `litepack rekey`";
const LINKED: &str =
    "the file has other names (hard links), which would stay as they are: use `litepack rekey`";
const OPEN_TWICE: &str =
    "another connection of this process has the database open: close that first";

/// The old file, which no name leads to any more. To be dropped when SQLite's VFS has closed it, too.
pub(super) struct Replaced {
    pub(super) _old: Held,
    /// An error if the new file may not have the name after a power loss.
    pub(super) durable: Result<(), Failure>,
}

impl PackedFile {
    /// Has a new file take the place of this one, which is encrypted with the key or not at all. This one is only to be
    /// closed after that.
    pub(super) fn make_anew(
        &mut self,
        key: Option<&Arc<Key>>,
        place: &Place,
    ) -> Result<Replaced, Failure> {
        if !place.is_writable || place.is_immutable {
            let why = "attempt to write a readonly database";
            return Err(Failure::told(READONLY, why));
        }
        self.expect_idle()?;
        // A file that is open cannot be replaced everywhere.
        let target = path_of(place.path.to_bytes()).filter(|path| cfg!(unix) && path.is_absolute());
        let target = target.ok_or(Failure::told(ERROR, NOT_HERE))?;
        // An exclusive lock would be refused then, and not say why.
        self.handle.session().reading(|_| Ok(()))?;
        self.expect_no_wal(key.is_some())?;
        // What SQLite would take for the WAL or the journal of a plain database keeps the new file from being opened.
        let expect_no_strangers = || {
            let alone = place.expect_alone();
            alone.map_err(|why| Failure::told(ERROR, why))
        };
        expect_no_strangers()?;
        let done = self
            .lock_alone()
            .and_then(|()| self.replace(key, target, expect_no_strangers));
        self.unlock();
        done
    }

    /// An error while SQLite uses it.
    pub(super) fn expect_idle(&self) -> Result<(), Failure> {
        if self.handle.packed.lock_level() != LOCK_NONE || self.handle.packed.in_transaction() {
            return Err(Failure::told(ERROR, IN_TRANSACTION));
        }
        Ok(())
    }

    /// Locks the file as `BEGIN EXCLUSIVE` does, and waits as that does.
    fn lock_alone(&mut self) -> Result<(), Failure> {
        let busy = self.handle.busy();
        loop {
            let before = self.handle.packed.lock_level();
            let next = match before {
                LOCK_NONE => LOCK_SHARED,
                LOCK_SHARED => LOCK_RESERVED,
                LOCK_RESERVED => LOCK_EXCLUSIVE,
                _ => return Ok(()),
            };
            match self.lock(next) {
                Err(failure) if failure.code & 0xff == BUSY => {
                    // Who has it may wait for our SHARED lock to go. Above that it is the other way round.
                    if before < LOCK_RESERVED {
                        self.unlock();
                    }
                    if !busy.is_some_and(BusyHandler::wait) {
                        return Err(Failure::told(BUSY, "database is locked"));
                    }
                }
                locked => locked?,
            }
        }
    }

    fn unlock(&mut self) {
        self.unlocking(LOCK_NONE);
        self.disk().unlock(LOCK_NONE);
    }

    fn expect_no_wal(&mut self, encrypts: bool) -> Result<(), Failure> {
        match read(self.handle.packed.uses_wal())? {
            true if encrypts => Err(Failure::told(ERROR, ENCRYPTS_WAL)),
            true => Err(Failure::told(ERROR, DECRYPTS_WAL)),
            false => Ok(()),
        }
    }

    /// The same as `make_anew`, where the file is locked.
    fn replace(
        &mut self,
        key: Option<&Arc<Key>>,
        target: &Path,
        expect_no_strangers: impl Fn() -> Result<(), Failure>,
    ) -> Result<Replaced, Failure> {
        self.expect_no_wal(key.is_some())?;
        self.expect_alone(target)?;
        let directory = Directory::of(target);
        let directory = directory.map_err(|error| failed("cannot open the directory", &error))?;
        let temp = create(&directory, target)?;
        self.handle.packed.write_anew(temp.as_file(), key)?;
        sync(&temp)?;
        // By the VFS below, which will have it.
        let new = self.disk().open_main(temp.path())?;
        self.handle.packed.expect_same(&new.file, key)?;
        drop(new);
        interrupt::check().map_err(|_| Failure::interrupted())?;
        expect_no_strangers()?;
        self.publish(temp, &directory, target)
    }

    /// An error if the file, or something beside it, does not allow for another one in its place.
    fn expect_alone(&self, target: &Path) -> Result<(), Failure> {
        self.expect_ordinary(target)?;
        if self.entry.has_others() {
            return Err(Failure::told(BUSY, OPEN_TWICE));
        }
        for suffix in [JOURNAL_SUFFIX, WAL_SUFFIX] {
            let beside = leftovers::with_suffix(target, suffix);
            if beside.symlink_metadata().is_ok() {
                let why = format!(
                    "{} is there: read something from the database first; if it stays, journal_mode=delete removes it",
                    beside.display()
                );
                return Err(Failure::told(BUSY, why));
            }
        }
        Ok(())
    }

    /// An error unless this is the ordinary file of the name, and has no other one.
    fn expect_ordinary(&self, target: &Path) -> Result<(), Failure> {
        let found = target.symlink_metadata();
        let found = found.map_err(|error| failed("cannot look at the file", &error))?;
        if !found.is_file() || !self.entry.has_file() {
            return Err(Failure::told(ERROR, NOT_HERE));
        }
        if self.entry.is_replaced() || self.disk().has_moved() {
            return Err(Failure::new(CANTOPEN, REPLACED));
        }
        if found.len() != self.disk().len()? {
            return Err(Failure::told(ERROR, NOT_HERE));
        }
        match links(&found) {
            1 => Ok(()),
            _ => Err(Failure::told(ERROR, LINKED)),
        }
    }

    /// Gives the new file the rights of this one, and its name. From then on only the end of that can fail, which is not
    /// an error of this.
    fn publish(
        &self,
        temp: NamedTempFile,
        directory: &Directory,
        target: &Path,
    ) -> Result<Replaced, Failure> {
        let old = itself::open(target, false).map(Held::new);
        let old = old.map_err(|error| failed("cannot open the file", &error))?;
        let rights = Rights::of(&old).and_then(|rights| rights.give(temp.as_file()));
        rights.map_err(|error| failed(NO_RIGHTS, &error))?;
        attributes::copy(&old, temp.as_file());
        sync(&temp)?;
        self.expect_ordinary(target)?;
        let (file, path) = temp.into_parts();
        let (from, to) = (name_of(&path)?, name_of(target)?);
        let is_ours = old
            .metadata()
            .is_ok_and(|found| self.entry.is(inode(&found)));
        if !is_ours || !directory.has(&old, to) || !directory.has(&file, from) {
            return Err(Failure::new(CANTOPEN, REPLACED));
        }
        // It is closed before it has the name: closed later, it would take the locks along that others of this process
        // have on it by then.
        drop(file);
        let named = directory.rename(from, to);
        named.map_err(|error| failed("cannot replace the file", &error))?;
        // There is no file of that name any more.
        let _ = path.keep();
        let durable = directory.sync().map_err(|error| {
            let what = "the new file is there, but may not be after a power loss";
            failed(what, &error)
        });
        // If it may be back, it is to be whole then.
        if durable.is_ok() && old.metadata().is_ok_and(|found| links(&found) == 0) {
            let _ = self.disk().write_at(&[0; HEAD_LEN], 0);
        }
        Ok(Replaced { _old: old, durable })
    }
}

fn name_of(path: &Path) -> Result<&OsStr, Failure> {
    path.file_name().ok_or(Failure::told(ERROR, NOT_HERE))
}

const NO_RIGHTS: &str = "the new file cannot have the owner and the permissions of the old one";

/// A new file beside the target, without those that were left behind when others were killed. An error if it could not
/// have the owner of the target.
fn create(directory: &Directory, target: &Path) -> Result<NamedTempFile, Failure> {
    let name = name_of(target)?;
    for leftover in leftovers::beside(target) {
        // It is as harmless as it was.
        let _ = leftover.remove();
    }
    let made = leftovers::create(directory.path(), name);
    let made = made.map_err(|error| failed("cannot make a new file beside the old one", &error))?;
    if !directory.has(made.as_file(), name_of(made.path())?) {
        return Err(Failure::new(CANTOPEN, REPLACED));
    }
    may_have_owner(&made, target).map_err(|error| failed(NO_RIGHTS, &error))?;
    Ok(made)
}

fn sync(temp: &NamedTempFile) -> Result<(), Failure> {
    let synced = temp.as_file().sync_all();
    synced.map_err(|error| failed("cannot write the new file", &error))
}

/// A failure of the system, which the user can do something about.
fn failed(what: &str, error: &io::Error) -> Failure {
    Failure::told(code_of_system(error), format!("{what}: {error}"))
}

#[cfg(unix)]
fn may_have_owner(new: &NamedTempFile, target: &Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, fchown};
    let (has, wanted) = (new.as_file().metadata()?, target.metadata()?);
    match (has.uid(), has.gid()) == (wanted.uid(), wanted.gid()) {
        true => Ok(()),
        false => fchown(new.as_file(), Some(wanted.uid()), Some(wanted.gid())),
    }
}

#[cfg(unix)]
fn inode(found: &std::fs::Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    Some((found.dev(), found.ino()))
}

#[cfg(unix)]
fn links(found: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(found)
}

#[cfg(not(unix))]
fn inode(_: &std::fs::Metadata) -> Option<(u64, u64)> {
    None
}

#[cfg(not(unix))]
fn links(_: &std::fs::Metadata) -> u64 {
    1
}

#[cfg(not(unix))]
fn may_have_owner(_: &NamedTempFile, _: &Path) -> io::Result<()> {
    Ok(())
}
