//! `ALTER TABLE` for a table with compressed columns: alters the backing table, then the view, the triggers, the
//! configuration and the texts kept for undo.
//!
//! To find the texts of the plain table, SQLite runs the action on an empty table in the place of the view.

use crate::change::{Object, dependents, objects, tentatively, with_pragma};
use crate::config::Config;
use crate::enable::create_dict_index;
use crate::memory::{self, Remembered};
use crate::sql::{Error, Result, Sql};
use crate::table::{Storage, Table, dict_column, plain_column};
use crate::tokens::Text;
use crate::transaction::atomically;
use crate::{triggers, view};
use litepack_btree::quote;

/// The action.
enum Action {
    /// The text after ADD COLUMN.
    Add(String),
    Rename(String, String),
    Drop(String),
}

/// Runs `action`: `ADD COLUMN …`, `RENAME COLUMN a TO b` or `DROP COLUMN c`.
///
/// # Errors
/// SQLite's for the same action on an ordinary table; then nothing is changed.
pub fn alter(db: &impl Sql, table: &str, action: &str) -> Result<()> {
    let parsed = parse(action)?;
    let table = Table::compressed(db, table)?;
    if let Action::Drop(name) = &parsed
        && table.column(name)?.storage != Storage::Ordinary
    {
        return Err(Error::new(format!(
            "column {name} of table {} is compressed: litepack_disable_transparent first",
            table.name
        )));
    }
    let alter = Alter { db, table: &table };
    atomically(db, || {
        let originals = memory::recall(db, &table)?;
        let foreseen = alter.foresee(action, &originals)?;
        match &parsed {
            Action::Rename(from, to) => alter.rename(from, to)?,
            Action::Drop(name) => alter.without_view(&format!("drop column {}", quote(name)))?,
            Action::Add(column) => {
                alter.without_view(&format!("add column {}", alter.decoding(column)))?;
            }
        }
        alter.follow(originals, &foreseen)
    })
}

fn parse(action: &str) -> Result<Action> {
    let text = Text::new(action);
    let wrong = || {
        Error::new(format!(
            "ADD COLUMN …, RENAME COLUMN a TO b or DROP COLUMN c is needed, not {action}"
        ))
    };
    let verb = text.solid(0).ok_or_else(wrong)?;
    let is_verb = |word: &str| text.token(verb).is(word);
    let after = text.keyword(verb + 1, "column").unwrap_or(verb);
    let first = text.solid(after + 1).ok_or_else(wrong)?;
    if text.0.iter().any(|token| token.is(";")) {
        return Err(wrong());
    }
    let name = text.token(first).name().ok_or_else(wrong)?;
    if is_verb("add") {
        Ok(Action::Add(text.part(first..text.0.len()).to_string()))
    } else if is_verb("drop") && text.solid(first + 1).is_none() {
        Ok(Action::Drop(name))
    } else if is_verb("rename") {
        let to = text.keyword(first + 1, "to").ok_or_else(|| {
            Error::new(
                "a table with compressed columns cannot be renamed: \
                 litepack_disable_transparent first, or RENAME COLUMN a TO b",
            )
        })?;
        let to = text.solid(to + 1).and_then(|to| text.token(to).name());
        Ok(Action::Rename(name, to.ok_or_else(wrong)?))
    } else {
        Err(wrong())
    }
}

struct Alter<'a, S> {
    db: &'a S,
    table: &'a Table,
}

