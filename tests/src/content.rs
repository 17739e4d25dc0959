//! Owns the judgement whether two databases hold the same: a fingerprint of every table and of the
//! schema, `integrity_check`, and the database image as SQLite's pager sees it.

use crate::outcome::rows_of;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// For every table its row count and a hash of its rows in no particular order, and the schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Fingerprint {
    /// By table name: rows and the sum of their hashes.
    pub tables: BTreeMap<String, (u64, u64)>,
    /// `type name sql` of every schema entry.
    pub schema: Vec<String>,
}

/// Reads every row of every table of the schema named `schema` (`main`, or an attached one).
pub fn fingerprint_of(connection: &Connection, schema: &str) -> Result<Fingerprint, Error> {
    let listed = rows_of(
        connection,
        &format!(
            "select type || ' ' || name || ' ' || coalesce(sql, ''), \
             case when type = 'table' and sql not like 'create virtual%' then name end \
             from \"{schema}\".sqlite_schema order by type, name"
        ),
    )?;
    let mut fingerprint = Fingerprint {
        tables: BTreeMap::new(),
        schema: Vec::new(),
    };
    for entry in listed.values {
        use rusqlite::types::Value::Text;
        if let Text(text) = &entry[0] {
            fingerprint.schema.push(text.clone());
        }
        if let Text(name) = &entry[1] {
            let hash = hash_of_table(connection, schema, name)?;
            fingerprint.tables.insert(name.clone(), hash);
        }
    }
    Ok(fingerprint)
}

/// [`fingerprint_of`] the main database.
pub fn fingerprint(connection: &Connection) -> Result<Fingerprint, Error> {
    fingerprint_of(connection, "main")
}

fn hash_of_table(connection: &Connection, schema: &str, name: &str) -> Result<(u64, u64), Error> {
    let quoted = name.replace('"', "\"\"");
    let mut statement = connection.prepare(&format!("select * from \"{schema}\".\"{quoted}\""))?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    let (mut count, mut sum) = (0_u64, 0_u64);
    while let Some(row) = rows.next()? {
        let mut hasher = DefaultHasher::new();
        for column in 0..columns {
            hash_value(row.get_ref(column)?, &mut hasher);
        }
        count += 1;
        sum = sum.wrapping_add(hasher.finish());
    }
    Ok((count, sum))
}

fn hash_value(value: ValueRef<'_>, hasher: &mut DefaultHasher) {
    value.data_type().to_string().hash(hasher);
    match value {
        ValueRef::Null => {}
        ValueRef::Integer(i) => i.hash(hasher),
        ValueRef::Real(r) => r.to_bits().hash(hasher),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.hash(hasher),
    }
}

/// The lines of `PRAGMA integrity_check`; `["ok"]` when all is well.
pub fn integrity(connection: &Connection) -> Result<Vec<String>, Error> {
    let mut statement = connection.prepare("pragma integrity_check")?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// Panics unless `integrity_check` says `ok`.
pub fn assert_sound(connection: &Connection, context: &str) {
    match integrity(connection) {
        Ok(lines) if lines == ["ok"] => {}
        other => panic!("{context}: integrity_check says {other:?}"),
    }
}

/// The main database byte for byte, as SQLite's pager sees it in the current transaction.
pub fn image(connection: &mut Connection) -> Result<Vec<u8>, Error> {
    Ok(connection.serialize("main")?.to_vec())
}

/// A hash of some bytes, for comparing files too large to print.
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}
