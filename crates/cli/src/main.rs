//! The `litepack` command: arguments, progress bars, printing and exit codes. The work itself is in the library
//! `litepack`.
//!
//! ```text
//! pack.rs  unpack.rs  info.rs  check.rs  salvage.rs  maintain.rs  rekey.rs  ingest.rs  catalog.rs  columns.rs  archive.rs
//! advise.rs  tune.rs  adopt.rs  shell.rs  run.rs  completions.rs  generate.rs
//!          one subcommand each
//! several.rs  files one after the other     examples.rs  for manual pages     version.rs  what it is made of
//! keys.rs  where keys come from              prompt.rs    a line that nobody sees
//! library.rs  where the extension is
//! job.rs   bars, Ctrl-C and the summary     limits.rs   options for how long to work     output.rs   standard output and error
//! ```
//! Exit codes: 0 done, 1 the answer is no, 2 an error, 130 interrupted. Data goes to stdout,
//! everything for people to stderr.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

#[cfg(unix)]
mod adopt;
mod advise;
mod archive;
#[cfg(unix)]
mod catalog;
mod check;
mod columns;
mod completions;
mod examples;
mod generate;
mod info;
#[cfg(unix)]
mod ingest;
mod job;
mod keys;
mod library;
mod limits;
mod maintain;
mod output;
mod pack;
mod prompt;
mod rekey;
#[cfg(target_os = "linux")]
mod run;
mod salvage;
mod several;
mod shell;
mod signals;
mod tune;
mod unpack;
mod version;

use std::process::ExitCode;

use crate::output::tell;
use clap::{Parser, Subcommand};
use litepack::Error;

const DONE: u8 = 0;
const NO: u8 = 1;
const ERROR: u8 = 2;
const INTERRUPTED: u8 = 130;

/// Compresses SQLite databases that SQLite can still read and write.
#[derive(Parser)]
#[command(name = "litepack", version, long_version = version::long(), propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Pack(pack::Arguments),
    Unpack(unpack::Arguments),
    Info(info::Arguments),
    Check(check::Arguments),
    Maintain(maintain::Arguments),
    Rekey(rekey::Arguments),
    Salvage(salvage::Arguments),
    #[cfg(unix)]
    Ingest(ingest::Arguments),
    #[cfg(unix)]
    Catalog(catalog::Arguments),
    Columns(columns::Arguments),
    Archive(archive::Arguments),
    Advise(advise::Arguments),
    Tune(tune::Arguments),
    #[cfg(unix)]
    Adopt(adopt::Arguments),
    Shell(shell::Arguments),
    #[cfg(target_os = "linux")]
    Run(run::Arguments),
    Completions(completions::Arguments),
    #[command(hide = true)]
    Generate(generate::Arguments),
}

fn main() -> ExitCode {
    let command = match Arguments::try_parse() {
        Ok(arguments) => arguments.command,
        Err(refused) => return misused(&refused),
    };
    // SQLite's shell has its own way with Ctrl-C. Where this process becomes the shell, that forgets this.
    let is_watched = cfg!(unix) || !matches!(command, Command::Shell(_));
    // A program has its own, too, and this process becomes it at once.
    #[cfg(target_os = "linux")]
    let is_watched = is_watched && !matches!(command, Command::Run(_));
    if is_watched && let Err(error) = job::watch() {
        return ended(Err(error));
    }
    let result = match command {
        Command::Pack(arguments) => pack::run(&arguments).map(|()| true),
        Command::Unpack(arguments) => unpack::run(&arguments).map(|()| true),
        Command::Info(arguments) => return ended(info::run(&arguments).map(ExitCode::from)),
        Command::Check(arguments) => return ended(check::run(&arguments).map(ExitCode::from)),
        Command::Maintain(arguments) => maintain::run(&arguments),
        Command::Rekey(arguments) => rekey::run(&arguments).map(|()| true),
        Command::Salvage(arguments) => salvage::run(&arguments),
        #[cfg(unix)]
        Command::Ingest(arguments) => ingest::run(&arguments).map(|()| true),
        #[cfg(unix)]
        Command::Catalog(arguments) => catalog::run(&arguments),
        Command::Columns(arguments) => columns::run(&arguments),
        Command::Archive(arguments) => archive::run(&arguments),
        Command::Advise(arguments) => advise::run(&arguments).map(|()| true),
        Command::Tune(arguments) => tune::run(&arguments).map(|()| true),
        #[cfg(unix)]
        Command::Adopt(arguments) => return ended(adopt::run(&arguments).map(ExitCode::from)),
        Command::Completions(arguments) => completions::run(&arguments).map(|()| true),
        Command::Generate(arguments) => generate::run(&arguments).map(|()| true),
        Command::Shell(arguments) => return ended(shell::run(&arguments)),
        #[cfg(target_os = "linux")]
        Command::Run(arguments) => return ended(run::run(&arguments)),
    };
    ended(result.map(|done| ExitCode::from(if done { DONE } else { NO })))
}

/// Reports wrong arguments, which may be names that patterns of the user's shell have found; or prints the help.
fn misused(refused: &clap::Error) -> ExitCode {
    if !refused.use_stderr() {
        refused.exit();
    }
    // A name that has an end of a line in it does not begin another one.
    for (at, line) in refused.render().to_string().lines().enumerate() {
        let indent = if at == 0 || line.is_empty() { "" } else { "  " };
        tell!("{indent}{line}");
    }
    ExitCode::from(ERROR)
}

/// The exit code, and what is wrong for people.
fn ended(result: anyhow::Result<ExitCode>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(error) => {
            tell!("litepack: {}", words(&error));
            match error.downcast_ref::<Error>() {
                Some(error) if error.is_interrupted() => ExitCode::from(INTERRUPTED),
                _ => ExitCode::from(ERROR),
            }
        }
    }
}

/// The error in words, with the option that helps.
fn words(error: &anyhow::Error) -> String {
    match error.downcast_ref() {
        Some(Error::Exists { path }) => {
            format!("{} exists; use --force to replace it", path.display())
        }
        Some(Error::SameFile { path }) => {
            format!(
                "{} is the source itself; use --in-place FILE",
                path.display()
            )
        }
        Some(Error::Encrypted { path }) => {
            let name = path.display();
            format!("{name} is encrypted: give --key-file or --key-env")
        }
        _ => format!("{error:#}"),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory};

    const REFERENCE: &str = include_str!("../../../docs/reference/command.md");

    /// Every command has a section of the reference, which names each of its options.
    #[test]
    fn commands_and_options_are_documented() {
        let mut commands = 0;
        expect_documented(&super::Arguments::command(), "", &mut commands);
        assert!(commands > 10, "{commands} commands");
    }

    fn expect_documented(parent: &Command, path: &str, commands: &mut usize) {
        for command in parent.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let path = format!("{path}{}", command.get_name());
            if command.has_subcommands() {
                expect_documented(command, &format!("{path} "), commands);
                continue;
            }
            *commands += 1;
            let heading = format!("\n## {path}\n");
            let (_, rest) = REFERENCE
                .split_once(&heading)
                .unwrap_or_else(|| panic!("docs/reference/command.md has no section {path}"));
            let section = rest.split("\n## ").next().unwrap_or(rest);
            for option in command.get_arguments() {
                if let Some(long) = option.get_long() {
                    let shown = format!("`--{long}");
                    assert!(
                        section.contains(&shown),
                        "{path}: {shown}` is not documented"
                    );
                }
            }
        }
    }
}
