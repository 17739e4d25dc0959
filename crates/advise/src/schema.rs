//! The names of the fields of records: tables, columns, indexes and keys, as SQLite reads them from the schema.
//!
//! SQLite reads a copy of the schema in memory, and never the user's file. So it takes no lock, makes no `-shm` beside a
//! WAL, and is stopped by nothing that others hold. Only tables and indexes are copied: no view is expanded, no trigger
//! compiled, no virtual table connected. Entries that SQLite cannot make sense of have no names, and that is all.

use std::collections::{BTreeMap, HashSet};

use litepack_btree::page::Page;
use litepack_btree::record::SchemaRow;
use litepack_btree::{Owner, PageOwnership, Role, TreeKind};
use litepack_database::bytes::pages::Pages;
use litepack_database::error::{Context, refuse};
use litepack_database::files::schema::{ColumnSchema, columns};
use litepack_database::files::source::distrust;
use litepack_database::{Job, Result};
use rusqlite::{Connection, Row};

/// The longest schema, in bytes of its rows and in entries. SQLite itself reads all of it whenever it opens a database.
const BYTES: u64 = 64 << 20;
const ENTRIES: usize = 50_000;
/// Root pages of the copy. All but indexes of one table may share one, so these are enough.
const ROOTS: usize = 16_384;
/// Words of a table's declaration that one made anew from its names and types alone would lose.
const MORE: [&str; 9] = [
    "AUTOINCREMENT",
    "CHECK",
    "COLLATE",
    "CONFLICT",
    "CONSTRAINT",
    "DEFAULT",
    "GENERATED",
    "REFERENCES",
    "UNIQUE",
];

/// Tables and indexes by name.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    pub(crate) tables: BTreeMap<String, TableSchema>,
    pub(crate) indexes: BTreeMap<String, Index>,
    /// Table and column of each end of a foreign key, in lower case.
    pub(crate) foreign: HashSet<(String, String)>,
    /// Tables at the ends of foreign keys, in lower case.
    pub(crate) related: HashSet<String>,
    /// Full-text tables that keep a copy of their text, and the table that has it.
    pub(crate) full_text: Vec<(String, String)>,
    /// Whether free pages can be given back.
    pub(crate) auto_vacuum: bool,
}

/// A table that has rows of its own.
#[derive(Debug, Default)]
pub(crate) struct TableSchema {
    pub(crate) without_rowid: bool,
    pub(crate) strict: bool,
    pub(crate) columns: Vec<ColumnSchema>,
    /// For each field of a record the column it holds.
    pub(crate) fields: Vec<usize>,
    /// The column that is another name of the rowid.
    pub(crate) rowid: Option<usize>,
    /// Its indexes.
    pub(crate) indexes: Vec<String>,
    /// Whether a virtual table keeps its own there.
    pub(crate) shadow: bool,
    pub(crate) triggers: bool,
    /// Whether a constraint says what to do ON CONFLICT.
    pub(crate) conflict: bool,
    /// Whether its statement has more than names, types, NOT NULL and a key, as far as its words show.
    pub(crate) more: bool,
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
    /// Reads it from pages, whose owners are known.
    ///
    /// # Errors
    /// If it is too long, or SQLite has no memory for it, or the job is stopped.
    pub(crate) fn read(
        pages: &mut Pages<'_>,
        owners: &PageOwnership,
        job: &Job<'_>,
    ) -> Result<Schema> {
        let entries = entries(pages, owners)?;
        job.check()?;
        let read = || {
            let db = Connection::open_in_memory()?;
            distrust(&db)?;
            let _interrupts = job.interrupts(&db);
            copy(&db, &entries)?;
            Schema::of(&db)
        };
        let mut schema = read().context("cannot read the schema")?;
        schema.auto_vacuum = pages.header.auto_vacuum;
        let names = schema
            .tables
            .keys()
            .map(|name| (name.to_lowercase(), name.clone()));
        let names = names.collect();
        for entry in &entries {
            schema.note(entry, &names);
        }
        Ok(schema)
    }

