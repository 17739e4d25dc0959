//! A simulated disk with Litepack over it.

use litepack_simdisk::{SimDisk, SimVfs};
use rusqlite::{Connection, Result};

use crate::vfs::{self, open_uri};

/// A machine with one packed database, `/a.db`.
pub struct Machine {
    /// Its disk.
    pub disk: SimDisk,
    /// The database, for those who open it themselves.
    pub uri: String,
    _host: SimVfs,
}

impl Machine {
    /// `name` is the disk's VFS, and no other machine of the program has it.
    ///
    /// # Panics
    ///
    /// If SQLite does not take the VFSes.
    pub fn new(name: &str) -> Machine {
        litepack_rusqlite::register().expect("Litepack registers");
        let disk = SimDisk::new();
        let host = disk.register(name);
        let vfs = format!("litepack-{name}");
        litepack_rusqlite::register_vfs(&vfs, name).expect("over the simulated disk");
        Machine {
            disk,
            uri: format!("file:/a.db?vfs={vfs}{}", vfs::key()),
            _host: host,
        }
    }

    /// Opens the database. Its WAL is checkpointed on request only.
    ///
    /// # Errors
    ///
    /// SQLite's.
    pub fn open(&self) -> Result<Connection> {
        let connection = open_uri(&self.uri)?;
        connection.execute_batch("pragma wal_autocheckpoint = 0")?;
        Ok(connection)
    }
}
