//! Drops dictionaries that no row needs.
//!
//! Only those that maintenance made or took out of use: any other may be wanted by somebody's own calls
//! of `zstd_decompress`, where no column tells.

use std::collections::BTreeSet;

use crate::sql::{Result, Sql, Statement, Value};
use crate::state::{forget_dictionary, noted_dictionaries};
use crate::tokens::quote;
use crate::transaction::{atomically, lock};

/// Drops them and returns how many there were.
///
/// # Errors
/// SQLite's; then nothing has changed.
pub fn drop_unused(db: &impl Sql) -> Result<usize> {
    if noted_dictionaries(db)?.is_empty() {
        return Ok(0);
    }
    atomically(db, || {
        // So that nobody begins to use one meanwhile.
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

/// All columns of ordinary tables that look as if they named dictionaries, configured or not.
fn markers(db: &impl Sql) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    let sql = "select t.name, c.name from main.sqlite_schema t, pragma_table_xinfo(t.name, 'main') c \
               where t.type = 'table' and t.sql not like 'create virtual%' \
               and c.name like '\\_%\\_dict' escape '\\' and t.name like '\\_%\\_zstd' escape '\\'";
    db.rows(sql, &[], |row| {
        let text = |index| row.column(index).text().unwrap_or_default();
        found.push((text(0), text(1)));
        Ok(())
    })?;
    Ok(found)
}
