//! SQL text, token by token.
//!
//! Just enough to change a name in a `CREATE` statement and leave every other byte as it was written:
//! what a name *means* is left to SQLite, whose `ALTER TABLE … RENAME` rewrites references.

use std::ops::Range;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// White space or a comment.
    Space,
    /// A keyword or an unquoted name.
    Word,
    /// A name in `"…"`, `` `…` `` or `[…]`.
    Quoted,
    /// A string literal.
    String,
    /// A number, a parameter or punctuation.
    Other,
    /// A string, name or comment without its end.
    Unfinished,
}

/// A piece of SQL text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// Its kind.
    pub(crate) kind: TokenKind,
    /// As written.
    pub(crate) text: String,
}

impl Token {
    /// Whether this is the keyword or punctuation `text`.
    pub(crate) fn is(&self, text: &str) -> bool {
        matches!(self.kind, TokenKind::Word | TokenKind::Other)
            && self.text.eq_ignore_ascii_case(text)
    }

    /// The name this token spells, quotes removed. SQLite takes strings as names where only names can be.
    pub(crate) fn name(&self) -> Option<String> {
        let inner = || self.text.get(1..self.text.len() - 1).unwrap_or_default();
        match (self.kind, self.text.chars().next()?) {
            (TokenKind::Word, _) => Some(self.text.clone()),
            (TokenKind::Quoted, '[') => Some(inner().to_string()),
            (TokenKind::Quoted | TokenKind::String, quote) => {
                let quote = quote.to_string();
                Some(inner().replace(&quote.repeat(2), &quote))
            }
            _ => None,
        }
    }

    /// Whether this token spells `name`; SQLite folds the case of ASCII letters.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.name()
            .is_some_and(|found| found.eq_ignore_ascii_case(name))
    }
}

/// `text` as a SQL string.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// SQL text as tokens; joined they are the text again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) Vec<Token>);

impl std::fmt::Display for Text {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0
            .iter()
            .try_for_each(|token| formatter.write_str(&token.text))
    }
}

impl Text {
    /// Splits `text`.
    pub(crate) fn new(text: &str) -> Text {
        let mut tokens = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let (kind, length) = token(rest, first);
            let (token, after) = rest.split_at(length);
            tokens.push(Token {
                kind,
                text: token.to_string(),
            });
            rest = after;
        }
        Text(tokens)
    }

    /// The token at `at`; space, where there is none.
    pub(crate) fn token(&self, at: usize) -> &Token {
        static NOTHING: Token = Token {
            kind: TokenKind::Space,
            text: String::new(),
        };
        self.0.get(at).unwrap_or(&NOTHING)
    }

    /// The tokens of a range, as far as they are there.
    pub(crate) fn part(&self, range: Range<usize>) -> Text {
        let there = range.start..range.end.min(self.0.len());
        Text(self.0.get(there).unwrap_or_default().to_vec())
    }

    /// Removes the tokens of a range, as far as they are there.
    pub(crate) fn remove(&mut self, range: Range<usize>) {
        let there = range.start..range.end.min(self.0.len());
        if !there.is_empty() {
            self.0.drain(there);
        }
    }

    /// Adds to the text of the token at `at`.
    pub(crate) fn append(&mut self, at: usize, more: &str) {
        if let Some(token) = self.0.get_mut(at) {
            token.text += more;
        }
    }

    /// The first token from `at` on that is not space.
    pub(crate) fn solid(&self, at: usize) -> Option<usize> {
        (at..self.0.len()).find(|&index| self.token(index).kind != TokenKind::Space)
    }

    /// The token before `at` that is not space.
    pub(crate) fn before(&self, at: usize) -> Option<usize> {
        (0..at)
            .rev()
            .find(|&index| self.token(index).kind != TokenKind::Space)
    }

    /// Whether the token at `at`, spaces skipped, is the keyword `text`; then its place.
    pub(crate) fn keyword(&self, at: usize, text: &str) -> Option<usize> {
        self.solid(at).filter(|&index| self.token(index).is(text))
    }

    /// Puts `text` in the place of the token at `at`.
    pub(crate) fn replace(&mut self, at: usize, text: impl Into<String>) {
        if let Some(token) = self.0.get_mut(at) {
            token.text = text.into();
            token.kind = TokenKind::Quoted;
        }
    }

    /// The place of the name in `CREATE [TEMP] [UNIQUE] kind [IF NOT EXISTS] [schema.]name`.
    pub(crate) fn created(&self) -> Option<usize> {
        let mut at = self.keyword(0, "create")? + 1;
        for word in ["temp", "temporary", "unique"] {
            at = self.keyword(at, word).map_or(at, |found| found + 1);
        }
        at = self.solid(at)? + 1;
        if let Some(exists) = self
            .keyword(at, "if")
            .and_then(|found| self.keyword(found + 1, "not"))
            .and_then(|found| self.keyword(found + 1, "exists"))
        {
            at = exists + 1;
        }
        let name = self.solid(at)?;
        match self.keyword(name + 1, ".") {
            Some(dot) => self.solid(dot + 1),
            None => Some(name),
        }
    }

    /// The name that a `CREATE` statement creates.
    pub(crate) fn created_name(&self) -> Option<String> {
        self.token(self.created()?).name()
    }

    /// The place of the table's name in `CREATE INDEX … ON [schema.]table`, and in `CREATE TRIGGER`.
    pub(crate) fn on(&self) -> Option<usize> {
        let name = self.created()?;
        let on = (name + 1..self.0.len()).find(|&index| self.token(index).is("on"))?;
        let table = self.solid(on + 1)?;
        match self.keyword(table + 1, ".") {
            Some(dot) => self.solid(dot + 1),
            None => Some(table),
        }
    }

    /// The parts of a parenthesised list that opens at `open`: each from its first solid token to
    /// before its comma; and the place of the closing parenthesis.
    pub(crate) fn list(&self, open: usize) -> Option<(Vec<Range<usize>>, usize)> {
        let (mut depth, mut parts) = (0, Vec::new());
        let mut start = open + 1;
        for index in open..self.0.len() {
            let token = self.token(index);
            let ends = if token.is("(") {
                depth += 1;
                false
            } else if token.is(")") {
                depth -= 1;
                depth == 0
            } else {
                depth == 1 && token.is(",")
            };
            if ends {
                parts.push(self.solid(start)?..index);
                start = index + 1;
            }
            if depth == 0 {
                return Some((parts, index));
            }
        }
        None
    }

    /// Columns and constraints of a `CREATE TABLE`, and the place of the closing parenthesis.
    pub(crate) fn body(&self) -> Option<(Vec<Range<usize>>, usize)> {
        let open = self.keyword(self.created()? + 1, "(")?;
        self.list(open)
    }

    /// Whether the part of a `CREATE TABLE` at `at` is a constraint and not a column.
    pub(crate) fn is_constraint(&self, at: usize) -> bool {
        ["constraint", "primary", "unique", "check", "foreign"]
            .iter()
            .any(|word| self.token(at).is(word))
    }

    /// Whether some token spells `name`.
    pub(crate) fn mentions(&self, name: &str) -> bool {
        self.0.iter().any(|token| token.names(name))
    }
}

