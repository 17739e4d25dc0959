//! Where libraries are that come with the command: beside it, as in a directory of builds or in a package of a language,
//! or where packages of a system put them.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// From the directory that the command is in.
const PLACES: [&str; 3] = [".", "../lib/litepack", "../lib"];

/// The path of the extension: the one that is asked for, or the first that is there.
pub fn extension(asked_for: Option<&Path>) -> Result<PathBuf> {
    let name = format!("{DLL_PREFIX}litepack{DLL_SUFFIX}");
    find("extension", &[&name], "--extension", asked_for)
}

/// The path of a library by one of its names: the one that is asked for by an option, or the first that is there.
pub fn find(what: &str, names: &[&str], option: &str, asked_for: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = asked_for {
        if !path.is_file() {
            bail!("there is no {what} {}", path.display());
        }
        // A name without a directory would be looked for where the system keeps libraries.
        return std::path::absolute(path).context("cannot tell the working directory");
    }
    let command = std::env::current_exe().and_then(|path| path.canonicalize());
    let command =
        command.with_context(|| format!("cannot tell where this command is; use {option} PATH"))?;
    let directory = command.parent().unwrap_or(Path::new("/"));
    let mut places = PLACES
        .iter()
        .flat_map(|place| names.iter().map(move |name| (place, name)))
        .map(|(place, name)| directory.join(place).join(name));
    match places.find(|place| place.is_file()) {
        Some(path) => Ok(path),
        None => bail!(
            "there is no {what} {} beside {}, in ../lib/litepack or in ../lib from there; use {option} PATH",
            names.first().unwrap_or(&""),
            command.display()
        ),
    }
}
