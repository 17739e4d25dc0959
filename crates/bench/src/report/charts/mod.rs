//! The figures as pictures: which rows make which chart, as SVG files.
//!
//! Few charts, each with what belongs together. Figures that failed are in none, and a chart without figures is not
//! made. Speeds are shown as ratios to plain SQLite, faster always to the right.

mod bars;
mod canvas;
mod lines;

use std::path::Path;

use anyhow::{Context, Result, anyhow};

use self::bars::{Bar, Bars, Cluster, Ruler};
use self::canvas::Failure;
use self::lines::{Line, Lines, Panel};
use super::{Report, words};
use crate::rows::{Row, Unit};

/// A chart's file name and what it shows.
pub struct Chart {
    /// Without a folder.
    pub file: &'static str,
    /// As a heading.
    pub title: &'static str,
    svg: String,
}

/// The work in a chart of speeds.
const SPEEDS: [(&str, &str, &[&str]); 5] = [
    (
        "reads.svg",
        "Read speed",
        &[
            "tpch-",
            "point-reads",
            "range-reads",
            "cold-",
            "small-pages-point",
            "small-pages-range",
            "beside-writer-",
        ],
    ),
    (
        "writes.svg",
        "Write speed",
        &["load", "insert", "update-", "commits", "small-pages-update"],
    ),
    (
        "archives.svg",
        "Speed of queries on archives and packed files",
        &["archive-count", "archive-filter", "archive-group"],
    ),
    ("peer.svg", "Speed beside sqlite_zstd_vfs", &["apart"]),
    (
        "columns.svg",
        "Speed with a compressed column",
        &[
            "columns-point",
            "columns-range",
            "columns-scan",
            "columns-insert",
            "columns-update",
        ],
    ),
];

/// All charts of a report.
///
/// # Errors
/// If one cannot be drawn.
pub fn draw(report: &Report) -> Result<Vec<Chart>> {
    let mut charts = Vec::new();
    let mut add = |file, title, svg: Result<String, Failure>| -> Result<()> {
        let svg = svg.map_err(|error| anyhow!("cannot draw {file}: {error}"))?;
        charts.push(Chart { file, title, svg });
        Ok(())
    };
    let note = note(report);
    let sizes = sizes(report);
    if !sizes.is_empty() {
        let bars = Bars {
            title: "File size: how many times smaller than the plain file",
            note: &note,
            ruler: Ruler::FromZero,
            clusters: sizes,
        };
        add("sizes.svg", "File size", bars.svg())?;
    }
    for (file, title, works) in SPEEDS {
        let clusters = speeds(report, works);
        if !clusters.is_empty() {
            let bars = Bars {
                title: &format!("{title}: plain SQLite = 1, faster to the right"),
                note: &note,
                ruler: Ruler::AroundOne,
                clusters,
            };
            add(file, title, bars.svg())?;
        }
    }
    let clusters = equal_memory(report);
    if !clusters.is_empty() {
        let bars = Bars {
            title: "Speed at equal memory: plain SQLite = 1, faster to the right",
            note: &note,
            ruler: Ruler::AroundOne,
            clusters,
        };
        add("memory.svg", "Speed at equal memory", bars.svg())?;
    }
    let panels = growth(report);
    if !panels.is_empty() {
        let lines = Lines {
            title: "Cost as the file grows (size of the plain file)",
            note: &note,
            panels,
        };
        add("growth.svg", "Cost as the file grows", lines.svg())?;
    }
    Ok(charts)
}

/// Writes charts into a folder, which is made if it is not there.
pub fn write(charts: &[Chart], folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for chart in charts {
        let path = folder.join(chart.file);
        std::fs::write(&path, &chart.svg)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn note(report: &Report) -> String {
    let machine = &report.machine;
    format!(
        "{}, {} cores, {}; {}, {}",
        machine.cpu,
        machine.cores,
        machine.file_system,
        report.kind(),
        machine.date
    )
}

/// The groups of work whose name begins with one of these, in the order of the report.
fn groups<'a>(report: &'a Report, works: &[&str]) -> impl Iterator<Item = &'a [Row]> {
    let groups = report.sections.iter().flat_map(|section| &section.groups);
    groups.map(Vec::as_slice).filter(move |group| {
        group
            .first()
            .is_some_and(|row| works.iter().any(|work| row.workload.starts_with(work)))
    })
}

