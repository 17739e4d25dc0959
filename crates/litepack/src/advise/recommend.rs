//! Which way to keep the database, and why.

use serde::Serialize;

use super::Mode;
use super::account::TreeReport;
use super::kind::Kind;
use litepack_engine::FileKind;

/// A smaller database is not worth another format.
const SMALL: u64 = 1 << 20;
/// Packing has to save this share.
const WORTHWHILE: f64 = 0.2;

/// The recommendation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recommendation {
    /// The name of a mode, or `leave alone`.
    pub mode: &'static str,
    /// Why.
    pub reason: String,
    /// What to run; `None` to leave it alone.
    pub command: Option<String>,
    /// What to choose where that cannot be: when, and which mode.
    pub otherwise: Vec<Otherwise>,
}

/// Another choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Otherwise {
    /// When it is the better one.
    pub when: &'static str,
    /// The name of the mode.
    pub mode: &'static str,
}

/// Chooses.
pub(crate) fn choose(
    size: u64,
    kind: FileKind,
    modes: &[Mode],
    trees: &[TreeReport],
) -> Recommendation {
    let leave = |reason: String| Recommendation {
        mode: "leave alone",
        reason,
        command: None,
        otherwise: Vec::new(),
    };
    let mode = |name: &str| modes.iter().find(|mode| mode.name == name);
    match kind {
        FileKind::Packed => {
            return leave(
                "it is packed already; `litepack maintain` makes a used file small again".into(),
            );
        }
        FileKind::Zstd => return leave("it is an archive already".into()),
        _ => {}
    }
    if size < SMALL {
        return leave("it is too small for another format to matter".into());
    }
    let Some((packed, sizes)) = mode("packed").and_then(|mode| Some((mode, mode.size?))) else {
        return leave("there is nothing to compare it with".into());
    };
    let left = sizes.bytes as f64 / size as f64;
    if 1.0 - left < WORTHWHILE {
        let columns = trees.iter().flat_map(|tree| &tree.columns);
        let compressed: u64 = columns
            .filter(|column| column.kind == Some(Kind::Compressed))
            .map(|column| column.bytes)
            .sum();
        let share = 100.0 * compressed as f64 / size as f64;
        let why = match share >= 20.0 {
            true => format!("; {share:.0} % of it is compressed already"),
            false => String::new(),
        };
        return leave(format!(
            "packing saves only {:.0} % of it{why}",
            (100.0 * (1.0 - left)).max(0.0)
        ));
    }
    let mut otherwise = Vec::new();
    if mode("columns").is_some_and(|mode| mode.size.is_some_and(|s| s.bytes < size * 9 / 10)) {
        otherwise.push(Otherwise {
            when: "the program that opens it can load the extension, but cannot name a VFS",
            mode: "columns",
        });
    }
    if mode("archive").is_some_and(|mode| mode.size.is_some_and(|s| s.bytes < size * 9 / 10)) {
        otherwise.push(Otherwise {
            when: "it is no longer written, or other tools are to read it with zstd alone",
            mode: "archive",
        });
    }
    otherwise.push(Otherwise {
        when: "the program that opens it cannot load extensions",
        mode: "leave alone",
    });
    Recommendation {
        mode: "packed",
        reason: format!(
            "{:.1} times smaller, and SQLite reads and writes it as before",
            1.0 / left.max(1e-9)
        ),
        command: Some(packed.command.clone()).filter(|command| !command.is_empty()),
        otherwise,
    }
}
