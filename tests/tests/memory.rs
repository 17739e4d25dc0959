//! How much memory it takes that the system cannot take back: a program that reads a packed database at most 16 MB more
//! than with a plain one, and one that writes 32 MB, but a sixteenth of a small container, or 4 MB; all memory together,
//! with `cache_mb=40`, 64 MB more. Packing,
//! checking and unpacking a database far larger than that, or compressing a column of it, less than 200 MB.

use litepack_skip::{Expected, skip};
use litepack_tests::programs::litepack;
use litepack_tests::{scale, vfs};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

const MOST: u64 = 200 << 20;
/// So many rows take more than the cache of decoded pages has by default.
const ROWS: u32 = 480_000;

/// The memory of a running process, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    all: u64,
    /// Without what was offered to the system, which is like its page cache.
    kept: u64,
    /// The same without files that are mapped: the system can read those again.
    anonymous: u64,
}

impl Memory {
    /// None when the process is gone or the system does not tell.
    fn of(process: u32) -> Option<Memory> {
        let rollup = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
        let bytes = |name: &str| {
            let line = rollup.lines().find_map(|line| line.strip_prefix(name))?;
            let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
            Some(kilobytes << 10)
        };
        let all = bytes("Rss:")?;
        let kept = all - bytes("LazyFree:")?;
        let anonymous = bytes("Anonymous:")?.saturating_sub(bytes("LazyFree:")?);
        Some(Memory {
            all,
            kept,
            anonymous,
        })
    }

    /// The most that a process has while `is_running`.
    fn peak_while(process: u32, mut is_running: impl FnMut() -> bool) -> Memory {
        let mut peak = Memory::default();
        loop {
            // Once more when it has ended: a busy machine may not run this meanwhile.
            let goes_on = is_running();
            let now = Memory::of(process).unwrap_or_default();
            peak.all = peak.all.max(now.all);
            peak.kept = peak.kept.max(now.kept);
            peak.anonymous = peak.anonymous.max(now.anonymous);
            if !goes_on {
                return peak;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}

/// Runs the command and gives the peak of the memory that the system cannot take back.
fn peak_of_litepack(arguments: &[&Path]) -> u64 {
    let mut child = Command::new(litepack())
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    let process = child.id();
    let peak = Memory::peak_while(process, || child.try_wait().expect("a state").is_none());
    let status = child.wait().expect("a state");
    assert!(status.success(), "{arguments:?}: {status}");
    peak.kept
}

/// A plain database with a table of so many rows.
fn make_rows_of_json(path: &Path, rows: u32) {
    vfs::open_plain(path)
        .expect("a new database")
        .execute_batch(&format!(
            "pragma synchronous = off; pragma journal_mode = off;
             create table t(id integer primary key, x text);
             insert into t with recursive n(i) as (select 1 union all select i + 1 from n
               where i < {rows}) select i, printf('{{\"id\":%d,\"hash\":\"%x\",\"title\":\"row %d ' ||
               'of very many rows\",\"kind\":\"%s\",\"score\":%d,\"note\":\"%x %x\"}}',
               i, i * 2654435761, i, iif(i % 3, 'film', 'series'), i % 100, i * 40503, i * 7919)
               from n;"
        ))
        .expect("data");
}

/// The peak of the memory of a child process that works with the database of
/// [`programs_take_little_more_than_with_plain_databases`].
fn peak_of_work(path: &Path, work: &str, parameters: &str) -> Memory {
    peak_of_work_in(path, work, parameters, &Container::None)
}

/// Where a child of a test works.
enum Container {
    None,
    /// In one that there is not, with so many bytes.
    Pretended(u64),
    /// In this control group, into which it is put when it runs.
    Group(PathBuf),
}

fn peak_of_work_in(path: &Path, work: &str, parameters: &str, container: &Container) -> Memory {
    let (limit, group) = match container {
        Container::None => (0, Path::new("")),
        Container::Pretended(limit) => (*limit, Path::new("")),
        Container::Group(group) => (0, group.as_path()),
    };
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "work_of_a_child", "--ignored", "--nocapture"])
        .env("LITEPACK_TEST_CHILD_PATH", path)
        .env("LITEPACK_TEST_CHILD_WORK", work)
        .env("LITEPACK_TEST_CHILD_PARAMETERS", parameters)
        .env("LITEPACK_TEST_CHILD_LIMIT", limit.to_string())
        .env("LITEPACK_TEST_CHILD_GROUP", group)
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let bytes = |name: &str| {
        let bytes = text.lines().find_map(|line| line.strip_prefix(name));
        bytes
            .and_then(|bytes| bytes.parse().ok())
            .filter(|bytes| *bytes > 0)
            .unwrap_or_else(|| panic!("{work} on {}: {output:?}", path.display()))
    };
    Memory {
        all: bytes("all "),
        kept: bytes("kept "),
        anonymous: bytes("anonymous "),
    }
}

#[test]
#[ignore = "a part of another test"]
fn work_of_a_child() {
    let Some(path) = std::env::var_os("LITEPACK_TEST_CHILD_PATH") else {
        return skip(Expected::ByChoice, "a part of another test");
    };
    let variable = |name| std::env::var(name).expect("the parent sets it");
    let work = variable("LITEPACK_TEST_CHILD_WORK");
    let parameters = variable("LITEPACK_TEST_CHILD_PARAMETERS");
    let path = Path::new(&path);
    match variable("LITEPACK_TEST_CHILD_LIMIT").parse() {
        Ok(0) => {}
        limit => litepack_io::limits::pretend(limit.expect("bytes")),
    }
    let group = variable("LITEPACK_TEST_CHILD_GROUP");
    if !group.is_empty() {
        // The library is in use before the process is in the container, as with `docker update` and with service managers.
        vfs::open(&path.with_extension("other"))
            .and_then(|db| db.execute_batch("create table if not exists t(x)"))
            .expect("a database");
        std::thread::sleep(std::time::Duration::from_millis(1100));
        let procs = Path::new(&group).join("cgroup.procs");
        std::fs::write(procs, std::process::id().to_string()).expect("it may");
    }
    let db = match vfs::looks_plain(path).expect("a file") {
        true => vfs::open_plain(path),
        false => vfs::open_with(path, &parameters),
    };
    let db = db.expect("it opens");
    // The same rows in each run, as the limits of small containers leave no room for luck; and others in the second round,
    // so that they lie all over the database.
    let twice = |statement: &str| -> String {
        let of = |first: u32| {
            let anywhere = format!(
                "(with recursive n(i) as (select {first} union all select i + 1 from n where i < {first} + 19999)
                select i * 2654435761 % {ROWS} from n)"
            );
            statement.replace("ANYWHERE", &anywhere)
        };
        of(1) + &of(20_001)
    };
    let sql = match work.as_str() {
        "scan" => "select sum(length(x)) from t;".into(),
        "points" => twice("select sum(length(x)) from t where id in ANYWHERE; "),
        _ => twice("begin; update t set x = x || id where id in ANYWHERE; commit; "),
    };
    let is_done = AtomicBool::new(false);
    let peak = std::thread::scope(|scope| {
        let is_running = || !is_done.load(Ordering::Relaxed);
        let watch = scope.spawn(move || Memory::peak_while(std::process::id(), is_running));
        let done = db.execute_batch(&sql);
        is_done.store(true, Ordering::Relaxed);
        done.expect("the work is done");
        watch.join().expect("it only looks")
    });
    println!(
        "\nall {}\nkept {}\nanonymous {}",
        peak.all, peak.kept, peak.anonymous
    );
}

