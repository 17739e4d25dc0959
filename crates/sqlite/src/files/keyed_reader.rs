//! A database that is encrypted and only read: a packed file on a server, or an archive.
//!
//! It is *locked* until it has its key. SQLite takes the length of a file that never changes when it opens it, before
//! any pragma can run, and never asks again; unless the database turns out to have another page size than its first 100
//! bytes said. So a locked one says that its pages have another size than they have, and the key can come later.

use std::sync::Arc;

use litepack_btree::PageNumber;
use litepack_cipher::Key;
use litepack_store::Error;

use super::company::{Company, SHARED, Wishes};
use super::{Around, Database, FIRST_READ, File};
use crate::beside::encrypted;
use crate::c::codes::{Code, ERROR, MISUSE};
use crate::failure::{Failure, While, read};
use crate::options::{Name, Setting};
use crate::session::NOT_WRITTEN;

/// Why a key comes too late.
const TOO_LATE: &str =
    "the database has its key already, and another one cannot be given to what is only read";
/// Why one is refused whose page size is not what it says without its key.
const KEY_BY_NAME: &str = "the database has to be opened with its key: hexkey= or key= in the URI";
/// What a locked one says of its length: some pages of any size.
const SOME_LENGTH: u64 = 1 << 16;
/// Where the first bytes of a database have the size of its pages.
const PAGE_SIZE: std::ops::Range<usize> = 16..18;

/// Such a file, which knows nothing of connections.
pub(crate) trait Lockable: File + Database {
    /// Whether it waits for its key.
    fn is_locked(&self) -> bool;

    /// A page size that it has not, as far as that can be told without the key.
    fn other_page_size(&self) -> PageSize;

    /// Opens it.
    fn unlock(&mut self, key: &Arc<Key>) -> Result<(), Failure>;
}

/// The smallest or the largest size of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageSize {
    Smallest,
    Largest,
}

impl PageSize {
    /// One of the two that pages do not have which are in units of this many bytes.
    pub(crate) fn other_than(unit_size: u32) -> PageSize {
        match unit_size {
            ..=4096 => PageSize::Largest,
            _ => PageSize::Smallest,
        }
    }

    /// As the header of a database has it.
    fn written(self) -> [u8; 2] {
        match self {
            PageSize::Smallest => [2, 0],
            PageSize::Largest => [0, 1],
        }
    }
}

/// An open file.
#[derive(Debug)]
pub(crate) struct KeyedReader<F> {
    file: F,
    company: Company,
    key: Option<Arc<Key>>,
    /// What SQLite was told of the size of pages while it was locked.
    told: Option<PageSize>,
}

impl<F: Lockable> KeyedReader<F> {
    /// `key` is what opened it, if it is not locked.
    pub(crate) fn new(file: F, wishes: Wishes, key: Option<Arc<Key>>) -> KeyedReader<F> {
        if key.is_some() {
            encrypted::note_open();
        }
        let told = file.is_locked().then(|| file.other_page_size());
        KeyedReader {
            file,
            company: Company::new(wishes),
            key,
            told,
        }
    }

    /// The database, if it may be used.
    fn opened(&mut self) -> Result<&mut F, Failure> {
        if self.file.is_locked() {
            return Err(no_key());
        }
        self.company.expect_known(|| true)?;
        Ok(&mut self.file)
    }

    fn unlock(&mut self, key: Arc<Key>) -> Result<(), Failure> {
        encrypted::note_open();
        self.file.unlock(&key)?;
        self.key = Some(key);
        Ok(())
    }

    /// An error if SQLite would not ask for the length again.
    fn expect_other_size(&mut self) -> Result<(), Failure> {
        let Some(told) = self.told else {
            return Ok(());
        };
        let mut head = [0; FIRST_READ];
        let found = self.file.read(&mut head, 0)?;
        // An empty one says nothing.
        if found < FIRST_READ || head.get(PAGE_SIZE) == Some(&told.written()) {
            return Err(Failure::new(MISUSE, KEY_BY_NAME));
        }
        self.told = None;
        Ok(())
    }
}

/// The failure of a call on a locked database.
fn no_key() -> Failure {
    Failure::of_store(&Error::NoKey, While::Reading)
}

impl<F: Lockable> File for KeyedReader<F> {
    const LOOKS_AROUND: bool = true;

    fn looks_around(&self) -> bool {
        self.company.is_to_meet()
    }

    fn meet(&mut self, around: &Around) -> Result<(), Failure> {
        if self.file.is_locked() {
            let key = read(around.key_of_another().map_err(Error::from))?;
            let Some(key) = key else {
                return Ok(());
            };
            match self.unlock(key) {
                // A key of its own is to be given.
                Err(failure) if failure.code == no_key().code => return Ok(()),
                done => done?,
            }
        }
        self.company.meet(around, true)
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Failure> {
        if offset == 0 && buf.len() == FIRST_READ {
            // Before SQLite has said which connection opens it.
            let Some(told) = self.told.filter(|_| self.file.is_locked()) else {
                return self.file.read(buf, offset);
            };
            buf.fill(0);
            if let Some(field) = buf.get_mut(PAGE_SIZE) {
                field.copy_from_slice(&told.written());
            }
            return Ok(FIRST_READ);
        }
        self.opened()?;
        self.expect_other_size()?;
        self.file.read(buf, offset)
    }

    fn size(&mut self) -> Result<u64, Failure> {
        if self.file.is_locked() {
            return Ok(SOME_LENGTH);
        }
        if self.company.is_joined() {
            self.opened()?;
        }
        self.file.size()
    }

    fn database(&mut self) -> Option<&mut dyn Database> {
        Some(self)
    }
}

impl<F: Lockable> Database for KeyedReader<F> {
    fn setting(&self, name: Name) -> Result<String, String> {
        self.file.setting(name)
    }

    fn apply(&mut self, setting: Setting) -> Result<(), String> {
        self.file.apply(setting)
    }

    fn info(&mut self) -> Result<String, Failure> {
        self.opened()?.info()
    }

    fn check(&mut self) -> Result<String, Failure> {
        self.opened()?.check()
    }

    fn remote(&self) -> Option<String> {
        self.file.remote()
    }

    fn split(&mut self, root: PageNumber, parts: usize) -> Result<String, Failure> {
        self.opened()?.split(root, parts)
    }

    fn joined_by(&mut self, _connection: usize) {
        self.company.join(true);
    }

    fn refused(&self) -> Option<&str> {
        self.company.has_strangers().then_some(SHARED)
    }

    fn turn_away(&mut self) -> Option<(Code, String)> {
        self.company.turn_away()
    }

    fn is_encrypted(&self) -> bool {
        true
    }

    fn key(&self) -> Option<Arc<Key>> {
        self.key.clone().filter(|_| !self.company.has_strangers())
    }

    fn has_unknown_pages(&self) -> bool {
        !self.file.is_locked()
    }

    fn give_key(&mut self, key: Arc<Key>) -> Result<(), Failure> {
        if self.company.is_shared() {
            return Err(Failure::told(ERROR, SHARED));
        }
        if !self.file.is_locked() {
            return Err(Failure::told(ERROR, TOO_LATE));
        }
        self.unlock(key)
    }

    fn change_key(&mut self, _key: Option<Arc<Key>>) -> Result<(), Failure> {
        Err(Failure::told(ERROR, NOT_WRITTEN))
    }
}
