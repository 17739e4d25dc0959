//! The tables of the report, each group under the name that the page has for it.

use super::grid::{Grid, bounds, number, times};
use crate::cases::{Cache, QUERIES, Reading};
use crate::data::Distribution;
use crate::factors::{Factors, Length, Over, PAGE_VALUES};
use crate::imports::Means;
use crate::profile::Part;
use crate::study::Study;

/// All groups of tables, in the order of the report.
pub(super) fn all(study: &Study) -> Vec<(&'static str, Vec<Grid>)> {
    vec![
        ("sizes", vec![sizes(study)]),
        ("cases", vec![cases(study)]),
        ("imports", vec![imports(study)]),
        ("page-arrays", factors(study, Length::Page)),
        ("large-arrays", factors(study, Length::Large)),
        ("pages", vec![pages(study)]),
        ("profiles", vec![profiles(study)]),
        ("formats", vec![formats(study)]),
    ]
    .into_iter()
    .map(|(name, grids): (_, Vec<Grid>)| {
        let filled = grids.into_iter().filter(|grid| !grid.rows.is_empty());
        (name, filled.collect())
    })
    .collect()
}

fn sizes(study: &Study) -> Grid {
    let mut grid = Grid::new(
        "What the tables take",
        2,
        &["table", "engine", "MB", "bytes a row", "times smaller"],
    );
    for stored in &study.cases.stored {
        let plain = study
            .cases
            .stored
            .iter()
            .find(|plain| plain.table == stored.table);
        let plain = plain.map_or(stored.bytes, |plain| plain.bytes);
        grid.rows.push(vec![
            stored.table.clone(),
            stored.engine.clone(),
            number(stored.bytes as f64 / 1e6),
            number(stored.bytes as f64 / study.rows as f64),
            number(plain as f64 / stored.bytes as f64),
        ]);
    }
    grid
}

fn cases(study: &Study) -> Grid {
    let head = [
        "case",
        "journal",
        "engine",
        "cold, s",
        "warm, s",
        "cold to plain",
        "warm to plain",
    ];
    let mut grid = Grid::new("Test cases 1 to 4: median (5 % – 95 %)", 3, &head);
    let readings = &study.cases.readings;
    let find = |like: &Reading, cache, engine: &str| {
        let same = |reading: &&Reading| {
            reading.case == like.case
                && reading.journal == like.journal
                && reading.cache == cache
                && reading.engine == engine
        };
        readings.iter().find(same).map(|reading| reading.seconds)
    };
    for (case, _, _) in QUERIES {
        for cold in readings
            .iter()
            .filter(|reading| reading.case == case && reading.cache == Cache::Cold)
        {
            let Some(warm) = find(cold, Cache::Warm, &cold.engine) else {
                continue;
            };
            let to_plain = |cache, own: f64| {
                find(cold, cache, "plain")
                    .map_or_else(String::new, |plain| times(own, plain.median))
            };
            grid.rows.push(vec![
                case.to_string(),
                cold.journal.clone(),
                cold.engine.clone(),
                bounds(cold.seconds),
                bounds(warm),
                to_plain(Cache::Cold, cold.seconds.median),
                to_plain(Cache::Warm, warm.median),
            ]);
        }
    }
    grid
}

fn imports(study: &Study) -> Grid {
    let head = [
        "case",
        "by",
        "journal",
        "into",
        "rows",
        "s",
        "rows a second",
        "to plain",
        "bytes a row",
    ];
    let mut grid = Grid::new("Test cases 5 and 6: median (5 % – 95 %)", 4, &head);
    for import in &study.imports {
        let plain = study.imports.iter().find(|plain| {
            plain.case == import.case
                && plain.means == import.means
                && plain.journal == import.journal
                && plain.target == "plain"
        });
        let means = match import.means {
            Means::Shell => "`.import`",
            Means::Statement => "prepared statement",
        };
        grid.rows.push(vec![
            import.case.to_string(),
            means.into(),
            import.journal.clone(),
            import.target.clone(),
            number(import.rows as f64),
            bounds(import.seconds),
            number(import.rows as f64 / import.seconds.median),
            plain.map_or_else(String::new, |plain| {
                times(import.seconds.median, plain.seconds.median)
            }),
            number(import.bytes as f64 / import.rows as f64),
        ]);
    }
    grid
}