fn sizes(report: &Report) -> Vec<Cluster> {
    let clusters = groups(report, &["sizes"]).map(|group| Cluster {
        label: group[0].data.clone(),
        bars: group
            .iter()
            .filter_map(|row| {
                Some(Bar {
                    series: row.engine.into(),
                    value: row.ratio?.times,
                })
            })
            .collect(),
    });
    clusters
        .filter(|cluster| !cluster.bars.is_empty())
        .collect()
}

fn speeds(report: &Report, works: &[&str]) -> Vec<Cluster> {
    let clusters = groups(report, works).map(|group| {
        let bars = group.iter().filter_map(|row| {
            // A way that plain SQLite has too names the work, not the contestant.
            let series = if row.way == group[0].way {
                row.engine.into()
            } else {
                words::engine(row)
            };
            Some(Bar {
                series,
                value: row.gain()?,
            })
        });
        Cluster {
            label: label(group),
            bars: bars.collect(),
        }
    });
    let mut clusters: Vec<Cluster> = clusters
        .filter(|cluster| !cluster.bars.is_empty())
        .collect();
    shorten(&mut clusters);
    clusters
}

/// One cluster for each kind of work, one bar for each limit.
fn equal_memory(report: &Report) -> Vec<Cluster> {
    let mut clusters: Vec<Cluster> = Vec::new();
    for group in groups(report, &["equal-memory"]) {
        let speeds = group.iter().filter(|row| row.unit != Unit::Memory);
        let bars = speeds.filter_map(|row| {
            Some(Bar {
                series: row.way?.into(),
                value: row.gain()?,
            })
        });
        let bars: Vec<Bar> = bars.collect();
        match clusters.last_mut() {
            Some(last) if last.label == group[0].data => last.bars.extend(bars),
            _ => clusters.push(Cluster {
                label: group[0].data.clone(),
                bars,
            }),
        }
    }
    clusters.retain(|cluster| !cluster.bars.is_empty());
    clusters
}

/// Takes away the beginning, up to a colon, that all labels have.
fn shorten(clusters: &mut [Cluster]) {
    let first = clusters.first().map(|first| first.label.split_once(": "));
    let Some(Some((start, _))) = first else {
        return;
    };
    let start = format!("{start}: ");
    if clusters
        .iter()
        .all(|cluster| cluster.label.starts_with(&start))
    {
        for cluster in clusters {
            cluster.label.drain(..start.len());
        }
    }
}

/// The label that tells a group from the others of its chart.
fn label(group: &[Row]) -> String {
    let row = &group[0];
    let way = row
        .way
        .filter(|_| group.iter().all(|one| one.way == row.way));
    let mut label = row.title.clone();
    if let Some(way) = way {
        label += &format!(": {way}");
    }
    match row.setting {
        Some(setting) => label += &format!(", {}", setting.name()),
        None => label += &format!(", {}", row.data),
    }
    label
}

/// One panel for each kind of work, one line for each engine.
fn growth(report: &Report) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    for group in groups(report, &["growth"]) {
        let title = group[0].way.unwrap_or_default();
        if panels.last().is_none_or(|panel| panel.title != title) {
            panels.push(Panel {
                title: title.into(),
                places: Vec::new(),
                lines: Vec::new(),
            });
        }
        let Some(panel) = panels.last_mut() else {
            continue;
        };
        let place = panel.places.len();
        let size = group[0].data.rsplit(", ").next();
        panel.places.push(size.unwrap_or_default().into());
        for row in group.iter().filter(|row| row.failure.is_none()) {
            let Some(summary) = row.summary else {
                continue;
            };
            let point = (place, summary.median);
            match panel
                .lines
                .iter_mut()
                .find(|line| line.series == row.engine)
            {
                Some(line) => line.points.push(point),
                None => panel.lines.push(Line {
                    series: row.engine.into(),
                    points: vec![point],
                }),
            }
        }
    }
    panels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_lose_what_all_of_them_say() {
        let labels = |labels: [&str; 2]| {
            let mut clusters = labels.map(|label| Cluster {
                label: label.into(),
                bars: Vec::new(),
            });
            shorten(&mut clusters);
            clusters.map(|cluster| cluster.label)
        };
        assert_eq!(labels(["Archive: a", "Archive: b"]), ["a", "b"]);
        assert_eq!(labels(["Archive: a", "b"]), ["Archive: a", "b"]);
        assert_eq!(labels(["a", "b"]), ["a", "b"]);
    }
}
