//! The common look of charts: fonts, the heading and the note, the series' colours and their legend.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::engines::{Litepack, Plain};

const HEADING: (&str, i32) = ("sans-serif", 18);
pub const FONT: (&str, i32) = ("sans-serif", 12);
pub const SMALL: (&str, i32) = ("sans-serif", 11);
pub const GRID: RGBColor = RGBColor(220, 220, 220);

const GREY: RGBColor = RGBColor(120, 120, 120);
const BLUE: RGBColor = RGBColor(0, 114, 178);
/// The colours of series that are neither plain SQLite nor packed files.
const COLORS: [RGBColor; 6] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(110, 80, 50),
];

/// Why a chart cannot be drawn.
pub type Failure = Box<dyn std::error::Error>;

/// Text whose middle line is at its place, which is its left end, its middle or its right end.
pub fn text(font: (&'static str, i32), side: HPos) -> TextStyle<'static> {
    let style = font.into_font().color(&BLACK);
    style.pos(Pos::new(side, VPos::Center))
}

/// A white picture of this size with a title, a note at the foot and a legend of the series, on which `draw`
/// draws the rest.
pub fn svg(
    (width, height): (i32, i32),
    title: &str,
    note: &str,
    series: &[&str],
    draw: impl FnOnce(&DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), Failure>,
) -> Result<String, Failure> {
    let mut svg = String::new();
    {
        let size = (width as u32, height as u32);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        root.draw(&Text::new(title, (16, 22), text(HEADING, HPos::Left)))?;
        root.draw(&Text::new(note, (16, height - 14), text(SMALL, HPos::Left)))?;
        draw_legend(&root, series)?;
        draw(&root)?;
        root.present()?;
    }
    Ok(svg)
}

/// Each name once, in the order of their first use.
pub fn series<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    names.fold(Vec::new(), |mut known, name| {
        if !known.contains(&name) {
            known.push(name);
        }
        known
    })
}

/// The colour of a series: plain SQLite and packed files have the same in all charts, the others go by
/// their order.
pub fn color(series: &[&str], name: &str) -> RGBColor {
    let is_other = |name: &str| ![Plain::NAME, Litepack::NAME].contains(&name);
    let mut others = series.iter().filter(|name| is_other(name));
    match name {
        Plain::NAME => GREY,
        Litepack::NAME => BLUE,
        _ => {
            let place = others.position(|known| *known == name);
            COLORS[place.unwrap_or_default() % COLORS.len()]
        }
    }
}

/// The series from left to right, below the title.
fn draw_legend(root: &DrawingArea<SVGBackend<'_>, Shift>, series: &[&str]) -> Result<(), Failure> {
    const Y: i32 = 48;
    let mut x = 16;
    for name in series {
        let box_at = [(x, Y - 6), (x + 12, Y + 6)];
        root.draw(&Rectangle::new(box_at, color(series, name).filled()))?;
        root.draw(&Text::new(*name, (x + 18, Y), text(FONT, HPos::Left)))?;
        // Wide letters on average.
        x += 40 + name.chars().count() as i32 * 7;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_files_look_the_same_in_every_chart() {
        let charts = [vec!["other", "litepack"], vec!["litepack", "one", "other"]];
        let found = charts.map(|series| color(&series, "litepack"));
        assert_eq!(found[0], found[1]);
        let series = ["plain", "litepack", "one", "other"];
        let colors = series.map(|name| color(&series, name));
        assert!((1..4).all(|index| !colors[..index].contains(&colors[index])));
    }
}
