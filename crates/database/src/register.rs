//! Registration with the SQLite of this program, once.

use std::sync::OnceLock;

use crate::{Error, Result};

/// Registers the VFS `litepack` and the SQL functions with the SQLite of this program, for connections that are opened
/// later. `open` does it by itself; call it before opening `file:packed.db?vfs=litepack` in another way.
///
/// # Errors
/// If that SQLite is too old or refuses.
pub fn register() -> Result<()> {
    static REGISTERED: OnceLock<()> = OnceLock::new();
    if REGISTERED.get().is_none() {
        litepack_rusqlite::register().map_err(Error::Refused)?;
        REGISTERED.get_or_init(|| ());
    }
    Ok(())
}
