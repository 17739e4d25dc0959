//! Sizes and times as a picture: a point for each setting, the Pareto front as a line.

use litepack_database::{Error, Result, printable};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::pareto;
use super::report::Report;

const SIZE: (u32, u32) = (960, 640);
/// Width of the legend, which is beside the points and covers none.
const LEGEND: u32 = 130;
const LINE: i32 = 22;
const MARGIN: u32 = 16;
/// Room for labels of axes.
const LABELS: u32 = 56;
/// Room between the points and the edges.
const ROOM: f64 = 1.15;
const FONT: (&str, i32) = ("sans-serif", 14);
const SMALL: (&str, i32) = ("sans-serif", 11);

/// The picture as SVG.
pub(crate) fn of(report: &Report) -> Result<String> {
    let mut svg = String::new();
    let drawn = draw(report, &mut svg);
    drawn.map_err(|error| Error::Refused(format!("cannot draw the chart: {error}")))?;
    Ok(svg)
}

fn draw(report: &Report, svg: &mut String) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (plot, legend) = root.split_horizontally(SIZE.0 - LEGEND);
    let at = |result: &pareto::Outcome| (result.bytes as f64 / MIB, result.time);
    let most = |of: fn(&(f64, f64)) -> f64| {
        let all = report.results.iter().map(|result| of(&at(result)));
        all.fold(0.0, f64::max) * ROOM
    };
    let name = printable(&report.database.display().to_string());
    let mut chart = ChartBuilder::on(&plot)
        .margin(MARGIN)
        .set_label_area_size(LabelAreaPosition::Left, LABELS)
        .set_label_area_size(LabelAreaPosition::Bottom, LABELS)
        .caption(format!("{name}: size and query time"), ("sans-serif", 20))
        .build_cartesian_2d(0.0..most(|at| at.0), 0.0..most(|at| at.1))?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("size, MiB")
        .y_desc("query time, plain file = 1")
        .label_style(FONT)
        .draw()?;
    let front: Vec<(f64, f64)> = (report.front.iter())
        .map(|place| at(&report.results[*place]))
        .collect();
    let line = PathElement::new(front, BLACK.mix(0.4).stroke_width(1));
    chart.draw_series([line])?;
    for (form, color) in FORMS {
        let points = report.results.iter().enumerate();
        let points = points.filter(|(_, result)| result.candidate.kind() == form);
        let points = points.map(|(place, result)| {
            let on_front = report.front.contains(&place);
            let style = if on_front {
                color.filled()
            } else {
                color.stroke_width(1)
            };
            Circle::new(at(result), if on_front { 5 } else { 3 }, style)
        });
        chart.draw_series(points)?;
    }
    for (number, place) in report.front.iter().enumerate() {
        let result = &report.results[*place];
        let (x, y) = at(result);
        // On the side where there is room.
        let (side, away) = match x * 2.0 < most(|at| at.0) {
            true => (HPos::Left, 8),
            false => (HPos::Right, -8),
        };
        // Neighbours on the front may be close to each other.
        let (above, up) = match number % 2 {
            0 => (VPos::Bottom, -4),
            _ => (VPos::Top, 4),
        };
        let style = SMALL.into_text_style(&root).pos(Pos::new(side, above));
        let label =
            EmptyElement::at((x, y)) + Text::new(result.candidate.name(), (away, up), style);
        chart.draw_series([label])?;
    }
    if let Some(place) = report.recommended {
        let ring = Circle::new(at(&report.results[place]), 10, BLACK.stroke_width(2));
        chart.draw_series([ring])?;
    }
    let mut lines: Vec<(&str, i32, ShapeStyle)> = (FORMS.iter())
        .filter(|(form, _)| (report.results.iter()).any(|result| result.candidate.kind() == *form))
        .map(|(form, color)| (*form, 5, color.filled()))
        .collect();
    if report.recommended.is_some() {
        lines.push(("recommended", 8, BLACK.stroke_width(2)));
    }
    for (line, (words, radius, style)) in (0..).zip(lines) {
        let place = (MARGIN as i32, 3 * MARGIN as i32 + line * LINE);
        let text = FONT
            .into_text_style(&legend)
            .pos(Pos::new(HPos::Left, VPos::Center));
        let entry = EmptyElement::at(place)
            + Circle::new((0, 0), radius, style)
            + Text::new(words, (14, 0), text);
        legend.draw(&entry)?;
    }
    root.present()?;
    Ok(())
}

const MIB: f64 = (1 << 20) as f64;

/// The colour of each form.
const FORMS: [(&str, RGBColor); 3] = [
    ("plain", RGBColor(90, 90, 90)),
    ("packed", RGBColor(0, 90, 180)),
    ("archive", RGBColor(200, 80, 0)),
];
