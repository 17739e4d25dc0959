//! A packed main database, which may be encrypted, or become so.
//!
//! Until an encrypted one has its key it is *locked*. SQLite reads 100 bytes of a file before any pragma can run, and an
//! error would fail the opening: so this read finds nothing, as in an empty file. Any other call fails, and no lock is
//! taken, so that SQLite looks neither at the file nor for a journal or a WAL beside it.
//!
//! The key comes by `PRAGMA key`, if not with the name. A database that is attached without one tries that of the main
//! database, and a new one is encrypted with it: so `VACUUM INTO` writes nothing in plain.

use std::ffi::c_int;
use std::ops::Range;
use std::sync::Arc;

use litepack_btree::PageNumber;
use litepack_cipher::Key;
use litepack_codec::Level;
use litepack_store::{Error, FileOffset, try_key};

use super::anew::IN_TRANSACTION;
use super::company::{Company, SHARED, Wishes};
use super::packed::PackedFile;
use super::place::{NotOpened, Place};
use super::{Around, Database, Event, FIRST_READ, File, KEY_NOT_HEARD, Methods, unclear};
use crate::beside::encrypted::was_open;
use crate::c::codes::{CANTOPEN, Code, ERROR, LOCK_SHARED, MISUSE, OK};
use crate::failure::{Failure, While, read};
use crate::host::file::{BusyHandler, HostFile};
use crate::options::{Name, Setting};
use crate::session::secure_delete::SecureDelete;

/// An open file.
pub(crate) struct KeyedFile {
    state: State,
    place: Place,
    company: Company,
    connection: Option<usize>,
    busy: Option<BusyHandler>,
    /// What is around while a pragma gives another key.
    around: Option<Around>,
}

enum State {
    Locked(Box<Locked>),
    Open(Box<PackedFile>),
    /// It had the right key, and could not be opened with it.
    Closed,
}

/// An encrypted file without its key.
struct Locked {
    disk: HostFile,
    secure_delete: Option<String>,
}

impl KeyedFile {
    /// One without its key.
    pub(crate) fn locked(disk: HostFile, place: Place, wishes: Wishes) -> KeyedFile {
        let locked = Locked {
            disk,
            secure_delete: None,
        };
        KeyedFile::new(State::Locked(Box::new(locked)), place, wishes)
    }

    /// One that is open.
    pub(crate) fn open(file: PackedFile, place: Place, wishes: Wishes) -> KeyedFile {
        KeyedFile::new(State::Open(Box::new(file)), place, wishes)
    }

    fn new(state: State, place: Place, wishes: Wishes) -> KeyedFile {
        KeyedFile {
            state,
            place,
            company: Company::new(wishes),
            connection: None,
            busy: None,
            around: None,
        }
    }

    /// The database, if it may be used.
    fn opened(&mut self) -> Result<&mut PackedFile, Failure> {
        match &mut self.state {
            State::Open(file) => {
                let may_matter = || file.is_encrypted() || (file.may_get_key() && was_open());
                self.company.expect_known(may_matter)?;
                Ok(file)
            }
            State::Locked(_) => Err(no_key()),
            State::Closed => Err(closed()),
        }
    }

    /// Opens a locked database.
    fn unlock(&mut self, key: Arc<Key>) -> Result<(), Failure> {
        let State::Locked(locked) = &self.state else {
            return Ok(());
        };
        let key = self.place.key(key)?;
        read(try_key(&locked.disk, &key))?;
        // The file is still open then, and the user may try again.
        let alone = self.place.expect_alone();
        alone.map_err(|why| Failure::new(MISUSE, why))?;
        let State::Locked(locked) = std::mem::replace(&mut self.state, State::Closed) else {
            return Ok(());
        };
        let Locked {
            disk,
            secure_delete,
        } = *locked;
        let mut file = self.open_now(disk, Some(key))?;
        if let Some(connection) = self.connection {
            file.joined_by(connection);
        }
        if let Some(value) = secure_delete {
            file.secure_delete(&value);
        }
        self.state = State::Open(Box::new(file));
        Ok(())
    }

