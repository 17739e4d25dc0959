//! Moves a user's trigger from a table to its backing table.
//!
//! There `NEW.c` and `OLD.c` of a compressed column have to name the column that decodes. A trigger
//! whose body writes the table must write the backing table directly: SQLite does not run a view's
//! INSTEAD OF trigger while that same trigger is running, and would lose the write silently.

use std::ops::Range;

use crate::sql::{Error, Result};
use crate::table::{dict_column, plain_column};
use crate::tokens::{Text, TokenKind};
use litepack_btree::quote;

/// A trigger whose body does not write the table: it keeps its text but for the table's name, and
/// `NEW` and `OLD` of the compressed columns.
pub(crate) fn carry(sql: &str, backing: &str, columns: &[&str]) -> String {
    let mut text = Text::new(sql);
    if let Some(at) = text.on() {
        text.replace(at, quote(backing));
    }
    for at in 0..text.0.len() {
        if !(text.token(at).names("new") || text.token(at).names("old")) {
            continue;
        }
        let name = text
            .keyword(at + 1, ".")
            .and_then(|dot| text.solid(dot + 1));
        let Some(name) = name else { continue };
        if let Some(column) = columns.iter().find(|column| text.token(name).names(column)) {
            text.replace(name, quote(&plain_column(column)));
        }
    }
    for at in watched(&text).unwrap_or_default() {
        if let Some(column) = columns.iter().find(|column| text.token(at).names(column)) {
            text.replace(at, quote(&plain_column(column)));
        }
    }
    settle(&text.to_string(), columns)
}

/// A trigger in which SQLite has renamed the table to `backing` and the columns to those that decode:
/// where such a column is written, the stored one has to be.
///
/// # Errors
/// The body selects `*`, which would see the columns that users do not.
pub(crate) fn redirect(
    sql: &str,
    name: &str,
    backing: &str,
    columns: &[&str],
    all: &[String],
) -> Result<String> {
    let mut text = Text::new(sql);
    if has_star(&text) {
        return Err(Error::new(format!(
            "trigger {name} writes the table and selects *; create it anew with the columns' names"
        )));
    }
    let own = text.on().is_some_and(|at| text.token(at).names(backing));
    let mut at = 0;
    while at < text.0.len() {
        if let Some(set) = assignments(&text, at, backing) {
            assign_stored(&mut text, set, columns);
        } else if let Some(table) = text
            .token(at)
            .is("into")
            .then(|| text.solid(at + 1))
            .flatten()
            && text.token(table).names(backing)
        {
            insert_stored(&mut text, table, columns, all);
        } else if text.token(at).names("excluded")
            && let Some(name) = text
                .keyword(at + 1, ".")
                .and_then(|dot| text.solid(dot + 1))
        {
            stored(&mut text, name, columns);
        }
        at += 1;
    }
    Ok(if own {
        settle(&text.to_string(), columns)
    } else {
        text.to_string()
    })
}

/// Whether the body of a trigger writes `table`.
pub(crate) fn writes(sql: &str, table: &str) -> bool {
    let text = Text::new(sql);
    (0..text.0.len()).any(|at| {
        let token = text.token(at);
        let target = if token.is("into") {
            text.solid(at + 1)
        } else if token.is("from") {
            let delete = text
                .before(at)
                .filter(|&before| text.token(before).is("delete"));
            delete.and_then(|_| text.solid(at + 1))
        } else if token.is("update") {
            update_target(&text, at)
        } else {
            None
        };
        target.is_some_and(|target| text.token(target).names(table))
    })
}

/// The table of the UPDATE statement whose keyword is at `at`.
fn update_target(text: &Text, at: usize) -> Option<usize> {
    let next = match text.keyword(at + 1, "or") {
        Some(or) => text.solid(text.solid(or + 1)? + 1)?,
        None => text.solid(at + 1)?,
    };
    // UPDATE OF and UPDATE ON belong to a trigger's head, UPDATE SET to an upsert.
    let head = ["of", "on", "set"]
        .iter()
        .any(|word| text.token(next).is(word));
    (!head).then_some(next)
}

/// The place after SET, if an UPDATE of `table` or an upsert starts at `at`.
fn assignments(text: &Text, at: usize, table: &str) -> Option<usize> {
    if !text.token(at).is("update") {
        return None;
    }
    if let Some(set) = text.keyword(at + 1, "set") {
        // DO UPDATE SET belongs to the INSERT before it.
        let into = (0..at).rev().find(|&index| text.token(index).is("into"))?;
        let target = text.solid(into + 1)?;
        return text.token(target).names(table).then_some(set + 1);
    }
    let target = update_target(text, at).filter(|&target| text.token(target).names(table))?;
    let set = (target + 1..text.0.len()).find(|&index| text.token(index).is("set"))?;
    Some(set + 1)
}

