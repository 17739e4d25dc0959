//! Opening a packed main database: what is known of it when SQLite opens it, and needed again if it gets its key later.

use std::ffi::{CString, c_int};
use std::sync::Arc;

use litepack_cipher::{Key, Padding};
use litepack_store::{Error, JOURNAL_SUFFIX, Options, Store, WAL_SUFFIX};

use super::log::NeedsOfLog;
use super::packed::PackedFile;
use crate::beside::encrypted;
use crate::beside::entry::Entry;
use crate::beside::names::{self, REPLACED};
use crate::c::api::Names;
use crate::c::codes::CANTOPEN;
use crate::failure::{Failure, While, read};
use crate::host::file::HostFile;
use crate::host::name::HostName;
use crate::options::Setting;
use crate::session::packed::Packed;
use crate::session::secure_delete::SecureDelete;
use crate::session::{Handle, Upkeep};

/// What opening a packed database takes besides its file and its key.
#[derive(Debug)]
pub(crate) struct Place {
    /// SQLite's name of it, and the flags to open it once more with.
    pub(crate) name: HostName,
    pub(crate) flags: c_int,
    pub(crate) path: CString,
    /// Who names the files beside it.
    pub(crate) names: Names,
    /// Where SQLite has the name of the journal, behind which that of the WAL follows.
    pub(crate) journal: usize,
    /// SQLite was told that nothing changes the file.
    pub(crate) is_immutable: bool,
    /// The host has it open for writing.
    pub(crate) is_writable: bool,
    /// SQLite was compiled to erase what is deleted.
    pub(crate) erases_by_default: bool,
    pub(crate) settings: Vec<Setting>,
    /// The padding that the user wants it to have.
    pub(crate) padding: Option<Padding>,
}

/// Why a packed database was not opened.
#[derive(Debug)]
pub(crate) enum NotOpened {
    /// The user has to do something first.
    Refused(String),
    Failed(Failure),
}

impl From<Failure> for NotOpened {
    fn from(failure: Failure) -> NotOpened {
        NotOpened::Failed(failure)
    }
}

impl Place {
    /// An error in words if something lies beside the file that has to go first.
    pub(crate) fn expect_alone(&self) -> Result<(), String> {
        // SQLite looks for none where nothing can change.
        match names::strangers(self.path.to_bytes()).next() {
            Some(stranger) if !self.is_immutable => {
                Err(beside_in_words(&stranger.to_string_lossy()))
            }
            _ => Ok(()),
        }
    }

    /// A key for the file with the padding that it is to have.
    pub(crate) fn key(&self, key: Arc<Key>) -> Result<Arc<Key>, Failure> {
        match self.padding {
            Some(padding) if Some(padding) != key.padding() => {
                let wanted = key.with_padding(padding).map_err(Error::from);
                read(wanted.map(Arc::new))
            }
            _ => Ok(key),
        }
    }

    /// Opens the database, or an empty file as one.
    pub(crate) fn open(
        &self,
        disk: HostFile,
        key: Option<Arc<Key>>,
    ) -> Result<PackedFile, NotOpened> {
        if key.is_some() {
            encrypted::note_open();
        }
        let key = key.map(|key| self.key(key)).transpose()?;
        let options = Options {
            differences: true,
            key,
            ..Options::default()
        };
        let mut store = Store::open(disk, options).map_err(|error| {
            let why = format!("{}: {error}", self.path.to_string_lossy());
            match error {
                Error::OtherPadding { .. } => NotOpened::Refused(why),
                error => {
                    let failure = Failure::of_store(&error, While::Reading);
                    Failure::new(failure.code, why).into()
                }
            }
        })?;
        let place = ((&*self.path, store.disk().peek()), self.names, self.journal);
        let entry = Entry::new(place.0, place.1, store.uuid(), place.2);
        // Else the WAL of the file that has the name by now would be taken for this one's.
        if entry.has_file() && store.disk().has_moved() {
            return Err(Failure::new(CANTOPEN, REPLACED).into());
        }
        // Those beside a new database go with its first commit, as SQLite has it.
        if !store.is_new() {
            self.expect_alone().map_err(NotOpened::Refused)?;
        }
        store.set_file(entry.file());
        let wal = store.disk().neighbour(WAL_SUFFIX);
        store.set_needs(Box::new(NeedsOfLog::new(wal, Arc::clone(entry.wal_view()))));
        let mut packed = Packed::new(store);
        entry.wal_view().set_cached(entry.file());
        packed.set_wal(Arc::clone(entry.wal_view()));
        *packed.secure_delete() = SecureDelete::new(self.erases_by_default);
        for setting in &self.settings {
            packed.apply(*setting);
        }
        // SQLite writes nothing of a file that is said not to change, but the host may have it open for writing.
        let writable = self.is_writable && !self.is_immutable;
        let handle = Handle::new(packed, writable.then(Upkeep::default));
        Ok(PackedFile::new(handle, entry))
    }
}

/// Why a packed database is not opened beside the file of this name.
fn beside_in_words(name: &str) -> String {
    let suffixes = [("-wal", WAL_SUFFIX), ("-journal", JOURNAL_SUFFIX)];
    let ours = suffixes.iter().find_map(|(theirs, ours)| {
        let path = name.strip_suffix(theirs)?;
        Some(format!("{path}{ours}"))
    });
    format!(
        "{name} is not this packed file's, and a program without Litepack would write it into it: remove it. \
         (If an early Litepack wrote it, rename it to {}.)",
        ours.unwrap_or_default()
    )
}