    fn open_now(&self, disk: HostFile, key: Option<Arc<Key>>) -> Result<PackedFile, Failure> {
        let opened = self.place.open(disk, key).map_err(|why| match why {
            NotOpened::Refused(why) => Failure::new(MISUSE, why),
            NotOpened::Failed(failure) => failure,
        });
        let mut file = opened?;
        if let Some(busy) = self.busy {
            file.waits_by(busy);
        }
        Ok(file)
    }

    /// Has a new file take the place of the one that is open, and opens that.
    fn make_anew(&mut self, key: Option<Arc<Key>>, around: Option<&Around>) -> Result<(), Failure> {
        if around.is_some_and(|around| around.in_transaction) {
            return Err(Failure::told(ERROR, IN_TRANSACTION));
        }
        let State::Open(file) = &mut self.state else {
            return Err(closed());
        };
        if key.is_some() {
            self.company.expect_fit(around)?;
        }
        // For the next key, if there will be one.
        self.place.padding = self.place.padding.or(file.padding());
        let key = key.map(|key| self.place.key(key)).transpose()?;
        let replaced = file.make_anew(key.as_ref(), &self.place)?;
        let opened = self.open_anew(key);
        opened.map_err(|failure| {
            let why = format!("the key is another one by now. {OPEN_IT}: {}", failure.why);
            Failure::new(failure.code, why)
        })?;
        replaced.durable
    }

    /// Closes the file, and opens the one that has its name.
    fn open_anew(&mut self, key: Option<Arc<Key>>) -> Result<(), Failure> {
        let State::Open(mut file) = std::mem::replace(&mut self.state, State::Closed) else {
            return Err(closed());
        };
        let packed = &mut file.handle.packed;
        // What was set since it was opened.
        self.place.settings = packed.settings();
        let secure_delete = std::mem::replace(packed.secure_delete(), SecureDelete::new(false));
        let code = file.close(false);
        if code != OK {
            return Err(code.into());
        }
        let (disk, _) = self.place.name.open(self.place.flags)?;
        let mut file = self.open_now(disk, key)?;
        *file.handle.packed.secure_delete() = secure_delete;
        self.state = State::Open(Box::new(file));
        Ok(())
    }
}

/// Why nothing is written without a key to a new database that is to be padded.
const PADDED_IN_PLAIN: &str = "the URI says padding=, and there is no key: give PRAGMA key";

/// The failure of a call on a locked database.
fn no_key() -> Failure {
    Failure::of_store(&Error::NoKey, While::Reading)
}

fn closed() -> Failure {
    Failure::new(CANTOPEN, OPEN_IT)
}

const OPEN_IT: &str = "the database could not be opened: open it again";

impl File for KeyedFile {
    const METHODS: Methods = Methods::AsHost;
    const CHARACTERISTICS: c_int = PackedFile::CHARACTERISTICS;
    const LOOKS_AROUND: bool = true;

    fn looks_around(&self) -> bool {
        match &self.state {
            // Main's key may come later.
            State::Open(file) if file.may_get_key() => self.company.is_joined(),
            State::Open(file) => file.is_encrypted() && self.company.is_to_meet(),
            State::Locked(_) | State::Closed => self.company.is_to_meet(),
        }
    }

    fn is_rekeyed_anew(&mut self) -> bool {
        // One that is still empty may have been made by others since.
        matches!(&self.state, State::Open(_))
    }

    fn note_around(&mut self, around: Around) {
        self.around = Some(around);
    }

