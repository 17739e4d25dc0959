//! Scripts of SQL for the differential tests: how a text is split into steps.
//!
//! A step ends at a line that ends in `;` (`create trigger` at `end;`). Lines that begin with `--`
//! are comments. A mark before a step says more about it:
//!
//! | mark | meaning |
//! |---|---|
//! | none | must succeed, with the same answer on both sides |
//! | `!` | must fail, with the same code and message on both sides |
//! | `?` | may do either, but the same on both sides |
//! | `~` | must succeed on both sides, the answers may differ |
//! | `@use N;` | continue on connection number N, opened when it is not |
//! | `@close;` | close the current connection |
//! | `@reopen PARAMETERS;` | close all connections, open the current one with URI parameters |
//!
//! In the text, `{dir}` stands for the directory of the side, `{own:NAME}` for a URI of the file
//! NAME on the VFS of the side, `{plain:NAME}` and `{packed:NAME}` for one on a VFS by name. NAME
//! may carry `&parameters`.

/// The promise of a step of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Success and equal answers.
    Success,
    /// The same failure.
    Failure,
    /// The same outcome, whichever.
    Same,
    /// Success, answers may differ.
    Quiet,
}

/// One step of a script.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A statement.
    Sql(Expect, String),
    /// Continue on the connection of this number.
    Use(usize),
    /// Close the current connection.
    Close,
    /// Close all and open the current connection again, with these URI parameters.
    Reopen(String),
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Step::Sql(Expect::Success, sql) => write!(f, "{sql};"),
            Step::Sql(Expect::Failure, sql) => write!(f, "!{sql};"),
            Step::Sql(Expect::Same, sql) => write!(f, "?{sql};"),
            Step::Sql(Expect::Quiet, sql) => write!(f, "~{sql};"),
            Step::Use(number) => write!(f, "@use {number};"),
            Step::Close => write!(f, "@close;"),
            Step::Reopen(parameters) => write!(f, "@reopen {parameters};"),
        }
    }
}

/// Splits a script into its steps.
pub fn steps(script: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut pending = String::new();
    for line in script.lines() {
        if pending.is_empty() && (line.trim().is_empty() || line.trim().starts_with("--")) {
            continue;
        }
        pending.push_str(if pending.is_empty() {
            line.trim_start()
        } else {
            line
        });
        if ends_statement(&pending) {
            let text = pending.trim_end().trim_end_matches(';').to_string();
            steps.push(step(&text));
            pending.clear();
        } else {
            pending.push('\n');
        }
    }
    assert!(
        pending.trim().is_empty(),
        "a script ends inside a statement: {pending}"
    );
    steps
}

fn ends_statement(text: &str) -> bool {
    let text = text.trim_end().to_ascii_lowercase();
    let head = text.trim_start_matches(['!', '?', '~', ' ']);
    let trigger = head.starts_with("create trigger") || head.starts_with("create temp trigger");
    if trigger {
        text.ends_with("end;")
    } else {
        text.ends_with(';')
    }
}

fn step(text: &str) -> Step {
    if let Some(number) = text.strip_prefix("@use ") {
        return Step::Use(number.trim().parse().expect("@use takes a number"));
    }
    if let Some(parameters) = text.strip_prefix("@reopen") {
        return Step::Reopen(parameters.trim().to_string());
    }
    if text == "@close" {
        return Step::Close;
    }
    let (expect, sql) = match text.as_bytes()[0] {
        b'!' => (Expect::Failure, &text[1..]),
        b'?' => (Expect::Same, &text[1..]),
        b'~' => (Expect::Quiet, &text[1..]),
        _ => (Expect::Success, text),
    };
    Step::Sql(expect, sql.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_splits_at_line_ends_and_keeps_triggers_whole() {
        let script = "
            -- a comment
            create table t(x);
            !select 'a;b'
              from missing;
            create trigger g after insert on t begin
              delete from t;
            end;
            @use 1;
            @reopen mode=ro;
        ";
        let steps = steps(script);
        assert_eq!(steps.len(), 5);
        assert_eq!(
            steps[0],
            Step::Sql(Expect::Success, "create table t(x)".into())
        );
        assert!(matches!(&steps[1], Step::Sql(Expect::Failure, sql) if sql.contains("a;b")));
        assert!(matches!(&steps[2], Step::Sql(Expect::Success, sql) if sql.ends_with("end")));
        assert_eq!(steps[3], Step::Use(1));
        assert_eq!(steps[4], Step::Reopen("mode=ro".into()));
    }
}
