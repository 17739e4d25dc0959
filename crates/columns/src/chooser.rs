//! Which texts may be a chooser: expressions over one row that call only functions without side effects.
//!
//! The author of a database wrote the text of its choosers, and it is run as if the user had typed it. SQLite cannot
//! run one expression with fewer rights and leave the connection as it was: an authorizer replaces the host's, which
//! cannot be read back. So the text is examined before it is run, for everything that SQLite's grammar needs beyond an
//! expression over the row:
//!
//! - Another table is read by SELECT, by VALUES, or by IN before a name; all three words are reserved,
//!   so as bare words they mean nothing else. Without them there is no subquery, and so no table-valued
//!   function and no pragma either. The only table in sight is the one of the statement around.
//! - A function is called by its name before a parenthesis, or by an operator that stands for one.
//!   SQLite says of each whether it is innocuous, also of those that the host or another extension made.
//!
//! This requires the same tokens as SQLite's. So a character that could begin anything but the
//! plain tokens of expressions (a parameter, a byte order mark, a NUL) is refused wherever it is not
//! quoted.

use std::collections::BTreeSet;

use crate::sql::{Result, Sql, Statement};
use crate::tokens::{Text, Token, TokenKind, not_an_expression};

/// SQLite's flag of functions that "are unlikely to cause problems even if misused".
const INNOCUOUS: i64 = 0x20_0000;
/// And of those that are only for statements that someone typed.
const DIRECTONLY: i64 = 0x8_0000;

/// Operators that call a function of the same name.
const OPERATORS: [&str; 4] = ["like", "glob", "regexp", "match"];
/// Functions that are called without parentheses.
const BARE: [&str; 3] = ["current_date", "current_time", "current_timestamp"];

/// Why a chooser must not be run; `None` if it may.
///
/// # Errors
/// SQLite's.
pub(crate) fn objection(db: &impl Sql, chooser: &str) -> Result<Option<String>> {
    if let Some(why) = not_an_expression(chooser) {
        return Ok(Some(why.into()));
    }
    let text = Text::new(chooser);
    if let Some(why) = beyond_the_row(&text) {
        return Ok(Some(why));
    }
    let called = called(&text);
    if called.is_empty() {
        return Ok(None);
    }
    let mut known = BTreeSet::new();
    let mut unsafe_one = None;
    db.rows("pragma function_list", &[], |row| {
        let name = row
            .column(0)
            .text()
            .unwrap_or_default()
            .to_ascii_lowercase();
        if called.contains(&name) {
            let builtin = row.column(1).integer() == Some(1);
            let flags = row.column(5).integer().unwrap_or(DIRECTONLY);
            if !is_innocuous(&name, builtin, flags) {
                unsafe_one = Some(name.clone());
            }
        }
        known.insert(name);
        Ok(())
    })?;
    if known.is_empty() {
        return Ok(Some(
            "this SQLite does not tell which functions are innocuous (it was built without PRAGMA function_list), \
             so only an expression without functions can be used"
                .into(),
        ));
    }
    Ok(unsafe_one.map(|name| {
        format!("it calls {name}(), and only functions that SQLite or the program calls innocuous may be used")
    }))
}

fn is_innocuous(name: &str, builtin: bool, flags: i64) -> bool {
    // SQLite 3.38 to 3.40 forgot to say so of its own.
    let json = builtin && (name.starts_with("json") || name.starts_with("->"));
    flags & DIRECTONLY == 0 && (flags & INNOCUOUS != 0 || json)
}

/// Why a text is more than an expression over a row, or may have other tokens for SQLite.
fn beyond_the_row(text: &Text) -> Option<String> {
    if text.0.iter().any(|token| token.text.contains('\0')) {
        return Some("it has a NUL character".into());
    }
    for (at, token) in text.0.iter().enumerate() {
        match token.kind {
            TokenKind::Space | TokenKind::Quoted | TokenKind::String => {}
            TokenKind::Unfinished => return Some("a quote or comment is not closed".into()),
            TokenKind::Word if token.is("select") || token.is("values") => {
                return Some(
                    "it has a subquery, and a chooser sees only the columns of the row".into(),
                );
            }
            TokenKind::Word if token.is("in") && text.keyword(at + 1, "(").is_none() => {
                return Some(
                    "it reads a table, and a chooser sees only the columns of the row".into(),
                );
            }
            TokenKind::Word | TokenKind::Other if !is_plain(token) => {
                return Some(format!("it has {} in it", token.text.escape_debug()));
            }
            TokenKind::Word | TokenKind::Other => {}
        }
    }
    None
}

