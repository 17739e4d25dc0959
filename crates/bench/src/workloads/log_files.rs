//! Logs of a web server as text, read by `litepack ingest`: the size beside compressed text, the time to read them, and
//! questions beside those tools that answer them from text.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use litepack_peers::clp;
use litepack_testdata::GENERATION;
use litepack_testdata::logs::{TEXT_FORMAT, write_json, write_text};
use rusqlite::Connection;

use super::{Workload, compared, fingerprint, sizes};
use crate::command::run;
use crate::dataset::SEED;
use crate::engines::{
    Archive, Engine, Group, Journal, Litepack, Plain, Synchronous, litepack_command, settle,
    stored_bytes,
};
use crate::lab::{Lab, Turn};
use crate::rows::{Cache, Ratio, Row, Unit, compare};
use crate::whole_file;

/// As reports call the text.
const TEXT: &str = "text";
const GZIP: &str = "gzip";

/// Bytes of a log, by each way to keep it.
pub struct Size;
/// Lines a second.
pub struct Ingest;
/// Usual questions.
pub struct Questions;

fn lines(lab: &Lab) -> u64 {
    lab.scale.size.rows / 2
}

fn data(lab: &Lab) -> String {
    format!("access log, {} lines", lines(lab))
}

/// The log, made once.
fn text(lab: &Lab) -> Result<PathBuf> {
    let name = format!("access-{}-g{GENERATION}.log", lines(lab));
    made(lab, &name, |path| {
        let mut out = BufWriter::new(File::create(path)?);
        write_text(&mut out, lines(lab), SEED)?;
        Ok(out.flush()?)
    })
}

/// A file that stays for the next run.
fn made(lab: &Lab, name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let path = lab.folder().join(name);
    if !path.exists() {
        lab.say(format!("making {name}"));
        let unfinished = lab.free_path();
        make(&unfinished)?;
        std::fs::rename(unfinished, &path)?;
    }
    Ok(path)
}

/// A database that is there once in a run.
fn once(lab: &Lab, name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let path = lab.scratch().join(name);
    if !path.exists() {
        lab.say(format!("making {name}"));
        make(&path)?;
    }
    Ok(path)
}

/// Reads the log into a database, which is a plain one if it exists as such.
fn ingest(text: &Path, database: &Path) -> Result<()> {
    let mut command = Command::new(litepack_command()?);
    let command = command.arg("ingest").arg(text).arg("--into").arg(database);
    run(command.args(["--format", TEXT_FORMAT, "--index", "remote_addr"]))?;
    Ok(())
}

fn ingest_plain(text: &Path, database: &Path) -> Result<()> {
    Connection::open(database)?.execute_batch("pragma user_version = 1")?;
    ingest(text, database)
}

fn plain(lab: &Lab) -> Result<PathBuf> {
    let text = text(lab)?;
    once(lab, "log-plain.db", |path| ingest_plain(&text, path))
}

fn packed(lab: &Lab) -> Result<PathBuf> {
    let text = text(lab)?;
    once(lab, "log-packed.db", |path| ingest(&text, path))
}

fn maintained(lab: &Lab) -> Result<PathBuf> {
    let packed = packed(lab)?;
    once(lab, "log-maintained.db", |path| {
        std::fs::copy(&packed, path)?;
        run(Command::new(litepack_command()?).arg("maintain").arg(path))?;
        Ok(())
    })
}

fn archive(lab: &Lab) -> Result<PathBuf> {
    let plain = plain(lab)?;
    once(lab, "log-archive.db", |path| {
        Archive::new()?.prepare(&plain, path)
    })
}

fn gzip(lab: &Lab) -> Result<PathBuf> {
    let text = text(lab)?;
    once(lab, "log.gz", |path| {
        run(Command::new("sh")
            .args(["-c", "gzip -c \"$1\" > \"$2\"", "sh"])
            .args([&text, path]))?;
        Ok(())
    })
}

/// The same lines as JSON, as clp-s reads no other logs in columns.
fn json(lab: &Lab) -> Result<PathBuf> {
    let name = format!("access-{}-g{GENERATION}.jsonl", lines(lab));
    made(lab, &name, |path| {
        let mut out = BufWriter::new(File::create(path)?);
        write_json(&mut out, lines(lab), SEED)?;
        Ok(out.flush()?)
    })
}

fn clp_archive(lab: &Lab) -> Result<PathBuf> {
    let program = clp::program()?;
    let json = json(lab)?;
    once(lab, "log-clp", |path| clp::compress(&program, &json, path))
}

