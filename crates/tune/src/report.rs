//! The report. docs/reference/json.md lists its fields when serialised.

use std::path::PathBuf;
use std::time::Duration;

use litepack_engine::FileKind;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::candidates::{Candidate, Form};
use super::pareto::Outcome;
use super::queries::Query;

/// The results.
#[derive(Debug)]
pub struct Report {
    /// The database as the user named it.
    pub database: PathBuf,
    /// Its kind.
    pub kind: FileKind,
    /// Bytes of a page of it.
    pub page_size: u32,
    /// Bytes of it that are in use.
    pub whole: u64,
    /// Whether the sample is all of it.
    pub is_whole: bool,
    /// The objects left out, and why.
    pub left_out: Vec<String>,
    /// The queries that were measured.
    pub queries: Vec<Query>,
    /// The times of the queries on the plain file.
    pub plain: Vec<Duration>,
    /// The candidates that were tried; the plain file is the first.
    pub results: Vec<Outcome>,
    /// Which of them are on the Pareto front, from small to large.
    pub front: Vec<usize>,
    /// Which of them is recommended.
    pub recommended: Option<usize>,
    /// Which of those that can be written.
    pub recommended_written: Option<usize>,
}

impl Report {
    /// Bytes of the plain file that all is compared with.
    pub fn plain_bytes(&self) -> u64 {
        self.results.first().map_or(0, |plain| plain.bytes)
    }

    /// How many times smaller a result is than the plain file.
    pub fn smaller(&self, result: &Outcome) -> f64 {
        self.plain_bytes() as f64 / result.bytes.max(1) as f64
    }

    /// The commands that make a candidate of the user's database.
    pub fn commands(&self, candidate: Candidate) -> Vec<String> {
        commands(self, candidate)
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        json(self).serialize(serializer)
    }
}

/// The commands that make a candidate of the user's database.
fn commands(report: &Report, candidate: Candidate) -> Vec<String> {
    let database = report.database.display().to_string();
    // A name that begins with a dash would be taken for an option.
    let database = match database.starts_with('-') {
        true => format!("./{database}"),
        false => database,
    };
    let named = |suffix: &str| format!("{database}{suffix}");
    let mut commands = Vec::new();
    let mut from = database.clone();
    // The sqlite3 shell reads neither packed files nor archives.
    let extract = match report.kind {
        FileKind::Packed => Some("litepack unpack"),
        FileKind::Zstd => Some("litepack archive extract"),
        _ => None,
    };
    if let Some(extract) = extract {
        let plain = named(".plain.db");
        commands.push(format!("{extract} {} {}", quoted(&from), quoted(&plain)));
        from = plain;
    }
    if candidate.page_size != report.page_size {
        let vacuumed = named(".vacuumed.db");
        let sql = format!(
            "PRAGMA page_size={}; VACUUM INTO '{}'",
            candidate.page_size,
            vacuumed.replace('\'', "''")
        );
        commands.push(format!("sqlite3 {} {}", quoted(&from), quoted(&sql)));
        from = vacuumed;
    }
    let (command, to) = match candidate.form {
        Form::Plain => return Vec::new(),
        Form::Packed { best: false } => ("litepack pack".into(), named(".packed.db")),
        Form::Packed { best: true } => ("litepack pack --best".into(), named(".packed.db")),
        Form::Archive { frame_size, level } => (
            format!("litepack archive create --frame-size {frame_size} --level {level}"),
            named(".zst"),
        ),
    };
    commands.push(format!("{command} {} {}", quoted(&from), quoted(&to)));
    commands
}