/// Whether a word, number or character is one of those of plain expressions.
fn is_plain(token: &Token) -> bool {
    let text = &token.text;
    match (token.kind, text.chars().next()) {
        (TokenKind::Word, Some(first)) => first != '$' && !text.contains('\u{feff}'),
        (TokenKind::Other, Some(first)) if first.is_ascii_digit() => true,
        (TokenKind::Other, Some('x' | 'X')) => {
            let digits = text.get(2..text.len() - 1).unwrap_or("-");
            digits.chars().all(|digit| digit.is_ascii_hexdigit())
        }
        (_, Some(first)) => "(),.+-*/%=<>!|&~".contains(first),
        _ => false,
    }
}

/// The names of all functions that may be called, in lower case.
fn called(text: &Text) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, token) in text.0.iter().enumerate() {
        if let Some(name) = token.name() {
            let name = name.to_ascii_lowercase();
            let is_operator = OPERATORS.contains(&name.as_str()) || BARE.contains(&name.as_str());
            if is_operator || text.keyword(at + 1, "(").is_some() {
                found.insert(name);
            }
        } else if token.is("-") && text.0.get(at + 1).is_some_and(|next| next.is(">")) {
            found.extend(["->".to_string(), "->>".to_string()]);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_over_the_row() {
        for chooser in [
            "'a'",
            "'[nodict]'",
            "null",
            "strftime('%Y-%m', created)",
            "case when date(at, 'weekday 0') < date('now', 'weekday 0') then kind || '.' || date(at) else null end",
            "json_extract(data, '$.year')",
            "data ->> 'select'",
            "iif(kind in ('a', 'b'), kind, 'other') -- (select",
            "[select] || \"values\" || `in` || 'it''s'",
            "cast(id / 1.5e3 as int) & ~0x1f << 2 || x'6162' is not null",
            "häuser like '%ö' escape '\\' and a <> b and not a != b or a == b",
            "substr(data, 1, 3) || kind",
        ] {
            assert_eq!(beyond_the_row(&Text::new(chooser)), None, "{chooser}");
        }
    }

    #[test]
    fn anything_that_reads_more_or_is_read_otherwise() {
        for chooser in [
            "(select 'a')",
            "( /* */ SeLeCt x from secret)",
            "exists(select 1)",
            "(values(1))",
            "(with a as (select 1) select * from a)",
            "x in secret",
            "x not in main.secret",
            "x in pragma_table_info('t')",
            "x in\nfts('a')",
            "?1",
            ":a",
            "@a",
            "$a(') || (select 1) || (')",
            "#1",
            "a\0",
            "'a\0'",
            "\u{feff}select",
            "a || \u{feff}b",
            "a\u{b}b",
            "x'0",
            "x'zz'",
            "a ` b",
        ] {
            assert!(beyond_the_row(&Text::new(chooser)).is_some(), "{chooser:?}");
        }
    }

    #[test]
    fn every_way_to_call_a_function_is_seen() {
        let names = |chooser: &str| Vec::from_iter(called(&Text::new(chooser)));
        assert_eq!(
            names("f(1) || \"G\" (2) || [h]/* */(3) || `i`(4)"),
            ["f", "g", "h", "i"]
        );
        assert_eq!(names("'j'(1)"), ["j"]);
        assert_eq!(names("a like b"), ["like"]);
        assert_eq!(names("a REGEXP b and a match c"), ["match", "regexp"]);
        assert_eq!(names("a -> b"), ["->", "->>"]);
        assert_eq!(names("CURRENT_TIMESTAMP"), ["current_timestamp"]);
        assert!(names("a - b > c || 'f(1)' -- g(2)").is_empty());
    }

    #[test]
    fn what_is_innocuous() {
        assert!(is_innocuous("date", true, INNOCUOUS | 0x800));
        assert!(is_innocuous("json_extract", true, 0x800));
        assert!(!is_innocuous("json_extract", false, 0x800));
        assert!(!is_innocuous("load_extension", true, DIRECTONLY));
        assert!(!is_innocuous("mine", false, DIRECTONLY | INNOCUOUS));
        assert!(!is_innocuous("mine", false, 0x800));
    }
}