impl Workload for Size {
    fn name(&self) -> &'static str {
        "log-size"
    }

    fn about(&self) -> &'static str {
        "How many times smaller than the text: a log of nginx, the format `combined` with the time that each request \
         took. Databases have it in columns, with indexes of the time and the address; clp-s (0.12.1b0, its defaults) has the \
         same as JSON. `maintained` is after `litepack maintain`, archive is the plain database as an archive."
    }

    fn group(&self) -> Group {
        Group::Archives
    }

    fn yardstick(&self) -> &'static str {
        TEXT
    }

    fn run(&self, lab: &Lab) -> Result<Vec<Vec<Row>>> {
        let text = text(lab)?;
        let whole = whole_file::compressed_bytes(&text, |share| {
            lab.say(format!("compressing the log whole: {:.0} %", share * 100.0));
        });
        let bytes = |path: Result<PathBuf>| path.map(|path| stored_bytes(&path));
        let found = [
            (TEXT, None, bytes(Ok(text))),
            (GZIP, None, bytes(gzip(lab))),
            (whole_file::NAME, None, whole),
            (
                clp::NAME,
                None,
                clp_archive(lab).and_then(|path| clp::bytes(&path)),
            ),
            (Plain::NAME, None, bytes(plain(lab))),
            (Litepack::NAME, None, bytes(packed(lab))),
            (Litepack::NAME, Some("maintained"), bytes(maintained(lab))),
            (Archive::NAME, None, bytes(archive(lab))),
        ];
        let rows = found.into_iter().map(|(engine, way, bytes)| Row {
            way,
            ..sizes::row(self.name(), "Logs: size", data(lab), engine, bytes)
        });
        let mut rows: Vec<Row> = rows.collect();
        compare(&mut rows);
        for row in &mut rows {
            row.ratio = row.to_plain.map(|to_plain| Ratio {
                times: 1.0 / to_plain,
                of_whole_file: None,
                aim: None,
            });
        }
        Ok(vec![rows])
    }
}

impl Workload for Ingest {
    fn name(&self) -> &'static str {
        "log-ingest"
    }

    fn about(&self) -> &'static str {
        "Lines a second of `litepack ingest` into a new database, a plain and a packed one, with both indexes; the time has \
         starting and ending in it. clp-s takes the same as JSON. Aim: 300 000 lines a second."
    }

    fn group(&self) -> Group {
        Group::Archives
    }

    fn run(&self, lab: &Lab) -> Result<Vec<Vec<Row>>> {
        let text = text(lab)?;
        settle(&text)?;
        let json = json(lab)?;
        settle(&json)?;
        type Way<'a> = Box<dyn Fn(&Path) -> Result<()> + 'a>;
        let mut ways: Vec<Result<Way>> = vec![
            Ok(Box::new(|path| ingest_plain(&text, path))),
            Ok(Box::new(|path| ingest(&text, path))),
            clp::program().map(|program| -> Way {
                let json = &json;
                Box::new(move |path| clp::compress(&program, json, path))
            }),
        ];
        let names = [Plain::NAME, Litepack::NAME, clp::NAME];
        let turns = lab.take_turns("Logs: reading", lab.rounds.min(3), &mut ways, |way, _| {
            let target = lab.free_path();
            let start = Instant::now();
            way(&target)?;
            let value = lines(lab) as f64 / start.elapsed().as_secs_f64();
            match target.is_dir() {
                true => std::fs::remove_dir_all(target)?,
                false => std::fs::remove_file(target)?,
            }
            Ok(Turn { value, answer: 0 })
        });
        let row = Row {
            workload: self.name(),
            title: "Logs: reading them in".into(),
            data: data(lab),
            cache: Cache::Warm,
            unit: Unit::PerSecond,
            ..Row::EMPTY
        };
        Ok(vec![compared(&row, names, turns)])
    }
}

/// A question in SQL and to programs that read text, each with the numbers of the answer alone, a line each.
struct Question {
    way: &'static str,
    sql: &'static str,
    /// `$1` is the compressed log, `$2` an address.
    shell: &'static str,
    /// The pattern clp-s looks for, and the shell text that makes the answer of the lines that it prints.
    clp: Option<(&'static str, &'static str)>,
}

const QUESTIONS: [Question; 4] = [
    Question {
        way: "top paths",
        sql: "select count(*), path from logs where ?1 <> '' group by path order by 1 desc limit 20",
        shell: "zcat \"$1\" | awk '{n[$7]++} END {for (path in n) print n[path], path}' | sort -rn | head -20 | cut -d' ' -f1",
        clp: None,
    },
    Question {
        way: "errors by hour",
        sql: "select count(*), substr(time, 1, 13) from logs where ?1 <> '' and status >= 500 group by 2 order by 2",
        shell: "zcat \"$1\" | awk '$9 >= 500 {print substr($4, 2, 14)}' | uniq -c | awk '{print $1}'",
        clp: Some((
            "status >= 500",
            "grep -o '\"time\":\"[^\"]\\{13\\}' | sort | uniq -c | awk '{print $1}'",
        )),
    },
    Question {
        way: "slowest requests",
        sql: "select cast(request_time * 1000 + 0.5 as integer), time, path from logs where ?1 <> '' \
              order by request_time desc limit 20",
        shell: "zcat \"$1\" | awk '{print int($NF * 1000 + 0.5), $4, $7}' | sort -rn | head -20 | cut -d' ' -f1",
        clp: None,
    },
    Question {
        way: "one address",
        sql: "select status, time, method, path from logs where remote_addr = ?1 order by time, logs.rowid",
        shell: "zgrep \"^$2 \" \"$1\" | awk '{print $9}'",
        clp: Some((
            "remote_addr: \"$2\"",
            "grep -o '\"status\":[0-9]*' | cut -d: -f2",
        )),
    },
];

