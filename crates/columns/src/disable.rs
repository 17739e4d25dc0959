//! Undo: decompresses a column; after the last one the view becomes a table again.
//!
//! The table is created anew from the text it had, and the rows are decoded into it; indexes and triggers get the texts
//! they had. With the last column of a database go the tables that were made for compression, but not dictionaries that
//! others may still need.

use crate::change::{
    Copy, Object, dependents, move_rows, objects, with_pragma, without_foreign_keys,
};
use crate::config::Config;
use crate::enable::{replace_table, stored_columns};
use crate::memory::{self, Remembered};
use crate::sql::{Error, Result, Sql, Statement};
use crate::table::{Column, Table, dict_column};
use crate::tokens::Text;
use crate::transaction::atomically;
use crate::unused::drop_unused;
use crate::view;
use litepack_btree::quote;

/// Decompresses a column.
///
/// # Errors
/// That it is not compressed, that a value cannot be decoded, or SQLite's; then nothing is changed.
pub fn disable(db: &impl Sql, table: &str, column: &str) -> Result<()> {
    let (id, _) = Config::get(db, table, column)?;
    let table = Table::compressed(db, table)?;
    let uncover = Uncover {
        db,
        table: &table,
        column: table.column(column)?,
        referenced: table.is_referenced(db)?,
    };
    let last = table.compressed_columns().count() == 1;
    let work = || {
        atomically(db, || {
            if last {
                uncover.whole(id)
            } else {
                uncover.one(id)
            }
        })
    };
    if uncover.referenced {
        without_foreign_keys(db, &table.name, work)
    } else {
        work()
    }
}

struct Uncover<'a, S> {
    db: &'a S,
    table: &'a Table,
    column: &'a Column,
    /// Whether foreign keys refer to the table.
    referenced: bool,
}

impl<S: Sql> Uncover<'_, S> {
    /// The last column: the table is as it was.
    fn whole(&self, config: i64) -> Result<()> {
        let (db, table) = (self.db, self.table);
        let originals = memory::recall(db, table)?;
        let original = |object: &Object| {
            let found = originals.iter().find(|known| known.object == *object);
            found.map_or(object.sql.clone(), |known| known.original.clone())
        };
        let Some(text) = originals.iter().find(|known| known.object.kind == "table") else {
            return Err(Error::new(format!("table {} is missing", table.physical)));
        };
        let dependents = self.take_away()?;
        if self.referenced {
            self.redirect_foreign_keys()?;
        }
        let (columns, values) = self.copied();
        let copy = Copy {
            columns: &columns,
            values: &values,
            rowid: table.rowid,
        };
        let rows = || move_rows(db, &table.physical, &table.name, &text.original, &copy);
        with_pragma(db, "legacy_alter_table", true, rows)?;
        for Remembered { object, original } in &originals {
            if object.kind == "index" {
                object.create(db, original)?;
            }
        }
        for object in dependents
            .iter()
            .filter(|object| !view::is_own(table, object))
        {
            object.create(db, &original(object))?;
        }
        memory::forget(db, &table.name)?;
        Config::delete(db, config)?;
        self.clean_up()
    }

    /// One of several columns.
    fn one(&self, config: i64) -> Result<()> {
        let (db, table) = (self.db, self.table);
        let originals = memory::recall(db, table)?;
        let mut indexes = objects(db, &["index"])?;
        let of_column =
            |index: &Object| Text::new(&index.sql).mentions(&dict_column(&self.column.name));
        indexes
            .retain(|index| index.table.eq_ignore_ascii_case(&table.physical) && !of_column(index));
        let dependents = self.take_away()?;
        let plain = |kind: &str, sql: &str| {
            memory::plain_text(kind, sql, None, &[self.column.name.as_str()])
        };
        let (columns, values) = self.copied();
        let copy = Copy {
            columns: &columns,
            values: &values,
            rowid: table.rowid,
        };
        replace_table(
            db,
            &table.name,
            &table.physical,
            &plain("table", &table.sql),
            &copy,
        )?;
        for index in &indexes {
            index.create(db, &plain("index", &index.sql))?;
        }
        Config::delete(db, config)?;
        let made = Table::behind(db, &table.name, &table.view)?;
        view::create(db, &made)?;
        for object in dependents
            .iter()
            .filter(|object| !view::is_own(table, object))
        {
            object.create(db, &plain(&object.kind, &object.sql))?;
        }
        memory::remember(db, &table.name, &originals)
    }

    /// Drops the view and what mentions it or the backing table.
    fn take_away(&self) -> Result<Vec<Object>> {
        let found = dependents(self.db, &[&self.table.name, &self.table.physical])?;
        for object in &found {
            object.drop(self.db)?;
        }
        Ok(found)
    }

    /// Stored columns of the table to be, and the values for them.
    fn copied(&self) -> (Vec<String>, Vec<String>) {
        let columns = stored_columns(self.table, Some(&self.column.name));
        let own = quote(&self.column.name);
        let values = columns.iter().map(|column| {
            if *column == own {
                view::plain(self.column)
            } else {
                column.clone()
            }
        });
        let values = values.collect();
        (columns, values)
    }

    /// Lets foreign keys name the table again: SQLite rewrites them when it is renamed, and does not
    /// when foreign keys are off and it is told to be as it was before 3.26.
    fn redirect_foreign_keys(&self) -> Result<()> {
        let (name, physical) = (quote(&self.table.name), quote(&self.table.physical));
        let rename = |from: &str, to: &str| {
            self.db
                .run(&format!("alter table main.{from} rename to {to}"), &[])
        };
        with_pragma(self.db, "legacy_alter_table", false, || {
            rename(&physical, &name)
        })?;
        with_pragma(self.db, "legacy_alter_table", true, || {
            rename(&name, &physical)
        })
    }

    /// Drops the helper tables that are no longer needed.
    fn clean_up(&self) -> Result<()> {
        if !Config::all(self.db)?.is_empty() {
            return Ok(());
        }
        drop_unused(self.db)?;
        let trained = self.db.row(
            "select 1 from main._zstd_dicts where id <> -1 limit 1",
            &[],
            |row| Ok(row.column(0).integer()),
        )?;
        let mut tables = vec![
            "_zstd_configs",
            "_litepack_objects",
            "_litepack_maintenance",
            "_litepack_dictionaries",
        ];
        if trained.is_none() {
            tables.push("_zstd_dicts");
        }
        for table in tables {
            self.db
                .run(&format!("drop table if exists main.{table}"), &[])?;
        }
        Ok(())
    }
}
