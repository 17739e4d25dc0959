//! The kind and name of the object that a `CREATE` statement creates, by its first words.
//!
//! SQLite stores such statements in one form: `CREATE kind name`, without a schema, `TEMP` or `IF NOT EXISTS`. A text
//! of another form, or with more than one statement, was not stored by SQLite and is not run: the database may come
//! from a stranger.

use crate::sql::{Error, Result};
use crate::tokens::Text;

/// The object that a statement creates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// `table`, `index`, `trigger` or `view`. A virtual table is none of these.
    pub(crate) kind: &'static str,
    /// Its name.
    pub(crate) name: String,
    /// The table of an index or a trigger.
    pub(crate) table: Option<String>,
}

impl Head {
    /// Of a text that is one `CREATE` statement as SQLite stores it; `None` for any other.
    pub(crate) fn of(sql: &str) -> Option<Head> {
        let text = Text::new(sql);
        if sql.contains('\0') || !is_one_statement(&text) {
            return None;
        }
        let mut at = text.keyword(0, "create")? + 1;
        let unique = text.keyword(at, "unique");
        at = unique.map_or(at, |unique| unique + 1);
        let kind = ["table", "index", "trigger", "view"]
            .into_iter()
            .find(|kind| text.keyword(at, kind).is_some())?;
        if unique.is_some() && kind != "index" {
            return None;
        }
        let name = text.solid(text.solid(at)? + 1)?;
        let next = text.solid(name + 1)?;
        let next = text.token(next);
        let fits = match kind {
            // A table made of a SELECT is stored with its columns, so the statement would not be SQLite's.
            "table" => next.is("("),
            "index" => next.is("on"),
            "view" => next.is("(") || next.is("as"),
            _ => !next.is("."),
        };
        if !fits {
            return None;
        }
        let table = match kind {
            "index" | "trigger" => Some(text.token(text.on()?).name()?),
            _ => None,
        };
        Some(Head {
            kind,
            name: text.token(name).name()?,
            table,
        })
    }

    /// Whether it is of this kind and name.
    pub(crate) fn is(&self, kind: &str, name: &str) -> bool {
        self.kind == kind && self.name.eq_ignore_ascii_case(name)
    }

    /// Whether it belongs to one of these tables; a table and a view do to themselves.
    pub(crate) fn is_on(&self, tables: &[&str]) -> bool {
        let own = self.table.as_ref().unwrap_or(&self.name);
        tables.iter().any(|table| own.eq_ignore_ascii_case(table))
    }
}

/// Checks that a text creates what it is said to.
///
/// # Errors
/// That it does not; then the statement must not be run.
pub(crate) fn expect(sql: &str, kind: &str, name: &str, tables: &[&str]) -> Result<()> {
    if Head::of(sql).is_some_and(|head| head.is(kind, name) && head.is_on(tables)) {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "what the database has as the text of {kind} {name} is not one statement that creates it on {}, so it \
         is not run; this file may have been made to deceive, or someone changed the text by hand",
        tables.join(" or ")
    )))
}

/// Whether nothing follows the first statement. One that creates a trigger ends with the END after a semicolon.
fn is_one_statement(text: &Text) -> bool {
    let is_trigger = (text.keyword(0, "create"))
        .is_some_and(|create| text.keyword(create + 1, "trigger").is_some());
    let mut ended = false;
    let mut after_semicolon = false;
    for at in 0..text.0.len() {
        if text.solid(at) != Some(at) {
            continue;
        }
        let token = text.token(at);
        let is_semicolon = token.is(";");
        if ended && !is_semicolon {
            return false;
        }
        ended |= match is_trigger {
            true => after_semicolon && token.is("end"),
            false => is_semicolon,
        };
        after_semicolon = is_semicolon;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sql: &str) -> Option<(&'static str, String, String)> {
        Head::of(sql).map(|head| (head.kind, head.name, head.table.unwrap_or_default()))
    }

    #[test]
    fn what_sqlite_stores() {
        for (sql, kind, name, table) in [
            ("CREATE TABLE t(x)", "table", "t", ""),
            (
                "create table \"a b\" (x, y default ';') strict",
                "table",
                "a b",
                "",
            ),
            ("CREATE INDEX i ON t(x) where x > ';'", "index", "i", "t"),
            ("CREATE UNIQUE INDEX [i]on[t](x);", "index", "i", "t"),
            ("CREATE VIEW v AS select 1 -- ;", "view", "v", ""),
            ("CREATE VIEW v(a, b) as select 1, 2", "view", "v", ""),
            (
                "CREATE TRIGGER r update of a on main.t begin select case when 1 then 2 end; select 2; END /* */ ;",
                "trigger",
                "r",
                "t",
            ),
        ] {
            assert_eq!(of(sql), Some((kind, name.into(), table.into())), "{sql}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for sql in [
            "",
            "delete from secret",
            "pragma user_version=77",
            "select load_extension('x')",
            "explain create table t(x)",
            "create table t as select writefile('a', 'b')",
            "create temp table t(x)",
            "create virtual table t using csv(filename='/etc/passwd')",
            "create unique table t(x)",
            "create table if not exists t(x)",
            "create table main.t(x)",
            "create trigger main.t after insert on t begin select 1; end",
            "create table t(x); delete from secret",
            "create index i on t(x); delete from secret",
            "create view v as select 1; select 2",
            "create trigger r after insert on t begin select 1; end; delete from secret",
            "create trigger r after insert on t begin select 1; end delete from secret",
            "create table t(x\0)",
            "create \u{feff}table t(x)",
        ] {
            assert_eq!(of(sql), None, "{sql}");
        }
    }

    #[test]
    fn another_kind_name_or_table_is_refused() {
        let index = "create index i on t(x)";
        assert!(expect(index, "index", "I", &["t"]).is_ok());
        assert!(expect(index, "index", "i", &["u", "T"]).is_ok());
        for (kind, name, table) in [
            ("table", "i", "t"),
            ("index", "j", "t"),
            ("index", "i", "u"),
        ] {
            assert!(expect(index, kind, name, &[table]).is_err());
        }
    }
}