/// An address with some requests.
const ADDRESS: &str =
    "select remote_addr from logs group by remote_addr having count(*) between 20 and 60 limit 1";

enum Answerer {
    Database(Connection),
    Shell(&'static str, PathBuf),
    Clp(PathBuf, &'static str, &'static str, PathBuf),
}

impl Answerer {
    /// The numbers of the answer.
    fn answer(&self, question: &Question, address: &str) -> Result<Vec<i64>> {
        let output = match self {
            Answerer::Database(conn) => {
                let mut statement = conn.prepare(question.sql)?;
                let rows = statement.query_map([address], |row| row.get(0))?;
                return Ok(rows.collect::<Result<_, _>>()?);
            }
            Answerer::Shell(script, log) => {
                let mut command = Command::new("sh");
                let command = command.args(["-c", script, "sh"]).arg(log).arg(address);
                run(command.env("LC_ALL", "C"))?
            }
            Answerer::Clp(program, wanted, script, archive) => {
                let wanted = wanted.replace("$2", address);
                let script = format!("\"$1\" s \"$2\" \"$3\" | {script}");
                let mut command = Command::new("sh");
                let command = command.args(["-c", &script, "sh"]).arg(program);
                run(command.arg(archive).arg(wanted).env("LC_ALL", "C"))?
            }
        };
        let text = String::from_utf8(output)?;
        let numbers = text.lines().map(|line| line.trim().parse::<i64>());
        numbers
            .collect::<Result<_, _>>()
            .context("the answer is no list of numbers")
    }
}

impl Workload for Questions {
    fn name(&self) -> &'static str {
        "log-questions"
    }

    fn about(&self) -> &'static str {
        "The questions of [logs.md](../logs.md): by SQL, by `zcat` or `zgrep` and `awk`, `sort` from the text under gzip, and \
         where it can by clp-s (a process each). The address has an index in the databases."
    }

    fn group(&self) -> Group {
        Group::Archives
    }

    fn run(&self, lab: &Lab) -> Result<Vec<Vec<Row>>> {
        let address: String =
            Connection::open(plain(lab)?)?.query_row(ADDRESS, [], |row| row.get(0))?;
        let groups = QUESTIONS.iter().map(|one| self.ask(lab, one, &address));
        Ok(groups.collect())
    }
}

impl Questions {
    fn ask(&self, lab: &Lab, question: &Question, address: &str) -> Vec<Row> {
        let open = |engine: &dyn Engine| -> Result<Answerer> {
            let path = match engine.name() {
                Litepack::NAME => packed(lab)?,
                Archive::NAME => archive(lab)?,
                _ => plain(lab)?,
            };
            settle(&path)?;
            let conn = engine.open(&path, Journal::Delete, Synchronous::Full)?;
            let answerer = Answerer::Database(conn);
            answerer.answer(question, address)?;
            Ok(answerer)
        };
        let engines = lab.engines(self.group()).iter();
        let (mut names, mut answerers): (Vec<_>, Vec<_>) = engines
            .map(|engine| (engine.name(), open(&**engine)))
            .unzip();
        names.push("zgrep, awk");
        answerers.push(gzip(lab).map(|log| Answerer::Shell(question.shell, log)));
        if let Some((wanted, script)) = question.clp {
            names.push(clp::NAME);
            let archive = clp::program().and_then(|program| Ok((program, clp_archive(lab)?)));
            answerers.push(
                archive.map(|(program, archive)| Answerer::Clp(program, wanted, script, archive)),
            );
        }
        let label = format!("Logs: {}", question.way);
        let turns = lab.take_turns(&label, lab.rounds, &mut answerers, |answerer, _| {
            let start = Instant::now();
            let answer = answerer.answer(question, address)?;
            let value = start.elapsed().as_secs_f64();
            ensure!(!answer.is_empty(), "the answer is empty");
            Ok(Turn {
                value,
                answer: fingerprint(&answer),
            })
        });
        let row = Row {
            workload: self.name(),
            title: "Logs: questions".into(),
            data: data(lab),
            way: Some(question.way),
            cache: Cache::Warm,
            unit: Unit::Seconds,
            ..Row::EMPTY
        };
        compared(&row, names, turns)
    }
}
