//! The `sqlite3` shell that is there, and starting it.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Error, Result, bail};

use super::script::EMPTY_FILE;

/// What a shell must be, asked in SQL: its version, and whether it can load extensions at all.
const QUESTION: &str = "select sqlite_version(), sqlite_compileoption_used('OMIT_LOAD_EXTENSION');";

const HOW_TO_INSTALL: &str = "install SQLite's own shell: the package sqlite3 of Debian and Ubuntu, sqlite of Fedora, \
     Arch, Alpine and Homebrew, or sqlite-tools from sqlite.org; or use --sqlite3 PROGRAM";

/// A shell that can load extensions.
pub struct Shell(PathBuf);

impl Shell {
    /// Asks the program whether it will do.
    pub fn find(program: &Path) -> Result<Shell> {
        let answer = Command::new(program)
            .args(["-batch", "-init", EMPTY_FILE, ":memory:", QUESTION])
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
            Some((_, "0")) => Ok(Shell(program.to_owned())),
            _ => bail!(
                "{} does not answer as SQLite's shell does; {HOW_TO_INSTALL}",
                program.display()
            ),
        }
    }

    /// Becomes the shell. Where that cannot be done, waits for it.
    pub fn run(
        self,
        script: Vec<OsString>,
        options: &[OsString],
        sql: &[OsString],
    ) -> Result<ExitCode> {
        let mut command = Command::new(&self.0);
        command.args(script).args(options).args(sql);
        #[cfg(unix)]
        {
            let error = std::os::unix::process::CommandExt::exec(&mut command);
            Err(cannot_start(&self.0, error))
        }
        #[cfg(not(unix))]
        {
            let status = command
                .status()
                .map_err(|error| cannot_start(&self.0, error))?;
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
