//! The file that SQLite gets for a name: decides for each whether it is ours, and opens those that are.
//!
//! Ours are main databases that are packed (or new) and their rollback journals, archives, files on a server, temporary
//! files where they may be of an encrypted database, and what is only opened to say that its URI is wrong. Any other file
//! is opened by the host directly in SQLite's memory, so that from then on we are not in the way at all.

use std::ffi::c_int;
use std::sync::Arc;

use litepack_cipher::{Key, Padding};
use litepack_engine::{FileKind, foreign};
use litepack_io::storage::ReadAt;
use litepack_store::{HEAD_LEN, Header};

use crate::beside::encrypted;
use crate::beside::names::{Beside, FOREIGN_NAME, REPLACED, UNKNOWN_KEYS};
use crate::beside::open_files::{Key as FileKey, beside, is_of_encrypted, journal_views, wal_view};
use crate::beside::stamp::FileStamp;
use crate::c::api::Api;
use crate::c::codes::{
    CANTOPEN, Code, IOCAP_IMMUTABLE, MISUSE, NOTADB, OPEN_CREATE, OPEN_EXCLUSIVE, OPEN_MAIN_DB,
    OPEN_READONLY, OPEN_READWRITE,
};
use crate::c::library::Shim;
use crate::failure::{Failure, While, report};
use crate::files::Database;
use crate::files::archive::{self, ArchiveFile};
use crate::files::company::{SHARED, Wishes};
use crate::files::journal::JournalFile;
use crate::files::keyed::KeyedFile;
use crate::files::keyed_reader::{KeyedReader, Lockable as _};
use crate::files::log::LogFile;
use crate::files::place::{NotOpened, Place};
use crate::files::refused::Refused;
use crate::files::remote::{self, KeyedRemoteFile, Location, RemoteFile};
use crate::files::sealed_archive::SealedArchive;
use crate::files::temporary::TemporaryFile;
use crate::files::undecided::UndecidedFile;
use crate::host::file::HostFile;
use crate::host::name::{HostName, MainName};
use crate::offered_key;
use crate::options::{
    OF_KEYS, Setting, from_uri, key_from_uri, padding_from_uri, plain_temp_from_uri,
};

/// The name of the VFS for which every new database is ours.
pub(crate) const NAME: &str = "litepack";

/// The file that SQLite gets. Files of ours are in memory of their own.
pub(crate) enum Opened {
    /// The host opens the file, with these flags: it is none of ours.
    Below(c_int),
    /// Those below have the flags that the host granted.
    Journal(Box<JournalFile>, c_int),
    Log(Box<LogFile>, c_int),
    Packed(Box<KeyedFile>, c_int),
    /// One that may turn out not to be the host's to have.
    Undecided(Box<UndecidedFile>, c_int),
    Temporary(Box<TemporaryFile>, c_int),
    /// From here on what is only read, whatever was asked for.
    Archive(Box<ArchiveFile<HostFile>>),
    KeyedArchive(Box<KeyedReader<SealedArchive>>),
    Remote(Box<RemoteFile>),
    KeyedRemote(Box<KeyedRemoteFile>),
    Refused(Refused),
}

/// A file beside a main database: a journal or a WAL.
pub(crate) fn beside_main(api: Api, name: HostName, flags: c_int) -> Result<Opened, Failure> {
    match beside(name.path()) {
        Some(Beside::Journal | Beside::ForeignJournal) if flags & OPEN_CREATE != 0 => {
            Ok(Opened::Journal(Box::new(JournalFile::new(name)), flags))
        }
        Some(Beside::Journal) if flags & OPEN_READWRITE != 0 => {
            // Without CREATE it is a journal left on disk, to be played back.
            let (file, granted) = name.open(flags)?;
            let journal = JournalFile::of(name, file)?;
            Ok(Opened::Journal(Box::new(journal), granted))
        }
        Some(Beside::ForeignJournal | Beside::ForeignWal) => {
            Err(Failure::new(CANTOPEN, FOREIGN_NAME))
        }
        Some(Beside::Wal) => {
            let view = wal_view(name.path());
            // It would be written in plain.
            if view.is_none() && is_of_encrypted(name.path()) {
                return Err(Failure::new(CANTOPEN, UNKNOWN_KEYS));
            }
            let (file, granted) = name.open(flags)?;
            if let Some(view) = &view {
                view.set_open_log(file.peek());
            }
            Ok(Opened::Log(
                Box::new(LogFile::new(api, file, view)),
                granted,
            ))
        }
        Some(Beside::OthersWal) => Err(Failure::new(CANTOPEN, REPLACED)),
        // Its database is another file now, or none: what is encrypted there is not to be in plain here.
        None if is_of_encrypted(name.path()) || has_keys(&name) => {
            Err(Failure::new(CANTOPEN, REPLACED))
        }
        // A journal is to be looked at.
        _ => Ok(Opened::Below(flags)),
    }
}

