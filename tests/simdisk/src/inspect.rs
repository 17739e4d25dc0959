//! Looks at databases after something went wrong: are they sound, what do they hold, can they
//! be written to?

use rusqlite::Connection;

use crate::content::{Content, content_of};
use crate::disk::SimDisk;
use crate::driver::{Stack, close};
use crate::workload::Workload;

/// Opens the databases, checks them and says what they hold.
pub(crate) fn recover(stack: &Stack, work: &Workload) -> Result<Content, String> {
    let db = stack
        .open(work.attach)
        .map_err(|e| format!("does not open: {e}"))?;
    check(&db, work)?;
    let found = content_of(&db, work.schemas()).map_err(|e| format!("cannot be read: {e}"))?;
    close(db).map_err(|e| format!("close: {e}"))?;
    Ok(found)
}

/// Files of these names are WALs that were not applied. After a crash there is none: each is its database's own.
const NOT_APPLIED: &str = "_refused_";

/// An error in words if a WAL was not applied.
pub(crate) fn expect_applied(disk: &SimDisk) -> Result<(), String> {
    match disk.names().iter().find(|name| name.contains(NOT_APPLIED)) {
        Some(name) => Err(format!("the WAL was taken for another database's: {name}")),
        None => Ok(()),
    }
}

/// Writes to every database, with the settings of the workload. They must stay sound. Says what they hold then.
pub(crate) fn write_more(stack: &Stack, work: &Workload) -> Result<Content, String> {
    let db = stack.open_for(work).map_err(|e| e.to_string())?;
    for schema in work.schemas() {
        db.execute_batch(&format!(
            "CREATE TABLE {schema}.later(x); \
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50) \
             INSERT INTO {schema}.later SELECT hex(i) || 'some text' FROM n;"
        ))
        .map_err(|e| e.to_string())?;
    }
    check(&db, work)?;
    let found = content_of(&db, work.schemas()).map_err(|e| e.to_string())?;
    close(db).map_err(|e| e.to_string())?;
    Ok(found)
}

/// `integrity_check` of every database, and what else has to be sound.
fn check(db: &Connection, work: &Workload) -> Result<(), String> {
    for schema in work.schemas() {
        let sql = format!("PRAGMA {schema}.integrity_check(3)");
        let said: Result<String, _> = db.query_row(&sql, [], |row| row.get(0));
        match said.as_deref() {
            Ok("ok") => {}
            Ok(said) => return Err(format!("integrity_check of {schema}: {said}")),
            Err(error) => return Err(format!("integrity_check of {schema}: {error}")),
        }
    }
    if let Some(base) = &work.base {
        let said: Result<String, _> = db.query_row(base.sound, [], |row| row.get(0));
        match said.as_deref() {
            Ok("ok") => {}
            Ok(said) => return Err(format!("{}: {said}", base.sound)),
            Err(error) => return Err(format!("{}: {error}", base.sound)),
        }
    }
    Ok(())
}