#[test]
fn programs_take_little_more_than_with_plain_databases() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (plain, packed) = (
        directory.path().join("plain.db"),
        directory.path().join("packed.db"),
    );
    make_rows_of_json(&plain, ROWS);
    peak_of_litepack(&[Path::new("pack"), &plain, &packed]);
    let mb = |bytes: u64| bytes / 1_000_000;
    let connection = vfs::open(&packed).expect("it opens");
    let limit = connection.query_row("pragma litepack_cache_mb", [], |row| {
        row.get::<_, String>(0)
    });
    let limit: u64 = limit.expect("an answer").parse().expect("MiB");
    drop(connection);
    // Without memory that the system can take back, and in small machines, it is not much.
    let is_elastic = limit > 150;
    if !is_elastic {
        let why = format!("the cache has {limit} MiB here, less than the database: no speed");
        skip(Expected::ByChoice, why);
    }
    for (work, most) in [("scan", 16), ("points", 16), ("updates", 32)] {
        let less = peak_of_work(&plain, work, "");
        if is_elastic {
            let more = peak_of_work(&packed, work, "");
            println!(
                "{work}: {} MB plain, {} MB packed that are kept, {} MB in all",
                mb(less.kept),
                mb(more.kept),
                mb(more.all)
            );
            assert!(more.all > less.all + 60_000_000, "{work} fills the cache");
            assert!(
                more.kept < less.kept + most * 1_000_000,
                "{work}: {less:?} and {more:?}"
            );
        }

        let more = peak_of_work(&packed, work, "cache_mb=40");
        println!("{work}: {} MB packed in all with cache_mb=40", mb(more.all));
        assert!(more.all > less.all + 30_000_000, "{work} fills the cache");
        assert!(
            more.all < less.all + 64_000_000,
            "{work}: {less:?} and {more:?}"
        );
    }
}

/// Pages that are taken apart and put together while one is stored: of 64 KiB they are more than what shrinks.
const PAGES_IN_WORK: u64 = 16;

/// The most that a process may take in a container which the system cannot take back.
fn most_in(container: u64) -> u64 {
    (container / 16).max(4 << 20)
}

/// What work takes besides: zstd has a long dictionary three times, prepared for reading and for writing, to write.
fn of_dictionary(work: &str) -> u64 {
    if work == "updates" { 3 << 19 } else { 0 }
}