/// Whether this is a journal of a handle whose database is encrypted.
fn has_keys(name: &HostName) -> bool {
    let mut views = journal_views(name.path()).into_iter();
    views.any(|view| view.keys().is_some())
}

/// A file that goes when SQLite closes it. `open` has the host open it.
pub(crate) fn temporary(
    flags: c_int,
    open: impl FnOnce() -> Result<(HostFile, c_int), Code>,
) -> Result<Opened, Failure> {
    if !encrypted::was_open() {
        return Ok(Opened::Below(flags));
    }
    let (file, granted) = open()?;
    let file = TemporaryFile::new(file)?;
    Ok(Opened::Temporary(Box::new(file), granted))
}

/// A main database that SQLite opens by one of our VFSes.
pub(crate) struct Opening<'a> {
    pub(crate) shim: &'a Shim,
    pub(crate) name: MainName<'a>,
    pub(crate) flags: c_int,
}

impl Opening<'_> {
    /// Opens it. SQLite names a file that it cannot open with all of its URI, so one with a key fails at its first use.
    pub(crate) fn main(&self) -> Result<Opened, Failure> {
        match self.open() {
            Err(failure) if has_key(&self.name.parameters()) => Ok(self.refuse_after(&failure)),
            opened => opened,
        }
    }

    fn open(&self) -> Result<Opened, Failure> {
        let (shim, api) = (self.shim, self.shim.api());
        let explicit = !shim.is_default || self.name.parameter(c"vfs").as_deref() == Some(NAME);
        let parameters = self.name.parameters();
        // As the default VFS we may meet parameters that are meant for someone else.
        let asked = if explicit {
            Asked::of(&parameters)
        } else {
            Ok(Asked::default())
        };
        let mut asked = match asked {
            Ok(asked) => asked,
            Err(why) => return Ok(self.refuse(why)),
        };
        asked.wishes.shares_cache = shares_cache(&parameters);
        let wishes = asked.wishes;
        let has_key_in_uri = has_key(&parameters);
        let offered = offered_key::take();
        // A file with a key is ours if it is new, whoever is asked: nothing is to be stored in plain.
        let has_key = offered.is_some() || has_key_in_uri;
        if let Some(location) = asked.remote {
            let key = match key_from(&parameters, offered) {
                Ok(key) => key,
                Err(why) => return Ok(self.refuse(why)),
            };
            return match self.remote((location, asked.settings), key, wishes) {
                Err(failure) if has_key => Ok(self.refuse_after(&failure)),
                opened => opened,
            };
        }
        let (disk, granted) = match self.name.host().open(self.flags) {
            Err(code) if has_key_in_uri => return Err(Failure::new(code, CANNOT_OPEN)),
            opened => opened?,
        };
        let (kind, is_encrypted) = look_at(api, &disk)?;
        let is_new_ours = || {
            granted & OPEN_READONLY == 0 && (explicit || has_key || shim.library.new_are_packed())
        };
        if kind == FileKind::Packed || (kind == FileKind::Empty && is_new_ours()) {
            asked.key = match key_from(&parameters, offered) {
                Ok(key) => key,
                Err(why) => return Ok(self.refuse(why)),
            };
            return self.packed((disk, granted), is_encrypted, asked);
        }
        if kind == FileKind::Zstd
            && litepack_archive::is_encrypted(&disk).map_err(archive::failure)?
        {
            drop(disk);
            if asked.padding.is_some_and(|padding| !padding.is_none()) {
                return Ok(self.refuse(UNPADDED.into()));
            }
            let key = match key_from(&parameters, offered) {
                Ok(key) => key,
                Err(why) => return Ok(self.refuse(why)),
            };
            return match self.sealed_archive(asked.settings, key, wishes) {
                Err(failure) if has_key => Ok(self.refuse_after(&failure)),
                opened => opened,
            };
        }
        if offered.is_some() || (explicit && has_key) {
            drop(disk);
            return Ok(self.refuse(UNENCRYPTED.into()));
        }
        if explicit && asked.padding.is_some_and(|padding| !padding.is_none()) {
            drop(disk);
            return Ok(self.refuse(UNPADDED.into()));
        }
        if kind == FileKind::Empty && shim.is_default && encrypted::was_open() {
            let file = UndecidedFile::new(disk);
            return Ok(Opened::Undecided(Box::new(file), granted));
        }
        drop(disk);
        match kind {
            FileKind::Zstd => self.archive(asked.settings, explicit),
            _ => Ok(self.plain()),
        }
    }

    /// Opens a file that was asked for in a wrong way, so that the user gets the words.
    fn refuse(&self, why: String) -> Opened {
        self.shim.api().log(MISUSE, &why);
        Opened::Refused(Refused::new(why))
    }

    /// The same after a failure whose text must not be SQLite's.
    fn refuse_after(&self, failure: &Failure) -> Opened {
        report(self.shim.api(), failure);
        Opened::Refused(Refused::after(failure))
    }

    /// A main database that was looked at is the host's. It exists by now, so it can no longer be asked to be created
    /// exclusively.
    fn plain(&self) -> Opened {
        Opened::Below(self.flags & !OPEN_EXCLUSIVE)
    }

    /// Opens a packed database, or an empty file as one.
    fn packed(
        &self,
        (disk, granted): (HostFile, c_int),
        is_encrypted: bool,
        asked: Asked,
    ) -> Result<Opened, Failure> {
        let names = self.name.rename_beside();
        let names = names.map_err(|why| Failure::new(CANTOPEN, why))?;
        let place = Place {
            name: self.name.host(),
            flags: self.flags & !(OPEN_CREATE | OPEN_EXCLUSIVE),
            path: disk.path().to_owned(),
            names,
            journal: self.name.journal(),
            is_immutable: self.name.is_on(c"immutable")
                || disk.characteristics() & IOCAP_IMMUTABLE != 0,
            is_writable: granted & OPEN_READONLY == 0,
            erases_by_default: self.shim.api().compiled_with(c"SECURE_DELETE"),
            settings: asked.settings,
            padding: asked.padding,
        };
        let wishes = asked.wishes;
        if wishes.shares_cache && (is_encrypted || asked.key.is_some()) {
            return Ok(self.refuse(SHARED.into()));
        }
        if is_encrypted && asked.key.is_none() {
            if place.is_immutable {
                // SQLite asks for its length while it opens it, and never again.
                return Ok(self.refuse(IMMUTABLE.into()));
            }
            let file = KeyedFile::locked(disk, place, wishes);
            return Ok(Opened::Packed(Box::new(file), granted));
        }
        let file = match place.open(disk, asked.key) {
            Ok(file) => file,
            Err(NotOpened::Refused(why)) => return Ok(self.refuse(why)),
            Err(NotOpened::Failed(failure)) => return Err(failure),
        };
        let file = KeyedFile::open(file, place, wishes);
        Ok(Opened::Packed(Box::new(file), granted))
    }

    /// Opens an archive, read-only whatever is asked for. A file that only begins like one is a file of some other VFS
    /// to the default one, and a mistake where the user asked for us.
    fn archive(&self, settings: Vec<Setting>, explicit: bool) -> Result<Opened, Failure> {
        let name = self.name.host();
        let path = name.path().to_bytes();
        let stamp = FileStamp::of(path);
        let (source, _) = name.open(OPEN_READONLY | OPEN_MAIN_DB)?;
        // Only if the name still means the file that it meant before is it known which file this is.
        let which = || stamp?.confirmed(path).map(FileKey::Archive);
        let mut archive = match ArchiveFile::open(source, which) {
            Ok(archive) => archive,
            Err(failure) => {
                let why = format!("{}: {}", String::from_utf8_lossy(path), failure.why);
                let failure = Failure::new(failure.code, why);
                if failure.code != NOTADB || explicit {
                    return Err(failure);
                }
                report(self.shim.api(), &failure);
                return Ok(self.plain());
            }
        };
        let applied = settings
            .into_iter()
            .try_for_each(|setting| archive.apply(setting));
        Ok(match applied {
            Ok(()) => Opened::Archive(Box::new(archive)),
            Err(why) => self.refuse(why),
        })
    }

    /// Opens an encrypted archive. It says what it is, so no other VFS is meant.
    fn sealed_archive(
        &self,
        settings: Vec<Setting>,
        key: Option<Arc<Key>>,
        wishes: Wishes,
    ) -> Result<Opened, Failure> {
        if wishes.shares_cache {
            return Ok(self.refuse(SHARED.into()));
        }
        let name = self.name.host();
        let path = name.path().to_bytes();
        let stamp = FileStamp::of(path);
        let (source, _) = name.open(OPEN_READONLY | OPEN_MAIN_DB)?;
        let which = stamp.and_then(|stamp| stamp.confirmed(path));
        let mut file = SealedArchive::Locked(source, which.map(FileKey::Archive), settings);
        if let Some(key) = &key {
            file.unlock(key)?;
        }
        let file = KeyedReader::new(file, wishes, key);
        Ok(Opened::KeyedArchive(Box::new(file)))
    }

    /// Opens a file on a server. There need not be a local one of this name, and if there is, it is not looked at.
    fn remote(
        &self,
        (location, settings): (Location, Vec<Setting>),
        key: Option<Arc<Key>>,
        wishes: Wishes,
    ) -> Result<Opened, Failure> {
        match location.open(settings, key.as_ref()) {
            Ok(file) => Ok(match remote::keyed(file, wishes) {
                Ok(file) => Opened::KeyedRemote(Box::new(file)),
                Err(file) => Opened::Remote(Box::new(file)),
            }),
            Err(failure) if failure.code == MISUSE => Ok(self.refuse(failure.why.into_owned())),
            Err(failure) => Err(failure),
        }
    }
}

