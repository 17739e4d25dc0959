//! How much memory it takes: a program that reads and writes a packed database at most 64 MB more than with a plain
//! one; packing, checking and unpacking a database far larger than that, or compressing a column of it, less than 200
//! MB.

use litepack_tests::programs::litepack;
use litepack_tests::{scale, vfs};
use std::path::Path;
use std::process::{Command, Stdio};

const MOST: u64 = 200 << 20;
/// So many rows take more than the cache of decoded pages has by default.
const ROWS: u32 = 480_000;

/// The peak of a running process, in bytes; none when it is gone or the system does not tell.
fn peak_of(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kilobytes << 10)
}

/// Runs the command and gives the peak of its memory.
fn peak_of_litepack(arguments: &[&Path]) -> u64 {
    let mut child = Command::new(litepack())
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    let mut peak = 0;
    loop {
        peak = peak.max(peak_of(child.id()).unwrap_or(0));
        if let Some(status) = child.try_wait().expect("a state") {
            assert!(status.success(), "{arguments:?}: {status}");
            return peak;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
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

/// What a process of its own does with the database of [`programs_take_64_mb_more_at_most`], and the peak of its
/// memory.
fn peak_of_work(path: &Path, work: &str) -> u64 {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "work_of_a_child", "--ignored", "--nocapture"])
        .env("LITEPACK_TEST_CHILD_PATH", path)
        .env("LITEPACK_TEST_CHILD_WORK", work)
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let peak = text.lines().find_map(|line| line.strip_prefix("peak "));
    peak.and_then(|bytes| bytes.parse().ok())
        .unwrap_or_else(|| panic!("{work} on {}: {output:?}", path.display()))
}

#[test]
#[ignore = "a part of another test"]
fn work_of_a_child() {
    let Some(path) = std::env::var_os("LITEPACK_TEST_CHILD_PATH") else {
        return;
    };
    let work = std::env::var("LITEPACK_TEST_CHILD_WORK").expect("the work's name");
    let path = Path::new(&path);
    let db = match vfs::looks_plain(path).expect("a file") {
        true => vfs::open_plain(path),
        false => vfs::open(path),
    };
    let db = db.expect("it opens");
    let anywhere = format!(
        "(select abs(random()) % {ROWS} from (
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000) select i from n))"
    );
    let sql = match work.as_str() {
        "scan" => "select sum(length(x)) from t;".into(),
        "points" => format!("select sum(length(x)) from t where id in {anywhere}; ").repeat(2),
        _ => format!("begin; update t set x = x || id where id in {anywhere}; commit; ").repeat(2),
    };
    db.execute_batch(&sql).expect("the work is done");
    println!("\npeak {}", peak_of(std::process::id()).unwrap_or(0));
}

#[test]
fn programs_take_64_mb_more_at_most() {
    if !vfs::is_litepack() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (plain, packed) = (
        directory.path().join("plain.db"),
        directory.path().join("packed.db"),
    );
    make_rows_of_json(&plain, ROWS);
    peak_of_litepack(&[Path::new("pack"), &plain, &packed]);
    for work in ["scan", "points", "updates"] {
        let (less, more) = (peak_of_work(&plain, work), peak_of_work(&packed, work));
        println!("{work}: {} KB plain, {} KB packed", less >> 10, more >> 10);
        assert!(
            less > 0 && more > less + 30_000_000,
            "{work} fills the cache"
        );
        assert!(more < less + 64_000_000, "{work}: {less} and {more} bytes");
    }
}

#[test]
fn the_command_takes_little_memory_however_large_the_database() {
    if !vfs::is_litepack() {
        return;
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
