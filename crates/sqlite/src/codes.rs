//! SQLite's numbers (`sqlite3.h`), and the one place where our errors become them.

use std::ffi::c_int;
use std::io;

use litepack_store::Error;

/// A SQLite result code, extended or not.
pub(crate) type Code = c_int;

pub(crate) const OK: Code = 0;
pub(crate) const ERROR: Code = 1;
pub(crate) const INTERNAL: Code = 2;
pub(crate) const BUSY: Code = 5;
pub(crate) const NOMEM: Code = 7;
pub(crate) const READONLY: Code = 8;
pub(crate) const IOERR: Code = 10;
pub(crate) const CORRUPT: Code = 11;
pub(crate) const NOTFOUND: Code = 12;
pub(crate) const FULL: Code = 13;
pub(crate) const CANTOPEN: Code = 14;
pub(crate) const MISUSE: Code = 21;
pub(crate) const NOTADB: Code = 26;
pub(crate) const READONLY_DIRECTORY: Code = READONLY | 6 << 8;
pub(crate) const IOERR_NOMEM: Code = IOERR | 12 << 8;
pub(crate) const IOERR_READ: Code = IOERR | 1 << 8;
pub(crate) const IOERR_SHORT_READ: Code = IOERR | 2 << 8;
pub(crate) const IOERR_WRITE: Code = IOERR | 3 << 8;
pub(crate) const IOERR_TRUNCATE: Code = IOERR | 6 << 8;
pub(crate) const IOERR_CORRUPTFS: Code = IOERR | 33 << 8;

pub(crate) const OPEN_READONLY: c_int = 0x1;
pub(crate) const OPEN_READWRITE: c_int = 0x2;
pub(crate) const OPEN_CREATE: c_int = 0x4;
pub(crate) const OPEN_DELETEONCLOSE: c_int = 0x8;
pub(crate) const OPEN_EXCLUSIVE: c_int = 0x10;
pub(crate) const OPEN_MAIN_DB: c_int = 0x100;
pub(crate) const OPEN_MAIN_JOURNAL: c_int = 0x800;
pub(crate) const OPEN_TEMP_JOURNAL: c_int = 0x1000;
pub(crate) const OPEN_SUPER_JOURNAL: c_int = 0x4000;

pub(crate) const ACCESS_EXISTS: c_int = 0;

pub(crate) const LOCK_NONE: c_int = 0;
pub(crate) const LOCK_SHARED: c_int = 1;
pub(crate) const LOCK_RESERVED: c_int = 2;

/// File controls (`SQLITE_FCNTL_*`) this VFS answers itself.
pub(crate) mod fcntl {
    use std::ffi::c_int;
    pub(crate) const SIZE_HINT: c_int = 5;
    pub(crate) const CHUNK_SIZE: c_int = 6;
    pub(crate) const FILE_POINTER: c_int = 7;
    pub(crate) const OVERWRITE: c_int = 11;
    pub(crate) const VFSNAME: c_int = 12;
    pub(crate) const PRAGMA: c_int = 14;
    pub(crate) const BUSYHANDLER: c_int = 15;
    pub(crate) const MMAP_SIZE: c_int = 18;
    pub(crate) const SYNC: c_int = 21;
    pub(crate) const COMMIT_PHASETWO: c_int = 22;
    pub(crate) const ZIPVFS: c_int = 25;
    pub(crate) const PDB: c_int = 30;
    pub(crate) const BEGIN_ATOMIC_WRITE: c_int = 31;
    pub(crate) const COMMIT_ATOMIC_WRITE: c_int = 32;
    pub(crate) const ROLLBACK_ATOMIC_WRITE: c_int = 33;
    pub(crate) const DATA_VERSION: c_int = 35;
    pub(crate) const CKPT_DONE: c_int = 37;
    pub(crate) const CKPT_START: c_int = 39;
    pub(crate) const FILESTAT: c_int = 45;
    /// Asked by the `dbstat` virtual table: where a page lies and how long it is.
    pub(crate) const DBSTAT: c_int = 230440;
    /// Ours: report on the file as JSON, into a `char*` from `sqlite3_malloc64`.
    pub(crate) const LITEPACK_INFO: c_int = 0x4c50_0001;
    /// Ours: check the file, result as above.
    pub(crate) const LITEPACK_CHECK: c_int = 0x4c50_0002;
    /// Ours: a step of maintenance, for the request that the argument points to.
    pub(crate) const LITEPACK_MAINTAIN: c_int = 0x4c50_0003;
    /// Ours: why a file was only opened to say that it cannot be, into a `char*` as above.
    pub(crate) const LITEPACK_REFUSED: c_int = 0x4c50_0004;
}