/// The anonymous memory of work on a plain database. The most of some runs: on a busy machine the watch may not run in the
/// milliseconds in which SQLite takes it, and would count it as ours.
fn anonymous_of_plain(path: &Path, work: &str) -> u64 {
    let peaks = (0..3).map(|_| peak_of_work(path, work, "").anonymous);
    peaks.max().unwrap_or(0)
}

/// A plain database with so many rows, and what it is packed.
fn both_databases(directory: &Path, rows: u32, page_size: u32) -> (PathBuf, PathBuf) {
    let (plain, packed) = (directory.join("plain.db"), directory.join("packed.db"));
    vfs::open_plain(&plain)
        .and_then(|db| db.execute_batch(&format!("pragma page_size = {page_size}; vacuum")))
        .expect("a new database");
    make_rows_of_json(&plain, rows);
    peak_of_litepack(&[Path::new("pack"), &plain, &packed]);
    (plain, packed)
}

#[test]
fn what_a_process_takes_shrinks_with_its_container() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    for page_size in [1024, 4096, 65536] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (plain, packed) = both_databases(directory.path(), ROWS / 2, page_size);
        for work in ["scan", "points", "updates"] {
            let less = anonymous_of_plain(&plain, work);
            for mib in [64, 100, 128, 256] {
                let container = mib << 20;
                let more = peak_of_work_in(&packed, work, "", &Container::Pretended(container));
                let more = more.anonymous.saturating_sub(less);
                println!(
                    "{work}, pages of {page_size}, {mib} MiB: {} KB more",
                    more >> 10
                );
                assert!(
                    more <= most_in(container)
                        + of_dictionary(work)
                        + PAGES_IN_WORK * u64::from(page_size),
                    "{work}, pages of {page_size}, {mib} MiB: {more} bytes more"
                );
            }
        }
    }
}

/// A control group with a limit of so many bytes, removed when this is dropped. `None` where none can be made.
struct Group(PathBuf);

impl Group {
    fn new(limit: u64) -> Option<Group> {
        let name = format!("litepack-test-{}", std::process::id());
        let kinds = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ];
        kinds.iter().find_map(|(top, file)| {
            let group = Group(Path::new(top).join(&name));
            std::fs::create_dir(&group.0).ok()?;
            // Without the controller there is no such file.
            let is_limited = group.0.join(file).exists()
                && std::fs::write(group.0.join(file), limit.to_string()).is_ok();
            is_limited.then_some(group)
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_process_that_is_put_into_a_container_keeps_to_it() {
    const LIMIT: u64 = 100 << 20;
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let Some(group) = Group::new(LIMIT) else {
        skip(Expected::ByChoice, "no control group can be made here");
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (plain, packed) = both_databases(directory.path(), ROWS / 2, 4096);
    let container = Container::Group(group.0.clone());
    for work in ["points", "updates"] {
        let less = anonymous_of_plain(&plain, work);
        let more = peak_of_work_in(&packed, work, "", &container).anonymous;
        assert!(
            more <= less + most_in(LIMIT) + of_dictionary(work),
            "{work}: {less} and {more} bytes"
        );
    }
}

#[test]
fn the_command_takes_little_memory_however_large_the_database() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (source, packed) = (
        directory.path().join("source.db"),
        directory.path().join("packed.db"),
    );
    make_rows_of_json(&source, scale(1_200_000, 5_000_000));
    let size = std::fs::metadata(&source).expect("a file").len();
    let back = directory.path().join("back.db");
    for arguments in [
        vec![Path::new("pack"), &source, &packed],
        vec![Path::new("check"), &packed],
        vec![Path::new("unpack"), &packed, &back],
    ] {
        let peak = peak_of_litepack(&arguments);
        println!("{size} bytes, {:?}: peak {} MB", arguments[0], peak >> 20);
        assert!(
            peak < MOST,
            "{:?} of {size} bytes took {peak} bytes",
            arguments[0]
        );
    }
}

#[test]
fn compressing_a_column_takes_little_memory_however_large_its_values() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("a.db");
    let rows = scale(250, 1000);
    vfs::open_plain(&path)
        .expect("a new database")
        .execute_batch(&format!(
            "pragma synchronous = off; pragma journal_mode = off;
             create table t(id integer primary key, x text);
             insert into t with recursive n(i) as (select 1 union all select i + 1 from n
               where i < {rows}) select i, hex(randomblob(500000)) from n;
             insert into t(x) select hex(randomblob(4000000)) from t limit 5;"
        ))
        .expect("data");
    let (table, column) = (Path::new("t"), Path::new("x"));
    let columns = Path::new("columns");
    for arguments in [
        vec![
            columns,
            Path::new("enable"),
            &path,
            table,
            column,
            Path::new("--level"),
            Path::new("9"),
        ],
        vec![columns, Path::new("maintain"), &path],
        vec![columns, Path::new("status"), &path],
        vec![columns, Path::new("disable"), &path, table, column],
    ] {
        let peak = peak_of_litepack(&arguments);
        println!("{:?}: peak {} MB", arguments[1], peak >> 20);
        assert!(peak < MOST, "{:?} took {peak} bytes", arguments[1]);
    }
}
