//! The view that users see in place of a table with compressed columns, and the triggers that write
//! through it.
//!
//! The view selects the generated columns that decode, so SQLite flattens it and uses the indexes of
//! the backing table. One trigger each for INSERT, UPDATE and DELETE does one statement on it.

use crate::change::Object;
use crate::sql::{Result, Sql, Statement};
use crate::table::{Column, Storage, Table, dict_column, plain_column};
use crate::tokens::{Text, literal};
use litepack_btree::quote;

/// Creates view and triggers.
///
/// # Errors
/// SQLite's.
pub(crate) fn create(db: &impl Sql, table: &Table) -> Result<()> {
    db.run(&view(table), &[])?;
    for trigger in [insert(table), update(table), delete(table)] {
        db.run(&trigger, &[])?;
    }
    Ok(())
}

/// Whether this is the view of a table or a trigger that writes through it, made here or by sqlite-zstd.
pub(crate) fn is_own(table: &Table, object: &Object) -> bool {
    if object.kind == "view" {
        return object.schema == "main" && object.name.eq_ignore_ascii_case(&table.name);
    }
    if object.kind != "trigger" || !object.table.eq_ignore_ascii_case(&table.name) {
        return false;
    }
    let is = |name: String| object.name.eq_ignore_ascii_case(&name);
    let theirs = |column: &Column| is(format!("{}_update_{}_trigger", table.name, column.name));
    ["insert", "update", "delete"].iter().any(|event| {
        is(trigger_name(&table.name, event)) || is(format!("{}_{event}_trigger", table.name))
    }) || table.columns.iter().any(theirs)
}

/// The text of a view with the names of its columns, which then do not follow those of tables.
///
/// # Errors
/// SQLite's.
pub(crate) fn with_columns(db: &impl Sql, view: &Object) -> Result<String> {
    let mut text = Text::new(&view.sql);
    let Some(name) = text.created() else {
        return Ok(view.sql.clone());
    };
    if text.keyword(name + 1, "(").is_none() {
        let mut names = Vec::new();
        let pragma = format!("pragma {}.table_info({})", view.schema, quote(&view.name));
        db.rows(&pragma, &[], |row| {
            names.push(quote(&row.column(1).text().unwrap_or_default()));
            Ok(())
        })?;
        text.append(name, &format!("({})", names.join(", ")));
    }
    Ok(text.to_string())
}

/// The name of the trigger for `event`.
pub(crate) fn trigger_name(table: &str, event: &str) -> String {
    format!("_{table}_zstd_{event}")
}

/// SQL that gives the plain value of a column of the backing table.
pub(crate) fn plain(column: &Column) -> String {
    match column.storage {
        Storage::Ordinary => quote(&column.name),
        Storage::Compressed => quote(&plain_column(&column.name)),
        Storage::Foreign { is_text } => decoded(&column.name, is_text),
    }
}

/// The call that decodes a column.
pub(crate) fn decoded(column: &str, is_text: bool) -> String {
    format!(
        "zstd_decompress_col({}, {}, {}, 1)",
        quote(column),
        i32::from(is_text),
        quote(&dict_column(column))
    )
}

fn view(table: &Table) -> String {
    let names: Vec<String> = table.columns.iter().map(|c| quote(&c.name)).collect();
    let values: Vec<String> = table.columns.iter().map(plain).collect();
    format!(
        "create view main.{}({}) as select {} from {}",
        quote(&table.name),
        names.join(", "),
        values.join(", "),
        quote(&table.physical)
    )
}

fn trigger(table: &Table, event: &str, statement: &str) -> String {
    format!(
        "create trigger main.{} instead of {event} on {} begin {statement}; end",
        quote(&trigger_name(&table.name, event)),
        quote(&table.name)
    )
}

