//! The `litepack` command: packs SQLite databases, unpacks them, and tells about packed files.
//!
//! ```text
//! pack.rs   unpack.rs   info.rs   check.rs   columns.rs   archive.rs   tune.rs     one subcommand each
//! maintain.rs   one that works through SQLite     database.rs, limits.rs   how it is opened, how long it works
//! source.rs     opening and locking a database that is to be read     header.rs   what it is
//! replace.rs    putting a new file in place of a name, or leaving everything as it was
//! reader.rs     reading a whole packed file on all cores     content.rs   a database from beginning to end
//! progress.rs   what people see      interrupt.rs   Ctrl-C
//! ```
//! Exit codes: 0 done, 1 the answer is no, 2 an error, 130 interrupted. Data goes to stdout,
//! everything for people to stderr.
#![forbid(unsafe_code)]

mod archive;
mod check;
mod columns;
mod content;
mod database;
mod header;
mod info;
mod interrupt;
mod limits;
mod maintain;
mod pack;
mod progress;
mod reader;
mod replace;
mod source;
mod tune;
mod unpack;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

const NO: u8 = 1;
const ERROR: u8 = 2;
const INTERRUPTED: u8 = 130;

/// Compresses SQLite databases that SQLite can still read and write.
#[derive(Parser)]
#[command(version, propagate_version = true)]
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
    Columns(columns::Arguments),
    Archive(archive::Arguments),
    Tune(tune::Arguments),
}

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    let result = match command {
        Command::Pack(arguments) => pack::run(&arguments).map(|()| true),
        Command::Unpack(arguments) => unpack::run(&arguments).map(|()| true),
        Command::Info(arguments) => info::run(&arguments).map(|()| true),
        Command::Check(arguments) => check::run(&arguments),
        Command::Maintain(arguments) => maintain::run(&arguments),
        Command::Columns(arguments) => columns::run(&arguments).map(|()| true),
        Command::Archive(arguments) => archive::run(&arguments),
        Command::Tune(arguments) => tune::run(&arguments).map(|()| true),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(NO),
        Err(error) => match error.downcast_ref::<interrupt::Interrupted>() {
            Some(interrupted) => {
                eprintln!("litepack: {interrupted}");
                ExitCode::from(INTERRUPTED)
            }
            None => {
                eprintln!("litepack: {error:#}");
                ExitCode::from(ERROR)
            }
        },
    }
}