/// The text of a `CREATE` statement with `name` in place of the name it creates; any schema that
/// stood before it is gone.
pub(crate) fn create_as(sql: &str, name: &str) -> String {
    let mut tokens = Text::new(sql);
    if let Some(at) = tokens.created() {
        tokens.replace(at, name);
        if let Some(dot) = tokens.before(at).filter(|&dot| tokens.token(dot).is(".")) {
            let schema = tokens.before(dot).unwrap_or(dot);
            tokens.remove(schema..at);
        }
    }
    tokens.to_string()
}

/// The text of a `CREATE` statement for the database `schema`.
pub(crate) fn create_in(sql: &str, schema: &str) -> String {
    let tokens = Text::new(sql);
    match tokens.created() {
        Some(at) => create_as(sql, &format!("{schema}.{}", tokens.token(at).text)),
        None => sql.to_string(),
    }
}

/// Why `text` cannot be one SQL expression, as far as its brackets and quotes tell.
pub(crate) fn not_an_expression(text: &str) -> Option<&'static str> {
    let tokens = Text::new(text);
    if tokens.solid(0).is_none() {
        return Some("it is empty");
    }
    let mut depth = 0i64;
    for token in &tokens.0 {
        match token.kind {
            TokenKind::Unfinished => return Some("a quote or comment is not closed"),
            TokenKind::Other if token.text == ";" => return Some("it has a semicolon"),
            TokenKind::Other if token.text == "(" => depth += 1,
            TokenKind::Other if token.text == ")" => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            break;
        }
    }
    (depth != 0).then_some("its parentheses do not match")
}

/// TokenKind and length of the token at the start of `text`.
fn token(text: &str, first: char) -> (TokenKind, usize) {
    let span = |accept: fn(char) -> bool| text.find(|c| !accept(c)).unwrap_or(text.len());
    match first {
        c if c.is_ascii_whitespace() => (TokenKind::Space, span(|c| c.is_ascii_whitespace())),
        '-' if text.starts_with("--") => (TokenKind::Space, text.find('\n').unwrap_or(text.len())),
        '/' if text.starts_with("/*") => match text[2..].find("*/") {
            Some(end) => (TokenKind::Space, end + 4),
            None => (TokenKind::Unfinished, text.len()),
        },
        '\'' => quoted(text, first, TokenKind::String),
        '"' | '`' => quoted(text, first, TokenKind::Quoted),
        '[' => match text.find(']') {
            Some(end) => (TokenKind::Quoted, end + 1),
            None => (TokenKind::Unfinished, text.len()),
        },
        'x' | 'X' if text[1..].starts_with('\'') => {
            let (kind, length) = quoted(&text[1..], '\'', TokenKind::Other);
            (kind, length + 1)
        }
        c if c.is_ascii_digit() => (TokenKind::Other, span(|c| is_part(c) || c == '.')),
        c if is_part(c) => (TokenKind::Word, span(is_part)),
        c => (TokenKind::Other, c.len_utf8()),
    }
}

