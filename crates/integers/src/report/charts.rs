//! Bars in SVG: one chart for each question.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::grid::number;
use crate::cases::Cache;
use crate::data::Distribution;
use crate::factors::{Factors, Length, Over};
use crate::study::Study;

/// A bar, with bounds around its end where they are known.
struct Bar {
    name: String,
    value: f64,
    bounds: Option<(f64, f64)>,
}

/// Bars that are compared with each other.
struct Group {
    name: String,
    bars: Vec<Bar>,
}

/// Draws all charts that there are figures for into a folder.
///
/// # Errors
/// The file system's.
pub fn draw(study: &Study, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let charts = [
        (
            "cases.svg",
            "Test cases 1 to 4, warm, DELETE: seconds (5 % to 95 %)",
            cases(study),
        ),
        (
            "bytes.svg",
            "A page's column under zstd 3: bytes for a value",
            arrays(study, Over::Zstd3, |found| found.bytes),
        ),
        (
            "decode.svg",
            "A page's column: nanoseconds to decode a value",
            arrays(study, Over::Alone, |found| found.decode.median),
        ),
        (
            "encode.svg",
            "A page's column: nanoseconds to encode a value",
            arrays(study, Over::Alone, |found| found.encode.median),
        ),
        (
            "pages.svg",
            "Whole pages of one column: bytes for a row",
            pages(study),
        ),
    ];
    for (file, title, groups) in charts {
        if !groups.is_empty() {
            bars(&folder.join(file), title, &groups)?;
        }
    }
    Ok(())
}

fn cases(study: &Study) -> Vec<Group> {
    let readings = study.cases.readings.iter();
    let shown =
        readings.filter(|reading| reading.cache == Cache::Warm && reading.journal == "DELETE");
    grouped(shown.map(|reading| {
        let bar = Bar {
            name: reading.engine.clone(),
            value: reading.seconds.median,
            bounds: Some((reading.seconds.low, reading.seconds.high)),
        };
        (format!("test case {}", reading.case), bar)
    }))
}

fn arrays(study: &Study, over: Over, figure: fn(&Factors) -> f64) -> Vec<Group> {
    let shown = study
        .factors
        .iter()
        .filter(|found| found.length == Length::Page && found.over == over);
    grouped(shown.map(|found| {
        let bar = Bar {
            name: found.encoding.clone(),
            value: figure(found),
            bounds: None,
        };
        (found.distribution.clone(), bar)
    }))
}

fn pages(study: &Study) -> Vec<Group> {
    // One column type for each distribution: the usual one.
    let usual = |distribution: Distribution| {
        let name = distribution.name();
        study
            .pages
            .iter()
            .find(|pages| pages.distribution == name)
            .map(|pages| (name, pages.column.clone()))
    };
    let usual: Vec<_> = Distribution::ALL.into_iter().filter_map(usual).collect();
    let shown = study.pages.iter().filter(|pages| {
        pages.page_size != 16_384
            && usual
                .iter()
                .any(|(name, column)| *name == pages.distribution && *column == pages.column)
    });
    grouped(shown.flat_map(|pages| {
        let group = format!("{}, {} KiB", pages.distribution, pages.page_size / 1024);
        let bar = |name: &str, value| Bar {
            name: name.into(),
            value,
            bounds: None,
        };
        let ways = pages.ways.iter().map(|way| bar(&way.name, way.bytes));
        let all = std::iter::once(bar("SQLite", pages.bytes)).chain(ways);
        all.map(|bar| (group.clone(), bar)).collect::<Vec<_>>()
    }))
}

/// Bars of equal groups together, in the order of the first ones.
fn grouped(bars: impl Iterator<Item = (String, Bar)>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (name, bar) in bars {
        match groups.iter_mut().find(|group| group.name == name) {
            Some(group) => group.bars.push(bar),
            None => groups.push(Group {
                name,
                bars: vec![bar],
            }),
        }
    }
    groups
}

