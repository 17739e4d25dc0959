//! Names and text as they may be shown.

pub use litepack_io::printable::deceives;
pub use litepack_io::printable::{harmless, harmless_json, harmless_line};

use std::path::Path;

/// Longer names are cut.
const NAME_MAX: usize = 60;

/// A name that does nothing to a terminal, cut if it is long: names in a database can hold anything.
pub fn printable(name: &str) -> String {
    let mut shown: String = name
        .chars()
        .take(NAME_MAX)
        .map(|c| {
            if deceives(c) {
                char::REPLACEMENT_CHARACTER
            } else {
                c
            }
        })
        .collect();
    if shown.len() < name.len() && name.chars().nth(NAME_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// A path as text in a report, for `serialize_with`: not every name is text, and that is no reason to have no report.
///
/// # Errors
/// Those of the serializer.
#[cfg(feature = "rusqlite")]
pub fn as_text<S: serde::Serializer>(
    path: impl AsRef<Path>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.as_ref().to_string_lossy())
}

/// A path that does nothing to a terminal. It is shown whole: its end tells it from others.
pub fn printable_path(path: impl AsRef<Path>) -> String {
    let path = path.as_ref().to_string_lossy();
    let shown = path.chars().map(|c| match deceives(c) {
        true => char::REPLACEMENT_CHARACTER,
        false => c,
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_nothing_to_a_terminal() {
        assert_eq!(printable("a\x1b[2J\nü"), "a\u{fffd}[2J\u{fffd}ü");
        assert_eq!(printable("a\u{202e}b\u{200b}"), "a\u{fffd}b\u{fffd}");
        assert_eq!(printable(&"ü".repeat(NAME_MAX)), "ü".repeat(NAME_MAX));
        assert!(printable(&"x".repeat(1000)).ends_with("xx…"));
        let long = format!("a\x1b[2J/{}\u{202e}", "x".repeat(1000));
        let shown = printable_path(&long);
        assert!(
            shown.starts_with("a\u{fffd}[2J/x") && shown.ends_with("x\u{fffd}"),
            "{shown}"
        );
        assert_eq!(shown.chars().count(), long.chars().count());
    }
}
