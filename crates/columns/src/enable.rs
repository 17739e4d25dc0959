//! Enabling compression of a column: the table becomes a view over its backing table.
//!
//! Maintenance compresses the rows later. SQLite itself says what has to change: the table and the column are renamed
//! and that is rolled back; the texts that SQLite made of indexes, triggers and constraints are those that refer to the
//! decoding column. If only indexes and triggers do, enabling takes an instant; CHECK constraints and generated columns
//! require a copy of the table.

use crate::change::{
    Copy, Object, dependents, move_rows, objects, tentatively, with_pragma, without_foreign_keys,
};
use crate::config::Config;
use crate::dictionary::ensure_tables;
use crate::memory::{self, Remembered};
use crate::sql::{Result, Sql, Statement, Value};
use crate::table::{Column, Storage, Table, backing, dict_column, plain_column, schema_text};
use crate::tokens::Text;
use crate::transaction::atomically;
use crate::{refuse, triggers, view};
use litepack_btree::quote;

/// Enables compression of a column.
///
/// # Errors
/// The reason in the configuration or the schema why it cannot be done; then nothing is changed.
pub fn enable(db: &impl Sql, json: &str) -> Result<()> {
    let mut config = Config::parse(json)?;
    let table = Table::read(db, &config.table)?;
    let column = table.column(&config.column)?;
    config.table.clone_from(&table.name);
    config.column.clone_from(&column.name);
    refuse::column(db, &table, column)?;
    refuse::chooser(db, &table, &config)?;
    let is_text = refuse::is_text(db, &table, column)?;
    let foreseen = Foreseen::ask(db, &table, column)?;
    let cover = Cover {
        db,
        table: &table,
        column,
        is_text,
        foreseen: &foreseen,
    };
    let work = || atomically(db, || cover.run(&config));
    if foreseen.rebuild && table.is_referenced(db)? {
        without_foreign_keys(db, &table.name, work)
    } else {
        work()
    }
}

/// The name of a table that is being copied.
pub(crate) fn rebuilt(table: &str) -> String {
    format!("{}_new", backing(table))
}

/// The schema as SQLite rewrites it when the column gets another name.
struct Foreseen {
    /// The text of the backing table.
    table: String,
    /// Whether more of it changed than the column's own name.
    rebuild: bool,
    /// Indexes and triggers.
    objects: Vec<Object>,
}

impl Foreseen {
    fn ask(db: &impl Sql, table: &Table, column: &Column) -> Result<Foreseen> {
        let physical = quote(&backing(&table.name));
        let plain = plain_column(&column.name);
        let ask = || {
            set_stage(db, table)?;
            if !table.is_compressed() {
                db.run(
                    &format!(
                        "alter table main.{} rename to {physical}",
                        quote(&table.name)
                    ),
                    &[],
                )?;
            }
            let before = schema_text(db, "table", &backing(&table.name))?;
            db.run(
                &format!(
                    "alter table main.{physical} rename column {} to {}",
                    quote(&column.name),
                    quote(&plain)
                ),
                &[],
            )?;
            let after = schema_text(db, "table", &backing(&table.name))?;
            Ok((before, after, objects(db, &["index", "trigger"])?))
        };
        let (before, after, objects) =
            tentatively(db, || with_pragma(db, "legacy_alter_table", false, ask)).map_err(
                |error| {
                    error.context(format!(
                        "SQLite cannot rename table {}; repair or drop what it names first",
                        table.name
                    ))
                },
            )?;
        let mut text = Text::new(&after);
        let own = text.body().and_then(|(parts, _)| {
            let is_own = |at: usize| text.token(at).names(&plain) && !text.is_constraint(at);
            parts
                .into_iter()
                .map(|part| part.start)
                .find(|&at| is_own(at))
        });
        if let Some(at) = own {
            text.replace(at, quote(&column.name));
        }
        let names = |text: &Text| text.0.iter().filter(|token| token.names(&plain)).count();
        Ok(Foreseen {
            rebuild: names(&text) > names(&Text::new(&before)),
            table: text.to_string(),
            objects,
        })
    }

    /// The foreseen text of an object.
    fn text<'a>(&'a self, object: &'a Object) -> &'a str {
        let same = |other: &&Object| {
            other.schema == object.schema && other.kind == object.kind && other.name == object.name
        };
        self.objects
            .iter()
            .find(same)
            .map_or(&object.sql, |found| &found.sql)
    }
}