/// A view cannot tell a column that was left out from NULL: both take the default.
fn insert(table: &Table) -> String {
    let names: Vec<String> = table.writable().map(|c| quote(&c.name)).collect();
    let values: Vec<String> = table
        .writable()
        .map(|column| {
            let value = format!("new.{}", quote(&column.name));
            match &column.default {
                Some(default) if !default.eq_ignore_ascii_case("null") => {
                    format!("coalesce({value}, {})", default_value(default))
                }
                _ => value,
            }
        })
        .collect();
    trigger(
        table,
        "insert",
        &format!(
            "insert into {}({}) values({})",
            quote(&table.physical),
            names.join(", "),
            values.join(", ")
        ),
    )
}

/// A value that did not change keeps its compressed form.
fn update(table: &Table) -> String {
    let mut set = Vec::new();
    for column in table.writable() {
        let name = quote(&column.name);
        if column.storage == Storage::Ordinary {
            set.push(format!("{name} = new.{name}"));
            continue;
        }
        let dict = quote(&dict_column(&column.name));
        let kept = format!(
            "{dict} is not null and {}",
            same(&format!("new.{name}"), &name)
        );
        set.push(format!("{name} = iif({kept}, {name}, new.{name})"));
        set.push(format!("{dict} = iif({kept}, {dict}, null)"));
    }
    let set = set.join(", ");
    let table_name = quote(&table.physical);
    trigger(
        table,
        "update",
        &format!("update {table_name} set {set} where {}", row(table)),
    )
}

fn delete(table: &Table) -> String {
    trigger(
        table,
        "delete",
        &format!(
            "delete from {} where {}",
            quote(&table.physical),
            row(table)
        ),
    )
}

/// `left` and the old value of the column are the same, byte for byte.
fn same(left: &str, column: &str) -> String {
    format!("{left} is old.{column} collate binary and typeof({left}) = typeof(old.{column})")
}

/// The condition that finds the old row in the backing table. Keys with NULL do not tell rows apart: then all of the
/// row has to be the same.
fn row(table: &Table) -> String {
    let equals = if table.nullable_key { "is" } else { "=" };
    let mut terms: Vec<String> = table
        .key
        .iter()
        .map(|key| {
            let name = quote(&key.name);
            let collation = match &key.collation {
                Some(collation) => format!(" collate {}", quote(collation)),
                None => String::new(),
            };
            format!("{name} {equals} old.{name}{collation}")
        })
        .collect();
    if table.nullable_key {
        let mut whole: Vec<String> = Vec::new();
        for key in &table.key {
            whole.push(format!("old.{} is not null", quote(&key.name)));
        }
        let others: Vec<String> = table
            .columns
            .iter()
            .map(|column| same(&plain(column), &quote(&column.name)))
            .collect();
        terms.push(format!(
            "({} or {})",
            whole.join(" and "),
            others.join(" and ")
        ));
    }
    let condition = terms.join(" and ");
    match table.rowid {
        // Of rows that are the same in all, each is written once.
        Some(rowid) if table.nullable_key => format!(
            "{rowid} = (select {rowid} from {} where {condition} limit 1)",
            quote(&table.physical)
        ),
        _ => condition,
    }
}

/// A DEFAULT as an expression: SQLite takes a bare name there as a string.
fn default_value(default: &str) -> String {
    let text = Text::new(default);
    let words = [
        "true",
        "false",
        "null",
        "current_time",
        "current_date",
        "current_timestamp",
    ];
    match text.0.as_slice() {
        [token] if !words.iter().any(|word| token.is(word)) => match token.name() {
            Some(name) => literal(&name),
            None => default.to_string(),
        },
        _ => format!("({default})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults() {
        assert_eq!(default_value("'it''s'"), "'it''s'");
        assert_eq!(default_value("\"q\""), "'q'");
        assert_eq!(default_value("bare"), "'bare'");
        assert_eq!(default_value("TRUE"), "(TRUE)");
        assert_eq!(default_value("5"), "5");
        assert_eq!(default_value("-5"), "(-5)");
        assert_eq!(default_value("date('now') || 'x'"), "(date('now') || 'x')");
    }
}