/// An argument as a shell takes it, as plain as it can be.
fn quoted(text: &str) -> String {
    let safe = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
    if !text.is_empty() && text.chars().all(safe) {
        text.to_owned()
    } else if text.contains('\'') && !text.contains(['"', '$', '`', '\\', '!']) {
        format!("\"{text}\"")
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// The report for programs.
fn json(report: &Report) -> Value {
    let queries = report.queries.iter().zip(&report.plain);
    let queries = queries.map(|(query, time)| {
        json!({"name": query.name, "sql": query.sql, "plain_seconds": time.as_secs_f64()})
    });
    let all = report.results.iter().enumerate().map(|(at, result)| {
        let mut fields = json!({
            "page_size": result.candidate.page_size,
            "bytes": result.bytes,
            "ratio": report.smaller(result),
            "time": result.time,
            "query_times": result.ratios,
            "seconds_to_make": result.seconds,
            "pareto": report.front.contains(&at),
            "recommended": report.recommended == Some(at),
            "recommended_to_write": report.recommended_written == Some(at),
            "commands": commands(report, result.candidate),
        });
        let settings = match result.candidate.form {
            Form::Plain => json!({}),
            Form::Packed { best } => json!({"best": best}),
            Form::Archive { frame_size, level } => {
                json!({"frame_size": frame_size, "level": level})
            }
        };
        fields["form"] = result.candidate.kind().into();
        fields["settings"] = settings;
        fields
    });
    json!({
        "database": report.database.display().to_string(),
        "database_bytes": report.whole,
        "sample_bytes": report.plain_bytes(),
        "sample_is_whole": report.is_whole,
        "left_out": report.left_out,
        "page_size": report.page_size,
        "queries": queries.collect::<Vec<_>>(),
        "candidates": all.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(name: &str, kind: FileKind) -> Report {
        Report {
            database: name.into(),
            kind,
            page_size: 4096,
            whole: 0,
            is_whole: true,
            left_out: Vec::new(),
            queries: Vec::new(),
            plain: Vec::new(),
            results: Vec::new(),
            front: Vec::new(),
            recommended: None,
            recommended_written: None,
        }
    }

    #[test]
    fn commands_begin_with_what_is_there() {
        let of = |name: &str, kind, page_size, form| {
            commands(&report(name, kind), Candidate { page_size, form }).join("; ")
        };
        let best = Form::Packed { best: true };
        assert_eq!(
            of("a.db", FileKind::Plain, 4096, best),
            "litepack pack --best a.db a.db.packed.db"
        );
        assert_eq!(
            of(
                "a.zst",
                FileKind::Zstd,
                65536,
                Form::Archive {
                    frame_size: 262_144,
                    level: 19
                }
            ),
            "litepack archive extract a.zst a.zst.plain.db; \
             sqlite3 a.zst.plain.db \"PRAGMA page_size=65536; VACUUM INTO 'a.zst.vacuumed.db'\"; \
             litepack archive create --frame-size 262144 --level 19 a.zst.vacuumed.db a.zst.zst"
        );
        assert_eq!(
            of(
                "a b.db",
                FileKind::Packed,
                4096,
                Form::Packed { best: false }
            ),
            "litepack unpack 'a b.db' 'a b.db.plain.db'; litepack pack 'a b.db.plain.db' 'a b.db.packed.db'"
        );
        assert_eq!(of("a.db", FileKind::Plain, 4096, Form::Plain), "");
    }

    #[test]
    #[cfg(unix)]
    fn a_shell_takes_any_name() {
        for name in [
            "a.db",
            "-a",
            "a b",
            "it's",
            "$(x) `y` \"z\"",
            "it's $HOME\\",
            "ä!'",
            "a\nb",
        ] {
            let best = Form::Packed { best: true };
            let page_size = 512;
            let candidate = Candidate {
                page_size,
                form: best,
            };
            let commands = commands(&report(name, FileKind::Plain), candidate);
            let arguments = |at: usize| {
                let script = format!(
                    "litepack() {{ printf '%s|' \"$@\"; }}; sqlite3() {{ printf '%s|' \"$@\"; }}; {}",
                    commands[at]
                );
                let run = std::process::Command::new("sh")
                    .args(["-c", &script])
                    .output()
                    .unwrap();
                String::from_utf8(run.stdout).unwrap()
            };
            let name = name.replace("-a", "./-a");
            let sql = name.replace('\'', "''");
            let sql = format!("PRAGMA page_size=512; VACUUM INTO '{sql}.vacuumed.db'");
            assert_eq!(arguments(0), format!("{name}|{sql}|"));
            assert_eq!(
                arguments(1),
                format!("pack|--best|{name}.vacuumed.db|{name}.packed.db|")
            );
        }
    }
}
