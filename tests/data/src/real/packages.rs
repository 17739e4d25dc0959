//! Package lists of a distribution: each stanza as it is, its fields in columns, and a full-text index of them.

use rusqlite::{Connection, params};

use crate::in_transaction;

/// Makes `package` and the FTS5 table `search` of stanzas that empty lines separate.
pub fn create(conn: &Connection, stanzas: &str) -> rusqlite::Result<()> {
    in_transaction(conn, |conn| {
        conn.execute_batch(
            "create table package(id integer primary key, name text not null, version text,
               architecture text, section text, maintainer text, installed_size integer, size integer,
               depends text, description text, homepage text, tag text, sha256 text, filename text, raw text not null);
             create index package_by_name on package(name);
             create index package_by_section on package(section, name);
             create virtual table search using fts5(name, description, depends)",
        )?;
        let mut insert = conn.prepare(
            "insert into package values (null, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?;
        let mut index = conn
            .prepare("insert into search(rowid, name, description, depends) values (?, ?, ?, ?)")?;
        for raw in stanzas.split("\n\n").map(str::trim_end) {
            let field = |name: &str| field(raw, name);
            let Some(name) = field("Package") else {
                continue;
            };
            let number = |name: &str| field(name).and_then(|text| text.parse::<i64>().ok());
            insert.execute(params![
                name,
                field("Version"),
                field("Architecture"),
                field("Section"),
                field("Maintainer"),
                number("Installed-Size"),
                number("Size"),
                field("Depends"),
                field("Description"),
                field("Homepage"),
                field("Tag"),
                field("SHA256"),
                field("Filename"),
                raw
            ])?;
            let id = conn.last_insert_rowid();
            index.execute(params![id, name, field("Description"), field("Depends")])?;
        }
        Ok(())
    })
}

/// The text of a field, with the lines that go on with it.
fn field<'a>(raw: &'a str, name: &str) -> Option<&'a str> {
    let starts = |line: &str| {
        line.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with(':'))
    };
    let mut at = 0;
    for line in raw.split_inclusive('\n') {
        if starts(line) {
            let rest = &raw[at + name.len() + 1..];
            let ends = rest.match_indices('\n').map(|(end, _)| end);
            let mut ends = ends.filter(|end| !rest[end + 1..].starts_with(' '));
            let end = ends.next().unwrap_or(rest.len());
            return Some(rest[..end].trim());
        }
        at += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_goes_on_in_indented_lines() {
        let raw = "Package: a\nDescription: first\n second\n third\nSize: 12";
        assert_eq!(field(raw, "Package"), Some("a"));
        assert_eq!(field(raw, "Description"), Some("first\n second\n third"));
        assert_eq!(field(raw, "Size"), Some("12"));
        assert_eq!(field(raw, "Sizes"), None);
    }

    #[test]
    fn stanzas_become_rows() {
        let conn = Connection::open_in_memory().unwrap();
        create(&conn, "Package: a\nSize: 1\n\nPackage: b\nSize: 2\n\n").unwrap();
        let sum: i64 = conn
            .query_row("select sum(size) from package", [], |row| row.get(0))
            .unwrap();
        assert_eq!(sum, 3);
    }
}
