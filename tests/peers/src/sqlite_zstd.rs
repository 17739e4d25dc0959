//! sqlite-zstd, which compressed columns are compared with: built from its published source as a
//! loadable extension.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rusqlite::{Connection, LoadExtensionGuard};

use crate::{folder, output_of};

/// As reports call it.
pub const NAME: &str = "sqlite-zstd";
const VERSION: &str = "0.3.5";

/// A package whose only purpose is to have cargo fetch what it depends on.
const SCRATCH: &str =
    "[package]\nname = \"scratch\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n";

/// Tests compare answers, and measurements times: only those need all optimisation, which takes a minute more.
const IS_QUICK: bool = cfg!(debug_assertions);

/// The extension, built in this workspace's target directory if it is not there yet.
///
/// # Errors
/// Without cargo, a C compiler or the package registry.
pub fn extension() -> Result<PathBuf> {
    let folder = match IS_QUICK {
        true => folder(NAME)?.join("quick"),
        false => folder(NAME)?,
    };
    let library = folder.join(format!(
        "release/{}sqlite_zstd{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    ));
    if !library.is_file() {
        build(&folder).context("cannot be built")?;
        ensure!(library.is_file(), "its build left no extension");
    }
    Ok(library)
}

/// Gives a connection the functions of sqlite-zstd. Litepack's of the same names, which come with
/// every connection of this process, are taken from it before.
///
/// # Errors
/// SQLite's.
pub fn load(conn: &Connection, extension: &Path) -> Result<()> {
    let functions: Vec<(String, i32)> = conn
        .prepare("select name, narg from pragma_function_list where name glob 'zstd_*'")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (name, arguments) in functions {
        conn.remove_function(name.as_str(), arguments)?;
    }
    #[allow(unsafe_code)]
    // SAFETY: the library was built by `extension` from the published source of an extension.
    unsafe {
        let _guard = LoadExtensionGuard::new(conn)?;
        conn.load_extension(extension, Some("sqlite3_sqlitezstd_init"))?;
    }
    Ok(())
}

fn build(folder: &Path) -> Result<()> {
    let manifest = fetch(&folder.join("scratch"))?;
    // Its own lock file: what its author released, not what is newest.
    let mut build = cargo(folder)?;
    build
        .args(["build", "--release", "--locked"])
        .args(["--features", "build_extension", "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(folder);
    if IS_QUICK {
        build.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
        build.env("CARGO_PROFILE_RELEASE_LTO", "off");
    }
    output_of(&mut build)?;
    Ok(())
}

/// Fetches the source; gives its manifest.
fn fetch(scratch: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(scratch.join("src"))?;
    std::fs::write(scratch.join("src/lib.rs"), "")?;
    let manifest = format!("{SCRATCH}[dependencies]\n{NAME} = \"={VERSION}\"\n");
    std::fs::write(scratch.join("Cargo.toml"), manifest)?;
    let output = output_of(cargo(scratch)?.args(["metadata", "--format-version", "1"]))?;
    let metadata: serde_json::Value = serde_json::from_slice(&output)?;
    let packages = metadata["packages"].as_array();
    let package = packages
        .into_iter()
        .flatten()
        .find(|package| package["name"] == NAME);
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    Ok(manifest.context("cargo did not fetch it")?.into())
}

fn cargo(folder: &Path) -> Result<Command> {
    std::fs::create_dir_all(folder)?;
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command
        .current_dir(folder)
        .arg("--quiet")
        .stdin(Stdio::null());
    Ok(command)
}
