//! `litepack archive`: creates, extracts and checks databases in zstd's seekable format.
//!
//! ```text
//! create.rs   extract.rs   info.rs   check.rs     one subcommand each
//! ```

mod check;
mod create;
mod extract;
pub mod info;

use anyhow::Result;

/// Creates, extracts and checks archives: databases in seekable zstd files.
///
/// SQLite queries an archive in place, and any zstd decompresses it.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Create(create::Arguments),
    Extract(extract::Arguments),
    Info(info::Arguments),
    Check(check::Arguments),
}

/// Runs the command; false if the answer is no.
pub fn run(arguments: &Arguments) -> Result<bool> {
    match &arguments.command {
        Command::Create(arguments) => create::run(arguments).map(|()| true),
        Command::Extract(arguments) => extract::run(arguments).map(|()| true),
        Command::Info(arguments) => info::run(arguments).map(|()| true),
        Command::Check(arguments) => check::run(arguments),
    }
}
