//! SQLite's numbers (`sqlite3.h`), and the one place where our errors become them.

use std::ffi::c_int;
use std::io;

use litepack_store::Error;

/// A SQLite result code, extended or not.
pub(crate) type Code = c_int;

use crate::ffi::bindings::SQLITE_IOCAP_POWERSAFE_OVERWRITE;
pub(crate) use crate::ffi::bindings::{
    SQLITE_ACCESS_EXISTS as ACCESS_EXISTS, SQLITE_AUTH as AUTH, SQLITE_BUSY as BUSY,
    SQLITE_CANTOPEN as CANTOPEN, SQLITE_CORRUPT as CORRUPT, SQLITE_ERROR as ERROR,
    SQLITE_FULL as FULL, SQLITE_INTERNAL as INTERNAL, SQLITE_INTERRUPT as INTERRUPT,
    SQLITE_IOCAP_IMMUTABLE as IOCAP_IMMUTABLE, SQLITE_IOERR as IOERR,
    SQLITE_IOERR_CORRUPTFS as IOERR_CORRUPTFS, SQLITE_IOERR_DATA as IOERR_DATA,
    SQLITE_IOERR_DIR_FSYNC as IOERR_DIR_FSYNC, SQLITE_IOERR_FSTAT as IOERR_FSTAT,
    SQLITE_IOERR_FSYNC as IOERR_FSYNC, SQLITE_IOERR_NOMEM as IOERR_NOMEM,
    SQLITE_IOERR_READ as IOERR_READ, SQLITE_IOERR_SHORT_READ as IOERR_SHORT_READ,
    SQLITE_IOERR_TRUNCATE as IOERR_TRUNCATE, SQLITE_IOERR_WRITE as IOERR_WRITE,
    SQLITE_LOCK_EXCLUSIVE as LOCK_EXCLUSIVE, SQLITE_LOCK_NONE as LOCK_NONE,
    SQLITE_LOCK_RESERVED as LOCK_RESERVED, SQLITE_LOCK_SHARED as LOCK_SHARED,
    SQLITE_MISUSE as MISUSE, SQLITE_NOMEM as NOMEM, SQLITE_NOTADB as NOTADB,
    SQLITE_NOTFOUND as NOTFOUND, SQLITE_OK as OK, SQLITE_OPEN_CREATE as OPEN_CREATE,
    SQLITE_OPEN_DELETEONCLOSE as OPEN_DELETEONCLOSE, SQLITE_OPEN_EXCLUSIVE as OPEN_EXCLUSIVE,
    SQLITE_OPEN_MAIN_DB as OPEN_MAIN_DB, SQLITE_OPEN_MAIN_JOURNAL as OPEN_MAIN_JOURNAL,
    SQLITE_OPEN_READONLY as OPEN_READONLY, SQLITE_OPEN_READWRITE as OPEN_READWRITE,
    SQLITE_OPEN_SUPER_JOURNAL as OPEN_SUPER_JOURNAL, SQLITE_OPEN_TEMP_JOURNAL as OPEN_TEMP_JOURNAL,
    SQLITE_OPEN_WAL as OPEN_WAL, SQLITE_READONLY as READONLY,
    SQLITE_READONLY_DIRECTORY as READONLY_DIRECTORY,
};

/// File controls (`SQLITE_FCNTL_*`) this VFS answers itself.
pub(crate) mod fcntl {
    use std::ffi::c_int;

    pub(crate) use crate::ffi::bindings::{
        SQLITE_FCNTL_BEGIN_ATOMIC_WRITE as BEGIN_ATOMIC_WRITE,
        SQLITE_FCNTL_BUSYHANDLER as BUSYHANDLER, SQLITE_FCNTL_CHUNK_SIZE as CHUNK_SIZE,
        SQLITE_FCNTL_CKPT_DONE as CKPT_DONE, SQLITE_FCNTL_CKPT_START as CKPT_START,
        SQLITE_FCNTL_COMMIT_ATOMIC_WRITE as COMMIT_ATOMIC_WRITE,
        SQLITE_FCNTL_COMMIT_PHASETWO as COMMIT_PHASETWO, SQLITE_FCNTL_DATA_VERSION as DATA_VERSION,
        SQLITE_FCNTL_FILE_POINTER as FILE_POINTER, SQLITE_FCNTL_HAS_MOVED as HAS_MOVED,
        SQLITE_FCNTL_MMAP_SIZE as MMAP_SIZE, SQLITE_FCNTL_OVERWRITE as OVERWRITE,
        SQLITE_FCNTL_PDB as PDB, SQLITE_FCNTL_PRAGMA as PRAGMA,
        SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE as ROLLBACK_ATOMIC_WRITE,
        SQLITE_FCNTL_SIZE_HINT as SIZE_HINT, SQLITE_FCNTL_SYNC as SYNC,
        SQLITE_FCNTL_VFSNAME as VFSNAME, SQLITE_FCNTL_ZIPVFS as ZIPVFS,
    };