    fn meet(&mut self, around: &Around) -> Result<(), Failure> {
        if matches!(self.state, State::Locked(_))
            && let Some(key) = read(around.key_of_another().map_err(Error::from))?
        {
            match self.unlock(key) {
                // A key of its own is to be given.
                Err(failure) if failure.code == no_key().code => return Ok(()),
                done => done?,
            }
        }
        match (&mut self.state, &around.key) {
            (State::Open(file), key) if file.may_get_key() => match key {
                _ if around.is_attached_with_key => {
                    return Err(Failure::new(MISUSE, KEY_NOT_HEARD));
                }
                _ if around.unclear.is_some() => return Err(unclear(around)),
                Some(_) if self.company.is_shared() => {
                    return Err(Failure::new(MISUSE, SHARED));
                }
                Some(key) => file.give_key(self.place.key(Arc::clone(key))?)?,
                None => {}
            },
            _ => {}
        }
        let is_encrypted = match &self.state {
            State::Open(file) => file.is_encrypted(),
            State::Locked(_) | State::Closed => return Ok(()),
        };
        self.company.meet(around, is_encrypted)
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Failure> {
        match &mut self.state {
            State::Locked(_) if offset == 0 && buf.len() == FIRST_READ => Ok(0),
            // SQLite has not said yet which connection opens it.
            State::Open(file) if offset == 0 && buf.len() == FIRST_READ => file.read(buf, offset),
            _ => self.opened()?.read(buf, offset),
        }
    }

    fn size(&mut self) -> Result<u64, Failure> {
        match &mut self.state {
            // Nor then, where nothing changes the file.
            State::Open(file) if !self.company.is_joined() => file.size(),
            _ => self.opened()?.size(),
        }
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> Result<(), Failure> {
        self.opened()?.write(bytes, offset)
    }

    fn truncate(&mut self, size: u64) -> Result<(), Failure> {
        self.opened()?.truncate(size)
    }

    fn sync(&mut self, flags: c_int) -> Result<(), Failure> {
        self.opened()?.sync(flags)
    }

    fn lock(&mut self, level: c_int) -> Result<(), Failure> {
        let wanted = self.place.padding;
        let file = self.opened()?;
        let is_padded = || wanted.is_some_and(|padding| !padding.is_none());
        if level > LOCK_SHARED && is_padded() && file.may_get_key() {
            return Err(Failure::new(MISUSE, PADDED_IN_PLAIN));
        }
        file.lock(level)
    }

    fn unlocking(&mut self, level: c_int) {
        if let State::Open(file) = &mut self.state {
            file.unlocking(level);
        }
    }

    fn host(&self) -> Option<&HostFile> {
        match &self.state {
            State::Locked(locked) => Some(&locked.disk),
            State::Open(file) => file.host(),
            State::Closed => None,
        }
    }

    fn index_mapped(&mut self, mapped: bool) {
        if let State::Open(file) = &mut self.state {
            file.index_mapped(mapped);
        }
    }

    fn index_mapping(&mut self) -> Result<(), Failure> {
        self.opened()?.index_mapping()
    }

    fn index_locking(&mut self, locks: Range<c_int>, flags: c_int) -> Result<(), Failure> {
        self.opened()?.index_locking(locks, flags)
    }

    fn index_refused(&mut self) {
        if let State::Open(file) = &mut self.state {
            file.index_refused();
        }
    }

    fn index_locked(&mut self, locks: Range<c_int>, flags: c_int) -> Result<(), Failure> {
        self.opened()?.index_locked(locks, flags)
    }

    fn index_barrier(&mut self) {
        if let State::Open(file) = &mut self.state {
            file.index_barrier();
        }
    }

    fn database(&mut self) -> Option<&mut dyn Database> {
        Some(self)
    }

    fn close(self, poisoned: bool) -> Code {
        match self.state {
            State::Locked(locked) => locked.disk.close(),
            State::Open(file) => file.close(poisoned),
            State::Closed => OK,
        }
    }
}

impl Database for KeyedFile {
    fn setting(&self, name: Name) -> Result<String, String> {
        match &self.state {
            State::Open(file) => file.setting(name),
            State::Locked(_) => Err(no_key().why.into()),
            State::Closed => Err(closed().why.into()),
        }
    }

    fn apply(&mut self, setting: Setting) -> Result<(), String> {
        match &mut self.state {
            State::Open(file) => file.apply(setting),
            State::Locked(_) => {
                self.place.settings.push(setting);
                Ok(())
            }
            State::Closed => Err(closed().why.into()),
        }
    }

    fn info(&mut self) -> Result<String, Failure> {
        self.opened()?.info()
    }

    fn check(&mut self) -> Result<String, Failure> {
        self.opened()?.check()
    }

    fn maintain(&mut self, level: Option<Level>) -> Result<bool, Failure> {
        self.opened()?.maintain(level)
    }

    fn event(&mut self, event: Event) -> Result<(), Failure> {
        match &mut self.state {
            State::Open(file) => file.event(event),
            State::Locked(_) | State::Closed => Ok(()),
        }
    }

    fn secure_delete(&mut self, value: &str) {
        match &mut self.state {
            State::Open(file) => file.secure_delete(value),
            State::Locked(locked) => locked.secure_delete = Some(value.into()),
            State::Closed => {}
        }
    }

    fn joined_by(&mut self, connection: usize) {
        self.company.join(self.is_encrypted());
        self.connection = Some(connection);
        if let State::Open(file) = &mut self.state {
            file.joined_by(connection);
        }
    }

    fn waits_by(&mut self, handler: BusyHandler) {
        self.busy = Some(handler);
        if let State::Open(file) = &mut self.state {
            file.waits_by(handler);
        }
    }

    fn split(&mut self, root: PageNumber, parts: usize) -> Result<String, Failure> {
        self.opened()?.split(root, parts)
    }

    fn place_of_page(&mut self, page: PageNumber) -> Result<Option<(FileOffset, u64)>, Failure> {
        self.opened()?.place_of_page(page)
    }

    fn refused(&self) -> Option<&str> {
        self.company.has_strangers().then_some(SHARED)
    }

    fn turn_away(&mut self) -> Option<(Code, String)> {
        self.company.turn_away()
    }

    fn is_encrypted(&self) -> bool {
        match &self.state {
            State::Locked(_) => true,
            State::Open(file) => file.is_encrypted(),
            State::Closed => false,
        }
    }

    fn key(&self) -> Option<Arc<Key>> {
        let State::Open(file) = &self.state else {
            return None;
        };
        // Another handle may have changed it: what was withdrawn must open no new file.
        let is_current = |key: &Arc<Key>| try_key(file.disk(), key).is_ok();
        file.key()
            .filter(|key| !self.company.has_strangers() && is_current(key))
    }

    fn has_unknown_pages(&self) -> bool {
        matches!(&self.state, State::Open(file) if file.is_encrypted())
    }

    fn give_key(&mut self, key: Arc<Key>) -> Result<(), Failure> {
        if self.company.is_shared() {
            return Err(Failure::told(ERROR, SHARED));
        }
        match &mut self.state {
            State::Locked(_) => self.unlock(key)?,
            State::Open(file) => file.give_key(self.place.key(key)?)?,
            State::Closed => return Err(closed()),
        }
        self.company.meets_again();
        Ok(())
    }

    fn change_key(&mut self, key: Option<Arc<Key>>) -> Result<(), Failure> {
        if matches!(self.state, State::Locked(_)) {
            return Err(Failure::told(ERROR, no_key().why));
        }
        let around = self.around.take();
        let file = self.opened()?;
        file.expect_no_writing("not inside a transaction that writes")?;
        if file.handle.packed.is_new() {
            // Others may have made it since it was opened.
            file.handle.session().reading(|_| Ok(()))?;
        }
        let (is_new, is_encrypted) = (file.handle.packed.is_new(), file.is_encrypted());
        if !is_encrypted && key.is_some() && self.company.is_shared() {
            return Err(Failure::told(ERROR, SHARED));
        }
        match key {
            Some(key) if is_encrypted && !is_new => return self.opened()?.change_key(Some(key)),
            Some(key) if is_new => {
                let key = self.place.key(key)?;
                self.opened()?.set_first_key(key)?;
            }
            None if !is_encrypted => return Ok(()),
            None if is_new => {
                self.opened()?.expect_idle()?;
                self.open_anew(None)?;
            }
            key => self.make_anew(key, around.as_ref())?,
        }
        self.company.meets_again();
        Ok(())
    }
}
