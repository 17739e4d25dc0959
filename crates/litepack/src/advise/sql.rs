//! SQL that is shown to people, with names from a database in it.
//!
//! Names in a database can hold anything. In SQL they are quoted, and SQL with a name that is long, or has characters
//! that could make it look like other SQL (line breaks, controls, changes of direction), is not given at all.

use super::schema::Table;
use litepack_columns::tokens::quote;

/// Longest name in SQL that is shown.
const NAME_MAX: usize = 200;
/// Columns that SQL lists.
const LISTED: usize = 50;

/// A name in SQL; `None` if it is too long to be read, or holds what could pass for other SQL on a screen.
pub(super) fn in_sql(name: &str) -> Option<String> {
    // Controls; marks that change the direction of text, or that nobody sees.
    let deceives = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
                | '\u{061c}' | '\u{00ad}')
    };
    (name.len() <= NAME_MAX && !name.chars().any(deceives)).then(|| quote(name))
}

/// Names of columns in SQL.
pub(super) fn list(table: &Table, columns: &[usize]) -> Option<String> {
    let names = columns.iter().map(|at| in_sql(&table.columns[*at].name));
    let names = names.collect::<Option<Vec<_>>>()?;
    (!names.is_empty() && names.len() <= LISTED).then(|| names.join(", "))
}

/// The statements that make a table anew, with a rowid or without.
pub(super) fn rebuilt(name: &str, table: &Table, without_rowid: bool) -> Option<String> {
    if table.columns.iter().any(|column| column.hidden != 0) {
        return None;
    }
    let all: Vec<usize> = (0..table.columns.len()).collect();
    let columns = list(table, &all)?;
    let simple = |declared: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || " (),_".contains(c);
        declared.len() <= NAME_MAX && declared.chars().all(plain)
    };
    let mut declared = Vec::new();
    for column in &table.columns {
        // Words of a type can be anything that is quoted.
        if !simple(&column.declared) {
            return None;
        }
        let name = in_sql(&column.name)?;
        let not_null = if column.key > 0 { " NOT NULL" } else { "" };
        declared.push(
            format!("{name} {}{not_null}", column.declared)
                .trim_end()
                .to_owned(),
        );
    }
    let mut key: Vec<usize> = all
        .into_iter()
        .filter(|at| table.columns[*at].key > 0)
        .collect();
    key.sort_by_key(|at| table.columns[*at].key);
    let key = list(table, &key)?;
    let (old, new) = (in_sql(name)?, in_sql(&format!("{name}_new"))?);
    let mut ends = Vec::new();
    ends.extend(table.strict.then_some("STRICT"));
    ends.extend(without_rowid.then_some("WITHOUT ROWID"));
    let end = ends.join(", ");
    let declared = declared.join(", ");
    Some(format!(
        "BEGIN;\nCREATE TABLE {new}({declared}, PRIMARY KEY({key})) {end};\n\
         INSERT INTO {new}({columns}) SELECT {columns} FROM {old};\n\
         DROP TABLE {old};\nALTER TABLE {new} RENAME TO {old};\nCOMMIT;\nVACUUM;"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_pass_for_sql_are_not_in_sql() {
        assert_eq!(
            in_sql("a\"; DROP TABLE t; --").unwrap(),
            "\"a\"\"; DROP TABLE t; --\""
        );
        for name in [
            "a\nb",
            "a\u{202e}b",
            "a\u{200b}b",
            "a\x1b[2J",
            &"x".repeat(201),
        ] {
            assert_eq!(in_sql(name), None, "{name:?}");
        }
    }
}
