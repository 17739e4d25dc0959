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

/// The lines of `PRAGMA integrity_check` of the main database; `["ok"]` when all is well.
pub fn integrity(connection: &Connection) -> Result<Vec<String>, Error> {
    let mut statement = connection.prepare("pragma main.integrity_check")?;
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

/// Blanks out what an image holds in free pages: SQLite does not promise to write or roll back those,
/// so their bytes depend on when its cache was spilled.
pub fn forget_free_pages(image: &mut [u8]) {
    if image.len() < 100 {
        return;
    }
    let number = |bytes: &[u8], at: usize| -> usize {
        let bytes = bytes[at..at + 4].try_into().expect("four bytes");
        u32::from_be_bytes(bytes) as usize
    };
    let page_size = match u16::from_be_bytes([image[16], image[17]]) {
        1 => 65_536,
        size => usize::from(size),
    };
    let usable = page_size - usize::from(image[20]);
    let mut trunk = number(image, 32);
    let mut left = number(image, 36);
    while trunk != 0 && left > 0 {
        let start = (trunk - 1) * page_size;
        let leaves = number(image, start + 4);
        assert!(
            leaves <= usable / 4,
            "a trunk of the list of free pages is malformed"
        );
        for leaf in 0..leaves {
            let page = number(image, start + 8 + 4 * leaf);
            image[(page - 1) * page_size..page * page_size].fill(0);
        }
        image[start + 8 + 4 * leaves..start + page_size].fill(0);
        trunk = number(image, start);
        left = left.saturating_sub(1 + leaves);
    }
}

/// A hash of some bytes, for comparing files too large to print.
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}
