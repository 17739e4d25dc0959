//! Damaged packed files: flipped bits, garbage, truncation, swapped, doubled and stale blocks. A
//! full scan either fails with a SQLite error or answers exactly right; it never answers wrong, and
//! nothing panics, hangs or eats memory.

use litepack_skip::{Expected, skip};
use litepack_tests::content::{self, Fingerprint};
use litepack_tests::damage::{Damage, Victim};
use litepack_tests::rng::Rng;
use litepack_tests::{long, scale, seeds, vfs};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Makes a database in several commits, so that the file has old and new map nodes and free space.
fn victim(page_size: u32, journal: &str, synchronous: &str) -> Victim {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("victim.db");
    let run = |sql: &str| {
        let connection = vfs::open(&path).expect("it opens");
        connection
            .execute_batch(&format!("pragma synchronous = {synchronous}"))
            .expect("a pragma");
        connection.execute_batch(sql).expect("it works");
    };
    run(&format!(
        "pragma page_size = {page_size}; pragma journal_mode = {journal};
         create table t(id integer primary key, name text, data text);
         create table b(id integer primary key, body blob);
         create index by_name on t(name);
         insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < 900)
           select i, 'name ' || (i * 7919 % 1000), json_object('id', i, 'tags', i % 13) from n;"
    ));
    for round in 0..6 {
        run(&format!(
            "insert into b(body) select cast(hex(data) || zeroblob(200) as blob) from t
               where id % 40 = {round};
             delete from b where id % 7 = {round};
             update t set data = data || ' round {round}' where id % 6 = {round};"
        ));
    }
    let content = || {
        let connection = vfs::open(&path).expect("it opens");
        content::assert_sound(&connection, "before any damage");
        content::fingerprint(&connection).expect("a scan")
    };
    let (older, older_content) = (std::fs::read(&path).expect("readable"), content());
    run(
        "begin; update t set name = name || '+' where id % 3 = 0; delete from b where id < 20; commit",
    );
    let bytes = std::fs::read(&path).expect("readable");
    let name = format!("{page_size}-byte pages, {journal}, synchronous = {synchronous}");
    Victim {
        durable: synchronous == "full",
        name,
        bytes,
        content: content(),
        older,
        older_content,
    }
}

/// Without a limit the cache keeps pages of all these files, in memory that the system can take back. It counts as this
/// process's, and would hide what else a damaged file makes it use.
const CACHE_MB: u64 = 40;

/// The verdict on the scans of a damaged file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Right,
    Older,
    Refused,
    Wrong,
}

/// Scans every table and index of a file, read-only.
fn scan(path: &Path, victim: &Victim) -> Verdict {
    let scans = || -> rusqlite::Result<(Fingerprint, (i64, i64))> {
        let connection = vfs::open_with(path, &format!("mode=ro&cache_mb={CACHE_MB}"))?;
        let found = content::fingerprint(&connection)?;
        let index = "select count(*), sum(length(name)) from t indexed by by_name where name > ''";
        let index = connection.query_row(index, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let table = "select count(*), sum(length(name)) from t not indexed";
        let table = connection.query_row(table, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok((found, if index == table { index } else { (-1, -1) }))
    };
    match scans() {
        Err(_) => Verdict::Refused,
        Ok((_, (-1, -1))) => Verdict::Wrong,
        Ok((found, _)) if found == victim.content => Verdict::Right,
        Ok((found, _)) if found == victim.older_content => Verdict::Older,
        Ok(_) => Verdict::Wrong,
    }
}

static PANICS: AtomicUsize = AtomicUsize::new(0);
static TRIALS: AtomicU64 = AtomicU64::new(0);

/// Counts panics that the VFS catches too, and ends the process when a trial hangs.
fn watch() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // Panics of the tests themselves are reported by the tests.
            if info
                .location()
                .is_none_or(|place| !place.file().contains("tests/"))
            {
                PANICS.fetch_add(1, Ordering::SeqCst);
            }
            before(info);
        }));
        std::thread::spawn(|| {
            let mut last = (TRIALS.load(Ordering::SeqCst), 0);
            loop {
                std::thread::sleep(Duration::from_secs(1));
                let trials = TRIALS.load(Ordering::SeqCst);
                last = if trials == last.0 {
                    (trials, last.1 + 1)
                } else {
                    (trials, 0)
                };
                if last.1 > 60 && trials > 0 && trials != u64::MAX {
                    eprintln!("a scan of a damaged file hangs, after {trials} trials");
                    std::process::abort();
                }
            }
        });
    });
}

