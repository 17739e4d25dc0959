//! Figures in words that need no explanation beside them.

use crate::rows::{PAGE_LEN, Row, Unit, Verdict};

/// A number with three significant digits or all before the point, thousands set apart.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        _ => 2,
    };
    grouped(value, digits)
}

/// A number with so many digits behind the point, thousands set apart.
pub fn grouped(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut out = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out + rest
}

/// A number as the unit has it: requests are whole.
fn figure(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Requests => value.to_string(),
        _ => number(value),
    }
}

/// Divisor and name of the unit that suits a median.
pub fn scale(unit: Unit, median: f64) -> (f64, &'static str) {
    match unit {
        Unit::Seconds if median >= 1.0 => (1.0, "s"),
        Unit::Seconds if median >= 0.0001 => (0.001, "ms"),
        Unit::Seconds | Unit::SecondsPerPage => (1e-6, "µs"),
        Unit::PerSecond => (1.0, "/s"),
        Unit::Bytes | Unit::Memory | Unit::Written => (1e6, "MB"),
        Unit::Requests => (1.0, "requests"),
        Unit::Fetched => (1e3, "kB"),
    }
}

/// The median with its unit, or why there is none.
pub fn median(row: &Row) -> String {
    let Some(summary) = row.summary else {
        return "failed".into();
    };
    let (divisor, unit) = scale(row.unit, summary.median);
    let median = format!("{} {unit}", figure(row.unit, summary.median / divisor));
    match row.unit {
        Unit::SecondsPerPage => {
            let rate = PAGE_LEN as f64 / summary.median / 1e6;
            format!("{median}, {} MB/s", number(rate))
        }
        _ => median,
    }
}

/// The smallest and the largest value.
pub fn spread(row: &Row) -> String {
    match row.summary {
        Some(summary) if row.values.len() > 1 => {
            let (divisor, _) = scale(row.unit, summary.median);
            format!(
                "{} – {}",
                figure(row.unit, summary.min / divisor),
                figure(row.unit, summary.max / divisor)
            )
        }
        _ => String::new(),
    }
}

/// The ratio to plain SQLite, saying of what; for a file that got smaller, how many times.
pub fn to_plain(row: &Row) -> String {
    if let Some(ratio) = row.ratio {
        return format!("{} ×", number(ratio.times));
    }
    let Some(ratio) = row.to_plain.filter(|_| row.failure.is_none()) else {
        return String::new();
    };
    let what = match row.unit {
        Unit::Seconds | Unit::SecondsPerPage => "the time",
        Unit::PerSecond => "the rate",
        Unit::Bytes => "the size",
        Unit::Memory => "the memory",
        Unit::Requests => "the requests",
        Unit::Fetched | Unit::Written => "the bytes",
    };
    format!("{ratio:.2} × {what}")
}

/// One word on the ratio; for a file that got smaller, its share of R and the aim; for memory, the
/// difference; for a file that grows, what that costs.
pub fn verdict(row: &Row) -> String {
    if let Some(ratio) = row.ratio {
        let share = ratio.of_whole_file.map(|share| format!("{share:.2} R"));
        let aim = ratio.aim.map(|aim| format!("aim {aim:.2} R"));
        return share.into_iter().chain(aim).collect::<Vec<_>>().join(", ");
    }
    if let Some(over) = row.over_plain.filter(|_| row.failure.is_none()) {
        return format!(
            "{}{} MB",
            if over < 0.0 { "" } else { "+" },
            number(over / 1e6)
        );
    }
    let verdict = row.verdict().map(|verdict| match verdict {
        Verdict::Better => "better".into(),
        Verdict::Even => "even".into(),
        Verdict::Worse => "worse".into(),
    });
    let growth = row.growth.filter(|_| row.failure.is_none());
    let growth = growth.map(|growth| format!("{} × the smallest file's", number(growth)));
    verdict
        .into_iter()
        .chain(growth)
        .collect::<Vec<String>>()
        .join(", ")
}

/// The file after work that wrote to it, and how it compares.
pub fn file(row: &Row) -> String {
    let size = row
        .file_bytes
        .map(|bytes| format!("{} MB", number(bytes as f64 / 1e6)));
    let to_plain = row
        .file_to_plain
        .map(|ratio| format!("{} ×", number(ratio)));
    size.into_iter()
        .chain(to_plain)
        .collect::<Vec<_>>()
        .join(", ")
}

/// The engine and, where it has several, the way.
pub fn engine(row: &Row) -> String {
    match row.way {
        Some(way) if way.starts_with(row.engine) => way.into(),
        Some(way) => format!("{}: {way}", row.engine),
        None => row.engine.into(),
    }
}

/// Why the figures are missing or not to be trusted, as a line of its own.
pub fn failure(row: &Row) -> Option<String> {
    row.failure
        .as_ref()
        .map(|failure| format!("{}: {failure}", engine(row)))
}

/// Journal mode and `synchronous`.
pub fn durability(row: &Row) -> String {
    row.setting
        .map_or_else(|| "–".into(), |setting| setting.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::compare;

    #[test]
    fn times_have_the_unit_that_suits_them() {
        let units = [8e-6, 0.0002, 0.5, 1.0].map(|seconds| scale(Unit::Seconds, seconds).1);
        assert_eq!(units, ["µs", "ms", "ms", "s"]);
    }

    #[test]
    fn the_last_column_tells_what_matters_for_the_unit() {
        let row = |unit, values: &[f64]| Row {
            unit,
            values: values.to_vec(),
            ..Row::EMPTY
        };
        let mut memory = [row(Unit::Memory, &[9e6]), row(Unit::Memory, &[7.9e7])];
        compare(&mut memory);
        assert_eq!(verdict(&memory[1]), "+70.0 MB");
        assert_eq!(to_plain(&memory[1]), "8.78 × the memory");
        let mut grown = [row(Unit::Seconds, &[1.0]), row(Unit::Seconds, &[2.0])];
        compare(&mut grown);
        grown[1].growth = Some(1.5);
        assert_eq!(verdict(&grown[1]), "worse, 1.50 × the smallest file's");
        let mut asked = [row(Unit::Requests, &[3.0]), row(Unit::Requests, &[4.0])];
        compare(&mut asked);
        assert_eq!(median(&asked[1]), "4 requests");
    }

    #[test]
    fn numbers_are_easy_to_read() {
        let shown: Vec<String> = [0.123, 1.0, 12.345, 123.4, 99_999.6, 1_234_567.0]
            .into_iter()
            .map(number)
            .collect();
        assert_eq!(
            shown,
            ["0.12", "1.00", "12.3", "123", "100 000", "1 234 567"]
        );
    }
}
