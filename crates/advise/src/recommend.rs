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
    /// The command to run; `None` to leave it alone.
    pub command: Option<String>,
    /// The choices where that cannot be: when, and which mode.
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

/// The effect of VACUUM.
#[derive(Debug)]
pub(crate) struct Vacuumed {
    /// Bytes of pages that are free, or that nothing leads to.
    pub(crate) unused: u64,
    /// Bytes of the database after it.
    pub(crate) bytes: u64,
}

/// Chooses. `database` is its name in a shell, if that can be shown.
pub(crate) fn choose(
    size: u64,
    kind: FileKind,
    vacuumed: &Vacuumed,
    database: Option<&str>,
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
    if vacuumed.unused >= size / 2 && size >= SMALL {
        return vacuum_first(size, vacuumed, database, modes, trees);
    }
    if size < SMALL {
        return leave("it is too small for another format to matter".into());
    }
    let Some((packed, sizes)) = mode("packed").and_then(|mode| Some((mode, mode.size?))) else {
        return leave("there is nothing to compare it with".into());
    };
    let left = sizes.bytes as f64 / size as f64;
    if 1.0 - left < WORTHWHILE {
        return leave(format!(
            "packing saves only {:.0} % of it{}",
            (100.0 * (1.0 - left)).max(0.0),
            because(size, trees)
        ));
    }
    Recommendation {
        mode: "packed",
        reason: format!(
            "{:.1} times smaller, and SQLite reads and writes it as before",
            1.0 / left.max(1e-9)
        ),
        command: Some(packed.command.clone()).filter(|command| !command.is_empty()),
        otherwise: otherwise(size, modes),
    }
}

/// Where most of the file is pages that nothing uses, which packing would keep: VACUUM, and then what is best for what
/// remains.
fn vacuum_first(
    size: u64,
    vacuumed: &Vacuumed,
    database: Option<&str>,
    modes: &[Mode],
    trees: &[TreeReport],
) -> Recommendation {
    let share = 100.0 * vacuumed.unused as f64 / size.max(1) as f64;
    let first = format!("{share:.0} % of it is pages that nothing uses: VACUUM first");
    let vacuum = database.map(|database| format!("sqlite3 {database} VACUUM"));
    let plain: u64 = trees.iter().map(|tree| tree.bytes).sum();
    let packed: u64 = trees.iter().map(|tree| tree.packed_bytes).sum();
    let left = packed as f64 / plain.max(1) as f64;
    let alone = match vacuumed.bytes {
        ..SMALL => Some("; it is too small then for another format to matter".to_owned()),
        _ if 1.0 - left < WORTHWHILE => Some(format!(
            "; packing saves only {:.0} % of the rest{}",
            (100.0 * (1.0 - left)).max(0.0),
            because(plain, trees)
        )),
        _ => None,
    };
    if let Some(why) = alone {
        return Recommendation {
            mode: "leave alone",
            reason: first + &why,
            command: vacuum,
            otherwise: Vec::new(),
        };
    }
    let pack = modes.iter().find(|mode| mode.name == "packed");
    let pack = pack
        .map(|mode| mode.command.clone())
        .filter(|command| !command.is_empty());
    Recommendation {
        mode: "packed",
        reason: format!(
            "{first}, then pack: what remains gets {:.1} times smaller, and SQLite reads and writes it as before",
            1.0 / left.max(1e-9)
        ),
        command: vacuum
            .zip(pack)
            .map(|(vacuum, pack)| format!("{vacuum}\n{pack}")),
        otherwise: otherwise(size, modes),
    }
}

/// Why packing saves little, if it is known.
fn because(size: u64, trees: &[TreeReport]) -> String {
    let columns = trees.iter().flat_map(|tree| &tree.columns);
    let compressed: u64 = columns
        .filter(|column| column.kind == Some(Kind::Compressed))
        .map(|column| column.bytes)
        .sum();
    let share = 100.0 * compressed as f64 / size.max(1) as f64;
    match share >= 20.0 {
        true => format!("; {share:.0} % of it is compressed already"),
        false => String::new(),
    }
}

/// The choices where it cannot be packed.
fn otherwise(size: u64, modes: &[Mode]) -> Vec<Otherwise> {
    let smaller = |name: &str| {
        let mode = modes.iter().find(|mode| mode.name == name);
        mode.is_some_and(|mode| mode.size.is_some_and(|s| s.bytes < size * 9 / 10))
    };
    let mut otherwise = Vec::new();
    if smaller("columns") {
        otherwise.push(Otherwise {
            when: "the program that opens it can load the extension, but cannot name a VFS",
            mode: "columns",
        });
    }
    if smaller("archive") {
        otherwise.push(Otherwise {
            when: "it is no longer written, or other tools are to read it with zstd alone",
            mode: "archive",
        });
    }
    otherwise.push(Otherwise {
        when: "the program that opens it cannot load extensions",
        mode: "leave alone",
    });
    otherwise
}
