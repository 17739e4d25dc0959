//! Which format lines have: that which most lines of a sample fit exactly. Where two could be meant nothing is chosen,
//! and where many lines do not fit the user is told, with a line.

use super::delimited::Delimited;
use super::{Format, Taken, time};
use crate::row::{Columns, Row};

/// So many lines are looked at.
const SAMPLE: usize = 200;
/// Bytes shown of a line.
const SHOWN: usize = 300;
/// Formats that are recognised. Of two of which each fits as many lines, but others, the one of the first line.
pub(super) const KNOWN: [&str; 30] = [
    "docker",
    "json",
    "combined",
    "common",
    "main",
    "vhost",
    "traefik",
    "upstream_time",
    "ingress-nginx",
    "combined $request_time",
    "main $request_time",
    "common $request_time",
    "combined %D",
    "combined %T",
    "common %D",
    "common %T",
    "vhost %D",
    "vhost %T",
    "haproxy",
    "syslog",
    "elb",
    "alb",
    "w3c",
    "cri",
    "ltsv",
    "logfmt",
    "tsv",
    "csv",
    "csv-semicolon",
    "csv-bar",
];
/// Each line of the first is one of the second, too, and means the same there.
pub(super) const WITHIN: [(&str, &str); 2] = [("docker", "json"), ("haproxy", "syslog")];

/// A format, and what the user should know of how it was chosen.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) name: String,
    /// How many lines of the sample fit, of how many.
    pub(crate) fits: [usize; 2],
    pub(crate) doubt: Option<String>,
}

/// Which lines of a sample fit a format.
struct Fit {
    name: &'static str,
    lines: Vec<bool>,
    count: usize,
}

impl Fit {
    fn new(name: &'static str, lines: Vec<bool>) -> Fit {
        let count = lines.iter().filter(|fits| **fits).count();
        Fit { name, lines, count }
    }

    fn first(&self) -> usize {
        self.lines
            .iter()
            .position(|fits| *fits)
            .unwrap_or(usize::MAX)
    }

    /// Whether the other one fits nearly all lines that this one does.
    fn is_covered_by(&self, other: &Fit) -> bool {
        let both = self
            .lines
            .iter()
            .zip(&other.lines)
            .filter(|(a, b)| **a && **b);
        both.count() * 20 >= self.count * 19
    }
}

/// The lines of a sample: as they are parsed, without empty ones.
fn sample<'l>(lines: impl Iterator<Item = &'l [u8]>) -> Vec<&'l [u8]> {
    lines.filter(|line| !line.is_empty()).take(SAMPLE).collect()
}

/// The format of most of these lines; or why none was chosen.
pub(crate) fn detect<'l>(
    lines: impl Iterator<Item = &'l [u8]>,
    now: i64,
) -> Result<Choice, String> {
    let lines = sample(lines);
    let fits = all(&lines, now);
    let Some(best) = fits.first().filter(|best| best.count * 2 >= lines.len()) else {
        return Err(none(&fits, &lines, now));
    };
    let twin = fits.iter().skip(1).find(|other| best.is_covered_by(other));
    if let Some(twin) = twin {
        let line = lines.get(best.first()).copied().unwrap_or_default();
        return Err(format!(
            "its lines can be read as '{}' and as '{}', such as: {}",
            best.name,
            twin.name,
            shown(line)
        ));
    }
    Ok(Choice {
        name: best.name.to_owned(),
        fits: [best.count, lines.len()],
        doubt: doubt(best, fits.get(1), &lines),
    })
}

/// The fit of a format that the user named for these lines, with a doubt to tell the user.
pub(crate) fn check<'l>(
    name: &str,
    lines: impl Iterator<Item = &'l [u8]>,
    now: i64,
) -> Option<Choice> {
    let lines = sample(lines);
    let mut format = Format::named(name).ok()?;
    let mut columns = columns()?;
    let fit = lines.iter().map(|line| {
        let header = format.takes_header(line);
        header.unwrap_or(true)
            || format
                .parse(line, &mut Row::default(), &mut columns, now)
                .is_ok()
    });
    let named = Fit::new("", fit.collect());
    let others = all(&lines, now);
    let better = others
        .first()
        .filter(|other| other.count > named.count && other.name != name);
    Some(Choice {
        name: name.to_owned(),
        fits: [named.count, lines.len()],
        doubt: doubt(&named, better, &lines),
    })
}

