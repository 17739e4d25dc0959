//! Sizes and times as a picture: a point for each setting, the Pareto front as a line. Points of the front have numbers,
//! and the legend beside the picture has their names: next to the points, names would cover each other.

use litepack_database::{Error, Result, printable};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::pareto;
use super::report::Report;

const SIZE: (u32, u32) = (1180, 640);
/// Width of the legend, which covers no point.
const LEGEND: u32 = 350;
const LINE: i32 = 22;
const MARGIN: u32 = 16;
/// Room for labels of axes.
const LABELS: u32 = 56;
/// Room between the points and the edges.
const ROOM: f64 = 1.15;
const FONT: (&str, i32) = ("sans-serif", 14);
const SMALL: (&str, i32) = ("sans-serif", 11);
/// Half of the width and height of a number.
const NUMBER: (i32, i32) = (7, 6);
/// The radius of a point on the front, of another one, and of the ring around the one that is recommended.
const ON_FRONT: i32 = 5;
const OTHER: i32 = 3;
const RING: i32 = 10;

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
            Circle::new(at(result), if on_front { ON_FRONT } else { OTHER }, style)
        });
        chart.draw_series(points)?;
    }
    let pixel = |result: &pareto::Outcome| chart.backend_coord(&at(result));
    let points = report.results.iter().enumerate().map(|(place, result)| {
        let radius = match place {
            _ if report.recommended == Some(place) => RING,
            _ if report.front.contains(&place) => ON_FRONT,
            _ => OTHER,
        };
        (pixel(result), radius)
    });
    let points: Vec<_> = points.collect();
    let front: Vec<_> = (report.front.iter())
        .map(|place| pixel(&report.results[*place]))
        .collect();
    let centred = SMALL
        .into_text_style(&root)
        .pos(Pos::new(HPos::Center, VPos::Center));
    for (number, place) in (1..).zip(beside(&front, &points)) {
        root.draw_text(&format!("{number}"), &centred, place)?;
    }
    if let Some(place) = report.recommended {
        let ring = Circle::new(at(&report.results[place]), RING, BLACK.stroke_width(2));
        chart.draw_series([ring])?;
    }
    let mut lines: Vec<(&str, i32, ShapeStyle)> = (FORMS.iter())
        .filter(|(form, _)| (report.results.iter()).any(|result| result.candidate.kind() == *form))
        .map(|(form, color)| (*form, 5, color.filled()))
        .collect();
    if report.recommended.is_some() {
        lines.push(("recommended", 8, BLACK.stroke_width(2)));
    }
    let line_at = |line: i32| (MARGIN as i32, 3 * MARGIN as i32 + line * LINE);
    let names = (1..).zip(&report.front);
    let below = lines.len() as i32;
    for (number, place) in names {
        let name = report.results[*place].candidate.name();
        let style = SMALL
            .into_text_style(&legend)
            .pos(Pos::new(HPos::Left, VPos::Center));
        legend.draw_text(
            &format!("{number}  {name}"),
            &style,
            line_at(below + number),
        )?;
    }
    for (line, (words, radius, style)) in (0..).zip(lines) {
        let place = line_at(line);
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

/// The centres of numbers beside these points, where they cover no point and no other number, as far as there is room.
fn beside(front: &[(i32, i32)], points: &[((i32, i32), i32)]) -> Vec<(i32, i32)> {
    let mut taken: Vec<(i32, i32)> = Vec::new();
    for (x, y) in front {
        let around = (2..12).flat_map(|ring| {
            let ways = [
                (1, -1),
                (1, 1),
                (-1, -1),
                (-1, 1),
                (1, 0),
                (-1, 0),
                (0, -1),
                (0, 1),
            ];
            ways.map(|(right, down)| (x + right * ring * NUMBER.0, y + down * ring * NUMBER.1))
        });
        let is_free = |place: &(i32, i32)| {
            let apart = |other: &(i32, i32), by: (i32, i32)| {
                (place.0 - other.0).abs() > by.0 || (place.1 - other.1).abs() > by.1
            };
            taken
                .iter()
                .all(|other| apart(other, (2 * NUMBER.0, 2 * NUMBER.1)))
                && points
                    .iter()
                    .all(|(at, radius)| apart(at, (NUMBER.0 + radius, NUMBER.1 + radius)))
        };
        let mut around = around.peekable();
        let nearest = around.peek().copied();
        taken.extend(around.find(is_free).or(nearest));
    }
    taken
}

const MIB: f64 = (1 << 20) as f64;

/// The colour of each form.
const FORMS: [(&str, RGBColor); 3] = [
    ("plain", RGBColor(90, 90, 90)),
    ("packed", RGBColor(0, 90, 180)),
    ("archive", RGBColor(200, 80, 0)),
];
