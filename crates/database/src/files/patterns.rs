//! Files that are named by patterns, for shells that do not expand them, and for names that are in quotes.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use crate::error::refuse;
use crate::{Error, Result};

/// The files that paths and patterns name. A path that exists is no pattern. As in shells, a pattern names hidden files
/// and what is in hidden folders only if it has the dot: what others are still writing is often hidden.
pub fn expand(patterns: &[&Path]) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for pattern in patterns {
        let text = pattern
            .to_str()
            .filter(|text| text.contains(['*', '?', '[']));
        match text {
            Some(text) if !pattern.exists() => {
                let found = glob::glob(text);
                let found = found.map_err(|error| Error::Refused(format!("{text}: {error}")))?;
                let is_meant = |path: &PathBuf| path.is_file() && names_hidden(text, path);
                let found: Vec<PathBuf> = found.flatten().filter(is_meant).collect();
                if found.is_empty() {
                    refuse!("no file is named like {text}");
                }
                paths.extend(found);
            }
            _ => paths.push(pattern.to_path_buf()),
        }
    }
    let mut seen = HashSet::new();
    paths.retain(|path| seen.insert(path.clone()));
    Ok(paths)
}

/// Whether each hidden part of a path is named by a part of the pattern that begins with a dot. (The library's option for
/// that panics at names that are not UTF-8.)
fn names_hidden(pattern: &str, path: &Path) -> bool {
    path.components().all(|part| {
        let Component::Normal(name) = part else {
            return true;
        };
        let name = name.to_string_lossy();
        let names = |part: &str| {
            part.starts_with('.') && glob::Pattern::new(part).is_ok_and(|part| part.matches(&name))
        };
        !name.starts_with('.') || pattern.split('/').any(names)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_files_are_meant_where_the_pattern_has_the_dot() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap().join("logs");
        let files = [
            "a.db",
            ".b.db",
            ".out.1.unfinished/c.db",
            "d/e.db",
            "d/.f/g.db",
        ];
        for file in files {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let found = |pattern: &str| {
            let found = expand(&[&root.join(pattern)]).unwrap();
            let inside = |path: &PathBuf| path.strip_prefix(&root).unwrap().display().to_string();
            found.iter().map(inside).collect::<Vec<_>>()
        };
        assert_eq!(found("*.db"), ["a.db"]);
        assert_eq!(found("**/*.db"), ["a.db", "d/e.db"]);
        assert_eq!(found(".*.db"), [".b.db"]);
        assert_eq!(found(".out.*/*.db"), [".out.1.unfinished/c.db"]);
        assert_eq!(found("d/.f/*.db"), ["d/.f/g.db"]);
        assert_eq!(found(".b.db"), [".b.db"]);
    }
}
