//! What becomes of a damaged database: the same harm to files of each engine, and what a program is told that reads all
//! rows afterwards.
//!
//! A file is read in a process of its own, so that a crash and a hang are seen as such. What counts is the answer: the
//! right one, an error, or another answer without a word.

mod harm;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use litepack::{Job, Key, PackOptions, RekeyOptions};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

pub use harm::Harm;

use crate::engines::{Columns, Engine, Litepack, Plain, ZstdVfs, file_uri};
use crate::workloads::{fingerprint, rows_of};

/// Reading a whole file takes far less.
const PATIENCE: Duration = Duration::from_secs(30);
/// Every twentieth row is another after this, whatever it was.
const UPDATE: &str = "update title set data = data || ' ' where id % 20 = 7";
/// So often are rows changed before the older state, and after it: what a transaction frees, later ones use.
const UPDATES: usize = 4;

/// All engines by name, the yardstick first.
pub const ENGINES: [&str; 5] = [
    "plain SQLite",
    litepack_peers::sqlite_zstd::NAME,
    litepack_peers::zstd_vfs::NAME,
    "Litepack",
    Encrypted::NAME,
];

/// An engine.
///
/// # Errors
/// If it cannot be had here, or there is none of this name.
pub fn engine(name: &str) -> Result<Box<dyn Engine>> {
    let [plain, columns, vfs, packed, encrypted] = ENGINES;
    Ok(match name {
        _ if name == plain => Box::new(Plain),
        _ if name == columns => Box::new(Columns::sqlite_zstd()?),
        _ if name == vfs => Box::new(ZstdVfs::new()?),
        _ if name == packed => Box::new(Litepack::new()?),
        _ if name == encrypted => Box::new(Encrypted::new()?),
        _ => bail!("there is no engine {name}"),
    })
}

/// Packed files with a key.
struct Encrypted;

impl Encrypted {
    const NAME: &str = "Litepack, encrypted";
    const KEY: [u8; 32] = [0x5a; 32];

    fn new() -> Result<Self> {
        litepack::register()?;
        Ok(Self)
    }
}

impl Engine for Encrypted {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn loaders(&self) -> &'static [&'static str] {
        &["pack, rekey"]
    }

    fn load(&self, _loader: &str, source: &Path, target: &Path) -> Result<()> {
        let (key, job) = (Arc::new(Key::raw(&Self::KEY)?), Job::default());
        litepack::pack(source, target, &PackOptions::default(), &job)?;
        litepack::rekey(target, Some(&key), &RekeyOptions::default(), &job)?;
        Ok(())
    }

    fn uri(&self, path: &Path) -> String {
        let key: String = Self::KEY.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}?vfs=litepack&hexkey={key}", file_uri(path))
    }
}

/// What a child does with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Makes it of the plain file beside it.
    Make,
    /// Changes some rows.
    Update,
    /// Reads all rows.
    Read,
}

/// What reading told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// A checksum of all rows, or the error.
    rows: std::result::Result<u64, String>,
    /// Whether `PRAGMA integrity_check` found nothing.
    is_ok: bool,
}

/// Runs an order on a file, and prints what was told as JSON.
///
/// # Errors
/// If a file that is whole cannot be made or changed.
pub fn obey(order: Order, name: &str, file: &Path) -> Result<()> {
    let engine = engine(name)?;
    match order {
        Order::Make => engine.prepare(&plain_beside(file), file)?,
        Order::Update => {
            engine.connect(file)?.execute_batch(UPDATE)?;
        }
        Order::Read => {
            let told = match engine.connect(file) {
                Ok(connection) => Told {
                    rows: checksum(&connection).map_err(|error| format!("{error:#}")),
                    is_ok: is_sound(&connection),
                },
                Err(error) => Told {
                    rows: Err(format!("{error:#}")),
                    is_ok: false,
                },
            };
            println!("{}", serde_json::to_string(&told)?);
        }
    }
    Ok(())
}

fn plain_beside(file: &Path) -> PathBuf {
    file.with_file_name("source.db")
}

/// The same number for the same rows.
fn checksum(connection: &Connection) -> Result<u64> {
    let rows = rows_of(connection, "select id, data from title order by id")?;
    Ok(fingerprint(&rows))
}

fn is_sound(connection: &Connection) -> bool {
    let answer = connection.query_row("pragma integrity_check(1)", [], |row| row.get(0));
    answer.is_ok_and(|answer: String| answer == "ok")
}

/// How a trial ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Right,
    Error,
    /// All rows are as they were after an earlier transaction: the write that makes later ones count was lost.
    Earlier,
    /// Another answer, and `integrity_check` finds something.
    WrongFound,
    /// Another answer, and it does not.
    Wrong,
    Crash,
    Hang,
}

/// How often trials ended so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends([u32; 7]);

impl Ends {
    fn count(&mut self, end: End) {
        self.0[end as usize] += 1;
    }

    fn of(&self, end: End) -> u32 {
        self.0[end as usize]
    }

    /// Answers that were neither right nor an error.
    pub fn silent(&self) -> u32 {
        self.of(End::Wrong) + self.of(End::WrongFound)
    }

    /// Crashes and hangs.
    pub fn lost(&self) -> u32 {
        self.of(End::Crash) + self.of(End::Hang)
    }

    fn add(&mut self, other: &Ends) {
        for (sum, one) in self.0.iter_mut().zip(other.0) {
            *sum += one;
        }
    }
}

/// All trials of an engine.
#[derive(Clone, Debug)]
pub struct Column {
    /// The engine.
    pub engine: &'static str,
    /// For each kind of damage.
    pub ends: [Ends; Harm::ALL.len()],
}

