//! `litepack adopt`: finds the databases of other programs, and packs them in place so that it can be undone.
//!
//! ```text
//! adopt/text.rs  reports and results for people
//! ```

mod text;

use std::path::{Path, PathBuf};

use anyhow::Result;
use litepack::{Error, Job, PackOptions, printable_path};
use litepack_adopt::{Adopted, Found, Opens, State, Undone, Why};
use litepack_adopt::{adopt, database_of, find, forget, kept, look, undo};
use serde_json::{Value, json};

use crate::job::{another, interruptible};
use crate::output::{self, failed, print, tell};
use crate::{DONE, ERROR, words};

/// Finds SQLite databases, says whose they are, what packing would save and whether those programs can open packed files.
///
/// Nothing is changed without --pack, --undo or --forget. A database that is packed keeps its original beside it, as
/// NAME.litepack-original, until --forget. Below a directory --pack takes only those of programs that are known to open
/// packed files, and for which it is worth it; a file that is named is packed unless something is in the way.
#[derive(clap::Args)]
#[command(override_usage = "litepack adopt [--json] PATH...\n       \
                      litepack adopt --pack | --undo | --forget [--json] PATH...")]
pub struct Arguments {
    /// Databases, or directories that have some below them.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Pack them in place, and keep the originals.
    #[arg(long, conflicts_with_all = ["undo", "forget"])]
    pack: bool,
    /// Make them plain again, with what was written since.
    #[arg(long, conflicts_with = "forget")]
    undo: bool,
    /// Delete the originals that are kept.
    #[arg(long)]
    forget: bool,
    /// Print an array of JSON objects.
    #[arg(long)]
    json: bool,
}

/// Runs the command, and says with which code to exit.
pub fn run(arguments: &Arguments) -> Result<u8> {
    let job = interruptible();
    let mut run = Run {
        arguments,
        job: &job,
        printed: 0,
        failures: 0,
        totals: text::Totals::default(),
    };
    let done = arguments.paths.iter().try_for_each(|path| run.path(path));
    run.end()?;
    match done {
        Err(error) => Err(kept_so_far(error)),
        Ok(()) if run.failures > 0 => Ok(ERROR),
        Ok(()) => Ok(DONE),
    }
}

/// Of an interruption, what was done before it.
fn kept_so_far(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<Error>() {
        Ok(error) => error.keeping("databases that were done stay so").into(),
        Err(other) => other,
    }
}

/// A call for several paths. Reports are printed one by one, as there may be many.
struct Run<'a> {
    arguments: &'a Arguments,
    job: &'a Job<'a>,
    printed: usize,
    failures: usize,
    totals: text::Totals,
}

