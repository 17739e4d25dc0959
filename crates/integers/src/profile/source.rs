//! Which lines of SQLite's source decode varints and serial types.
//!
//! They are found by their text, so that another version of SQLite either has them or is refused.

use std::ops::Range;

use anyhow::{Context, Result};

use super::Part;

/// From the first line with `from` after the one that begins with `after`, to the next line with `to`, which is out.
struct Place {
    part: Part,
    after: &'static str,
    from: &'static str,
    to: &'static str,
}

const fn place(part: Part, after: &'static str, from: &'static str, to: &'static str) -> Place {
    Place {
        part,
        after,
        from,
        to,
    }
}

const END: &str = "\n}";

const PLACES: [Place; 9] = [
    place(
        Part::Varints,
        "SQLITE_PRIVATE u8 sqlite3GetVarint(const unsigned char *p, u64 *v){",
        "{",
        END,
    ),
    place(
        Part::Varints,
        "SQLITE_PRIVATE u8 sqlite3GetVarint32(const unsigned char *p, u32 *v){",
        "{",
        END,
    ),
    place(
        Part::Varints,
        "static void btreeParseCellPtr(",
        "nPayload = *pIter;",
        "pInfo->nKey =",
    ),
    place(
        Part::Varints,
        "case OP_Column:",
        "aOffset[0] = pC->aRow[0]",
        "pC->nHdrParsed = 0;",
    ),
    place(
        Part::SerialTypes,
        "case OP_Column:",
        "i = pC->nHdrParsed;",
        "The record is corrupt if any",
    ),
    place(
        Part::SerialTypes,
        "case OP_Column:",
        "zData = pC->aRow + aOffset[p2];",
        "default: {",
    ),
    place(
        Part::SerialTypes,
        "SQLITE_PRIVATE u32 sqlite3VdbeSerialTypeLen(u32 serial_type){",
        "{",
        END,
    ),
    place(
        Part::SerialTypes,
        "SQLITE_PRIVATE u8 sqlite3VdbeOneByteSerialTypeLen(u8 serial_type){",
        "{",
        END,
    ),
    place(
        Part::SerialTypes,
        "SQLITE_PRIVATE void sqlite3VdbeSerialGet(\n  const unsigned char *buf,",
        "{",
        END,
    ),
];

/// Lines, counted from 1, with what they are for.
pub(super) fn lines(source: &str) -> Result<Vec<(Part, Range<usize>)>> {
    let line_of = |at: usize| source[..at].matches('\n').count() + 1;
    let find = |place: &Place| {
        let begin = source.find(&format!("\n{}", place.after))?;
        let from = begin + source[begin..].find(place.from)?;
        let to = from + source[from..].find(place.to)?;
        // The brace at the end of a function stands on a line of its own, which belongs to it.
        let to = if place.to == END {
            line_of(to) + 2
        } else {
            line_of(to)
        };
        Some((place.part, line_of(from)..to))
    };
    let all = PLACES.iter().map(|place| {
        find(place).with_context(|| {
            format!(
                "SQLite's source is unknown here: no `{}` with `{}`",
                place.after, place.from
            )
        })
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_their_text_or_refused() {
        let mut source = String::from("/* */");
        for place in &PLACES {
            if place.to == END {
                source += &format!("\n{} {{\n work\n}}\n", place.after);
            }
        }
        source +=
            "\nstatic void btreeParseCellPtr(\n x\n nPayload = *pIter;\n y\n pInfo->nKey = z\n";
        source += "\ncase OP_Column:\n aOffset[0] = pC->aRow[0]\n b\n pC->nHdrParsed = 0;\n\n i = pC->nHdrParsed;\n c\n";
        source +=
            " The record is corrupt if any\n zData = pC->aRow + aOffset[p2];\n d\n default: {\n";
        let found = lines(&source).unwrap();
        let text = |index: usize| {
            let range: &Range<usize> = &found[index].1;
            let lines: Vec<&str> = source
                .lines()
                .skip(range.start - 1)
                .take(range.len())
                .map(str::trim)
                .collect();
            lines.join("|")
        };
        assert_eq!(text(0), format!("{} {{|work|}}", PLACES[0].after));
        assert_eq!(text(2), "nPayload = *pIter;|y");
        assert_eq!(text(4), "i = pC->nHdrParsed;|c");
        assert_eq!(text(5), "zData = pC->aRow + aOffset[p2];|d");
        let without = source.replace("nPayload", "other");
        assert!(format!("{}", lines(&without).unwrap_err()).contains("btreeParseCellPtr"));
    }
}
