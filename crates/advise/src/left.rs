//! The share of a database's bytes that its file keeps: all of them if it is plain, fewer if it is packed or an
//! archive. Findings save bytes of the file.

use std::collections::HashMap;

use litepack::Info;
use litepack_btree::{Tree, TreeKind};
use litepack_engine::FileKind;
use litepack_engine::content::{Other, Share};

use super::modes::packed::Packed;

/// Shares of bytes that are left.
#[derive(Debug)]
pub(crate) struct Left {
    trees: Vec<f64>,
    free: f64,
    other: f64,
    /// Bytes of the file.
    pub(crate) file: f64,
    pub(crate) kind: FileKind,
}

impl Left {
    /// Of a file of so many bytes, with a database of `size` bytes: predicted as packed, or as `info` has measured it.
    pub(crate) fn new(
        kind: FileKind,
        file: u64,
        size: u64,
        trees: &[Tree],
        packed: &Packed,
        info: Option<&Info>,
    ) -> Left {
        let (file, size) = (file as f64, size as f64);
        let mut left = Left {
            trees: vec![1.0; trees.len()],
            free: 1.0,
            other: 1.0,
            file,
            kind,
        };
        let share = |share: &Share| share.stored as f64 / share.plain.max(1) as f64;
        match (kind, info) {
            (FileKind::Packed, Some(info)) => {
                let real: HashMap<(TreeKind, &str), f64> = (info.content.trees.iter())
                    .map(|(tree, found)| ((tree.kind, tree.name.as_str()), share(found)))
                    .collect();
                for (left, tree) in left.trees.iter_mut().zip(trees) {
                    *left = (real.get(&(tree.kind, tree.name.as_str())).copied()).unwrap_or(0.0);
                }
                left.free = share(&info.content.others[Other::Free as usize]);
                left.other = share(&info.content.others[Other::Unknown as usize]);
            }
            (FileKind::Packed, None) => {
                // The file may have other levels and dictionaries than are predicted.
                let by = file / (packed.ordinary.bytes as f64).max(1.0);
                left.trees = packed
                    .trees
                    .iter()
                    .map(|share| (share * by).min(1.0))
                    .collect();
                left.free = (packed.free * by).min(1.0);
                left.other = (packed.rest * by).min(1.0);
            }
            (FileKind::Zstd, _) => {
                let all = (file / size.max(1.0)).min(1.0);
                left.trees.fill(all);
                (left.free, left.other) = (all, all);
            }
            _ => left.file = size,
        }
        left
    }

    /// Whether it is plain.
    pub(crate) fn is_plain(&self) -> bool {
        !matches!(self.kind, FileKind::Packed | FileKind::Zstd)
    }

    /// The bytes left of `bytes` of a tree.
    pub(crate) fn of(&self, tree: usize, bytes: f64) -> f64 {
        bytes * self.trees.get(tree).copied().unwrap_or(1.0)
    }

    /// The bytes left of free pages.
    pub(crate) fn of_free(&self, bytes: f64) -> f64 {
        bytes * self.free
    }

    /// The bytes left of pages that nothing accounts for.
    pub(crate) fn of_other(&self, bytes: f64) -> f64 {
        bytes * self.other
    }
}