impl<S: Sql> Alter<'_, S> {
    /// Every object after the action on a plain table.
    fn foresee(&self, action: &str, originals: &[Remembered]) -> Result<Vec<Object>> {
        let (db, table) = (self.db, self.table);
        let work = || {
            let of_kind = |kind: &'static str| {
                originals
                    .iter()
                    .filter(move |known| known.object.kind == kind)
            };
            for Remembered { object, .. } in of_kind("trigger").chain(of_kind("index")) {
                object.drop(db)?;
            }
            db.run(&format!("drop view main.{}", quote(&table.name)), &[])?;
            for kind in ["table", "index", "trigger"] {
                for Remembered { object, original } in of_kind(kind) {
                    object.create(db, original)?;
                }
            }
            db.run(
                &format!("alter table main.{} {action}", quote(&table.name)),
                &[],
            )?;
            objects(db, &["table", "index", "trigger", "view"])
        };
        tentatively(db, || with_pragma(db, "legacy_alter_table", false, work))
    }

    /// Renames in the backing table. View and triggers are in place, so SQLite renames there too.
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let column = self.table.column(from)?;
        let mut names = vec![(column.name.clone(), to.to_string())];
        if column.storage != Storage::Ordinary {
            names.push((dict_column(&column.name), dict_column(to)));
        }
        if column.storage == Storage::Compressed {
            names.push((plain_column(&column.name), plain_column(to)));
        }
        with_pragma(self.db, "legacy_alter_table", false, || {
            for (from, to) in &names {
                self.alter(&format!("rename column {} to {}", quote(from), quote(to)))?;
            }
            Ok(())
        })?;
        if column.storage == Storage::Ordinary {
            return Ok(());
        }
        let is_index = |object: &&Object| {
            object.kind == "index"
                && object
                    .name
                    .ends_with(&format!("{}_idx", dict_column(&column.name)))
        };
        if let Some(index) = objects(self.db, &["index"])?.iter().find(is_index) {
            index.drop(self.db)?;
        }
        create_dict_index(self.db, &self.table.name, to)?;
        let (id, mut config) = Config::get(self.db, &self.table.name, from)?;
        config.column = to.to_string();
        config.update(self.db, id)
    }

    /// Alters the backing table while view and triggers are dropped.
    fn without_view(&self, action: &str) -> Result<()> {
        let dependents = dependents(self.db, &[&self.table.name, &self.table.physical])?;
        for object in &dependents {
            object.drop(self.db)?;
        }
        with_pragma(self.db, "legacy_alter_table", true, || self.alter(action))?;
        let made = Table::behind(self.db, &self.table.name, &self.table.view)?;
        view::create(self.db, &made)?;
        for object in &dependents {
            if !view::is_own(self.table, object) {
                object.create(self.db, &object.sql)?;
            }
        }
        Ok(())
    }

    /// Creates view, triggers and dependent views for the altered table.
    fn follow(&self, mut originals: Vec<Remembered>, foreseen: &[Object]) -> Result<()> {
        let (db, table) = (self.db, self.table);
        for known in &mut originals {
            let name = match known.object.kind.as_str() {
                "table" => &table.name,
                _ => &known.object.name,
            };
            let now = foreseen.iter().find(|object| {
                object.kind == known.object.kind
                    && object.schema == known.object.schema
                    && object.name == *name
            });
            if let Some(now) = now {
                known.original.clone_from(&now.sql);
            }
        }
        let dependents = dependents(db, &[&table.name, &table.physical])?;
        for object in &dependents {
            object.drop(db)?;
        }
        let made = Table::behind(db, &table.name, &table.view)?;
        view::create(db, &made)?;
        let columns: Vec<&str> = made.compressed_columns().map(|c| c.name.as_str()).collect();
        for object in &dependents {
            if view::is_own(table, object) {
                continue;
            }
            let now = foreseen.iter().find(|now| {
                now.kind == object.kind && now.schema == object.schema && now.name == object.name
            });
            let text = match now {
                // It names the backing table, where SQLite has renamed already.
                Some(now)
                    if triggers::writes(&now.sql, &table.name)
                        && Text::new(&object.sql).mentions(&table.physical) =>
                {
                    object.sql.clone()
                }
                Some(now) if object.table.eq_ignore_ascii_case(&table.physical) => {
                    triggers::carry(&now.sql, &table.physical, &columns)
                }
                Some(now) => now.sql.clone(),
                None => object.sql.clone(),
            };
            object.create(db, &text)?;
        }
        memory::remember(db, &table.name, &originals)
    }

    /// The declaration of a new column, with the columns that decode in its expressions.
    fn decoding(&self, declaration: &str) -> String {
        let mut text = Text::new(declaration);
        for at in 1..text.0.len() {
            if let Some(column) = self
                .table
                .compressed_columns()
                .find(|column| text.token(at).names(&column.name))
            {
                text.replace(at, view::plain(column));
            }
        }
        text.to_string()
    }

    fn alter(&self, action: &str) -> Result<()> {
        self.db.run(
            &format!("alter table main.{} {action}", quote(&self.table.physical)),
            &[],
        )
    }
}
