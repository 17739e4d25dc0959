//! `litepack completions`: what a shell needs to complete commands and options.

use anyhow::Result;
use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use crate::output::print;

/// Prints completions of commands and options for a shell.
///
/// For bash: litepack completions bash > ~/.local/share/bash-completion/completions/litepack
#[derive(clap::Args)]
pub struct Arguments {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut script = Vec::new();
    let mut command = crate::Arguments::command();
    generate(arguments.shell, &mut command, "litepack", &mut script);
    print(String::from_utf8_lossy(&script))
}
