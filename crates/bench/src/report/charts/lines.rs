//! Panels side by side, each with lines over the same places.

use std::ops::Range;

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::canvas::{self, Failure, GRID, SMALL, color, series, text};
use crate::report::words;
use crate::rows::Unit;

const PANEL: i32 = 320;
const HEIGHT: i32 = 340;
const TOP: i32 = 110;
const BOTTOM: i32 = 270;
/// Of a panel: where its axis is, and where its lines end.
const INNER: Range<i32> = 70..290;
const FONT: (&str, i32) = ("sans-serif", 13);
const STEPS: i32 = 4;

/// One line.
pub struct Line {
    /// Decides on the colour.
    pub series: String,
    /// Places and seconds.
    pub points: Vec<(usize, f64)>,
}

/// Lines that are compared with each other.
pub struct Panel {
    /// Above it.
    pub title: String,
    /// From left to right.
    pub places: Vec<String>,
    /// In any order.
    pub lines: Vec<Line>,
}

/// A chart.
pub struct Lines<'a> {
    /// Above it.
    pub title: &'a str,
    /// Below it.
    pub note: &'a str,
    /// From left to right.
    pub panels: Vec<Panel>,
}

impl Lines<'_> {
    /// The picture.
    pub fn svg(&self) -> Result<String, Failure> {
        let size = (PANEL * self.panels.len().max(2) as i32, HEIGHT);
        let lines = || self.panels.iter().flat_map(|panel| &panel.lines);
        let series = series(lines().map(|line| line.series.as_str()));
        canvas::svg(size, self.title, self.note, &series, |root| {
            for (index, panel) in self.panels.iter().enumerate() {
                let left = PANEL * index as i32;
                let title = (left + INNER.start, TOP - 26);
                root.draw(&Text::new(
                    panel.title.as_str(),
                    title,
                    text(FONT, HPos::Left),
                ))?;
                let points = panel.lines.iter().flat_map(|line| &line.points);
                let most = points.fold(0.0_f64, |most, (_, value)| most.max(*value));
                let (divisor, unit) = words::scale(Unit::Seconds, most);
                let y = |value: f64| {
                    BOTTOM - (value / most.max(f64::MIN_POSITIVE) * f64::from(BOTTOM - TOP)) as i32
                };
                for step in 0..=STEPS {
                    let value = most * f64::from(step) / f64::from(STEPS);
                    let ends = [(left + INNER.start, y(value)), (left + INNER.end, y(value))];
                    root.draw(&PathElement::new(ends, GRID))?;
                    let label = format!("{} {unit}", words::number(value / divisor));
                    let at = (left + INNER.start - 6, y(value));
                    root.draw(&Text::new(label, at, text(SMALL, HPos::Right)))?;
                }
                let between = (INNER.end - INNER.start) / (panel.places.len() as i32 - 1).max(1);
                let x = |place: usize| left + INNER.start + between * place as i32;
                for (place, label) in panel.places.iter().enumerate() {
                    let at = (x(place), BOTTOM + 16);
                    root.draw(&Text::new(label.as_str(), at, text(SMALL, HPos::Center)))?;
                }
                for line in &panel.lines {
                    let color = color(&series, &line.series);
                    let points: Vec<_> = line
                        .points
                        .iter()
                        .map(|(place, value)| (x(*place), y(*value)))
                        .collect();
                    for point in &points {
                        root.draw(&Circle::new(*point, 3, color.filled()))?;
                    }
                    root.draw(&PathElement::new(points, color.stroke_width(2)))?;
                }
            }
            Ok(())
        })
    }
}
