//! Lines made at random: each has its values in their columns or is not parsed, and no other format takes it for
//! something else.

use std::collections::BTreeMap;

use super::detect::KNOWN;
use super::samples::{are_related, read};
use super::{Format, field};

/// Numbers that look random.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }

    fn of<'t, T: ?Sized>(&mut self, from: &[&'t T]) -> &'t T {
        from[self.roll(from.len())]
    }

    /// A value of a field, as a server may write it, and whether clients could have made it look like several fields.
    fn value(&mut self, kind: char) -> &'static [u8] {
        match kind {
            'h' => self.of(&[
                &b"10.0.0.1"[..],
                b"::1",
                b"2001:db8::2",
                b"host-1.example.com",
                b"-",
                b"fe80::1%eth0",
            ]),
            'l' => self.of(&[&b"-"[..], b"ident"]),
            'u' => self.of(&[
                &b"-"[..],
                b"frank",
                b"john doe",
                b"a\\\"b",
                b"\"\"",
                b"DOMAIN\\\\x",
                b"\xc3\xa4",
                b"\xff",
                b"- -",
                b"x [y]",
            ]),
            'r' => self.of(&[
                &b"GET / HTTP/1.1"[..],
                b"GET /a b HTTP/1.1",
                b"-",
                b"",
                b"\\x16\\x03\\x01",
                b"GET /\\\" HTTP/1.0",
                b"PRI * HTTP/2.0",
                b"GET /x\" 200 5 \"y HTTP/1.1",
            ]),
            's' => self.of(&[&b"200"[..], b"404", b"499", b"000", b"-"]),
            'n' => self.of(&[&b"0"[..], b"2053", b"-", b"18446744073709551615"]),
            'q' => self.of(&[
                &b"-"[..],
                b"",
                b"http://r/?a=b",
                b"Mozilla/5.0 (X11; Linux) [en]",
                b"a \\\"quote\\\"",
                b"\\\\",
                b"x\\",
                b"\xff\xfe",
                b"raw\"quote",
                b"a\" \"b",
                b"\t",
                b"0.003",
                b"10.0.0.1",
                b"k=v l=\\\"w\\\"",
                b"\\x22",
            ]),
            'f' => self.of(&[
                &b"-"[..],
                b"203.0.113.7",
                b"203.0.113.7, ::1",
                b"unknown",
                b"<script>",
                b"x, y",
            ]),
            't' => self.of(&[&b"0.003"[..], b"12.001", b"-"]),
            'm' => self.of(&[&b"22"[..], b"0", b"-"]),
            'v' => self.of(&[&b"example.com"[..], b"[2001:db8::1]", b"_default_"]),
            'p' => self.of(&[&b"443"[..], b"80"]),
            'c' => self.of(&[&b"10.0.0.1:2817"[..], b"[2001:db8::1]:80", b"-"]),
            'w' => self.of(&[&b"a"[..], b"app/x/50dc", b"-", b"TLSv1.2"]),
            _ => unreachable!(),
        }
    }
}