impl Run<'_> {
    fn path(&mut self, path: &Path) -> Result<()> {
        if !path.is_dir() {
            return self.file(path, true);
        }
        // Of what is told to be undone or let go all has to be found. What is elsewhere was not asked for.
        let takes_all = self.arguments.undo || self.arguments.forget;
        let mut unseen = 0;
        let mut missed = |path: &Path, why: &Why| {
            let is_asked =
                !matches!(why, Why::Elsewhere) && (!path.is_file() || has_original(path));
            unseen += usize::from(takes_all && is_asked);
            tell!("warning: {} is left out: {why}", printable_path(path));
        };
        let done = find(path, self.job, &mut missed, |file| self.file(file, false));
        self.failures += unseen;
        done
    }

    /// One file; whether the user has named it.
    fn file(&mut self, path: &Path, is_named: bool) -> Result<()> {
        another();
        let done = if self.arguments.pack {
            self.pack(path, is_named)
        } else if self.arguments.undo {
            self.undo(path, is_named)
        } else if self.arguments.forget {
            self.forget(path, is_named)
        } else {
            self.report(path)
        };
        let Err(error) = done else {
            return Ok(());
        };
        let told = error.downcast_ref::<Error>();
        if told.is_none_or(Error::is_interrupted) {
            return Err(error);
        }
        self.failures += 1;
        let why = words(&error);
        failed(&printable_path(path), &why);
        if self.arguments.json {
            self.json(&json!({"file": path.to_string_lossy(), "error": why}))?;
        }
        Ok(())
    }

    fn report(&mut self, path: &Path) -> Result<()> {
        let found = look(path, self.job)?;
        self.totals.add(&found);
        match self.arguments.json {
            true => self.json(&serde_json::to_value(&found)?),
            false => print(text::of(&found)),
        }
    }

    fn pack(&mut self, path: &Path, is_named: bool) -> Result<()> {
        let found = look(path, self.job)?;
        if !is_named && let Some(why) = why_left(&found) {
            return self.said(path, "left", &why, json!({}));
        }
        match adopt(&found, &PackOptions::default(), self.job)? {
            Adopted::Before => self.said(path, "packed before", &text::kept(path), json!({})),
            Adopted::Now(sizes) => {
                let words = format!("{}; {}", text::sizes(sizes), text::kept(path));
                self.said(path, "packed", &words, serde_json::to_value(sizes)?)
            }
        }
    }

    fn undo(&mut self, path: &Path, is_named: bool) -> Result<()> {
        if !is_named && !has_original(path) {
            return expect_database(path);
        }
        match undo(path, self.job)? {
            Undone::Original => {
                self.said(path, "plain", "it is the original, bit for bit", json!({}))
            }
            Undone::Newer => {
                let words = format!("it has what was written since; {}", text::kept(path));
                self.said(path, "plain, and newer", &words, json!({}))
            }
        }
    }

    fn forget(&mut self, path: &Path, is_named: bool) -> Result<()> {
        if !is_named && !has_original(path) {
            return expect_database(path);
        }
        forget(path, self.job)?;
        self.said(path, "forgotten", "the original is deleted", json!({}))
    }

    /// Prints what was done with a file, and more about it.
    fn said(&mut self, path: &Path, done: &str, words: &str, more: Value) -> Result<()> {
        if !self.arguments.json {
            return print(format_args!("{}: {done}: {words}\n", printable_path(path)));
        }
        let mut fields = json!({"file": path.to_string_lossy(), "done": done, "words": words});
        if let (Value::Object(fields), Value::Object(more)) = (&mut fields, more) {
            fields.extend(more);
        }
        self.json(&fields)
    }

    /// An element of the array.
    fn json(&mut self, element: &Value) -> Result<()> {
        print(if self.printed == 0 { "[\n" } else { ",\n" })?;
        self.printed += 1;
        output::json(element)
    }

    fn end(&self) -> Result<()> {
        if self.arguments.json {
            return print(if self.printed == 0 { "[]\n" } else { "]\n" });
        }
        let changes = self.arguments.pack || self.arguments.undo || self.arguments.forget;
        if !changes {
            tell!("{}", self.totals);
        }
        Ok(())
    }
}

fn has_original(path: &Path) -> bool {
    kept(path).symlink_metadata().is_ok()
}

/// An error if a file that was found below a directory is an original: then there is no database beside it.
fn expect_database(path: &Path) -> Result<()> {
    match database_of(path) {
        Some(database) => Err(Error::Refused(format!(
            "{} is an original, and {} is not there or is no database: give it that name",
            path.display(),
            database.display()
        ))
        .into()),
        None => Ok(()),
    }
}

/// Why a database that the user has not named is left as it is.
fn why_left(found: &Found) -> Option<String> {
    if found.state == State::Adopted {
        return None;
    }
    let error = found.error.clone();
    error.or_else(|| found.obstacle.clone()).or_else(|| {
        let why = match (found.state, found.opens) {
            (State::Packed, _) => "it is packed, and no original is kept",
            (State::OriginalAlone, _) => {
                "it is an original whose database is not there, or is none"
            }
            (_, None) => "it is not known whose it is; name it to have it packed",
            (_, Some(Opens::Perhaps)) => {
                "it depends on how the program was installed; name it to have it packed"
            }
            _ if !found.is_worthwhile => "packing it would save little",
            _ => return None,
        };
        Some(why.to_owned())
    })
}