    /// Notes what SQLite does not say of an entry. `names` are those of tables, by their lower case.
    fn note(&mut self, entry: &SchemaRow, names: &BTreeMap<String, String>) {
        match entry.kind {
            // A virtual table: NAME_anything is its own.
            Some(TreeKind::Table) if entry.root == 0 => {
                let prefix = format!("{}_", entry.name.to_lowercase());
                let own = names.range(prefix.clone()..);
                for (_, name) in own.take_while(|(lower, _)| lower.starts_with(&prefix)) {
                    self.change(name, |table| table.shadow = true);
                }
                // One with `content=` has no such table.
                if let Some(copy) = names.get(&format!("{prefix}content"))
                    && is_fts5(entry.sql.as_deref().unwrap_or_default())
                {
                    self.full_text.push((entry.name.clone(), copy.clone()));
                }
            }
            Some(TreeKind::Table) => self.change(&entry.name, |table| {
                let sql = entry.sql.as_deref().unwrap_or_default();
                for word in sql.split(|c: char| !c.is_alphanumeric() && c != '_') {
                    let is = |other: &&str| word.eq_ignore_ascii_case(other);
                    table.conflict |= is(&"CONFLICT");
                    table.more |= MORE.iter().any(is);
                }
            }),
            Some(TreeKind::Index) => {}
            // A trigger, or a view, which is no table.
            None => {
                if let Some(name) = names.get(&entry.table.to_lowercase()) {
                    self.change(name, |table| table.triggers = true);
                }
            }
        }
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut TableSchema)) {
        if let Some(table) = self.tables.get_mut(name) {
            change(table);
        }
    }

    /// Of an open database.
    pub(crate) fn of(db: &Connection) -> rusqlite::Result<Schema> {
        let mut schema = Schema::default();
        let sql = "SELECT name, wr, strict FROM pragma_table_list
                   WHERE schema = 'main' AND type = 'table'";
        let tables = rows(db, sql, [], |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, bool>(1)?,
                row.get::<_, bool>(2)?,
            ))
        })?;
        for (name, without_rowid, strict) in tables {
            let mut table = TableSchema {
                without_rowid,
                strict,
                ..TableSchema::default()
            };
            table.columns = columns(db, "main", &name)?;
            let primary = schema.add_indexes(db, &name, &mut table)?;
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
        name: &str,
        of: &mut TableSchema,
    ) -> rusqlite::Result<Option<Vec<IndexField>>> {
        let columns = of.columns.len();
        let sql = r#"SELECT name, "unique", origin, partial FROM pragma_index_list(?1, 'main')"#;
        let indexes = rows(db, sql, [name], |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get(1)?,
                row.get::<_, String>(2)?,
                row.get(3)?,
            ))
        })?;
        let mut primary = None;
        let table = name;
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
            of.indexes.push(name.clone());
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
            self.related
                .extend([table.to_lowercase(), parent.to_lowercase()]);
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
        let names = self.tables.get(table).map(|table| &table.indexes);
        let names = names.into_iter().flatten();
        names.filter_map(|name| Some((name.as_str(), self.indexes.get(name)?)))
    }
}

impl Index {
    /// Whether it indexes an expression.
    pub(crate) fn has_expression(&self) -> bool {
        let mut keys = self.fields.iter().filter(|field| field.is_key);
        keys.any(|field| field.column.is_none() && !field.is_rowid)
    }

    /// Whether what is in it is worked out from values.
    pub(crate) fn is_computed(&self) -> bool {
        self.partial || self.has_expression()
    }
}

impl TableSchema {
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

/// Whether a statement makes a table of FTS5.
fn is_fts5(sql: &str) -> bool {
    let words = sql.split(|c: char| !c.is_alphanumeric() && c != '_');
    let mut words = words.filter(|word| !word.is_empty());
    words.any(|word| word.eq_ignore_ascii_case("using"))
        && words
            .next()
            .is_some_and(|word| word.eq_ignore_ascii_case("fts5"))
}

/// The rows of the schema, in order.
fn entries(pages: &mut Pages<'_>, owners: &PageOwnership) -> Result<Vec<SchemaRow>> {
    let (mut entries, mut bytes) = (Vec::new(), 0_u64);
    let encoding = pages.header.encoding;
    let mut page = vec![0; pages.header.page_size as usize];
    let mut other = page.clone();
    let leaf = Owner::Tree {
        tree: 0,
        role: Role::Leaf,
    };
    let leaves = owners.upper().into_iter();
    for number in leaves.filter(|number| owners.owner(*number) == leaf) {
        if !pages.page(number, &mut page) {
            continue;
        }
        let usable = &page[..pages.header.usable()];
        let cells = Page::parse(usable, number.header()).into_iter();
        for cell in cells.flat_map(|page| page.cells()).flatten() {
            bytes = bytes.saturating_add(cell.payload);
            if bytes > BYTES || entries.len() >= ENTRIES {
                let most = BYTES >> 20;
                refuse!("the schema is too long: more than {ENTRIES} entries, or {most} MiB");
            }
            let record = pages.payload(&cell, &usable[cell.local.clone()], &mut other);
            let row = record.and_then(|record| SchemaRow::parse(&record, encoding));
            entries.extend(row.map(|row| (cell.rowid, row)));
        }
    }
    entries.sort_by_key(|(rowid, _)| *rowid);
    Ok(entries.into_iter().map(|(_, entry)| entry).collect())
}

/// Makes these the schema of a database in memory: tables and indexes as SQLite writes them, and no others.
fn copy(db: &Connection, entries: &[SchemaRow]) -> rusqlite::Result<()> {
    db.execute_batch("PRAGMA page_size = 512; CREATE TABLE room(pages);")?;
    let roots = entries.len().clamp(1, ROOTS);
    db.execute(
        "INSERT INTO room VALUES (zeroblob(?1))",
        [(roots * 512) as i64],
    )?;
    db.execute_batch("PRAGMA writable_schema = ON; DELETE FROM sqlite_schema; BEGIN;")?;
    let sql = "INSERT INTO sqlite_schema VALUES (?1, ?2, ?3, ?4, ?5)";
    let mut insert = db.prepare(sql)?;
    for (at, entry) in entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| entry.root != 0)
    {
        let sql = entry.sql.as_deref();
        let begins = |with: &str| sql.is_some_and(|sql| sql.starts_with(with));
        let kind = match entry.kind {
            Some(TreeKind::Table) if begins("CREATE TABLE ") => "table",
            Some(TreeKind::Index) if begins("CREATE INDEX ") || begins("CREATE UNIQUE INDEX ") => {
                "index"
            }
            // Of a constraint.
            Some(TreeKind::Index) if sql.is_none() => "index",
            _ => continue,
        };
        insert.execute((
            kind,
            &entry.name,
            &entry.table,
            (2 + at % roots) as i64,
            sql,
        ))?;
    }
    // The schema is read anew. Entries that make no sense are left out as long as it may be written.
    db.execute_batch("COMMIT; PRAGMA writable_schema = RESET; PRAGMA writable_schema = ON;")
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
