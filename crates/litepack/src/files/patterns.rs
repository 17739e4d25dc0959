//! Files that are named by patterns, for shells that do not expand them, and for names that are in quotes.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::error::refuse;
use crate::{Error, Result};

/// The files that paths and patterns name. A path that exists is no pattern.
pub(crate) fn expand(patterns: &[&Path]) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for pattern in patterns {
        let text = pattern
            .to_str()
            .filter(|text| text.contains(['*', '?', '[']));
        match text {
            Some(text) if !pattern.exists() => {
                let found = glob::glob(text);
                let found = found.map_err(|error| Error::Refused(format!("{text}: {error}")))?;
                let found: Vec<PathBuf> = found.flatten().filter(|path| path.is_file()).collect();
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
