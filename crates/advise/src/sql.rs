//! SQL and commands that are shown to people, with names from a database in them.
//!
//! Names in a database can hold anything. In SQL they are quoted, and a statement with a name that is long, or has
//! characters that could make it look like another statement, is not given at all. No statement loses anything when it
//! is pasted into a shell that goes on after an error: what removes a table is left to the reader, as a comment.

use litepack_btree::quote;
use litepack_database::names::printable::deceives;

use super::schema::TableSchema;

/// Longest name in SQL that is shown, and longest word of a command.
const NAME_MAX: usize = 200;
const WORD_MAX: usize = 4096;
/// Columns that SQL lists.
const LISTED: usize = 50;

/// A name in SQL; `None` if it is too long to be read, or holds what could pass for other SQL on a screen.
pub(super) fn in_sql(name: &str) -> Option<String> {
    (name.len() <= NAME_MAX && !name.contains(deceives)).then(|| quote(name))
}

/// A word for a shell, in quotes unless every character is harmless; `None` as for SQL.
pub(super) fn in_shell(word: &str) -> Option<String> {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "_-./+,:@%".contains(c);
    if word.len() > WORD_MAX || word.contains(deceives) {
        return None;
    }
    Some(match !word.is_empty() && word.chars().all(harmless) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    })
}

/// Names of columns in SQL.
pub(super) fn list(table: &TableSchema, columns: &[usize]) -> Option<String> {
    let names = columns.iter().map(|at| in_sql(&table.columns[*at].name));
    let names = names.collect::<Option<Vec<_>>>()?;
    (!names.is_empty() && names.len() <= LISTED).then(|| names.join(", "))
}

/// The statements that make a table anew, with a rowid or without, for a table that has nothing but columns and a key.
pub(super) fn rebuilt(name: &str, table: &TableSchema, without_rowid: bool) -> Option<String> {
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
        let words = format!("{} {}", in_sql(&column.name)?, column.declared);
        let not_null = match column.key > 0 || column.not_null {
            true => " NOT NULL",
            false => "",
        };
        declared.push(words.trim_end().to_owned() + not_null);
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
    let made = format!("CREATE TABLE {new}({declared}, PRIMARY KEY({key})) {end}");
    Some(format!(
        "{};\nINSERT INTO {new}({columns}) SELECT {columns} FROM {old};\n\
         -- Only if there was no error, and no other program writes it meanwhile:\n\
         -- PRAGMA legacy_alter_table = ON;\n\
         -- DROP TABLE {old};\n-- ALTER TABLE {new} RENAME TO {old};\n-- VACUUM;",
        made.trim_end()
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
        assert_eq!(in_shell("a.b/c-d").unwrap(), "a.b/c-d");
        assert_eq!(in_shell("").unwrap(), "''");
        assert_eq!(in_shell("$(x) 'y'").unwrap(), r"'$(x) '\''y'\'''");
        assert_eq!(in_shell("a\nb"), None);
        assert_eq!(in_shell("a\u{202e}b"), None);
    }
}
