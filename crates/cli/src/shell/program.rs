//! The `sqlite3` shell that is there, and starting it.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Error, Result, bail};

/// The question to a shell, in SQL: its version, and whether it can load extensions at all.
const QUESTION: &str = "select sqlite_version(), sqlite_compileoption_used('OMIT_LOAD_EXTENSION');";

const HOW_TO_INSTALL: &str = "install SQLite's own shell: the package sqlite3 of Debian and Ubuntu, sqlite of Fedora, \
     Arch, Alpine and Homebrew, or sqlite-tools from sqlite.org; or use --sqlite3 PROGRAM";

/// A file that has nothing in it.
const EMPTY_FILE: &str = if cfg!(windows) { "NUL" } else { "/dev/null" };

/// Keeps the shell from reading a startup file: the script has it, to be read when the database is open. Before that
/// it would be for one in memory. Where the shell itself looks for one does not depend on `HOME`.
const NO_STARTUP_FILE: &[&str] = &["-init", EMPTY_FILE];

/// The same where the input is a terminal, but is not read: the shell says which file it reads there, too.
const NONE_UNREAD: &[&str] = &["-init", EMPTY_FILE, "-batch"];

/// The same at a prompt, where the shell says which file it reads, be it empty: before it reads it, it looks for
/// `-batch` only, and then for `-interactive` as well.
const NONE_AND_QUIET: &[&str] = &["-init", EMPTY_FILE, "-batch", "-interactive"];

/// The same for shells of 2026 and later, which have an option for it. Others refuse it, but not before they have read
/// the file.
const NONE_BY_OPTION: &[&str] = &["-init", EMPTY_FILE, "-noinit"];

/// From where the shell takes what it is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// From a terminal.
    Prompt,
    /// From its arguments; its input is a terminal.
    Unread,
    /// From a file or a pipe, or its arguments.
    Other,
}

/// A shell that can load extensions.
pub struct Shell {
    program: PathBuf,
    /// Its first options.
    first: &'static [&'static str],
    /// A variable that it is not to have: there is a key in it.
    without: Option<OsString>,
}

/// The program, with the environment of this process but for that variable.
fn command(program: &Path, without: Option<&OsStr>) -> Command {
    let mut command = Command::new(program);
    if let Some(without) = without {
        command.env_remove(without);
    }
    command
}

impl Shell {
    /// Asks the program whether it will do.
    pub fn find(program: &Path, input: Input, without: Option<&OsStr>) -> Result<Shell> {
        let ways: &[_] = match input {
            Input::Prompt => &[NONE_BY_OPTION, NONE_AND_QUIET],
            Input::Unread => &[NONE_BY_OPTION, NONE_UNREAD],
            Input::Other => &[NO_STARTUP_FILE],
        };
        for &first in ways {
            let answer = command(program, without)
                .arg("-batch")
                .args(first)
                .args([":memory:", QUESTION])
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .output()
                .map_err(|error| cannot_start(program, error))?;
            let answer = String::from_utf8_lossy(&answer.stdout);
            match answer.trim().split_once('|') {
                Some((version, "1")) => bail!(
                    "{} (SQLite {version}) is built without loading of extensions; {HOW_TO_INSTALL}",
                    program.display()
                ),
                Some((_, "0")) => {
                    let program = program.to_owned();
                    let without = without.map(OsStr::to_owned);
                    return Ok(Shell {
                        program,
                        first,
                        without,
                    });
                }
                _ => {}
            }
        }
        bail!(
            "{} does not answer as SQLite's shell does; {HOW_TO_INSTALL}",
            program.display()
        )
    }

    /// Becomes the shell. Where that cannot be done, waits for it.
    pub fn run(
        self,
        script: Vec<OsString>,
        options: &[OsString],
        sql: &[OsString],
    ) -> Result<ExitCode> {
        let mut command = command(&self.program, self.without.as_deref());
        command
            .args(self.first)
            .args(script)
            .args(options)
            .args(sql);
        #[cfg(unix)]
        {
            let error = std::os::unix::process::CommandExt::exec(&mut command);
            Err(cannot_start(&self.program, error))
        }
        #[cfg(not(unix))]
        {
            let status = command
                .status()
                .map_err(|error| cannot_start(&self.program, error))?;
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
        }
    }
}

fn cannot_start(program: &Path, error: std::io::Error) -> Error {
    let program = program.display();
    match error.kind() {
        ErrorKind::NotFound => anyhow::anyhow!("there is no {program}; {HOW_TO_INSTALL}"),
        _ => Error::new(error).context(format!("cannot start {program}")),
    }
}
