//! Drops dictionaries that no row needs.
//!
//! Only those that maintenance made or replaced: a program may use others in its own calls of `zstd_decompress`, which
//! no column shows.

use std::collections::BTreeSet;

use crate::sql::{Result, Sql, Statement, Value};
use crate::state::{forget_dictionary, noted_dictionaries};
use crate::stored::expect;
use crate::table::is_virtual;
use crate::transaction::{atomically, lock};
use litepack_btree::quote;

/// Drops them and returns how many there were.
///
/// # Errors
/// SQLite's; then nothing has changed.
pub fn drop_unused(db: &impl Sql) -> Result<usize> {
    if noted_dictionaries(db)?.is_empty() {
        return Ok(0);
    }
    atomically(db, || {
        // So that no other connection begins to use one meanwhile.
        lock(db)?;
        let mut unused: BTreeSet<i64> = noted_dictionaries(db)?.into_iter().collect();
        for (table, marker) in markers(db)? {
            // Not by the index: it holds the rows without a dictionary.
            let marker = quote(&marker);
            let sql = format!(
                "select distinct {marker} from main.{} where +{marker} is not null",
                quote(&table)
            );
            db.rows(&sql, &[], |row| {
                if let Some(id) = row.column(0).integer() {
                    unused.remove(&id);
                }
                Ok(())
            })?;
        }
        for id in &unused {
            db.run(
                "delete from main._zstd_dicts where id = ?1",
                &[Value::Integer(*id)],
            )?;
            forget_dictionary(db, *id)?;
        }
        Ok(unused.len())
    })
}

/// All columns of tables that look as if they named dictionaries, configured or not.
fn markers(db: &impl Sql) -> Result<Vec<(String, String)>> {
    let mut tables = Vec::new();
    let sql = "select name, sql from main.sqlite_schema where type = 'table' \
               and name like '\\_%\\_zstd' escape '\\'";
    db.rows(sql, &[], |row| {
        if !is_virtual(&row.column(1).text().unwrap_or_default()) {
            tables.extend(row.column(0).text());
        }
        Ok(())
    })?;
    let mut found = Vec::new();
    for table in tables {
        expect(db, &table, &[])?;
        let pragma = format!("pragma main.table_xinfo({})", quote(&table));
        db.rows(&pragma, &[], |row| {
            let name = row.column(1).text().unwrap_or_default();
            let lower = name.to_ascii_lowercase();
            let is_stored = row.column(6).integer() == Some(0);
            if is_stored && lower.starts_with('_') && lower.ends_with("_dict") {
                found.push((table.clone(), name));
            }
            Ok(())
        })?;
    }
    Ok(found)
}
