//! Horizontal bars in clusters, each with its value beside it.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::canvas::{self, FONT, Failure, GRID, SMALL, color, series, text};
use crate::report::words;

const WIDTH: i32 = 960;
/// Where labels end and bars may begin.
const LEFT: i32 = 390;
/// Where bars must end, so that values have room.
const RIGHT: i32 = 890;
const TOP: i32 = 76;
const BAR: i32 = 13;
const GAP: i32 = 10;
const BOTTOM: i32 = 52;

/// One bar.
pub struct Bar {
    /// Decides on the colour.
    pub series: String,
    /// Above zero.
    pub value: f64,
}

/// Bars that are compared with each other.
pub struct Cluster {
    /// The label they have in common.
    pub label: String,
    /// From top to bottom.
    pub bars: Vec<Bar>,
}

/// Where bars begin.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ruler {
    /// At 0; twice the value is twice the length.
    FromZero,
    /// At 1, to both sides; each doubling has the same length.
    AroundOne,
}

/// A chart.
pub struct Bars<'a> {
    /// Above it.
    pub title: &'a str,
    /// Below it.
    pub note: &'a str,
    /// Where bars begin.
    pub ruler: Ruler,
    /// From top to bottom.
    pub clusters: Vec<Cluster>,
}

/// Turns values into places from left to right.
struct Scale {
    ruler: Ruler,
    first: f64,
    last: f64,
}

impl Scale {
    fn of(ruler: Ruler, values: impl Iterator<Item = f64>) -> Self {
        let (least, most) = values.fold((1.0_f64, 1.0_f64), |(least, most), value| {
            (least.min(value), most.max(value))
        });
        match ruler {
            Ruler::FromZero => Self {
                ruler,
                first: 0.0,
                last: most,
            },
            // At least from half to twice, and whole doublings.
            Ruler::AroundOne => Self {
                ruler,
                first: least.log2().floor().min(-1.0),
                last: most.log2().ceil().max(1.0),
            },
        }
    }

    fn x(&self, value: f64) -> i32 {
        let value = match self.ruler {
            Ruler::FromZero => value,
            Ruler::AroundOne => value.log2(),
        };
        let share = (value - self.first) / (self.last - self.first);
        LEFT + (share * f64::from(RIGHT - LEFT)).round() as i32
    }

    /// Values with a line of the grid.
    fn marks(&self) -> Vec<f64> {
        match self.ruler {
            Ruler::FromZero => {
                let step = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]
                    .into_iter()
                    .find(|step| self.last / step <= 12.0)
                    .unwrap_or(100.0);
                (0..=(self.last / step) as u32)
                    .map(|index| f64::from(index) * step)
                    .collect()
            }
            Ruler::AroundOne => (self.first as i32..=self.last as i32)
                .map(|doublings| f64::from(doublings).exp2())
                .collect(),
        }
    }

    fn origin(&self) -> f64 {
        match self.ruler {
            Ruler::FromZero => 0.0,
            Ruler::AroundOne => 1.0,
        }
    }
}

impl Bars<'_> {
    /// The picture.
    pub fn svg(&self) -> Result<String, Failure> {
        let bars = || self.clusters.iter().flat_map(|cluster| &cluster.bars);
        let end = TOP + bars().count() as i32 * BAR + self.clusters.len() as i32 * GAP;
        let size = (WIDTH, end + BOTTOM);
        let series = series(bars().map(|bar| bar.series.as_str()));
        canvas::svg(size, self.title, self.note, &series, |root| {
            let scale = Scale::of(self.ruler, bars().map(|bar| bar.value));
            for mark in scale.marks() {
                let x = scale.x(mark);
                root.draw(&PathElement::new([(x, TOP - 6), (x, end)], GRID))?;
                let label = if mark > 0.0 && mark < 1.0 {
                    format!("1/{} ×", mark.recip())
                } else {
                    format!("{mark} ×")
                };
                root.draw(&Text::new(label, (x, end + 12), text(SMALL, HPos::Center)))?;
            }
            let mut y = TOP;
            for cluster in &self.clusters {
                let height = cluster.bars.len() as i32 * BAR;
                let middle = (LEFT - 34, y + height / 2);
                root.draw(&Text::new(
                    cluster.label.as_str(),
                    middle,
                    text(FONT, HPos::Right),
                ))?;
                for bar in &cluster.bars {
                    let (from, to) = (scale.x(scale.origin()), scale.x(bar.value));
                    let corners = [(from.min(to), y + 1), (from.max(to), y + BAR - 1)];
                    let color = color(&series, &bar.series);
                    root.draw(&Rectangle::new(corners, color.filled()))?;
                    let (x, side) = if to < from {
                        (to - 4, HPos::Right)
                    } else {
                        (to + 4, HPos::Left)
                    };
                    let value = format!("{} ×", words::number(bar.value));
                    root.draw(&Text::new(value, (x, y + BAR / 2), text(SMALL, side)))?;
                    y += BAR;
                }
                y += GAP;
            }
            let x = scale.x(scale.origin());
            root.draw(&PathElement::new([(x, TOP - 6), (x, end)], BLACK))?;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slower_is_to_the_left_of_one_and_faster_to_the_right() {
        let scale = Scale::of(Ruler::AroundOne, [0.3, 5.0].into_iter());
        assert_eq!(scale.marks(), [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]);
        assert!(LEFT <= scale.x(0.3) && scale.x(0.3) < scale.x(1.0));
        assert!(scale.x(1.0) < scale.x(5.0) && scale.x(5.0) <= RIGHT);
        assert_eq!(
            scale.x(2.0) - scale.x(1.0),
            scale.x(1.0) - scale.x(0.5),
            "twice as fast looks as far from 1 as half as fast"
        );
    }

    #[test]
    fn bars_from_zero_are_in_proportion() {
        let scale = Scale::of(Ruler::FromZero, [4.0, 20.0].into_iter());
        assert_eq!(scale.x(0.0), LEFT);
        assert_eq!((scale.x(4.0) - LEFT) * 5, scale.x(20.0) - LEFT);
        assert_eq!(scale.marks().last(), Some(&20.0));
    }
}