/// A character of names and keywords.
fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii()
}

/// A token that ends with `quote`, which doubled stands for itself.
fn quoted(text: &str, quote: char, kind: TokenKind) -> (TokenKind, usize) {
    let bytes = text.as_bytes();
    let mut at = 1;
    while let Some(found) = text[at..].find(quote) {
        at += found + 1;
        if bytes.get(at) != Some(&(quote as u8)) {
            return (kind, at);
        }
        at += 1;
    }
    (TokenKind::Unfinished, text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use litepack_btree::quote;

    /// Texts come from the database: a place behind their end is no panic.
    #[test]
    fn there_is_nothing_behind_the_end() {
        let mut text = Text::new("a b");
        assert_eq!(text.token(3).kind, TokenKind::Space);
        assert!(text.token(usize::MAX).name().is_none());
        assert_eq!(text.part(2..9).to_string(), "b");
        assert_eq!(text.part(9..12).to_string(), "");
        text.replace(9, "c");
        text.append(9, "d");
        text.remove(9..12);
        text.remove(1..9);
        assert_eq!(text.to_string(), "a");
    }

    #[test]
    fn every_byte_survives() {
        for text in [
            "create table \"a \"\"b\"(x /* ( */, y text default ')' -- ;\n, [z z] int)",
            "select x'00ff', 1.5e3, `q``q`, 'it''s', ü.ö, :p, ?1 || -2",
            "'open",
            "/* open",
            "[open",
            "",
        ] {
            assert_eq!(Text::new(text).to_string(), text);
        }
    }

    #[test]
    fn names_lose_their_quotes() {
        let name = |text: &str| Text::new(text).0[0].name();
        assert_eq!(name("\"a\"\"b\"").as_deref(), Some("a\"b"));
        assert_eq!(name("[a b]").as_deref(), Some("a b"));
        assert_eq!(name("`a``b`").as_deref(), Some("a`b"));
        assert_eq!(name("plain").as_deref(), Some("plain"));
        assert_eq!(name("12"), None);
        assert!(Text::new("\"Data\"").0[0].names("dATA"));
        assert_eq!(
            Text::new(&quote("a\"b")).0[0].name().as_deref(),
            Some("a\"b")
        );
    }

    #[test]
    fn the_created_name_and_the_table() {
        let name = |text: &str| {
            let sql = Text::new(text);
            sql.0[sql.created().expect("a name")].name()
        };
        assert_eq!(name("create table t(x)").as_deref(), Some("t"));
        assert_eq!(
            name("CREATE TEMP TRIGGER if not exists main . 'a b' after").as_deref(),
            Some("a b")
        );
        assert_eq!(name("create unique index[i]on t(x)").as_deref(), Some("i"));
        let sql = Text::new("create trigger x update of a on /* here */ T begin select 1; end");
        assert_eq!(sql.0[sql.on().expect("a table")].text, "T");
        assert_eq!(
            create_as("create table main.t(t)", "\"n\""),
            "create table \"n\"(t)"
        );
        assert_eq!(
            create_in("CREATE INDEX i on t(x)", "main"),
            "CREATE INDEX main.i on t(x)"
        );
    }

    #[test]
    fn parts_of_a_table() {
        let sql = Text::new(
            "create table t(a int default (1,2), \"b,\" check(b in (1)), unique(a, b)) strict",
        );
        let (parts, close) = sql.body().expect("a body");
        let firsts: Vec<&str> = parts
            .iter()
            .map(|part| sql.0[part.start].text.as_str())
            .collect();
        assert_eq!(firsts, ["a", "\"b,\"", "unique"]);
        assert!(sql.is_constraint(parts[2].start));
        assert!(sql.keyword(close + 1, "strict").is_some());
    }

    #[test]
    fn what_is_no_expression() {
        for text in ["", " -- x", "1) from t; --", "'a", "f(1", "a;b", ")("] {
            assert!(not_an_expression(text).is_some(), "{text}");
        }
        for text in ["'a'", "case when a then ')' end", "f(1) -- ("] {
            assert!(not_an_expression(text).is_none(), "{text}");
        }
    }
}
