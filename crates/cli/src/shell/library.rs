//! Where the extension is: beside the command, as in a directory of builds or in a package of a language, or where
//! packages of a system put it.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// From the directory that the command is in.
const PLACES: [&str; 3] = [".", "../lib/litepack", "../lib"];

/// The path of the extension: the one that is asked for, or the first that is there.
pub fn find(asked_for: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = asked_for {
        if !path.is_file() {
            bail!("there is no extension {}", path.display());
        }
        // A name without a directory would be looked for where the system keeps libraries.
        return std::path::absolute(path).context("cannot tell the working directory");
    }
    let command = std::env::current_exe().and_then(|path| path.canonicalize());
    let command = command.context("cannot tell where this command is; use --extension PATH")?;
    let directory = command.parent().unwrap_or(Path::new("/"));
    let name = format!("{DLL_PREFIX}litepack{DLL_SUFFIX}");
    let places = PLACES.map(|place| directory.join(place).join(&name));
    match places.iter().find(|place| place.is_file()) {
        Some(path) => Ok(path.clone()),
        None => bail!(
            "there is no extension {name} beside {}, in ../lib/litepack or in ../lib from there; use --extension PATH",
            command.display()
        ),
    }
}
