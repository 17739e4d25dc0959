//! Other settings for a column that is compressed already. They count from the next maintenance on.

use crate::config::Config;
use crate::refuse;
use crate::sql::{Result, Sql};
use crate::table::Table;
use crate::transaction::atomically;

/// Changes the configuration of a column by a JSON object with the keys to change.
///
/// # Errors
/// An error that says what is wrong with the patch; then nothing is changed.
pub fn configure(db: &impl Sql, table: &str, column: &str, patch: &str) -> Result<()> {
    let (id, config) = Config::get(db, table, column)?;
    let config = config.patched(patch)?;
    refuse::chooser(db, &Table::compressed(db, table)?, &config)?;
    atomically(db, || config.update(db, id))
}
