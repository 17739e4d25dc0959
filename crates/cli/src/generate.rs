//! `litepack generate`: manual pages and completions for shells, made of the definitions of the arguments. For those who
//! make packages; it is not in the help.

use std::fs::create_dir_all;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::CommandFactory as _;
use clap_complete::{Shell, generate_to};

/// Writes manual pages and completions into a directory.
#[derive(clap::Args)]
pub struct Arguments {
    /// Where `man/` and a directory for each shell are made.
    directory: PathBuf,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<()> {
    write(&arguments.directory)
        .with_context(|| format!("cannot write to {}", arguments.directory.display()))
}

fn write(directory: &Path) -> Result<()> {
    let man = directory.join("man");
    create_dir_all(&man)?;
    clap_mangen::generate_to(crate::Arguments::command(), man)?;
    for shell in [Shell::Bash, Shell::Fish, Shell::PowerShell, Shell::Zsh] {
        let of_shell = directory.join(shell.to_string());
        create_dir_all(&of_shell)?;
        generate_to(
            shell,
            &mut crate::Arguments::command(),
            "litepack",
            of_shell,
        )?;
    }
    Ok(())
}