/// The kind of a main database, by its first bytes; `Empty` also if it is a packed one that has no header yet.
/// And whether it is a packed one that is encrypted; one that is damaged is not, here.
fn look_at(api: Api, disk: &HostFile) -> Result<(FileKind, bool), Failure> {
    let mut head = [0; HEAD_LEN];
    let mut read = || Ok((ReadAt::read_at(disk, &mut head, 0)?, ReadAt::len(disk)?));
    let failed = |error: std::io::Error| Failure::of_store(&error.into(), While::Reading);
    let (n, len) = read().map_err(failed)?;
    let head = head.get(..n).unwrap_or_default();
    if FileKind::is_new(head, len) {
        return Ok((FileKind::Empty, false));
    }
    let kind = FileKind::of(head, len);
    if kind == FileKind::Other
        && let Some(what) = foreign::what(head)
    {
        let path = disk.path().to_string_lossy();
        api.log(NOTADB, &format!("{path}: not a database but {what}"));
    }
    let header = (kind == FileKind::Packed).then(|| Header::decode(head));
    let is_encrypted = header.is_some_and(|header| header.is_ok_and(|h| h.is_encrypted));
    Ok((kind, is_encrypted))
}

/// Why a file is not opened that has a key and should not.
const UNENCRYPTED: &str = "there is a key, and the file is not encrypted";

