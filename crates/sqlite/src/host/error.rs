//! A result code of the host's VFS on its way through an `io::Error`.

use std::io;

use crate::c::codes::{BUSY, CANTOPEN, Code, FULL, IOERR, IOERR_NOMEM, NOMEM, OK, READONLY};

/// A result code of the host VFS on its way through an `io::Error`.
#[derive(Debug)]
pub(crate) struct HostCode(pub(crate) Code);

impl std::fmt::Display for HostCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SQLite's words for it, which people know and programs look for.
        f.write_str(match self.0 & 0xff {
            _ if self.0 == IOERR_NOMEM => "out of memory",
            BUSY => "database is locked",
            CANTOPEN => "unable to open database file",
            FULL => "database or disk is full",
            IOERR => "disk I/O error",
            NOMEM => "out of memory",
            READONLY => "attempt to write a readonly database",
            code => return write!(f, "the host VFS returned code {code}"),
        })
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

/// The code of the host VFS in an `io::Error`.
pub(crate) fn host_code(error: &io::Error) -> Option<Code> {
    let HostCode(code) = error.get_ref()?.downcast_ref()?;
    Some(*code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_sqlite() {
        let words = |code| HostCode(code).to_string();
        assert_eq!(words(1802), "disk I/O error");
        assert_eq!(words(3082), "out of memory");
        assert_eq!(words(23), "the host VFS returned code 23");
    }
}