/// What the file capabilities of the host VFS still mean for a packed file: everything about how
/// pages may be written (atomic, safe append, sub-page reads, batches) is about the wrong file.
pub(crate) const IOCAP_KEPT: c_int = 0x0800 /* UNDELETABLE_WHEN_OPEN */
    | 0x1000 /* POWERSAFE_OVERWRITE */
    | IOCAP_IMMUTABLE;

/// The file never changes: SQLite takes no locks and looks for no journal and no WAL.
pub(crate) const IOCAP_IMMUTABLE: c_int = 0x2000;

/// A result code of the host VFS on its way through an `io::Error`.
#[derive(Debug)]
pub(crate) struct HostCode(pub(crate) Code);

impl std::fmt::Display for HostCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the host VFS returned code {}", self.0)
    }
}

impl std::error::Error for HostCode {}

/// The code of the host VFS as an `io::Result`.
pub(crate) fn from_host(code: Code) -> io::Result<()> {
    if code == OK {
        Ok(())
    } else {
        Err(io::Error::other(HostCode(code)))
    }
}

/// What a failed call was doing: damage met while reading is SQLite's "malformed", but while writing
/// it must be an I/O error, the only kind after which SQLite gives up the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum While {
    Reading,
    Writing,
}

/// The code of the host VFS in an `io::Error`.
fn host_code(error: &io::Error) -> Option<Code> {
    let HostCode(code) = error.get_ref()?.downcast_ref()?;
    Some(*code)
}

/// The result code for an error.
pub(crate) fn code_of(error: &Error, doing: While) -> Code {
    match error {
        // An I/O error among those, too, after which SQLite gives up the transaction; the program is told SQLITE_NOMEM.
        Error::Io(error) if error.kind() == io::ErrorKind::OutOfMemory => IOERR_NOMEM,
        Error::Io(error) => host_code(error).unwrap_or(IOERR),
        Error::Damaged(_) if doing == While::Reading => CORRUPT,
        Error::Damaged(_) => IOERR_CORRUPTFS,
        Error::NotPacked => NOTADB,
        Error::Unsupported(_) => CANTOPEN,
        Error::Conflict => BUSY,
        Error::Limit(_) => FULL,
        // The enum is open for the store's sake; a new kind is an I/O error until it has its code.
        _ => IOERR,
    }
}

/// The result code for an error while an archive is opened or read.
pub(crate) fn code_of_archive(error: &litepack_archive::Error) -> Code {
    use litepack_archive::Error;
    match error {
        Error::Io(error) if error.kind() == io::ErrorKind::OutOfMemory => NOMEM,
        Error::Io(error) => host_code(error).unwrap_or(IOERR_READ),
        Error::NotZstd | Error::NoSeekTable => NOTADB,
        Error::SeekTable { .. } | Error::Frame { .. } => CORRUPT,
        Error::Unsupported(_) | Error::Limit(_) => CANTOPEN,
        // As for the store's errors.
        _ => IOERR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_codes_pass_through_the_archive() {
        use litepack_archive::Error;
        let from = |error: io::Error| code_of_archive(&Error::from(error));
        assert_eq!(from(from_host(FULL).unwrap_err()), FULL);
        assert_eq!(from(io::Error::other("x")), IOERR_READ);
        assert_eq!(from(io::ErrorKind::OutOfMemory.into()), NOMEM);
        assert_eq!(code_of_archive(&Error::NoSeekTable), NOTADB);
    }

    #[test]
    fn host_codes_pass_through_the_store() {
        let error = Error::from(from_host(FULL).unwrap_err());
        assert_eq!(code_of(&error, While::Writing), FULL);
        assert_eq!(code_of(&Error::Limit("x"), While::Writing), FULL);
        assert_eq!(code_of(&Error::Conflict, While::Reading), BUSY);
        let error = Error::from(litepack_io::memory::OutOfMemory);
        assert_eq!(code_of(&error, While::Writing), IOERR_NOMEM);
        assert_eq!(
            code_of(&Error::from(io::Error::other("x")), While::Reading),
            IOERR
        );
    }
}
