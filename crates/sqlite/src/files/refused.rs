//! A file whose URI is wrong. `xOpen` cannot return a message. So the file opens, and every pragma returns the message;
//! the function that SQLite calls for each new connection asks for it, too, and makes opening fail with it. All else
//! fails.

use std::sync::Arc;

use litepack_btree::PageNumber;
use litepack_cipher::Key;

use super::{Database, File};
use crate::c::codes::MISUSE;
use crate::failure::Failure;
use crate::options::{Name, Setting};

/// How many bytes SQLite reads when it opens a file. It never reads just these again.
const FIRST_READ: usize = 100;

/// A file that is refused, with the reason.
pub(crate) struct Refused(pub(crate) String);

impl Refused {
    fn failure(&self) -> Failure {
        Failure::new(MISUSE, self.0.clone())
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
        Err(self.0.clone())
    }

    fn split(&mut self, _: PageNumber, _: usize) -> Result<String, Failure> {
        Err(Failure::told(MISUSE, self.0.clone()))
    }

    fn apply(&mut self, _: Setting) -> Result<(), String> {
        Err(self.0.clone())
    }

    fn info(&mut self) -> Result<String, Failure> {
        Err(self.failure())
    }

    fn check(&mut self) -> Result<String, Failure> {
        Err(self.failure())
    }

    fn refused(&self) -> Option<&str> {
        Some(&self.0)
    }

    fn give_key(&mut self, _: Arc<Key>) -> Result<(), Failure> {
        Err(Failure::told(MISUSE, self.0.clone()))
    }

    fn change_key(&mut self, _: Option<Arc<Key>>) -> Result<(), Failure> {
        Err(Failure::told(MISUSE, self.0.clone()))
    }
}
