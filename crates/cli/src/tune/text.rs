//! The report, for people.

use std::time::Duration;

use comfy_table::{Cell, CellAlignment, Table, presets};
use indicatif::HumanBytes;
use litepack::harmless_line;
use litepack_tune::{Form, Report};

/// The report for people.
pub fn of(report: &Report) -> String {
    let shown = harmless_line(&report.database.display().to_string());
    let (bytes, pages) = (HumanBytes(report.plain_bytes()), report.page_size);
    let mut out = if report.is_whole {
        format!("{shown}: {bytes} as a plain file, pages of {pages} bytes\n")
    } else {
        format!(
            "{shown}: tried on a sample of {bytes} out of {}, pages of {pages} bytes\n",
            HumanBytes(report.whole)
        )
    };
    for left_out in &report.left_out {
        out += &format!("left out of the sample: {left_out}\n");
    }
    out += "\nqueries on the plain file\n";
    for (at, (query, time)) in report.queries.iter().zip(&report.plain).enumerate() {
        out += &format!("{:>3}  {:>9}  {}\n", at + 1, duration(*time), query.name);
    }
    out += &format!("\n{}\n", results(report));
    out += "* the Pareto front: nothing else is smaller without being slower\n\
            time: relative to the plain file, mean of all queries; made in: seconds for what was tried\n\n";
    out + &recommendation(report)
}

fn results(report: &Report) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(line(
        ["", "", "page", "size", "smaller", "time", "made in"].map(String::from),
    ));
    let mut order: Vec<usize> = (0..report.results.len()).collect();
    order.sort_by_key(|at| report.results[*at].bytes);
    for at in order {
        let result = &report.results[at];
        let mark = if report.front.contains(&at) { "*" } else { "" };
        let made = match result.candidate.form {
            Form::Plain => String::new(),
            _ => format!("{:.1} s", result.seconds),
        };
        table.add_row(line([
            mark.into(),
            result.candidate.form(),
            result.candidate.page_size.to_string(),
            HumanBytes(result.bytes).to_string(),
            format!("{:.2} x", report.smaller(result)),
            format!("{:.2} x", result.time),
            made,
        ]));
    }
    let lines = table.lines().map(|line| line.trim_end().to_owned() + "\n");
    lines.collect()
}

fn line(cells: [String; 7]) -> Vec<Cell> {
    let cell = |(at, text)| match at {
        0 | 1 => Cell::new(text),
        _ => Cell::new(text).set_alignment(CellAlignment::Right),
    };
    cells.into_iter().enumerate().map(cell).collect()
}

fn recommendation(report: &Report) -> String {
    let Some(at) = report.recommended else {
        return "recommended: leave it as it is; compressing it saves less than 5 %\n".into();
    };
    let mut out = one(report, "recommended", at);
    if let Some(written) = report.recommended_written.filter(|written| *written != at) {
        out += &format!("\n{}", one(report, "if it is to be written", written));
    }
    out
}

fn one(report: &Report, heading: &str, at: usize) -> String {
    let result = &report.results[at];
    let ratios: Vec<String> = (result.ratios.iter().enumerate())
        .map(|(at, ratio)| format!("{}: {ratio:.2} x", at + 1))
        .collect();
    let smaller = report.smaller(result);
    let all = match report.is_whole {
        true => String::new(),
        false => {
            let bytes = HumanBytes((report.whole as f64 / smaller) as u64);
            format!(" (about {bytes} for all of it)")
        }
    };
    let mut out = format!(
        "{heading}: {}\n{smaller:.2} x smaller{all}, {:.2} x the time ({})\n",
        result.candidate.name(),
        result.time,
        ratios.join(", ")
    );
    for command in report.commands(result.candidate) {
        out += &format!("  {}\n", harmless_line(&command));
    }
    out
}

fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.1} us", s * 1e6),
    }
}