/// Why a file is not opened that is to have a padding.
const UNPADDED: &str = "the URI says padding=, and only an encrypted packed file has one";

/// Why an encrypted database is refused that nothing is to change.
const IMMUTABLE: &str =
    "an immutable database that is encrypted needs its key in the URI: hexkey= or key=";
/// Why a file with a key in its URI is not opened.
const CANNOT_OPEN: &str = "the database cannot be opened";

/// The key in the parameters of a URI, or else the one that is offered.
///
/// # Errors
/// In words.
fn key_from(
    parameters: &[(String, String)],
    offered: Option<Arc<Key>>,
) -> Result<Option<Arc<Key>>, String> {
    Ok(key_from_uri(parameters)?.map(Arc::new).or(offered))
}

/// Whether the parameters of a URI have a key.
fn has_key(parameters: &[(String, String)]) -> bool {
    let names = |(key, _): &(String, String)| key == "key" || key == "hexkey";
    parameters.iter().any(names)
}

/// Whether other connections may use what SQLite has in memory of the file, as far as the URI says.
fn shares_cache(parameters: &[(String, String)]) -> bool {
    let is_it = |(key, value): &(String, String)| key == "cache" && value == "shared";
    parameters.iter().any(is_it)
}

/// The request in the URI of a database.
#[derive(Default)]
struct Asked {
    settings: Vec<Setting>,
    remote: Option<Location>,
    key: Option<Arc<Key>>,
    padding: Option<Padding>,
    wishes: Wishes,
}

impl Asked {
    /// # Errors
    /// In words.
    fn of(parameters: &[(String, String)]) -> Result<Asked, String> {
        let elsewhere: Vec<_> = remote::names().chain(OF_KEYS).collect();
        let settings = from_uri(parameters, &elsewhere)?;
        let remote = remote::from_uri(parameters)?;
        if remote.is_some() && shares_cache(parameters) {
            // SQLite would take two URLs under one path for one database. That the C API asked for it is not to be
            // seen.
            return Err("cache=shared cannot be used together with url".into());
        }
        let padding = padding_from_uri(parameters)?;
        if remote.is_some() && padding.is_some() {
            return Err("padding is for files that are made, not for those on a server".into());
        }
        Ok(Asked {
            settings,
            remote,
            key: None,
            padding,
            wishes: Wishes {
                plain_temp: plain_temp_from_uri(parameters)?,
                shares_cache: false,
            },
        })
    }
}