/// A table for each distribution: a line for each encoding, with zstd and without.
fn factors(study: &Study, length: Length) -> Vec<Grid> {
    let head = [
        "encoding",
        "bytes",
        "zstd 3",
        "zstd 19",
        "decode, ns",
        "zstd 3",
        "zstd 19",
        "encode, ns",
        "zstd 3",
        "zstd 19",
    ];
    let grids = Distribution::ALL.into_iter().map(|distribution| {
        let arrays = match length {
            Length::Page => format!("{PAGE_VALUES} values"),
            Length::Large => format!("{} values", number(study.large as f64)),
        };
        let name = distribution.name();
        let mut grid = Grid::new(
            format!("{name}, arrays of {arrays}: for each value"),
            1,
            &head,
        );
        let here = |found: &&Factors| found.distribution == name && found.length == length;
        for alone in study
            .factors
            .iter()
            .filter(here)
            .filter(|found| found.over == Over::Alone)
        {
            let mut row = vec![alone.encoding.clone()];
            type Figure = fn(&Factors) -> f64;
            let figures: [Figure; 3] = [
                |found| found.bytes,
                |found| found.decode.median,
                |found| found.encode.median,
            ];
            for figure in figures {
                for over in Over::ALL {
                    let same =
                        |found: &&Factors| found.encoding == alone.encoding && found.over == over;
                    let found = study.factors.iter().filter(here).find(same);
                    row.push(found.map_or_else(String::new, |found| number(figure(found))));
                }
            }
            grid.rows.push(row);
        }
        grid
    });
    grids.collect()
}

fn pages(study: &Study) -> Grid {
    let ways: Vec<&str> = study.pages.first().map_or_else(Vec::new, |pages| {
        pages.ways.iter().map(|way| way.name.as_str()).collect()
    });
    let mut head = vec![
        "values".to_string(),
        "column".into(),
        "page".into(),
        "rows a page".into(),
        "SQLite, bytes".into(),
    ];
    head.extend(ways.iter().map(|way| format!("{way}, bytes")));
    head.extend(ways.iter().map(|way| format!("{way}, decode ns")));
    head.extend(ways.iter().map(|way| format!("{way}, encode ns")));
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let mut grid = Grid::new("Whole pages of one column: for each row", 3, &head);
    for pages in &study.pages {
        let mut row = vec![
            pages.distribution.clone(),
            pages.column.clone(),
            format!("{} KiB", pages.page_size / 1024),
            number(pages.rows),
            number(pages.bytes),
        ];
        row.extend(pages.ways.iter().map(|way| number(way.bytes)));
        row.extend(pages.ways.iter().map(|way| number(way.decode.median)));
        row.extend(pages.ways.iter().map(|way| number(way.encode.median)));
        grid.rows.push(row);
    }
    grid
}

fn profiles(study: &Study) -> Grid {
    let mut head = vec!["case", "file", "instructions a row"];
    head.extend(Part::ALL.map(Part::name));
    let mut grid = Grid::new("Where the instructions go", 2, &head);
    for profile in &study.profiles {
        let mut row = vec![
            profile.case.to_string(),
            profile.target.clone(),
            number(profile.instructions as f64 / profile.rows as f64),
        ];
        for part in Part::ALL {
            let own = profile
                .parts
                .iter()
                .find(|(own, _)| *own == part)
                .map_or(0, |(_, count)| *count);
            row.push(format!(
                "{:.1} %",
                100.0 * own as f64 / profile.instructions as f64
            ));
        }
        grid.rows.push(row);
    }
    grid
}

fn formats(study: &Study) -> Grid {
    let head = [
        "table",
        "format",
        "MB",
        "bytes a row",
        "of it integers",
        "scan, ms",
        "one row, µs",
        "one update, ms",
    ];
    let mut grid = Grid::new("Beside Parquet: median (5 % – 95 %)", 2, &head);
    for format in &study.formats {
        let each = |bytes: u64| number(bytes as f64 / study.rows as f64);
        grid.rows.push(vec![
            format.table.clone(),
            format.format.clone(),
            number(format.bytes as f64 / 1e6),
            each(format.bytes),
            format.integers.map_or_else(|| "–".into(), each),
            bounds(format.scan.times(1e3)),
            bounds(format.row.times(1e6)),
            bounds(format.update.times(1e3)),
        ]);
    }
    grid
}
