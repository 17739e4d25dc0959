//! A file whose URI is wrong. `xOpen` cannot return a message. So the file opens, and every pragma returns the message;
//! the function that SQLite calls for each new connection asks for it, too, and makes opening fail with it. All else
//! fails.

use std::sync::Arc;

use litepack_btree::PageNumber;
use litepack_cipher::Key;

use super::{Database, FIRST_READ, File};
use crate::c::codes::{CANTOPEN, Code, MISUSE};
use crate::failure::Failure;
use crate::options::{Name, Setting};

/// A file that is refused, with the reason.
pub(crate) struct Refused {
    why: String,
    code: Code,
}

impl Refused {
    /// One that was asked for in a wrong way.
    pub(crate) fn new(why: String) -> Refused {
        Refused { why, code: MISUSE }
    }

    /// One whose URI has a key, which a failure of `xOpen` would show: SQLite names a file that it cannot attach.
    pub(crate) fn after(failure: &Failure) -> Refused {
        Refused {
            why: failure.why.to_string(),
            code: failure.code,
        }
    }

    fn failure(&self) -> Failure {
        Failure::new(self.code, self.why.clone())
    }
}

impl File for Refused {
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Failure> {
        if offset == 0 && buf.len() == FIRST_READ {
            return Ok(0);
        }
        Err(self.failure())
    }

    /// Not nothing: SQLite would take that for an empty database, and read no page.
    fn size(&mut self) -> Result<u64, Failure> {
        Ok(65536)
    }

    fn database(&mut self) -> Option<&mut dyn Database> {
        Some(self)
    }
}

impl Database for Refused {
    fn setting(&self, _: Name) -> Result<String, String> {
        Err(self.why.clone())
    }

    fn split(&mut self, _: PageNumber, _: usize) -> Result<String, Failure> {
        Err(Failure::told(MISUSE, self.why.clone()))
    }

    fn apply(&mut self, _: Setting) -> Result<(), String> {
        Err(self.why.clone())
    }

    fn info(&mut self) -> Result<String, Failure> {
        Err(self.failure())
    }

    fn check(&mut self) -> Result<String, Failure> {
        Err(self.failure())
    }

    fn turn_away(&mut self) -> Option<(Code, String)> {
        // With this code drivers show the name, too.
        let code = if self.code & 0xff == CANTOPEN {
            MISUSE
        } else {
            self.code
        };
        Some((code, self.why.clone()))
    }

    fn refused(&self) -> Option<&str> {
        Some(&self.why)
    }

    fn give_key(&mut self, _: Arc<Key>) -> Result<(), Failure> {
        Err(Failure::told(MISUSE, self.why.clone()))
    }

    fn change_key(&mut self, _: Option<Arc<Key>>) -> Result<(), Failure> {
        Err(Failure::told(MISUSE, self.why.clone()))
    }
}
