//! What the fields of records are called: tables, columns, indexes and keys, as SQLite reads them from the schema.
//!
//! Each statement is a read transaction of its own, so nothing is held for longer than one of them. No statement runs
//! anything that is in the schema.

use std::collections::{BTreeMap, HashSet};

use rusqlite::{Connection, OpenFlags, Row};

use crate::files::source::distrust;
use crate::tune::origin::Origin;
use crate::{Job, Result};

/// How long another program is waited for.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);

/// Tables and indexes by name.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    pub(crate) tables: BTreeMap<String, Table>,
    pub(crate) indexes: BTreeMap<String, Index>,
    /// Table and column of each end of a foreign key, in lower case.
    pub(crate) foreign: HashSet<(String, String)>,
    /// Whether free pages are given back: 0 never, 1 always, 2 on request.
    pub(crate) auto_vacuum: u8,
}

/// A table that has rows of its own.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) without_rowid: bool,
    pub(crate) strict: bool,
    pub(crate) columns: Vec<Column>,
    /// For each field of a record the column it holds.
    pub(crate) fields: Vec<usize>,
    /// The column that is another name of the rowid.
    pub(crate) rowid: Option<usize>,
}

/// A column.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) declared: String,
    /// Its place in the primary key, from 1; 0 if it has none.
    pub(crate) key: u32,
    /// 0 for ordinary ones, 2 and 3 for generated ones that are not stored, or are.
    pub(crate) hidden: u8,
}

/// An index.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) table: String,
    pub(crate) unique: bool,
    /// `c` by CREATE INDEX, `u` for a UNIQUE constraint, `pk` for a primary key.
    pub(crate) origin: String,
    pub(crate) partial: bool,
    pub(crate) fields: Vec<IndexField>,
}

/// A field of the records of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexField {
    /// The column; `None` for the rowid and for expressions.
    pub(crate) column: Option<usize>,
    pub(crate) is_rowid: bool,
    pub(crate) descending: bool,
    pub(crate) collation: String,
    /// Whether it is what is indexed, and not what leads to the row.
    pub(crate) is_key: bool,
}

impl Schema {
    /// Reads it.
    ///
    /// # Errors
    /// SQLite's, of a schema that it cannot read or a database that is locked.
    pub(crate) fn read(origin: &Origin, job: &Job<'_>) -> Result<Schema> {
        let read = || {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
                | OpenFlags::SQLITE_OPEN_URI
                | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let db = Connection::open_with_flags(origin.uri(), flags)?;
            distrust(&db)?;
            db.busy_timeout(PATIENCE)?;
            let _interrupts = job.interrupts(&db);
            Schema::of(&db)
        };
        read().map_err(|error| origin.explain(error))
    }

    /// Of an open database.
    pub(crate) fn of(db: &Connection) -> rusqlite::Result<Schema> {
        let mut schema = Schema {
            auto_vacuum: db.query_row("PRAGMA main.auto_vacuum", [], |row| row.get(0))?,
            ..Schema::default()
        };
        let sql = "SELECT name, wr, strict FROM pragma_table_list
                   WHERE schema = 'main' AND type IN ('table', 'shadow')";
        let tables = rows(db, sql, [], |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, bool>(1)?,
                row.get::<_, bool>(2)?,
            ))
        })?;
        for (name, without_rowid, strict) in tables {
            let mut table = Table {
                without_rowid,
                strict,
                ..Table::default()
            };
            let sql =
                "SELECT name, type, pk, hidden FROM pragma_table_xinfo(?1, 'main') ORDER BY cid";
            table.columns = rows(db, sql, [&name], |row| {
                Ok(Column {
                    name: row.get(0)?,
                    declared: row.get(1)?,
                    key: row.get(2)?,
                    hidden: row.get(3)?,
                })
            })?;
            let primary = schema.add_indexes(db, &name, table.columns.len())?;
            table.number_fields(primary.as_ref());
            schema.add_foreign(db, &name)?;
            schema.tables.insert(name, table);
        }
        Ok(schema)
    }

    /// Adds the indexes of a table, and says which fields its primary key's has.
    fn add_indexes(
        &mut self,
        db: &Connection,
        table: &str,
        columns: usize,
    ) -> rusqlite::Result<Option<Vec<IndexField>>> {
        let sql = r#"SELECT name, "unique", origin, partial FROM pragma_index_list(?1, 'main')"#;
        let indexes = rows(db, sql, [table], |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get(1)?,
                row.get::<_, String>(2)?,
                row.get(3)?,
            ))
        })?;
        let mut primary = None;
        for (name, unique, origin, partial) in indexes {
            let sql = r#"SELECT cid, "desc", coll, key FROM pragma_index_xinfo(?1, 'main') ORDER BY seqno"#;
            let fields = rows(db, sql, [&name], |row| {
                let column: i64 = row.get(0)?;
                Ok(IndexField {
                    column: usize::try_from(column).ok().filter(|at| *at < columns),
                    is_rowid: column == -1,
                    descending: row.get(1)?,
                    collation: row.get::<_, Option<String>>(2)?.unwrap_or_default(),
                    is_key: row.get(3)?,
                })
            })?;
            if origin == "pk" {
                primary = Some(fields.clone());
            }
            let index = Index {
                table: table.to_owned(),
                unique,
                origin,
                partial,
                fields,
            };
            self.indexes.insert(name, index);
        }
        Ok(primary)
    }

    fn add_foreign(&mut self, db: &Connection, table: &str) -> rusqlite::Result<()> {
        let sql = r#"SELECT "table", "from", "to" FROM pragma_foreign_key_list(?1, 'main')"#;
        let keys = rows(db, sql, [table], |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, Option<String>>(2)?,
            ))
        })?;
        for (parent, from, to) in keys {
            self.foreign
                .insert((table.to_lowercase(), from.to_lowercase()));
            if let Some(to) = to {
                self.foreign
                    .insert((parent.to_lowercase(), to.to_lowercase()));
            }
        }
        Ok(())
    }

    /// The indexes on a table.
    pub(crate) fn indexes_of<'a>(
        &'a self,
        table: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a Index)> {
        let of = self
            .indexes
            .iter()
            .filter(move |(_, index)| index.table == table);
        of.map(|(name, index)| (name.as_str(), index))
    }
}

