//! Helpers for schema changes: trial runs, pragmas that are restored, views and triggers that mention a table, rows
//! moved to another table.

use crate::head::{self, Head};
use crate::sql::{Error, Result, Sql, Statement, Value};
use crate::stored::has_helper;
use crate::table::{backing, fronting};
use crate::tokens::{Text, create_as, create_in};
use crate::transaction::Savepoint;
use litepack_btree::quote;

/// Runs `work` and rolls it back: shows what SQLite would do.
///
/// # Errors
/// That of `work`.
pub(crate) fn tentatively<S: Sql, T>(db: &S, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let savepoint = Savepoint::begin(db, "litepack_change")?;
    let result = work();
    savepoint.take_back();
    result
}

/// Runs `work` with a pragma set, and restores the pragma.
///
/// # Errors
/// That of `work`.
pub(crate) fn with_pragma<S: Sql, T>(
    db: &S,
    pragma: &str,
    on: bool,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let before = is_on(db, pragma)?;
    let set = |on: bool| db.run(&format!("pragma {pragma} = {}", i32::from(on)), &[]);
    set(on)?;
    let result = work();
    set(before)?;
    result
}

/// Runs `work`, which drops a table that foreign keys refer to.
///
/// # Errors
/// That of `work`; inside a transaction SQLite does not let foreign keys be switched off.
pub(crate) fn without_foreign_keys<S: Sql, T>(
    db: &S,
    table: &str,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if is_on(db, "foreign_keys")? && !db.autocommit() {
        return Err(Error::new(format!(
            "table {table} has to be rebuilt, and foreign keys refer to it: do this outside of a transaction, \
             or with pragma foreign_keys = off"
        )));
    }
    with_pragma(db, "foreign_keys", false, work)
}

fn is_on(db: &impl Sql, pragma: &str) -> Result<bool> {
    let value = db.row(&format!("pragma {pragma}"), &[], |row| {
        Ok(row.column(0).integer())
    })?;
    Ok(value.flatten() == Some(1))
}

/// A view, trigger, index or table, as its schema has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    /// `main` or `temp`.
    pub(crate) schema: &'static str,
    /// `view`, `trigger`, `index` or `table`.
    pub(crate) kind: String,
    /// Its name.
    pub(crate) name: String,
    /// The table or view it belongs to.
    pub(crate) table: String,
    /// Its text.
    pub(crate) sql: String,
}

impl Object {
    /// Creates it, with this text, on its table or on the one before or behind that.
    ///
    /// # Errors
    /// That the text is not one that creates it, and SQLite's.
    pub(crate) fn create(&self, db: &impl Sql, sql: &str) -> Result<()> {
        let behind = backing(&self.table);
        let mut tables = vec![self.table.as_str(), &behind];
        tables.extend(fronting(&self.table));
        let name = match self.kind.as_str() {
            "table" => Head::of(sql).map_or(String::new(), |head| head.name),
            _ => self.name.clone(),
        };
        head::expect(sql, &self.kind, &name, &tables)?;
        db.run(&create_in(sql, self.schema), &[])
            .map_err(|error| error.context(format!("creating {} {} anew", self.kind, self.name)))
    }

    /// Drops it; a trigger may have gone with its view.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn drop(&self, db: &impl Sql) -> Result<()> {
        db.run(
            &format!(
                "drop {} if exists {}.{}",
                self.kind,
                self.schema,
                quote(&self.name)
            ),
            &[],
        )
    }
}

/// The objects of a kind in the main and the temporary schema, in the order of their creation;
/// those without text (indexes of constraints) left out.
///
/// # Errors
/// SQLite's.
pub(crate) fn objects(db: &impl Sql, kinds: &[&str]) -> Result<Vec<Object>> {
    let mut objects = Vec::new();
    for (schema, from) in [
        ("main", "main.sqlite_schema"),
        ("temp", "temp.sqlite_temp_schema"),
    ] {
        db.rows(
            &format!(
                "select type, name, tbl_name, sql from {from} where sql is not null order by rowid"
            ),
            &[],
            |row| {
                let text = |index| row.column(index).text().unwrap_or_default();
                if kinds.contains(&text(0).as_str()) {
                    objects.push(Object {
                        schema,
                        kind: text(0),
                        name: text(1),
                        table: text(2),
                        sql: text(3),
                    });
                }
                Ok(())
            },
        )?;
    }
    Ok(objects)
}

/// The views and triggers that mention one of `names`, or a view that does, and so on. Some may not
/// need it; creating them again does no harm.
///
/// # Errors
/// SQLite's.
pub(crate) fn dependents(db: &impl Sql, names: &[&str]) -> Result<Vec<Object>> {
    let all = objects(db, &["view", "trigger"])?;
    let texts: Vec<Text> = all.iter().map(|object| Text::new(&object.sql)).collect();
    let mut names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
    let mut chosen = vec![false; all.len()];
    let mut next = 0;
    while let Some(name) = names.get(next).cloned() {
        next += 1;
        for ((chosen, text), object) in chosen.iter_mut().zip(&texts).zip(&all) {
            if !*chosen && (text.mentions(&name) || object.table.eq_ignore_ascii_case(&name)) {
                *chosen = true;
                if object.kind == "view" {
                    names.push(object.name.clone());
                }
            }
        }
    }
    let mut keep = chosen.into_iter();
    Ok(all
        .into_iter()
        .filter(|_| keep.next().unwrap_or(false))
        .collect())
}

/// The columns and values that a new table takes from an old one.
pub(crate) struct Copy<'a> {
    /// The new table's columns, quoted.
    pub(crate) columns: &'a [String],
    /// The values for them, from the old table.
    pub(crate) values: &'a [String],
    /// The rowid, where it is not a column.
    pub(crate) rowid: Option<&'static str>,
}

/// Creates the table `new` from the text `sql`, moves the rows of `old` there and drops `old`.
///
/// # Errors
/// That the text creates neither of the two tables, and SQLite's.
pub(crate) fn move_rows(
    db: &impl Sql,
    old: &str,
    new: &str,
    sql: &str,
    copy: &Copy<'_>,
) -> Result<()> {
    let is_new = Head::of(sql).is_some_and(|head| head.is("table", new));
    let sql = if is_new {
        sql.to_string()
    } else {
        head::expect(sql, "table", old, &[old])?;
        create_as(sql, &quote(new))
    };
    db.run(&create_in(&sql, "main"), &[])?;
    let rowid = copy
        .rowid
        .map(|name| format!("{name}, "))
        .unwrap_or_default();
    let order = copy
        .rowid
        .map(|name| format!(" order by {name}"))
        .unwrap_or_default();
    db.run(
        &format!(
            "insert into main.{}({rowid}{}) select {rowid}{} from main.{}{order}",
            quote(new),
            copy.columns.join(", "),
            copy.values.join(", "),
            quote(old)
        ),
        &[],
    )?;
    if has_helper(db, "sqlite_sequence")? {
        let names = [Value::from(old), Value::from(new)];
        db.run(
            "delete from main.sqlite_sequence where name = ?2 and ?1 <> ?2",
            &names,
        )?;
        db.run(
            "insert into main.sqlite_sequence(name, seq)
             select ?2, seq from main.sqlite_sequence where name = ?1",
            &names,
        )?;
    }
    db.run(&format!("drop table main.{}", quote(old)), &[])
}
