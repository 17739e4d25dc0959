//! A process for the tests that need several, or need one to kill.
//!
//! ```text
//! worker bank ROLE PATH WORKER SECONDS            plays a role; a line per transfer, then a tally
//! worker churn PATH SEED JOURNAL SYNCHRONOUS PAGE [SECOND]
//!                                                 works until killed; a line per transaction
//! worker columns PATH SEED                        compresses a column and changes it until killed
//! worker ask PATH                                 a line of SQL from standard input after the other; their first values
//! ```
//!
//! With LITEPACK_STANDING=1 in the environment logs stand on small databases, too.
//!
//! Exit code 1 and a message on standard error when something failed that may not fail.

use litepack_tests::bank::{self, Role};
use litepack_tests::churn::{self, Habits};
use litepack_tests::{columns, vfs};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if std::env::var_os("LITEPACK_STANDING").is_some_and(|value| value == "1") {
        litepack_sqlite::let_logs_stand_from(1);
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["bank", role, path, worker, seconds] => {
            let role = Role::parse(role).ok_or("unknown role")?;
            let time = Duration::from_secs_f64(number(seconds)?);
            let path = Path::new(path);
            let tally = bank::play(path, role, number(worker)?, time, &mut |n| say("done", n))?;
            say("tally", tally.done);
            say("busy", tally.busy);
            Ok(())
        }
        [
            "churn",
            path,
            seed,
            journal,
            synchronous,
            page_size,
            ref second @ ..,
        ] => {
            let habits = Habits {
                journal: journal.into(),
                synchronous: synchronous.into(),
                page_size: number(page_size)?,
                second: second.first().map(|uri| uri.to_string()),
            };
            let mut report = |n| say("done", n);
            churn::work(Path::new(path), &habits, number(seed)?, &mut report)
                .map_err(|error| format!("churn: {error}"))
        }
        ["columns", path, seed] => {
            let mut seed: u64 = number(seed)?;
            let words = |error: rusqlite::Error| error.to_string();
            let db = vfs::open_plain(Path::new(path)).map_err(words)?;
            loop {
                let mut changes = 0..3;
                let again = || changes.next().is_some();
                columns::disturb(&db, seed, again).map_err(words)?;
                columns::maintain(&db, Some(0.0)).map_err(words)?;
                seed = seed.wrapping_add(1000);
            }
        }
        ["ask", path] => {
            let words = |error: rusqlite::Error| error.to_string();
            let db = vfs::open(Path::new(path)).map_err(words)?;
            for sql in std::io::stdin().lines() {
                let sql = sql.map_err(|error| error.to_string())?;
                let value = db.query_row(&sql, [], |row| row.get::<_, rusqlite::types::Value>(0));
                say("first", format_args!("{:?}", value.map_err(words)?));
            }
            Ok(())
        }
        _ => Err("usage: see the head of this program's source".into()),
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("not a number: {text}"))
}

/// One line, written at once, so that its reader may rely on it.
fn say(word: &str, number: impl std::fmt::Display) {
    let line = format!("{word} {number}\n");
    let mut out = std::io::stdout().lock();
    // A reader that went away does not end this process: the parent decides when the work ends.
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}