const WIDTH: i32 = 900;
const LABELS: i32 = 170;
const LINE: i32 = 15;
const HEAD: i32 = 40;
/// One for each name.
const COLORS: [RGBColor; 10] = [
    RGBColor(120, 120, 130),
    RGBColor(66, 133, 200),
    RGBColor(219, 128, 40),
    RGBColor(70, 160, 90),
    RGBColor(190, 80, 90),
    RGBColor(140, 110, 190),
    RGBColor(40, 160, 170),
    RGBColor(200, 160, 40),
    RGBColor(90, 90, 60),
    RGBColor(200, 110, 170),
];

/// Bars from left to right, each with its name and figure; the longest takes the whole width.
fn bars(path: &Path, title: &str, groups: &[Group]) -> Result<()> {
    let lines: i32 = groups.iter().map(|group| group.bars.len() as i32 + 2).sum();
    let height = HEAD + LINE * lines;
    let all = || groups.iter().flat_map(|group| &group.bars);
    let longest = all()
        .map(|bar| bar.bounds.map_or(bar.value, |(_, high)| high))
        .fold(f64::MIN_POSITIVE, f64::max);
    let mut names: Vec<&str> = Vec::new();
    for bar in all() {
        if !names.contains(&&*bar.name) {
            names.push(&bar.name);
        }
    }
    let room = f64::from(WIDTH - LABELS - 80);
    let x = |value: f64| LABELS + (room * value / longest) as i32;
    let root = SVGBackend::new(path, (WIDTH as u32, height as u32)).into_drawing_area();
    let failed =
        |error: DrawingAreaErrorKind<_>| anyhow!("cannot draw {}: {error}", path.display());
    root.fill(&WHITE).map_err(failed)?;
    let style = |size: i32, position| ("sans-serif", size).into_font().color(&BLACK).pos(position);
    let (left, right) = (
        Pos::new(HPos::Left, VPos::Center),
        Pos::new(HPos::Right, VPos::Center),
    );
    root.draw_text(title, &style(17, left), (10, HEAD / 2))
        .map_err(failed)?;
    let mut y = HEAD;
    for group in groups {
        root.draw_text(&group.name, &style(13, left), (10, y + LINE / 2))
            .map_err(failed)?;
        y += LINE;
        for bar in &group.bars {
            let (top, bottom, middle) = (y + 2, y + LINE - 2, y + LINE / 2);
            root.draw_text(&bar.name, &style(12, right), (LABELS - 8, middle))
                .map_err(failed)?;
            let index = names
                .iter()
                .position(|name| *name == bar.name)
                .unwrap_or_default();
            let color = COLORS[index % COLORS.len()].filled();
            root.draw(&Rectangle::new(
                [(LABELS, top), (x(bar.value).max(LABELS + 1), bottom)],
                color,
            ))
            .map_err(failed)?;
            let mut end = x(bar.value);
            if let Some((low, high)) = bar.bounds {
                end = end.max(x(high));
                let whisker = vec![(x(low), middle), (x(high), middle)];
                root.draw(&PathElement::new(whisker, BLACK.stroke_width(2)))
                    .map_err(failed)?;
            }
            root.draw_text(&number(bar.value), &style(12, left), (end + 6, middle))
                .map_err(failed)?;
            y += LINE;
        }
        y += LINE;
    }
    root.present().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_names_and_figures() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.svg");
        let bar = |name: &str, value, bounds| {
            let bar = Bar {
                name: name.into(),
                value,
                bounds,
            };
            ("a group".to_string(), bar)
        };
        let groups =
            grouped([bar("one", 1.25, None), bar("two", 2.5, Some((2.0, 3.0)))].into_iter());
        assert_eq!(groups.len(), 1);
        bars(&path, "A title", &groups).unwrap();
        let svg = std::fs::read_to_string(path).unwrap();
        for text in ["A title", "a group", "one", "two", "1.25", "2.50"] {
            assert!(svg.contains(text), "{text} is not in {svg}");
        }
    }

    #[test]
    fn without_figures_there_is_no_chart() {
        let folder = tempfile::tempdir().unwrap();
        draw(&Study::default(), folder.path()).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
