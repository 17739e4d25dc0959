//! SQLite's numbers (`sqlite3.h`), and what it may be told of a call that failed.

use std::ffi::c_int;

/// A SQLite result code, extended or not.
pub(crate) type Code = c_int;

use crate::c::bindings::SQLITE_IOCAP_POWERSAFE_OVERWRITE;
pub(crate) use crate::c::bindings::{
    SQLITE_ACCESS_EXISTS as ACCESS_EXISTS, SQLITE_ACCESS_READWRITE as ACCESS_READWRITE,
    SQLITE_AUTH as AUTH, SQLITE_BUSY as BUSY, SQLITE_CANTOPEN as CANTOPEN,
    SQLITE_CORRUPT as CORRUPT, SQLITE_ERROR as ERROR, SQLITE_FULL as FULL,
    SQLITE_INTERNAL as INTERNAL, SQLITE_INTERRUPT as INTERRUPT,
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

/// `SQLITE_READONLY_DBMOVED`.
pub(crate) const READONLY_DBMOVED: Code = READONLY | 4 << 8;
/// `SQLITE_WARNING`, for the error log alone.
pub(crate) const WARNING: Code = 28;

/// File controls (`SQLITE_FCNTL_*`) this VFS answers itself.
pub(crate) mod fcntl {
    use std::ffi::c_int;

    pub(crate) use crate::c::bindings::{
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
        SQLITE_FCNTL_VFS_POINTER as VFS_POINTER, SQLITE_FCNTL_VFSNAME as VFSNAME,
        SQLITE_FCNTL_ZIPVFS as ZIPVFS,
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
    /// Ours: the key of an encrypted file, for the question that the argument points to.
    pub(crate) const LITEPACK_KEY: c_int = 0x4c50_0005;
    /// Ours: answered by a temporary file that is encrypted, without an argument.
    pub(crate) const LITEPACK_SEALED: c_int = 0x4c50_0006;
}

/// The file capabilities of the host VFS that still hold for a packed file: everything about how pages may be written
/// (atomic, safe append, sub-page reads, batches) is about the wrong file. That an open file cannot be deleted is not
/// said: SQLite would keep a journal open that is in memory, and look there for one that another process has left.
pub(crate) const IOCAP_KEPT: c_int = SQLITE_IOCAP_POWERSAFE_OVERWRITE | IOCAP_IMMUTABLE;

/// The code that SQLite may be told of a failed write, truncation or sync, and of a read in a transaction that writes:
/// an I/O error, or that there is no space. After another code it would not give up the transaction, and a later commit
/// would store half a statement. A busy checkpoint it would take for a reader in the way. A `code` that is neither
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

#[cfg(test)]
mod tests {
    use super::*;

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
