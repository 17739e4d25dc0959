//! `litepack run`: another program, in which packed files open by their names.
//!
//! The program is started with a library of ours before its own, which the system's loader puts into it and into what it
//! starts (crates/preload). Where that can do nothing the program is not started: one that takes a packed file for
//! damaged might put a new database in its place.
//!
//! ```text
//! run/program.rs  which file a name leads to      run/obstacle.rs  why packed files would not open in it
//! ```

mod obstacle;
mod program;

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::library;
use crate::output::tell;

/// As it is installed, and as cargo names it.
const NAMES: [&str; 2] = ["liblitepack-preload.so", "liblitepack_preload.so"];
const EXTENSION: &str = "liblitepack.so";
/// The variable that the system's loader reads. Spaces and colons are between its paths.
const VARIABLE: &str = "LD_PRELOAD";

/// As `env` answers.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Runs a program, in which packed databases open by their names.
///
/// It has to use the system's SQLite, as Python, PHP, Perl, Ruby and the shell sqlite3 do. Plain databases stay plain,
/// and what it creates is plain. Programs that it starts open packed databases, too. One that cannot open them, because
/// it has a SQLite of its own built in, is not started.
#[derive(clap::Args)]
#[command(override_usage = "litepack run [OPTIONS] [--] PROGRAM [ARGUMENT]...")]
pub struct Arguments {
    /// Start the program also if packed databases will not open in it.
    #[arg(long)]
    anyway: bool,
    /// What is loaded into it [default: liblitepack-preload beside this command, or in ../lib/litepack or ../lib from
    /// there].
    #[arg(long, value_name = "PATH")]
    preload: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    command: Vec<OsString>,
}

/// Becomes the program; answers only if it cannot be started.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Some((name, others)) = arguments.command.split_first() else {
        bail!("which program?");
    };
    let asked_for = arguments.preload.as_deref();
    let preload = library::find("library", &NAMES, "--preload", asked_for)?;
    let preload = preload
        .canonicalize()
        .with_context(|| format!("cannot read {}", preload.display()))?;
    let extension = preload.with_file_name(EXTENSION);
    if !extension.is_file() {
        bail!("there is no extension {}", extension.display());
    }
    let program = program::find(name);
    if let Some(path) = &program
        && !arguments.anyway
        && let Some(why) = obstacle::of(path)
    {
        bail!(
            "{}: packed databases will not open in it: {why} (--anyway starts it all the same)",
            Path::new(name).display()
        );
    }
    let mut command = Command::new(program.as_deref().unwrap_or(Path::new(name)));
    command
        .arg0(name)
        .args(others)
        .env(VARIABLE, with(std::env::var_os(VARIABLE), &preload)?);
    let error = command.exec();
    tell!(
        "litepack: cannot run {}: {error}",
        Path::new(name).display()
    );
    Ok(ExitCode::from(match error.kind() {
        ErrorKind::NotFound => NOT_FOUND,
        _ => CANNOT_RUN,
    }))
}

/// The library, and what is loaded into programs already, which may be a SQLite.
fn with(former: Option<OsString>, library: &Path) -> Result<OsString> {
    let library = library.as_os_str();
    let is_between = |byte: &u8| b" :".contains(byte);
    if library.as_bytes().iter().any(is_between) {
        bail!(
            "{}: the system's loader cannot be told a path with a space or a colon",
            Path::new(library).display()
        );
    }
    let former = former.unwrap_or_default();
    let others = former.as_bytes().split(is_between);
    let mut all = library.to_owned();
    // Ours comes first also if it is there already: it has to stand before every SQLite.
    for other in others.filter(|path| !path.is_empty() && *path != library.as_bytes()) {
        all.push(":");
        all.push(OsStr::from_bytes(other));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_loaded_already_stays() {
        let with =
            |former: Option<&str>, library| with(former.map(OsString::from), Path::new(library));
        assert_eq!(with(None, "/a/b.so").unwrap(), "/a/b.so");
        assert_eq!(with(Some(""), "/a/b.so").unwrap(), "/a/b.so");
        assert_eq!(
            with(Some("/c.so d.so"), "/a/b.so").unwrap(),
            "/a/b.so:/c.so:d.so"
        );
        assert_eq!(
            with(Some("/c.so /a/b.so"), "/a/b.so").unwrap(),
            "/a/b.so:/c.so"
        );
        assert_eq!(
            with(Some(" /a/b.so:/c.so d.so:/a/b.so"), "/a/b.so").unwrap(),
            "/a/b.so:/c.so:d.so"
        );
        assert!(with(None, "/a b/c.so").is_err());
        assert!(with(None, "/a:b/c.so").is_err());
    }
}