/// Tries one damage. The older state may come back when the last commit was never flushed, or when
/// a block as it was before that commit is the damage; by nothing else.
fn trial(victim: &Victim, damage: &Damage, directory: &Path) -> Verdict {
    let number = TRIALS.fetch_add(1, Ordering::SeqCst);
    // A new name each time: no cache may know this file.
    let path = directory.join(format!("damaged-{number}.db"));
    std::fs::write(&path, damage.apply(victim)).expect("writable");
    let verdict = scan(&path, victim);
    std::fs::remove_file(&path).expect("removable");
    let may_fall_back = !victim.durable || matches!(damage, Damage::Stale { .. });
    let wrong = verdict == Verdict::Wrong || (verdict == Verdict::Older && !may_fall_back);
    assert!(!wrong, "{}: {damage:?} gives {verdict:?}", victim.name);
    assert_eq!(
        PANICS.load(Ordering::SeqCst),
        0,
        "{}: {damage:?} panics",
        victim.name
    );
    verdict
}

fn run_random(victim: &Victim) {
    watch();
    let directory = tempfile::tempdir().expect("a temporary directory");
    for seed in seeds(1, scale(1, 20)) {
        let mut rng = Rng::new(seed);
        let (mut noticed, trials) = (0, 1500);
        for _ in 0..trials {
            let damage = Damage::random(&mut rng, victim.bytes.len());
            if trial(victim, &damage, directory.path()) != Verdict::Right {
                noticed += 1;
            }
        }
        println!(
            "{}, seed {seed}: {noticed} of {trials} noticed",
            victim.name
        );
        // Free space and padding may be hit without harm, but not most of the time.
        assert!(
            noticed * 4 > trials,
            "only {noticed} of {trials} damages were noticed"
        );
    }
    assert_memory_is_bounded();
}

/// Every byte of the header region, and in the long version every byte of the file.
fn run_every_byte(victim: &Victim) {
    watch();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut rng = Rng::new(7);
    let end = if long() {
        victim.bytes.len()
    } else {
        1024.min(victim.bytes.len())
    };
    for at in 0..end {
        let damage = Damage::Flip {
            at,
            bit: rng.below(8) as u32,
        };
        trial(victim, &damage, directory.path());
    }
}

/// The peak of this process's memory, where the system tells it. Several tests run at once.
fn assert_memory_is_bounded() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let Some(peak) = peak.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok())
    else {
        return skip(Expected::OnLinux, "no peak of memory is told here");
    };
    println!("peak memory: {} MB", peak / 1024);
    assert!(
        peak < 400 * 1024,
        "damaged files made this process use {peak} kB"
    );
}

#[test]
fn damage_to_a_file_with_4_kib_pages_is_never_a_wrong_answer() {
    if vfs::is_litepack() {
        run_random(&victim(4096, "delete", "full"));
    }
}

#[test]
fn damage_to_a_file_with_512_byte_pages_is_never_a_wrong_answer() {
    if vfs::is_litepack() {
        run_random(&victim(512, "truncate", "full"));
    }
}

#[test]
fn damage_to_a_checkpointed_wal_database_is_never_a_wrong_answer() {
    if vfs::is_litepack() {
        run_random(&victim(1024, "wal", "full"));
    }
}

#[test]
fn damage_to_a_commit_that_was_never_flushed_gives_the_one_before_at_worst() {
    if vfs::is_litepack() {
        run_random(&victim(4096, "delete", "off"));
    }
}

#[test]
fn a_flipped_bit_in_any_byte_is_never_a_wrong_answer() {
    if vfs::is_litepack() {
        run_every_byte(&victim(4096, "delete", "full"));
    }
}

#[test]
fn a_file_cut_short_anywhere_is_never_a_wrong_answer() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    watch();
    let victim = victim(4096, "delete", "full");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let step = if long() {
        1
    } else {
        victim.bytes.len() / 500 + 1
    };
    for len in (0..victim.bytes.len()).step_by(step) {
        trial(&victim, &Damage::Truncate { len }, directory.path());
    }
}

#[test]
fn writing_to_a_damaged_file_neither_panics_nor_hangs() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    watch();
    let victim = victim(4096, "delete", "full");
    let directory = tempfile::tempdir().expect("a temporary directory");
    for seed in seeds(50, scale(1, 20)) {
        let mut rng = Rng::new(seed);
        for _ in 0..300 {
            let damage = Damage::random(&mut rng, victim.bytes.len());
            let number = TRIALS.fetch_add(1, Ordering::SeqCst);
            let path = directory.path().join(format!("damaged-{number}.db"));
            std::fs::write(&path, damage.apply(&victim)).expect("writable");
            if let Ok(connection) = vfs::open(&path) {
                // Any of these may fail; what they do not may do is crash.
                for sql in [
                    "pragma synchronous = off",
                    "update t set data = 'new ' || id",
                    "insert into b(body) select zeroblob(3000) from t limit 50",
                    "pragma integrity_check",
                    "vacuum",
                    "delete from t",
                ] {
                    let _ = connection.execute_batch(sql);
                }
            }
            let _ = std::fs::remove_file(&path);
            assert_eq!(PANICS.load(Ordering::SeqCst), 0, "{damage:?} panics");
        }
    }
}
