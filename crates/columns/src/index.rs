//! `CREATE INDEX` on a table with compressed columns, written as if they were plain.

use crate::change::{Object, objects, tentatively, with_pragma};
use crate::enable::rebuilt;
use crate::memory::{self, Remembered};
use crate::sql::{Error, Result, Sql};
use crate::table::{Storage, Table, plain_column};
use crate::tokens::{Text, create_as, create_in};
use crate::transaction::atomically;
use litepack_btree::quote;

/// Creates an index from a `CREATE INDEX` statement that names the table and its columns as users see
/// them. The planner uses it through the view.
///
/// # Errors
/// An error that says what is wrong with the statement, in SQLite's words.
pub fn create_index(db: &impl Sql, sql: &str) -> Result<()> {
    let text = Text::new(sql);
    let name = text.created_name();
    let on = text.on().and_then(|on| text.token(on).name());
    let (Some(name), Some(on)) = (name, on) else {
        return Err(Error::new(
            "a statement like create index i on t(c) is needed",
        ));
    };
    let table = Table::compressed(db, &on)?;
    if let Some(column) = table
        .compressed_columns()
        .find(|c| matches!(c.storage, Storage::Foreign { .. }) && text.mentions(&c.name))
    {
        return Err(Error::new(format!(
            "column {0} of table {on} was compressed by sqlite-zstd, whose views cannot use an index: \
             litepack_disable_transparent and zstd_enable_transparent make it one that can",
            column.name
        )));
    }
    let (original, made) = foresee(db, &table, sql, &name)?;
    atomically(db, || {
        let mut originals = memory::recall(db, &table)?;
        db.run(&create_in(&made, "main"), &[])?;
        originals.push(Remembered {
            object: find(db, &name)?,
            original,
        });
        memory::remember(db, &table.name, &originals)
    })
}

/// The text of the index on a plain table, and on the backing table.
fn foresee(db: &impl Sql, table: &Table, sql: &str, name: &str) -> Result<(String, String)> {
    let originals = memory::recall(db, table)?;
    let plain = originals.iter().find(|known| known.object.kind == "table");
    let plain = plain
        .map(|known| known.original.clone())
        .unwrap_or_default();
    let stand_in = rebuilt(&table.name);
    let ask = || {
        db.run(
            &create_in(&create_as(&plain, &quote(&stand_in)), "main"),
            &[],
        )?;
        let mut text = Text::new(sql);
        if let Some(on) = text.on() {
            text.replace(on, quote(&stand_in));
        }
        db.run(&create_in(&text.to_string(), "main"), &[])?;
        let before = find(db, name)?.sql;
        for column in table.compressed_columns() {
            db.run(
                &format!(
                    "alter table main.{} rename column {} to {}",
                    quote(&stand_in),
                    quote(&column.name),
                    quote(&plain_column(&column.name))
                ),
                &[],
            )?;
        }
        Ok((before, find(db, name)?.sql))
    };
    let (before, after) = tentatively(db, || with_pragma(db, "legacy_alter_table", false, ask))?;
    let on = |sql: &str, table: String| {
        let mut text = Text::new(sql);
        if let Some(on) = text.on() {
            text.replace(on, table);
        }
        text.to_string()
    };
    let text = Text::new(sql);
    let written = text
        .on()
        .map(|on| text.token(on).text.clone())
        .unwrap_or_default();
    Ok((on(&before, written), on(&after, quote(&table.physical))))
}

fn find(db: &impl Sql, index: &str) -> Result<Object> {
    objects(db, &["index"])?
        .into_iter()
        .find(|object| object.schema == "main" && object.name.eq_ignore_ascii_case(index))
        .ok_or_else(|| Error::new(format!("no such index: {index}")))
}