/// What formats have in common.
macro_rules! part {
    (request) => {
        r#"{u remote_user} [T] "{r request}" {s status} {n bytes}"#
    };
    (agent) => {
        r#" "{q referer}" "{q user_agent}""#
    };
    (common) => {
        concat!("{h remote_addr} {l identity} ", part!(request))
    };
    (combined) => {
        concat!(part!(common), part!(agent))
    };
    (nginx) => {
        concat!("{h remote_addr} - ", part!(request), part!(agent))
    };
    (main) => {
        concat!(part!(nginx), r#" "{f http_x_forwarded_for}""#)
    };
    (balancer $server:literal) => {
        concat!(
            "I {w elb} {c remote} {c ", $server, "} {t request_processing_time} {t ", $server,
            "_processing_time} {t response_processing_time} {s status} {s ", $server,
            r#"_status} {n received_bytes} {n sent_bytes} "{r request}" "{q user_agent}" {w ssl_cipher} {w ssl_protocol}"#
        )
    };
}

/// Formats as kinds of fields, each a letter and a name in braces; `T` and `I` are times.
const SHAPES: [(&str, &str); 12] = [
    ("common", part!(common)),
    ("combined", part!(combined)),
    (
        "vhost",
        r#"{v server_name}:{p server_port} {h remote_addr} {l identity} {u remote_user} [T] "{r request}" {s status} {n bytes_sent} "{q referer}" "{q user_agent}""#,
    ),
    ("main", part!(main)),
    (
        "combined $request_time",
        concat!(part!(combined), " {t request_time}"),
    ),
    (
        "main $request_time",
        concat!(part!(main), " {t request_time}"),
    ),
    (
        "combined %D",
        concat!(part!(combined), " {m request_microseconds}"),
    ),
    ("common %T", concat!(part!(common), " {m request_time}")),
    (
        "traefik",
        concat!(
            part!(nginx),
            r#" {n request_count} "{q router_name}" "{q server_url}" {m request_milliseconds}ms"#
        ),
    ),
    (
        "upstream_time",
        concat!(
            part!(nginx),
            r#" rt={t request_time} uct="{t upstream_connect_time}" uht="{t upstream_header_time}" urt="{t upstream_response_time}""#
        ),
    ),
    ("elb", part!(balancer "backend")),
    (
        "alb",
        concat!(
            "https ",
            part!(balancer "target"),
            r#" {w target_group_arn} "{q trace_id}""#
        ),
    ),
];

/// A line, what it holds, and whether a text in it has a quote that its server would have escaped.
fn made(shape: &str, dice: &mut Dice) -> (Vec<u8>, BTreeMap<String, String>, bool) {
    let (mut line, mut wanted, mut raw) = (Vec::new(), BTreeMap::new(), false);
    let mut rest = shape;
    let bytes = |value: &[u8]| value.iter().map(|b| *b as char).collect::<String>();
    while let Some(first) = rest.chars().next() {
        if let Some((field, after)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            let (kind, name) = field.split_once(' ').unwrap();
            let kind = kind.chars().next().unwrap();
            let value = dice.value(kind);
            raw |= field::closing(value).is_some() && value != b"\"\"" || value.ends_with(b"x\\");
            line.extend_from_slice(value);
            match (kind, field::request(value)) {
                _ if value == b"-" => {}
                ('r', Some((method, path, protocol))) => {
                    wanted.insert("method".into(), bytes(method));
                    wanted.insert("path".into(), bytes(path));
                    wanted.insert("protocol".into(), bytes(protocol));
                }
                ('r', None) => drop(wanted.insert("path".into(), bytes(value))),
                ('c', _) => {
                    let (address, port) = field::with_port(value).unwrap();
                    wanted.insert(format!("{name}_addr"), bytes(address));
                    wanted.insert(format!("{name}_port"), bytes(port));
                }
                ('u', _) if value == b"\"\"" => drop(wanted.insert(name.into(), String::new())),
                ('s', _) => drop(wanted.insert(name.into(), bytes(value))),
                _ => drop(wanted.insert(name.into(), bytes(value))),
            }
            rest = after;
            continue;
        }
        match first {
            'T' if line.ends_with(b"[") => line.extend_from_slice(b"28/Jan/2020:20:20:07 +0000"),
            'I' if line.is_empty() || line.ends_with(b"https ") => {
                line.extend_from_slice(b"2020-01-28T20:20:07Z")
            }
            other => line.push(other as u8),
        }
        rest = &rest[1..];
    }
    wanted.insert("time".into(), "2020-01-28T20:20:07Z".into());
    if line.starts_with(b"https ") {
        wanted.insert("type".into(), "https".into());
    }
    (line, wanted, raw)
}

#[test]
fn values_are_in_their_columns_or_the_line_is_not_parsed() {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let (mut parsed, mut tried) = (0, 0);
    for (format, shape) in SHAPES {
        let mut own = Format::new(format).unwrap();
        let mut others: Vec<(&str, Format)> = KNOWN
            .iter()
            .filter(|other| !are_related(format, other))
            .map(|other| (*other, Format::new(other).unwrap()))
            .filter(|(_, format)| !matches!(format, Format::Delimited(_)))
            .collect();
        for _ in 0..2000 {
            let (line, wanted, raw) = made(shape, &mut dice);
            let text = String::from_utf8_lossy(&line).into_owned();
            tried += 1;
            if let Ok(Some(found)) = read(&mut own, &line) {
                // AWS adds fields to the end, which such a quote may make.
                let longer = raw && *format == *"alb" && found.len() > wanted.len();
                assert!(found == wanted || longer, "{format}: {text}: {found:?}");
                parsed += 1;
            }
            // A quote that is not escaped may make a line of another format indeed.
            for (other, parser) in others.iter_mut().filter(|_| !raw) {
                let taken = read(parser, &line);
                assert!(taken.is_err(), "{format} as {other}: {text}: {taken:?}");
            }
        }
    }
    assert!(parsed * 4 > tried, "only {parsed} of {tried} were parsed");
}

#[test]
fn names_in_lines_keep_their_values() {
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let pool: [&[u8]; 12] = [
        b"a",
        b"",
        b"a b",
        b"1.2.3.4",
        b"x:y",
        b"\"q\"",
        b"a,b;c|d",
        b"\\",
        b"\xff",
        b"k=v",
        b"007",
        b"2026-01-01T00:00:00Z",
    ];
    let bytes = |value: &[u8]| value.iter().map(|b| *b as char).collect::<String>();
    for _ in 0..3000 {
        let values: Vec<&[u8]> = (0..3).map(|_| dice.of(&pool)).collect();
        let wanted: BTreeMap<String, String> = ["a", "b", "c"]
            .iter()
            .zip(&values)
            .map(|(name, value)| ((*name).to_owned(), bytes(value)))
            .collect();
        let mut given = wanted.clone();
        given.retain(|_, value| !value.is_empty());
        let joined = |separator: &[u8], around: &dyn Fn(&[u8]) -> Vec<u8>| {
            values
                .iter()
                .map(|value| around(value))
                .collect::<Vec<_>>()
                .join(separator)
        };
        let quoted = |value: &[u8]| {
            let text = bytes(value).replace('"', "\"\"");
            format!("\"{text}\"")
                .chars()
                .map(|c| c as u8)
                .collect::<Vec<u8>>()
        };
        for (name, separator) in [
            ("csv", b","),
            ("csv-semicolon", b";"),
            ("csv-bar", b"|"),
            ("tsv", b"\t"),
        ] {
            let mut format = Format::new(name).unwrap();
            let header = ["a", "b", "c"].join(&bytes(separator));
            assert_eq!(format.takes_header(header.as_bytes()), Ok(true));
            let line = joined(separator, &quoted);
            assert_eq!(read(&mut format, &line).unwrap().unwrap(), given, "{name}");
        }
        let labelled: Vec<Vec<u8>> = ["a:", "b:", "c:"]
            .iter()
            .zip(&values)
            .map(|(label, value)| [label.as_bytes(), value].concat())
            .collect();
        let line = labelled.join(&b'\t');
        assert_eq!(
            read(&mut Format::new("ltsv").unwrap(), &line)
                .unwrap()
                .unwrap(),
            wanted
        );
        let pairs: Vec<Vec<u8>> = ["a=", "b=", "c="]
            .iter()
            .zip(&values)
            .map(|(name, value)| [name.as_bytes(), value].concat())
            .collect();
        if let Ok(Some(found)) = read(&mut Format::new("logfmt").unwrap(), &pairs.join(&b' ')) {
            assert!(
                wanted
                    .iter()
                    .all(|(name, value)| found.get(name) == Some(value))
                    || value_has_pair(&values),
                "{found:?}"
            );
        }
    }
}

/// Without quotes, `a=x k=v` has two pairs.
fn value_has_pair(values: &[&[u8]]) -> bool {
    values
        .iter()
        .any(|value| value.contains(&b' ') || *value == b"\"q\"")
}

#[test]
fn a_pattern_of_the_user_shifts_nothing() {
    let pattern = r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" $request_time"#;
    let mut own = Format::new(pattern).unwrap();
    let mut dice = Dice(0x1234_5678_9abc_def1);
    for (name, shape) in SHAPES {
        for _ in 0..500 {
            let (line, _, raw) = made(shape, &mut dice);
            let taken = read(&mut own, &line);
            assert!(
                taken.is_err() || raw,
                "{name}: {}",
                String::from_utf8_lossy(&line)
            );
        }
    }
}

#[test]
fn parts_of_a_stream_are_joined_and_survive() {
    let lines = [
        "2024-01-01T00:00:00Z stdout P one ",
        "2024-01-01T00:00:01Z stderr P err",
        "2024-01-01T00:00:02Z stdout P two ",
        "not of it",
        "2024-01-01T00:00:03Z stderr F or",
        "2024-01-01T00:00:04Z stdout F three",
    ];
    let mut found = Vec::new();
    let mut format = Format::new("cri").unwrap();
    for line in lines {
        if let Ok(Some(row)) = read(&mut format, line.as_bytes()) {
            found.push((row["stream"].clone(), row["message"].clone()));
        }
        // As a later run goes on.
        let state = format.state();
        format = Format::new("cri").unwrap();
        if let Some(state) = state {
            format.restore(&state);
        }
    }
    let row = |stream: &str, message: &str| (stream.to_owned(), message.to_owned());
    assert_eq!(
        found,
        [row("stderr", "error"), row("stdout", "one two three")]
    );
    assert_eq!(format.waiting(), 0);
    // A stream without an end takes no memory without one.
    let part = format!("2024-01-01T00:00:00Z stdout P {}", "x".repeat(16 << 10));
    let mut rows = 0;
    for _ in 0..200 {
        rows += usize::from(read(&mut format, part.as_bytes()).unwrap().is_some());
    }
    assert_eq!(rows, 3);
    assert!(format.state().unwrap().len() < 2 << 20);
}