fn columns() -> Option<Columns> {
    Columns::new(&[], 100, false, time::Times::default()).ok()
}

/// The formats that fit any of these lines, the best one first.
fn all(lines: &[&[u8]], now: i64) -> Vec<Fit> {
    let mut fits: Vec<Fit> = Vec::new();
    for name in KNOWN {
        let fit = fit(name, lines, now);
        fits.extend(
            fit.filter(|(fit, shows)| *shows && fit.count > 0)
                .map(|(fit, _)| fit),
        );
    }
    let count = |name: &str| {
        fits.iter()
            .find(|fit| fit.name == name)
            .map_or(0, |fit| fit.count)
    };
    let hidden: Vec<&str> = WITHIN
        .iter()
        .filter(|(narrow, wide)| count(narrow) > 0 && count(narrow) >= count(wide))
        .map(|(_, wide)| *wide)
        .collect();
    fits.retain(|fit| !hidden.contains(&fit.name));
    // The sort keeps the order of those that are alike.
    fits.sort_by_key(|fit| (std::cmp::Reverse(fit.count), fit.first()));
    fits
}

/// Which lines fit, and whether they show that they are of the format.
fn fit(name: &'static str, lines: &[&[u8]], now: i64) -> Option<(Fit, bool)> {
    let mut format = match name {
        "csv" => Format::Delimited(Box::new(Delimited::new(b','))),
        name => Format::new(name).ok()?,
    };
    let mut columns = columns()?;
    if let Format::Delimited(delimited) = &mut format {
        // The header counts as a line of the format where others show that it is one.
        if delimited.has_names(lines) != Some(true) {
            return None;
        }
    }
    let (mut own, mut named) = (0, false);
    let fits = lines.iter().map(|line| {
        if format.takes_header(line) == Ok(true) {
            return true;
        }
        let taken = format.parse(line, &mut Row::default(), &mut columns, now);
        own += usize::from(taken == Ok(Taken::Row));
        named |= format.state().is_some();
        taken.is_ok()
    });
    let fit = Fit::new(name, fits.collect());
    let shows = match name {
        "haproxy" => own * 2 >= lines.len(),
        "logfmt" | "syslog" => own * 2 >= fit.count,
        "w3c" => named,
        "csv" | "csv-semicolon" | "csv-bar" | "tsv" => own > 0,
        _ => true,
    };
    Some((fit, shows))
}

/// Says it where less than 95 % of the lines fit.
fn doubt(best: &Fit, second: Option<&Fit>, lines: &[&[u8]]) -> Option<String> {
    if best.count * 100 >= lines.len() * 95 {
        return None;
    }
    let other = match second {
        Some(second) => format!("; '{}' fits {}", second.name, second.count),
        None => String::new(),
    };
    let misfit = best.lines.iter().position(|fits| !fits);
    let line = misfit
        .and_then(|at| lines.get(at))
        .copied()
        .unwrap_or_default();
    Some(format!(
        "fits {} of the first {} lines{other}; a line that does not fit: {}",
        best.count,
        lines.len(),
        shown(line)
    ))
}

/// Why nothing was chosen.
fn none(fits: &[Fit], lines: &[&[u8]], now: i64) -> String {
    let Some(line) = lines.first() else {
        return "there is no line to tell it by".to_owned();
    };
    // Without anything that tells names from values a table is not taken for one.
    let table = [
        ("csv", b','),
        ("tsv", b'\t'),
        ("csv-semicolon", b';'),
        ("csv-bar", b'|'),
    ]
    .into_iter()
    .find(|(_, delimiter)| {
        lines.len() > 1 && Delimited::new(*delimiter).has_names(lines) == Some(false)
    });
    if let (Some((name, _)), true) = (table, fits.is_empty()) {
        return format!(
            "it may be '{name}', but nothing shows that the first line has names; with --format '{name}' it does: {}",
            shown(line)
        );
    }
    let unsure = ["syslog", "logfmt"].into_iter().find(|name| {
        let fit = fit(name, lines, now);
        fit.is_some_and(|(fit, shows)| !shows && fit.count * 2 >= lines.len())
    });
    if let (Some(name), true) = (unsure, fits.is_empty()) {
        return format!(
            "its lines may be of '{name}', but other programs write such lines, too: {}",
            shown(line)
        );
    }
    let found: Vec<String> = fits
        .iter()
        .take(2)
        .map(|fit| format!("'{}' fits {} of {}", fit.name, fit.count, lines.len()))
        .collect();
    match &found[..] {
        [] => format!(
            "no format that is known fits a line such as: {}",
            shown(line)
        ),
        found => {
            let misfit = fits
                .first()
                .and_then(|fit| fit.lines.iter().position(|fits| !fits));
            let line = misfit.and_then(|at| lines.get(at)).copied().unwrap_or(line);
            format!(
                "{}; a line that does not fit: {}",
                found.join(", "),
                shown(line)
            )
        }
    }
}

