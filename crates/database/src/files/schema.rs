//! The columns of a table, as SQLite reads them from a schema that anyone may have written.

use rusqlite::{Connection, Row};

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSchema {
    /// Its name.
    pub name: String,
    /// Its declared type; empty if it has none. Bytes that are no text are replaced.
    pub declared: String,
    /// Whether it is declared NOT NULL.
    pub not_null: bool,
    /// Whether it has a default value.
    pub has_default: bool,
    /// Its place in the primary key, from 1; 0 if it has none.
    pub key: u32,
    /// 0 for ordinary ones, 1 for hidden ones of virtual tables, 2 and 3 for generated ones that are not stored, or are.
    pub hidden: u8,
}

/// The columns of a table in order, of the schema `main` or of an attached database. Empty if there is no such table.
///
/// # Errors
/// SQLite's.
pub fn columns(db: &Connection, schema: &str, table: &str) -> rusqlite::Result<Vec<ColumnSchema>> {
    let sql = r#"SELECT name, type, "notnull", dflt_value IS NOT NULL, pk, hidden
                 FROM pragma_table_xinfo(?1, ?2) ORDER BY cid"#;
    let mut statement = db.prepare_cached(sql)?;
    let column = |row: &Row<'_>| {
        let declared = row.get_ref(1)?.as_bytes_or_null()?.unwrap_or_default();
        Ok(ColumnSchema {
            name: row.get(0)?,
            declared: String::from_utf8_lossy(declared).into_owned(),
            not_null: row.get(2)?,
            has_default: row.get(3)?,
            key: row.get(4)?,
            hidden: row.get(5)?,
        })
    };
    statement.query_map([table, schema], column)?.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_declared_whatever_their_types_are() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(
            "CREATE TABLE t(a INTEGER, b TEXT NOT NULL DEFAULT 'x', c AS (a + 1), d, PRIMARY KEY(d, a));
             ATTACH ':memory:' AS other; CREATE TABLE other.t(only);",
        )
        .unwrap();
        // A type that is no text.
        db.execute_batch("PRAGMA writable_schema = ON").unwrap();
        let sql = "UPDATE main.sqlite_schema SET sql = replace(sql, 'TEXT', CAST(x'ff58' AS TEXT))";
        db.execute(sql, []).unwrap();
        db.execute_batch("PRAGMA writable_schema = RESET").unwrap();
        let found = columns(&db, "main", "t").unwrap();
        let seen: Vec<_> = found
            .iter()
            .map(|c| (c.name.as_str(), c.declared.as_str(), c.key, c.hidden))
            .collect();
        assert_eq!(
            seen,
            [
                ("a", "INTEGER", 2, 0),
                ("b", "\u{fffd}X", 0, 0),
                ("c", "", 0, 2),
                ("d", "", 1, 0)
            ]
        );
        assert!(found[1].not_null && found[1].has_default && !found[0].has_default);
        assert_eq!(columns(&db, "other", "t").unwrap()[0].name, "only");
        assert_eq!(columns(&db, "main", "none").unwrap(), []);
    }
}