/// Replaces the decoding column at `at` by the stored one, and names that.
fn stored<'a>(text: &mut Text, at: usize, columns: &[&'a str]) -> Option<&'a str> {
    let column = columns
        .iter()
        .find(|column| text.token(at).names(&plain_column(column)))?;
    text.replace(at, quote(column));
    Some(column)
}

fn assign_stored(text: &mut Text, start: usize, columns: &[&str]) {
    let (mut depth, mut at, mut end) = (0, start, start);
    let mut target = true;
    let mut assigned = Vec::new();
    while let Some(index) = text.solid(at) {
        let token = text.token(index);
        let word = |word: &str| token.is(word);
        if depth == 0
            && (["where", "order", "limit", "returning", ";"]
                .iter()
                .any(|w| word(w))
                || word("from") && !text.token(end).is("distinct"))
        {
            break;
        }
        if word("(") {
            depth += 1;
        } else if word(")") {
            depth -= 1;
            target &= depth > 0;
        } else if depth == 0 && word(",") {
            target = true;
        } else if depth == 0 && word("=") {
            target = false;
        } else if target {
            assigned.extend(stored(text, index, columns));
        }
        end = index;
        at = index + 1;
    }
    for column in assigned {
        text.append(end, &format!(", {} = null", quote(&dict_column(column))));
        if let Some(token) = text.0.get_mut(end) {
            token.kind = TokenKind::Other;
        }
    }
}

fn insert_stored(text: &mut Text, table: usize, columns: &[&str], all: &[String]) {
    let mut at = table;
    if let Some(alias) = text.keyword(at + 1, "as") {
        at = text.solid(alias + 1).unwrap_or(at);
    }
    if let Some(open) = text.keyword(at + 1, "(") {
        let names = text.list(open).map(|(names, _)| names).unwrap_or_default();
        for name in names {
            stored(text, name.start, columns);
        }
    } else if text.keyword(at + 1, "default").is_none() {
        text.append(at, &format!("({})", all.join(", ")));
    }
}

fn has_star(text: &Text) -> bool {
    (0..text.0.len()).any(|at| {
        let before = text.token(at).is("*").then(|| text.before(at)).flatten();
        before.is_some_and(|before| {
            ["select", "distinct", "all", ",", "."]
                .iter()
                .any(|word| text.token(before).is(word))
        })
    })
}

/// The places between `OF` and `ON` in the head of a trigger.
fn watched(text: &Text) -> Option<Range<usize>> {
    let name = text.created()?;
    let update = (name + 1..text.0.len()).find(|&at| text.token(at).is("update"))?;
    let of = text.keyword(update + 1, "of")?;
    let on = (of..text.0.len()).find(|&at| text.token(at).is("on"))?;
    Some(of + 1..on)
}

/// Gives a trigger of the backing table the conditions it needs there.
///
/// `UPDATE OF a, b` becomes a condition that they changed: the statement that reaches the backing table
/// always sets all columns. And in a BEFORE UPDATE trigger SQLite takes those columns for NULL that
/// neither the statement nor the trigger names, the stored ones behind a decoding column too: so the
/// trigger names them.
pub(crate) fn settle(sql: &str, columns: &[&str]) -> String {
    let mut text = Text::new(sql);
    let mut conditions: Vec<String> = columns
        .iter()
        .filter(|column| is_before_update(&text) && text.mentions(&plain_column(column)))
        .map(|column| named(column))
        .collect();
    if let Some(names) = watched(&text) {
        let changed = |name: String| {
            let name = quote(&name);
            format!(
                "new.{name} is not old.{name} collate binary or typeof(new.{name}) <> typeof(old.{name})"
            )
        };
        let names: Vec<usize> = names.collect();
        let terms: Vec<String> = names
            .iter()
            .filter_map(|&at| text.token(at).name())
            .map(changed)
            .collect();
        conditions.push(format!("({})", terms.join(" or ")));
        if let (Some(first), Some(last)) = (names.first(), names.last()) {
            text.remove(first.saturating_sub(1)..last + 1);
        }
    }
    let on = text.on().unwrap_or(0);
    let begin = (on..text.0.len()).find(|&at| text.token(at).is("begin"));
    let (Some(begin), false) = (begin, conditions.is_empty()) else {
        return text.to_string();
    };
    let part = |from: usize, to: usize| text.part(from..to).to_string();
    let when = (on..begin).find(|&at| text.token(at).is("when"));
    if let Some(when) = when {
        conditions.push(format!("({})", part(when + 1, begin).trim()));
    }
    format!(
        "{}when {} {}",
        part(0, when.unwrap_or(begin)),
        conditions.join(" and "),
        part(begin, text.0.len())
    )
}

