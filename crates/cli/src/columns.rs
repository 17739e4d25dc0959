//! `litepack columns`: compressed columns of a database that stays an ordinary SQLite file (or a packed
//! one), by the same SQL functions that a program would call.
//!
//! ```text
//! columns/enable.rs   disable.rs   maintain.rs   status.rs     one subcommand each
//! ```

mod disable;
mod enable;
mod maintain;
mod status;

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;
use litepack::Job;

use crate::keys;

/// Compresses single columns of a database, for programs that load the extension.
///
/// A packed file (`litepack pack`) usually compresses better and supports all of SQL. docs/columns.md says when to use
/// which.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Enable(enable::Arguments),
    Maintain(maintain::Arguments),
    Status(status::Arguments),
    Disable(disable::Arguments),
}

/// Where a column is.
#[derive(clap::Args)]
struct ColumnPlace {
    /// The database, plain or packed.
    database: PathBuf,
    /// The table.
    table: String,
    /// The column.
    column: String,
    #[command(flatten)]
    key: keys::KeyOptions,
}

impl ColumnPlace {
    /// A job with the key of the database.
    fn job(&self) -> Result<Job<'static>> {
        self.key.job(&self.database, Job::default)
    }

    /// For people.
    fn name(&self) -> String {
        format!("{}.{}", self.table, self.column)
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<bool> {
    match &arguments.command {
        Command::Enable(arguments) => enable::run(arguments).map(|()| true),
        Command::Maintain(arguments) => maintain::run(arguments),
        Command::Status(arguments) => status::run(arguments).map(|()| true),
        Command::Disable(arguments) => disable::run(arguments).map(|()| true),
    }
}
