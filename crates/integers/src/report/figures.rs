//! Figures by name, for the sentences of the page: what is said there is what was measured.

use std::collections::BTreeMap;

use crate::cases::Cache;
use crate::factors::{Length, Over};
use crate::imports::Means;
use crate::study::Study;

/// Names are parts with `/` between them, in small letters, with `-` for spaces.
pub(super) fn all(study: &Study) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    let mut put = |parts: &[&str], value: f64| {
        let slug = |part: &&str| {
            let part = part.to_lowercase();
            let words = part.split(|c: char| !c.is_alphanumeric() && c != '.');
            words
                .filter(|word| !word.is_empty())
                .collect::<Vec<_>>()
                .join("-")
        };
        all.insert(parts.iter().map(slug).collect::<Vec<_>>().join("/"), value);
    };
    let rows = study.rows as f64;
    for stored in &study.cases.stored {
        put(
            &["size", &stored.table, &stored.engine],
            stored.bytes as f64 / rows,
        );
    }
    for reading in &study.cases.readings {
        let cache = match reading.cache {
            Cache::Cold => "cold",
            Cache::Warm => "warm",
        };
        let case = reading.case.to_string();
        put(
            &[cache, &case, &reading.journal, &reading.engine],
            reading.seconds.median,
        );
    }
    for import in &study.imports {
        let means = match import.means {
            Means::Shell => "shell",
            Means::Statement => "statement",
        };
        let case = import.case.to_string();
        put(
            &["import", &case, means, &import.journal, &import.target],
            import.seconds.median,
        );
    }
    for found in &study.factors {
        let length = match found.length {
            Length::Page => "page",
            Length::Large => "large",
        };
        let over = match found.over {
            Over::Alone => "alone",
            Over::Zstd3 => "zstd3",
            Over::Zstd19 => "zstd19",
        };
        let path = ["array", &found.distribution, &found.encoding, length, over];
        put(&[&path[..], &["bytes"]].concat(), found.bytes);
        put(&[&path[..], &["decode"]].concat(), found.decode.median);
        put(&[&path[..], &["encode"]].concat(), found.encode.median);
    }
    for pages in &study.pages {
        let kib = (pages.page_size / 1024).to_string();
        let path = ["pages", &pages.distribution, &pages.column, &kib];
        put(&[&path[..], &["sqlite", "bytes"]].concat(), pages.bytes);
        for way in &pages.ways {
            put(&[&path[..], &[&way.name, "bytes"]].concat(), way.bytes);
            put(
                &[&path[..], &[&way.name, "decode"]].concat(),
                way.decode.median,
            );
            put(
                &[&path[..], &[&way.name, "encode"]].concat(),
                way.encode.median,
            );
        }
    }
    for profile in &study.profiles {
        let case = profile.case.to_string();
        put(
            &["instructions", &case, &profile.target],
            profile.instructions as f64 / profile.rows as f64,
        );
        for (part, count) in &profile.parts {
            let share = 100.0 * *count as f64 / profile.instructions as f64;
            put(&["share", &case, &profile.target, part.name()], share);
        }
    }
    for format in &study.formats {
        let path = ["format", &format.table, &format.format];
        put(
            &[&path[..], &["bytes"]].concat(),
            format.bytes as f64 / rows,
        );
        put(&[&path[..], &["scan"]].concat(), format.scan.median * 1e3);
        put(&[&path[..], &["row"]].concat(), format.row.median * 1e6);
        put(
            &[&path[..], &["update"]].concat(),
            format.update.median * 1e3,
        );
    }
    all
}