    /// Newer than the oldest SQLite that is supported.
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

/// What the file capabilities of the host VFS still mean for a packed file: everything about how pages may be written
/// (atomic, safe append, sub-page reads, batches) is about the wrong file. That an open file cannot be deleted is not
/// said: SQLite would keep a journal open that is in memory, and look there for one that another process has left.
pub(crate) const IOCAP_KEPT: c_int = SQLITE_IOCAP_POWERSAFE_OVERWRITE | IOCAP_IMMUTABLE;

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

/// What SQLite may be told of a failed write, truncation or sync, and of a read in a transaction that writes: an I/O
/// error, or that there is no space. After another code it would not give up the transaction, and a later commit would
/// store half a statement; and what is busy in a checkpoint it takes for a reader in the way. A `code` that is neither
/// becomes `otherwise`.
pub(crate) fn as_io_error(code: Code, otherwise: Code) -> Code {
    match code {
        OK | FULL | READONLY => code,
        NOMEM => IOERR_NOMEM,
        // SQLite makes CORRUPT of it.
        IOERR_CORRUPTFS => otherwise,
        _ if code & 0xff == IOERR => code,
        _ => otherwise,
    }
}

/// The code of the host VFS in an `io::Error`.
pub(crate) fn host_code(error: &io::Error) -> Option<Code> {
    let HostCode(code) = error.get_ref()?.downcast_ref()?;
    Some(*code)
}

/// The result code for an error.
pub(crate) fn code_of(error: &Error, doing: While) -> Code {
    match error {
        // An I/O error among those, too, after which SQLite gives up the transaction; the program is told SQLITE_NOMEM.
        Error::Io(error) if error.kind() == io::ErrorKind::OutOfMemory => IOERR_NOMEM,
        _ if error.is_interrupted() => INTERRUPT,
        Error::Io(error) => host_code(error).unwrap_or(IOERR),
        Error::Damaged(_) if doing == While::Reading => CORRUPT,
        // Not IOERR_CORRUPTFS, of which SQLite makes CORRUPT before it looks whether to give up the transaction.
        Error::Damaged(_) => IOERR_DATA,
        Error::NotPacked => NOTADB,
        Error::Unsupported(_) => CANTOPEN,
        Error::Conflict if doing == While::Reading => BUSY,
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
        Error::Io(error) if error.kind() == io::ErrorKind::Interrupted => INTERRUPT,
        Error::Stopped => INTERRUPT,
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
        assert_eq!(from(io::ErrorKind::Interrupted.into()), INTERRUPT);
        assert_eq!(code_of_archive(&Error::Stopped), INTERRUPT);
        assert_eq!(code_of_archive(&Error::NoSeekTable), NOTADB);
    }

    #[test]
    fn host_codes_pass_through_the_store() {
        let error = Error::from(from_host(FULL).unwrap_err());
        assert_eq!(code_of(&error, While::Writing), FULL);
        assert_eq!(code_of(&Error::Limit("x"), While::Writing), FULL);
        assert_eq!(code_of(&Error::Conflict, While::Reading), BUSY);
        assert_eq!(code_of(&Error::Conflict, While::Writing), IOERR);
        let error = Error::from(litepack_io::interrupt::Interrupted);
        assert_eq!(code_of(&error, While::Reading), INTERRUPT);
        let error = Error::from(litepack_io::memory::OutOfMemory);
        assert_eq!(code_of(&error, While::Writing), IOERR_NOMEM);
        assert_eq!(
            code_of(&Error::from(io::Error::other("x")), While::Reading),
            IOERR
        );
    }

    #[test]
    fn what_fails_to_write_is_an_io_error_or_full() {
        for (code, expected) in [
            (OK, OK),
            (FULL, FULL),
            (READONLY, READONLY),
            (IOERR_NOMEM, IOERR_NOMEM),
            (IOERR_READ, IOERR_READ),
            (IOERR_DATA, IOERR_DATA),
            (NOMEM, IOERR_NOMEM),
            (BUSY, IOERR_WRITE),
            (CANTOPEN, IOERR_WRITE),
            (CORRUPT, IOERR_WRITE),
            (INTERNAL, IOERR_WRITE),
            (IOERR_CORRUPTFS, IOERR_WRITE),
            (NOTADB, IOERR_WRITE),
        ] {
            assert_eq!(as_io_error(code, IOERR_WRITE), expected, "{code}");
        }
    }
}