/// Drops all views and triggers but those needed to see how triggers that write the table change: others may not
/// survive the renaming, such as a view that joins by the column.
fn set_stage(db: &impl Sql, table: &Table) -> Result<()> {
    let found = dependents(db, &[&table.name, &backing(&table.name)])?;
    let needed: Vec<(&Object, Text)> = found
        .iter()
        .map(|object| (object, Text::new(&object.sql)))
        .filter(|(object, text)| {
            object.kind == "trigger"
                && !view::is_own(table, object)
                && (triggers::writes(&object.sql, &table.name)
                    || table.is_compressed() && text.mentions(&table.physical))
        })
        .collect();
    let mut views = Vec::new();
    for object in &found {
        let is_used = needed.iter().any(|(_, text)| text.mentions(&object.name));
        if object.kind == "view" && is_used && !view::is_own(table, object) {
            views.push((object, view::with_columns(db, object)?));
        }
    }
    for object in &found {
        object.drop(db)?;
    }
    if table.is_compressed() {
        view::create(db, table)?;
    }
    for (object, sql) in views {
        object.create(db, &sql)?;
    }
    for (object, _) in needed {
        object.create(db, &object.sql)?;
    }
    Ok(())
}

/// The state of enabling one column.
struct Cover<'a, S> {
    db: &'a S,
    table: &'a Table,
    column: &'a Column,
    is_text: bool,
    foreseen: &'a Foreseen,
}

impl<S: Sql> Cover<'_, S> {
    fn run(&self, config: &Config) -> Result<()> {
        let (db, table) = (self.db, self.table);
        let physical = backing(&table.name);
        let mut originals = memory::recall(db, table)?;
        let dependents = dependents(db, &[&table.name, &physical])?;
        for object in &dependents {
            if object.kind == "trigger"
                && !table.is_compressed()
                && !object.table.eq_ignore_ascii_case(&table.name)
                && triggers::writes(&object.sql, &table.name)
            {
                originals.push(Remembered {
                    object: object.clone(),
                    original: object.sql.clone(),
                });
            }
            object.drop(db)?;
        }
        if !table.is_compressed() {
            let rename = format!(
                "alter table main.{} rename to {}",
                quote(&table.name),
                quote(&physical)
            );
            with_pragma(db, "legacy_alter_table", false, || db.run(&rename, &[]))?;
        }
        ensure_tables(db)?;
        self.add_columns(&physical)?;
        config.insert(db)?;
        let made = Table::behind(db, &table.name, &table.view)?;
        view::create(db, &made)?;
        for object in dependents
            .iter()
            .filter(|object| !view::is_own(table, object))
        {
            object.create(db, &self.carried(&made, object)?)?;
        }
        memory::remember(db, &table.name, &originals)
    }

    /// The helper columns, and the indexes that now are on one of them.
    fn add_columns(&self, physical: &str) -> Result<()> {
        let db = self.db;
        let mut changed = objects(db, &["index"])?;
        changed.retain(|index| {
            index.table.eq_ignore_ascii_case(physical)
                && (self.foreseen.rebuild || self.foreseen.text(index) != index.sql)
        });
        for index in &changed {
            index.drop(db)?;
        }
        let columns = helper_columns(self.column, self.is_text);
        if self.foreseen.rebuild {
            self.rebuild(physical, &columns)?;
        } else {
            for column in columns {
                db.run(
                    &format!("alter table main.{} add column {column}", quote(physical)),
                    &[],
                )?;
            }
        }
        create_dict_index(db, &self.table.name, &self.column.name)?;
        for index in &changed {
            index.create(db, self.foreseen.text(index))?;
        }
        Ok(())
    }

    /// Copies the table into one whose constraints refer to the decoding column.
    fn rebuild(&self, physical: &str, columns: &[String]) -> Result<()> {
        let mut text = Text::new(&self.foreseen.table);
        let place = text.body().and_then(|(parts, close)| {
            let constraint = parts
                .iter()
                .map(|part| part.start)
                .find(|&at| text.is_constraint(at));
            // Without a comma before it, a constraint would belong to the last column.
            match constraint {
                Some(at) => text.before(at),
                None => Some(close),
            }
        });
        if let Some(token) = place.and_then(|at| text.0.get_mut(at)) {
            let added = format!(", {}", columns.join(", "));
            token.text.insert_str(0, &added);
        }
        let stored = stored_columns(self.table, None);
        let copy = Copy {
            columns: &stored,
            values: &stored,
            rowid: self.table.rowid,
        };
        replace_table(
            self.db,
            &self.table.name,
            physical,
            &text.to_string(),
            &copy,
        )
    }

    /// The text with which a view or trigger goes on.
    fn carried(&self, made: &Table, object: &Object) -> Result<String> {
        if object.kind == "view" {
            return Ok(object.sql.clone());
        }
        let own = object.table.eq_ignore_ascii_case(&self.table.physical);
        let foreseen = self.foreseen.text(object);
        let column = self.column.name.as_str();
        let redirected = || {
            let all: Vec<String> = made.writable().map(|c| quote(&c.name)).collect();
            triggers::redirect(foreseen, &object.name, &made.physical, &[column], &all)
        };
        if self.table.is_compressed() {
            // It has been carried before: what is left is the new column.
            return match triggers::writes(foreseen, &made.physical) {
                _ if foreseen == object.sql => Ok(object.sql.clone()),
                true => redirected(),
                false => Ok(triggers::settle(foreseen, &[column])),
            };
        }
        if triggers::writes(&object.sql, &self.table.name) {
            redirected()
        } else if own {
            Ok(triggers::carry(&object.sql, &made.physical, &[column]))
        } else {
            Ok(object.sql.clone())
        }
    }
}