impl Table {
    /// Finds out which field of a record holds which column: all that are stored, in order, but in a table WITHOUT
    /// ROWID those of the primary key first, as its index lists them.
    fn number_fields(&mut self, primary: Option<&Vec<IndexField>>) {
        self.fields = match primary {
            Some(fields) if self.without_rowid => {
                fields.iter().filter_map(|field| field.column).collect()
            }
            _ => (0..self.columns.len())
                .filter(|at| self.columns[*at].hidden != 2)
                .collect(),
        };
        let mut keys = (0..self.columns.len()).filter(|at| self.columns[*at].key > 0);
        if let (Some(key), None) = (keys.next(), keys.next())
            && !self.without_rowid
            && primary.is_none()
            && self.columns[key].declared.eq_ignore_ascii_case("integer")
        {
            self.rowid = Some(key);
        }
    }

    /// Whether it has a primary key.
    pub(crate) fn has_key(&self) -> bool {
        self.columns.iter().any(|column| column.key > 0)
    }
}

fn rows<T, P: rusqlite::Params>(
    db: &Connection,
    sql: &str,
    parameters: P,
    each: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let mut statement = db.prepare_cached(sql)?;
    statement.query_map(parameters, each)?.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_numbered_as_records_have_them() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(
            "CREATE TABLE r(a, id INTEGER PRIMARY KEY, g AS (a) VIRTUAL, s AS (a) STORED, b UNIQUE);
             CREATE TABLE w(a, k TEXT, b, j INT, PRIMARY KEY(j, k)) WITHOUT ROWID;
             CREATE TABLE t(k TEXT PRIMARY KEY, r REFERENCES r(b)) STRICT;
             CREATE INDEX i ON r(b DESC, a COLLATE nocase, a || b) WHERE a > 1;",
        )
        .unwrap_err();
        // STRICT wants types.
        db.execute_batch(
            "CREATE TABLE t(k TEXT PRIMARY KEY, r INT REFERENCES r(b)) STRICT;
             CREATE INDEX i ON r(b DESC, a COLLATE nocase, a || b) WHERE a > 1;",
        )
        .unwrap();
        let schema = Schema::of(&db).unwrap();
        let table = |name: &str| &schema.tables[name];
        assert_eq!(table("r").fields, [0, 1, 3, 4]);
        assert_eq!(table("r").rowid, Some(1));
        assert_eq!(table("w").fields, [3, 1, 0, 2]);
        assert_eq!((table("w").rowid, table("w").without_rowid), (None, true));
        assert_eq!((table("t").rowid, table("t").strict), (None, true));
        let index = &schema.indexes["i"];
        assert!(index.partial && !index.unique && index.origin == "c");
        let columns: Vec<_> = index
            .fields
            .iter()
            .map(|f| (f.column, f.is_rowid, f.is_key))
            .collect();
        assert_eq!(
            columns,
            [
                (Some(4), false, true),
                (Some(0), false, true),
                (None, false, true),
                (None, true, false)
            ]
        );
        assert!(schema.foreign.contains(&("t".into(), "r".into())));
        assert!(schema.foreign.contains(&("r".into(), "b".into())));
        assert_eq!(schema.indexes_of("r").count(), 2);
    }
}
