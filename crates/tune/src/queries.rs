//! The queries that are measured when the user says which: statements of a file, each of which must only read.

use std::path::Path;

use litepack_database::error::{Context, cannot_read, refuse};
use litepack_database::{Error, Result, printable};
use rusqlite::Connection;
use rusqlite::types::Value;

/// A query that is measured.
#[derive(Clone, Debug)]
pub struct Query {
    /// Its name, for people.
    pub name: String,
    /// The statement.
    pub sql: String,
    /// The values for its parameters, one batch after the other and from the beginning again, so that a run does not
    /// find in caches what the run before it left there. Not empty.
    pub(crate) batches: Vec<Vec<Value>>,
}

/// The statements of a file.
pub(crate) fn from_file(file: &Path, connection: &Connection) -> Result<Vec<Query>> {
    let name = file.display();
    let text = std::fs::read_to_string(file).with_context(|| cannot_read(file))?;
    let statements = split(&text);
    if statements.is_empty() {
        refuse!("there is no query in {name}");
    }
    let of_statement = |(line, sql): (usize, &str)| {
        only_reads(connection, sql).with_context(|| format!("{name}, line {line}"))?;
        Ok(Query {
            name: shown(sql),
            sql: sql.to_owned(),
            batches: vec![Vec::new()],
        })
    };
    statements.into_iter().map(of_statement).collect()
}

/// An error unless the statement asks and does nothing else.
fn only_reads(connection: &Connection, sql: &str) -> Result<()> {
    let word: String = (sql.chars())
        .skip_while(|c| *c == '(')
        .take_while(|c| c.is_ascii_alphabetic())
        .collect();
    // ATTACH, BEGIN and pragmas count as reading for SQLite.
    if !["select", "with", "values"].contains(&word.to_ascii_lowercase().as_str()) {
        refuse!("not a query: {}", shown(sql));
    }
    let statement = connection
        .prepare(sql)
        .map_err(|error| Error::Refused(error.to_string()))?;
    if !statement.readonly() {
        refuse!("the statement writes: {}", shown(sql));
    }
    if statement.parameter_count() > 0 {
        refuse!(
            "parameters have no values here; write values instead: {}",
            shown(sql)
        );
    }
    Ok(())
}

/// A statement in one line, cut if it is long.
fn shown(sql: &str) -> String {
    printable(&sql.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The statements in a text, each with the line it begins in; without comments in front and behind them.
fn split(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    // Where the statement begins, and where what belongs to it ended last.
    let mut extent: Option<(usize, usize)> = None;
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let len = token_len(rest);
        let is_blank = first.is_whitespace() || rest.starts_with("--") || rest.starts_with("/*");
        if first == ';' {
            found.extend(extent.take());
        } else if !is_blank {
            let begin = extent.map_or(at, |(begin, _)| begin);
            extent = Some((begin, at + len));
        }
        at += len;
    }
    found.extend(extent);
    let line = |at: usize| text[..at].matches('\n').count() + 1;
    found
        .into_iter()
        .map(|(begin, end)| (line(begin), &text[begin..end]))
        .collect()
}

/// Bytes of what `rest` begins with: a comment, something in quotes, or one character. A comment or quote that is not
/// closed goes to the end.
fn token_len(rest: &str) -> usize {
    let closed_by = |open: usize, close: &str| {
        rest[open..]
            .find(close)
            .map_or(rest.len(), |at| open + at + close.len())
    };
    let first = rest.chars().next().map_or(0, char::len_utf8);
    match rest.as_bytes() {
        [b'-', b'-', ..] => closed_by(2, "\n"),
        [b'/', b'*', ..] => closed_by(2, "*/"),
        // A doubled quote is two such pieces beside each other.
        [b'\'', ..] => closed_by(1, "'"),
        [b'"', ..] => closed_by(1, "\""),
        [b'`', ..] => closed_by(1, "`"),
        [b'[', ..] => closed_by(1, "]"),
        _ => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_at_semicolons_that_are_not_part_of_anything() {
        let text = "-- first; not yet\nselect 1; ;;\n\n/* a; */ select ';', \"a;b\", [c;d], `e;f`, 'it''s;' --;\n\
                    from t -- the end;\n;select 'ä; not closed";
        assert_eq!(
            split(text),
            [
                (2, "select 1"),
                (4, "select ';', \"a;b\", [c;d], `e;f`, 'it''s;' --;\nfrom t"),
                (6, "select 'ä; not closed"),
            ]
        );
        assert_eq!(split("-- nothing; here\n/* ; "), []);
        assert_eq!(split("select 6/2-1"), [(1, "select 6/2-1")]);
    }

    #[test]
    fn only_queries_are_taken() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE TABLE t(a)").unwrap();
        let refused = |sql: &str| only_reads(&db, sql).unwrap_err().to_string();
        for sql in [
            "select * from t",
            "WITH x AS (SELECT 1) SELECT * FROM x",
            "values(1)",
        ] {
            only_reads(&db, sql).unwrap();
        }
        for sql in [
            "ATTACH 'x' AS x",
            "pragma user_version=1",
            "begin",
            "explain select 1",
            "insert into t values(1)",
            "(",
        ] {
            assert!(refused(sql).contains("not a query"), "{sql}");
        }
        assert!(refused("with x as (select 1) delete from t").contains("writes"));
        assert!(refused("select * from t where a = ?").contains("parameters"));
        assert!(refused("select * from missing").contains("no such table"));
        assert!(refused(&format!("delete{}", " x".repeat(100))).ends_with('…'));
    }
}