/// Declarations of the two columns beside a compressed one.
pub(crate) fn helper_columns(column: &Column, is_text: bool) -> [String; 2] {
    let collation = match &column.collation {
        Some(collation) => format!(" collate {}", quote(collation)),
        None => String::new(),
    };
    [
        format!(
            "{} integer default null references _zstd_dicts(id)",
            quote(&dict_column(&column.name))
        ),
        format!(
            "{} {}{collation} generated always as ({}) virtual",
            quote(&plain_column(&column.name)),
            declared(&column.declared),
            view::decoded(&column.name, is_text)
        ),
    ]
}

/// A declared type as SQL; words of a type may have been quoted.
fn declared(declared: &str) -> String {
    let simple = |c: char| c.is_ascii_alphanumeric() || " (),.+-_".contains(c);
    if declared.chars().all(simple) {
        declared.to_string()
    } else {
        quote(declared)
    }
}

/// The columns in which a table's rows are stored, quoted; those of a compressed column that is to
/// become `plain` again are only one.
pub(crate) fn stored_columns(table: &Table, plain: Option<&str>) -> Vec<String> {
    let mut stored = Vec::new();
    for column in table.writable() {
        stored.push(quote(&column.name));
        if column.storage != Storage::Ordinary && plain != Some(column.name.as_str()) {
            stored.push(quote(&dict_column(&column.name)));
        }
    }
    stored
}

/// Puts a table of the text `sql`, with the rows that `copy` takes, in the place of a backing table.
///
/// # Errors
/// SQLite's.
pub(crate) fn replace_table(
    db: &impl Sql,
    table: &str,
    physical: &str,
    sql: &str,
    copy: &Copy<'_>,
) -> Result<()> {
    let new = rebuilt(table);
    // Foreign keys go on naming the backing table, which is another one now.
    with_pragma(db, "legacy_alter_table", true, || {
        move_rows(db, physical, &new, sql, copy)?;
        db.run(
            &format!(
                "alter table main.{} rename to {}",
                quote(&new),
                quote(physical)
            ),
            &[],
        )
    })
}

/// The index that finds the rows that are not compressed. Its name is sqlite-zstd's where that is free.
///
/// # Errors
/// SQLite's.
pub(crate) fn create_dict_index(db: &impl Sql, table: &str, column: &str) -> Result<()> {
    let dict = dict_column(column);
    let mut name = format!("{dict}_idx");
    let is_taken = |name: &str| {
        db.row(
            "select 1 from main.sqlite_schema where name = ?1 collate nocase",
            &[Value::from(name)],
            |row| Ok(row.column(0).integer()),
        )
    };
    if is_taken(&name)?.is_some() {
        name = format!("_{table}{name}");
    }
    db.run(
        &format!(
            "create index main.{0} on {1}({2}) where {2} is null",
            quote(&name),
            quote(&backing(table)),
            quote(&dict)
        ),
        &[],
    )
}