/// A condition that is always true and names the stored columns.
pub(crate) fn named(column: &str) -> String {
    format!(
        "(new.{} is null or new.{} is null or 1)",
        quote(column),
        quote(&dict_column(column))
    )
}

fn is_before_update(text: &Text) -> bool {
    let head = || {
        let name = text.created()?;
        let time = text.solid(name + 1)?;
        let is_after = text.token(time).is("after");
        let event = (time..text.on()?).any(|at| text.token(at).is("update"));
        Some(event && !is_after)
    };
    head().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carried() {
        let sql = "CREATE TRIGGER r after insert on t when new.c > 'c' begin insert into log select old . C, c from t; end";
        assert_eq!(
            carry(sql, "_t_zstd", &["c"]),
            "CREATE TRIGGER r after insert on \"_t_zstd\" when new.\"_c_plain\" > 'c' begin insert into log select old . \"_c_plain\", c from t; end"
        );
    }

    #[test]
    fn before_update_names_the_stored_columns() {
        let sql = "CREATE TRIGGER r update on t when new.c > 1 begin select 1; end";
        assert_eq!(
            carry(sql, "_t_zstd", &["c", "d"]),
            "CREATE TRIGGER r update on \"_t_zstd\" when (new.\"c\" is null or new.\"_c_dict\" is null or 1) \
             and (new.\"_c_plain\" > 1) begin select 1; end"
        );
    }

    #[test]
    fn an_update_of_columns_becomes_a_condition() {
        let sql = "CREATE TRIGGER r after update of a on t for each row when new.a>1 or 1 begin select 1; end";
        assert_eq!(
            carry(sql, "_t_zstd", &["c"]),
            "CREATE TRIGGER r after update on \"_t_zstd\" for each row when (new.\"a\" is not old.\"a\" collate binary \
             or typeof(new.\"a\") <> typeof(old.\"a\")) and (new.a>1 or 1) begin select 1; end"
        );
    }

    #[test]
    fn writes_go_to_the_stored_column() {
        let all = ["\"id\"".to_string(), "\"c\"".to_string()];
        let redirect = |body: &str| {
            let sql = format!("CREATE TRIGGER r after insert on \"_t_zstd\" begin {body}; end");
            let made = redirect(&sql, "r", "_t_zstd", &["c"], &all)?;
            Ok::<String, Error>(
                made["CREATE TRIGGER r after insert on \"_t_zstd\" begin ".len()..].to_string(),
            )
        };
        assert_eq!(
            redirect(
                "update \"_t_zstd\" set x=(select 1), \"_c_plain\" = \"_c_plain\"||'x' where id=1"
            )
            .expect("made"),
            "update \"_t_zstd\" set x=(select 1), \"c\" = \"_c_plain\"||'x', \"_c_dict\" = null where id=1; end"
        );
        assert_eq!(
            redirect("update or ignore \"_t_zstd\" set (x,\"_c_plain\")=(1,\"_c_plain\")")
                .expect("made"),
            "update or ignore \"_t_zstd\" set (x,\"c\")=(1,\"_c_plain\"), \"_c_dict\" = null; end"
        );
        assert_eq!(
            redirect("insert into \"_t_zstd\"(id,\"_c_plain\") values(1,2)").expect("made"),
            "insert into \"_t_zstd\"(id,\"c\") values(1,2); end"
        );
        assert_eq!(
            redirect("replace into \"_t_zstd\" values(1,2)").expect("made"),
            "replace into \"_t_zstd\"(\"id\", \"c\") values(1,2); end"
        );
        assert!(redirect("insert into \"_t_zstd\" select * from u").is_err());
    }

    #[test]
    fn what_writes() {
        for (body, expected) in [
            ("update T set x=1", true),
            ("update or ignore \"t\" set x=1", true),
            ("insert into t values(1)", true),
            ("replace into t values(1)", true),
            ("delete from t", true),
            ("delete from u where x in (select x from t)", false),
            ("insert into u select * from t", false),
        ] {
            let sql = format!("create trigger r after update on t begin {body}; end");
            assert_eq!(writes(&sql, "t"), expected, "{body}");
        }
    }
}
