//! A result code of the host's VFS on its way through an `io::Error`.

use std::io;

use crate::c::codes::{Code, OK};

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

/// The code of the host VFS in an `io::Error`.
pub(crate) fn host_code(error: &io::Error) -> Option<Code> {
    let HostCode(code) = error.get_ref()?.downcast_ref()?;
    Some(*code)
}
