//! `litepack generate`: manual pages and completions for shells, made of the definitions of the arguments. For those who
//! make packages; it is not in the help.

use std::fs::create_dir_all;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Command, CommandFactory as _};
use clap_complete::{Shell, generate_to};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::examples::{examples, exit_codes};

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
    // One line for the version.
    let mut command = crate::Arguments::command()
        .disable_help_subcommand(true)
        .long_version(None);
    command.build();
    pages(&command, "", &man)?;
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

/// A page for a command and for each of its subcommands, which are called by `path`.
fn pages(command: &Command, path: &str, directory: &Path) -> io::Result<()> {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let path = format!("{path} {}", sub.get_name());
        pages(sub, path.trim_start(), directory)?;
    }
    // The line that `--help` has: it says what takes a value, and what may be given several times.
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim().to_owned();
    let man = Man::new(command.clone().override_usage(usage));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|option| !option.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut more = Roff::new();
    more.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in exit_codes(path) {
        more.control("TP", []);
        more.text([bold(*code)]);
        more.text([roman(*meaning)]);
    }
    more.control("SH", ["EXAMPLES"]);
    for (line, what) in examples(path) {
        more.control("PP", []);
        more.text([roman(*what)]);
        more.control("PP", []);
        more.control("RS", ["4"]);
        more.control("nf", []);
        more.text([roman(*line)]);
        more.control("fi", []);
        more.control("RE", []);
    }
    more.to_writer(&mut page)?;
    man.render_version_section(&mut page)?;
    std::fs::write(directory.join(man.get_filename()), page)
}