impl Column {
    /// Of all kinds together.
    pub fn total(&self) -> Ends {
        let mut total = Ends::default();
        for ends in &self.ends {
            total.add(ends);
        }
        total
    }
}

/// Runs trials of each kind of damage on a file of an engine.
///
/// # Errors
/// If the engine cannot keep the data even without damage.
pub fn try_engine(
    engine: &'static str,
    (rows, trials, seed): (u64, u32, u64),
    folder: &Path,
    each: &mut dyn FnMut(),
) -> Result<Column> {
    let file = folder.join("trial.db");
    let source = plain_beside(&file);
    if !source.exists() {
        litepack_testdata::titles::create(&Connection::open(&source)?, rows, seed)?;
    }
    clear(&file)?;
    run_well(Order::Make, engine, &file)?;
    let mut states = Vec::new();
    for _ in 0..2 * UPDATES {
        run_well(Order::Update, engine, &file)?;
        let told: Told = serde_json::from_slice(&run_well(Order::Read, engine, &file)?)?;
        ensure!(
            told.rows.is_ok() && told.is_ok,
            "{engine} cannot read what it wrote: {:?}",
            told.rows
        );
        states.push((std::fs::read(&file)?, told.rows));
    }
    let (after, rows) = states.pop().context("there is no state")?;
    let (before, _) = &states[UPDATES - 1];
    let expected = Expected {
        rows,
        earlier: states.iter().map(|(_, rows)| rows.clone()).collect(),
    };
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut column = Column {
        engine,
        ends: Default::default(),
    };
    for (harm, ends) in Harm::ALL.into_iter().zip(&mut column.ends) {
        for _ in 0..trials {
            let mut damaged = after.clone();
            let mut tries = 0;
            while !harm.befall(&mut damaged, before, &mut rng) {
                tries += 1;
                ensure!(tries < 1000, "{engine}: {} is not possible", harm.name());
                damaged.clone_from(&after);
            }
            clear(&file)?;
            std::fs::write(&file, &damaged)?;
            ends.count(read_damaged(engine, &file, &expected)?);
            each();
        }
    }
    clear(&file)?;
    Ok(column)
}

/// Removes a file, and what is beside it.
fn clear(file: &Path) -> Result<()> {
    let folder = file.parent().context("the file is in no folder")?;
    let name = file.file_name().context("the file has no name")?;
    let name = name.to_string_lossy();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&*name) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// What there is to read.
struct Expected {
    rows: std::result::Result<u64, String>,
    /// After earlier transactions.
    earlier: Vec<std::result::Result<u64, String>>,
}

fn read_damaged(engine: &str, file: &Path, expected: &Expected) -> Result<End> {
    let (status, output) = run(Order::Read, engine, file)?;
    let Some(status) = status else {
        return Ok(End::Hang);
    };
    let told: Told = match serde_json::from_slice(&output) {
        Ok(told) if status.success() => told,
        _ => return Ok(End::Crash),
    };
    Ok(match told.rows {
        Err(_) => End::Error,
        rows if rows == expected.rows => End::Right,
        rows if told.is_ok && expected.earlier.contains(&rows) => End::Earlier,
        Ok(_) if told.is_ok => End::Wrong,
        Ok(_) => End::WrongFound,
    })
}

/// What a child says that has to succeed.
fn run_well(order: Order, engine: &str, file: &Path) -> Result<Vec<u8>> {
    let (status, output) = run(order, engine, file)?;
    let is_well = status.is_some_and(|status| status.success());
    ensure!(is_well, "{engine}: {order:?} failed");
    Ok(output)
}

/// Runs an order in a process of its own. No status if it has to be ended.
fn run(order: Order, engine: &str, file: &Path) -> Result<(Option<ExitStatus>, Vec<u8>)> {
    // Its words about a file that is to be damaged are of no use.
    let stderr = match order {
        Order::Read => Stdio::null(),
        _ => Stdio::inherit(),
    };
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--order", &serde_json::to_string(&order)?, engine])
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()?;
    let status = match order {
        Order::Read => wait(&mut child)?,
        _ => Some(child.wait()?),
    };
    let mut output = Vec::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_end(&mut output)?;
    }
    Ok((status, output))
}

fn wait(child: &mut Child) -> Result<Option<ExitStatus>> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

/// The trials as a table in Markdown.
pub fn table(columns: &[Column]) -> String {
    let mut lines = vec![String::from("| |"), String::from("|---|")];
    for column in columns {
        lines[0] += &format!(" {} |", column.engine);
        lines[1] += "---|";
    }
    let row = |name: &str, of: &dyn Fn(&Column) -> Ends| {
        let mut line = format!("| {name} |");
        for column in columns {
            line += &format!(" {} |", of(column));
        }
        line
    };
    for (number, harm) in Harm::ALL.into_iter().enumerate() {
        lines.push(row(harm.name(), &|column| column.ends[number]));
    }
    lines.push(row("**all**", &Column::total));
    lines.join("\n")
}

impl std::fmt::Display for Ends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [right, error, earlier] =
            [End::Right, End::Error, End::Earlier].map(|end| self.of(end));
        write!(f, "{right} / {error} / {earlier} / ")?;
        match self.silent() {
            0 => write!(f, "0")?,
            silent => write!(f, "**{silent}** ({})", self.of(End::WrongFound))?,
        }
        match self.lost() {
            0 => Ok(()),
            lost => write!(f, " / {lost} crashed or hung"),
        }
    }
}