/// The beginning of a line, as it may be shown.
pub(crate) fn shown(line: &[u8]) -> String {
    let cut = line.get(..SHOWN).unwrap_or(line);
    let text = String::from_utf8_lossy(cut).replace('\t', "\\t");
    let harmless = |c| match litepack_database::names::printable::deceives(c) {
        true => char::REPLACEMENT_CHARACTER,
        false => c,
    };
    let mut shown: String = text.chars().map(harmless).collect();
    if cut.len() < line.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMBINED: &str =
        r#"10.0.0.1 - - [28/Jan/2020:20:20:00 +0000] "GET /0 HTTP/1.1" 200 5 "-" "x""#;

    fn of(lines: &[&str]) -> Result<Choice, String> {
        detect(lines.iter().map(|line| line.as_bytes()), 1_767_225_600)
    }

    fn name(lines: &[&str]) -> String {
        of(lines).map_or_else(|why| why, |choice| choice.name)
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_not_chosen() {
        let whole = format!("{COMBINED} 162");
        let why = of(&[&whole]).unwrap_err();
        assert!(
            why.contains("'combined %D'")
                && why.contains("'combined %T'")
                && why.contains("GET /0"),
            "{why}"
        );
        let why = of(&["a;b,count,c;d", "1;2,5,3;4"]).unwrap_err();
        assert!(
            why.contains("'csv'") && why.contains("'csv-semicolon'"),
            "{why}"
        );
    }

    #[test]
    fn few_lines_that_do_not_fit_are_told() {
        let main = format!("{COMBINED} \"203.0.113.7\"");
        let mut lines = vec![COMBINED; 60];
        lines.extend(vec![&main[..]; 40]);
        let choice = of(&lines).unwrap();
        assert_eq!((&*choice.name, choice.fits), ("combined", [60, 100]));
        let doubt = choice.doubt.unwrap();
        assert!(
            doubt.contains("'main' fits 40") && doubt.contains("203.0.113.7"),
            "{doubt}"
        );
        // Half and half: the one that comes first.
        let choice = of(&[&main, COMBINED]).unwrap();
        assert_eq!(choice.name, "main");
        assert!(choice.doubt.is_some());
        let mut lines = vec![COMBINED; 95];
        lines.extend(vec!["?"; 5]);
        assert_eq!(of(&lines).unwrap().doubt, None);
        let why = of(&["?", "!", COMBINED]).unwrap_err();
        assert!(
            why.contains("'combined' fits 1 of 3") && why.ends_with(": ?"),
            "{why}"
        );
    }

    #[test]
    fn a_format_that_is_named_is_looked_at() {
        let lines = [COMBINED.as_bytes(); 3];
        let choice = check("common", lines.into_iter(), 0).unwrap();
        assert_eq!(choice.fits, [0, 3]);
        assert!(choice.doubt.unwrap().contains("'combined' fits 3"));
        assert_eq!(check("combined", lines.into_iter(), 0).unwrap().doubt, None);
    }

    #[test]
    fn a_table_needs_names_that_show() {
        assert_eq!(
            name(&["time\tname\tcount", "2026-11-24T10:00:00Z\ta b\t3"]),
            "tsv"
        );
        assert_eq!(name(&["a,b", "1,2"]), "csv");
        assert_eq!(name(&["a;b", "x;2,5"]), "csv-semicolon");
        assert_eq!(name(&["a|b", "x|2"]), "csv-bar");
        assert_eq!(name(&["level\ttext", "info\tstarted"]), "tsv");
        for values in [
            ["alice\tadmin\tblue", "bob\tuser\tred"],
            ["2024-01-01\tx\t5", "2024-01-02\ty\t6"],
            ["alice\tGET\t200", "bob\tPOST\t404"],
            ["web1,10.0.0.1,x", "web2,10.0.0.2,y"],
        ] {
            let why = of(&values).unwrap_err();
            assert!(
                why.contains(values[0].split(['\t', ',']).next().unwrap()),
                "{why}"
            );
        }
        assert!(
            of(&["alice\tadmin\tblue", "bob\tuser\tred"])
                .unwrap_err()
                .contains("--format 'tsv'")
        );
        assert!(of(&["a,b"]).is_err());
    }

    #[test]
    fn lines_of_ltsv_are_no_names() {
        let lines = [
            "time:2024-01-01T00:00:00Z\thost:1.2.3.4\tstatus:200",
            "time:2024-01-01T00:00:01Z\thost:1.2.3.5\tstatus:200",
        ];
        assert_eq!(name(&lines), "ltsv");
    }

    #[test]
    fn a_time_alone_is_no_syslog() {
        for line in [
            "2023-01-01T12:00:00.123456Z 0 [Note] [MY-010304] [Server] Skipping generation",
            "2023-01-01T12:00:00.123456Z 0 [Note] InnoDB: PUNCH HOLE support available",
            "2025-01-14T16:10:41.762-07:00  INFO 93649 --- [main] e.c.o.CourseCreation   : Starting",
            "2025-01-14T16:10:41.762-07:00 ERROR 93649 --- [main] e.c.o.CourseCreation   : Starting",
            "2022-02-15T18:40:14.289898Z ERROR fmt: preparing to shave yaks",
            "2024-01-01T00:00:00Z some text, and more",
            "2022-02-15T18:40:14Z main ERROR: preparing",
            "2022-02-15T18:40:14+01:00 main ERROR: preparing",
            "2022-02-15T18:40:14Z main-1 com.foo.Bar: preparing",
            "2023-05-01T12:00:00.1234567Z Secret source: Actions",
            "2023-05-01T12:00:00 worker task: done",
            "Jan 28 20:20:07 Starting the service",
            "Jan 28 20:20:07 ERROR: no space",
        ] {
            assert!(of(&[line]).is_err(), "{line}: {:?}", of(&[line]));
        }
        let why = of(&["2022-02-15T18:40:14Z main task: preparing"]).unwrap_err();
        assert!(
            why.contains("'syslog'") && why.contains("main task"),
            "{why}"
        );
        for line in [
            "2024-05-01T00:00:01.123456+02:00 web1 app: started",
            "2024-05-01T00:00:01Z web1 app[12]: started",
            "2024-05-01T00:00:01Z web1 kernel: [    0.0] Linux",
            "Jan 28 20:20:07 web1 app: started",
            "Jan 28 20:20:07 web1 last message repeated 3 times",
            "<13>Jan 28 20:20:07 web1 started",
        ] {
            assert_eq!(name(&[line]), "syslog", "{line}");
        }
    }

    #[test]
    fn a_pair_alone_is_no_logfmt() {
        let export = [
            "__CURSOR=s=1;i=2",
            "__REALTIME_TIMESTAMP=1423944916372858",
            "MESSAGE=Started",
        ];
        let why = of(&export).unwrap_err();
        assert!(
            why.contains("'logfmt'") && why.contains("__CURSOR"),
            "{why}"
        );
        assert!(of(&["PATH=/usr/bin"]).is_err());
        assert_eq!(name(&["level=info msg=x", "panic=1"]), "logfmt");
    }

    #[test]
    fn values_are_no_names() {
        for first in [
            ["alice\tGET\tnull", "bob\tGET\t200"],
            ["alice\tpost\tN/A", "bob\tget\t5"],
            ["bob\tuser\tred", "alice\tadmin\tblue"],
            ["error\tdisk full\tweb1", "info\tstarted\tweb2"],
            ["web1,GET,open", "web2,GET,5"],
        ] {
            let why = of(&first).unwrap_err();
            assert!(
                why.contains(first[0].split(['\t', ',']).next().unwrap()),
                "{why}"
            );
        }
        assert_eq!(name(&["action,user,role", "login,bob,admin"]), "csv");
        assert_eq!(
            name(&[
                "time,n",
                "2024-01-01 00:00:00,1",
                "time,n",
                "2024-01-01 00:00:01,2"
            ]),
            "csv"
        );
    }
}
