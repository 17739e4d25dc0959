//! Reading pages of SQLite's from a store. Damage is no error here: who goes through all trees counts it, and goes on.

use litepack_io::interrupt;
use litepack_io::storage::Storage;
use litepack_store::{Error, Result, Store};

/// Fills `buf` from the database; false if it is damaged or not as long.
///
/// # Errors
/// When the file cannot be read, or the caller was interrupted.
pub(crate) fn read<D: Storage>(store: &mut Store<D>, offset: u64, buf: &mut [u8]) -> Result<bool> {
    interrupt::check()?;
    match store.read(offset, buf) {
        Err(Error::Damaged(_)) => Ok(false),
        result => Ok(result? == buf.len()),
    }
}
