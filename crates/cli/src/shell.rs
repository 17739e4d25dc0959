//! `litepack shell`: the user's own `sqlite3` shell, with the extension loaded and a database open in it.
//!
//! The shell opens a file that it is given before it loads an extension. So it starts in memory, and is told to load,
//! then to open, by commands that it runs before all others.
//!
//! ```text
//! shell/program.rs  which shell, and starting it     options.rs  its own options that mean something to us
//! shell/script.rs   what the shell is told first     key.rs      how it gets the key of an encrypted database
//! ```

mod key;
mod options;
mod program;
mod script;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::info::remote;
use crate::{keys, library};
use options::Options;
use program::Input;
use script::Script;

/// Opens a database in your own `sqlite3` shell, with Litepack loaded.
///
/// The database may be packed, archived or plain. With SQL (or commands of the shell, such as .tables) the shell runs
/// that and ends, with its own exit code; else it reads from the terminal or from standard input. Words behind `--` go
/// to the shell as they are.
#[derive(clap::Args)]
#[command(override_usage = "litepack shell [OPTIONS] FILE-or-URL [SQL]... [-- OPTIONS OF sqlite3]")]
pub struct Arguments {
    /// Open the database for reading only.
    #[arg(long)]
    readonly: bool,
    /// Create the database, packed, if it does not exist.
    #[arg(long, conflicts_with = "readonly")]
    create: bool,
    /// The extension [default: liblitepack beside this command, or in ../lib/litepack or ../lib from there].
    #[arg(long, value_name = "PATH")]
    extension: Option<PathBuf>,
    /// The shell to start.
    #[arg(long, value_name = "PROGRAM", default_value = "sqlite3")]
    sqlite3: PathBuf,
    #[command(flatten)]
    access: remote::Options,
    #[command(flatten)]
    key: keys::KeyOptions,
    #[command(flatten)]
    padding: keys::PaddingOption,
    /// The database, or its URL.
    #[arg(value_name = "FILE or URL")]
    file: PathBuf,
    /// SQL or commands for the shell to run.
    sql: Vec<OsString>,
    /// Options of the shell, such as `-json`.
    #[arg(last = true, value_name = "OPTION")]
    options: Vec<OsString>,
}

/// Becomes the shell, where the system can do that; else answers with its exit code.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let options = Options::read(&arguments.options);
    let mut script = Script::new(&library::extension(arguments.extension.as_deref())?);
    let input = match (io::stdin().is_terminal(), options.batch) {
        (false, _) | (_, true) => Input::Other,
        _ if arguments.sql.is_empty() && !options.has_sql => Input::Prompt,
        _ => Input::Unread,
    };
    if arguments.sql.is_empty() && !options.has_sql {
        arguments.key.expect_elsewhere("the SQL")?;
    }
    let variable = arguments.key.variable();
    let shell = program::Shell::find(&arguments.sqlite3, input, variable)?;
    match remote::url(&arguments.file) {
        Some(url) => {
            if arguments.create {
                bail!("a database on a web server cannot be created");
            }
            arguments.padding.expect_none("--create")?;
            arguments.access.expect_readable()?;
            let access = arguments.access.access();
            // Says what is wrong, which the shell does not.
            let found = litepack::remote_info(url, &access, None)?;
            let key = match arguments.key.tried_on_server(&found, url, &access)? {
                Some(text) => Some(key::readable(&text)?),
                None => None,
            };
            script.remote(url, &access, key.as_deref())?;
        }
        None => {
            arguments.access.expect_none()?;
            let mode = mode(arguments, options.readonly)?;
            let key = match arguments.key.tried(&arguments.file)? {
                Some(text) => Some(key::readable(&text)?),
                None => None,
            };
            if !arguments.create || key.is_none() {
                arguments.padding.expect_none("--create and a key")?;
            }
            let padding = arguments.padding.in_uri();
            script.local(&arguments.file, mode, (key.as_deref(), &padding))?;
        }
    }
    if !options.bail {
        script.go_on_after_errors();
    }
    if let Some(file) = options.startup_file.or_else(options::startup_file_of_user) {
        script.read(&file)?;
    }
    shell.run(script.arguments(), &options.others, &arguments.sql)
}

/// How the file is opened. Only on request is one created that does not exist.
fn mode(arguments: &Arguments, readonly: bool) -> Result<&'static str> {
    let file: &Path = &arguments.file;
    if file.is_dir() {
        bail!("{} is a directory", file.display());
    }
    // It would be created by that name.
    if file
        .to_str()
        .is_some_and(|name| name.starts_with("file:") && name.contains("vfs="))
    {
        bail!(
            "{}: give the name of the file without `file:` and parameters",
            file.display()
        );
    }
    let cannot = || format!("cannot open {}", file.display());
    let exists = file.try_exists().with_context(cannot)?;
    // The shell would give a number. A pipe is left to it, which opening would wait for.
    if file.is_file() {
        File::open(file).with_context(cannot)?;
    }
    match (exists, arguments.create) {
        (false, false) => bail!(
            "{} does not exist; use --create to create it, packed",
            file.display()
        ),
        _ if arguments.readonly || readonly => Ok("ro"),
        (_, true) => Ok("rwc"),
        (true, false) => Ok("rw"),
    }
}
