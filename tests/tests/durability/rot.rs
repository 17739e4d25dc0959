//! A bit rots while processes are alive. A process that opens the file then gets the right answer or an error, and
//! never falls back behind the commits of those who have it open.

use litepack_io::random::SplitMix64;
use litepack_simdisk::seed_or;
use litepack_tests::machine::Machine;
use litepack_tests::scale;
use rusqlite::Connection;

/// Has bits rot, one at a time, and asks for the answer of a newcomer each time. Returns how often there was one.
fn expect(machine: &Machine, rng: &mut SplitMix64, rows: i64, total: i64) -> u64 {
    let len = machine.disk.live_images()["/a.db"].len() as u64;
    let mut answered = 0;
    let trials = scale(150, 3000) as u64;
    for trial in 0..trials {
        // Half of them where the commit records are.
        let reach = if rng.chance(50) { len.min(2048) } else { len };
        let (at, bit) = (rng.below(reach), rng.below(8) as u32);
        machine.disk.rot("/a.db", at, bit);
        let answer = machine.open().and_then(|db| {
            db.query_row("select count(*), sum(v) from account", [], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
            })
        });
        if let Ok(found) = answer {
            answered += 1;
            let context = format!("trial {trial}: bit {bit} of byte {at}");
            assert_eq!(found, (rows, total), "{context}: silently wrong");
        }
        machine.disk.rot("/a.db", at, bit);
    }
    assert!(answered < trials, "no rot was noticed: this shows nothing");
    answered
}

/// Where a newcomer finds the newest commit damaged, neither maintenance nor a checkpoint goes on from the one before:
/// without the bit that flipped, all is as it was.
fn expect_nothing_written(machine: &Machine, rng: &mut SplitMix64, expected: (i64, i64)) {
    let sum = "select count(*), sum(v) from account";
    let read = |db: &Connection| db.query_row(sum, [], |row| Ok((row.get(0)?, row.get(1)?)));
    let mut refused = 0;
    for _ in 0..scale(150, 1000) {
        // Where the commit records are.
        let (at, bit) = (rng.below(2048), rng.below(8) as u32);
        machine.disk.rot("/a.db", at, bit);
        let before = machine.disk.live_images()["/a.db"].clone();
        let newcomer = machine.open();
        if let Ok(db) = &newcomer
            && let Err(error) = read(db)
            && error.to_string().contains("malformed")
        {
            refused += 1;
            let maintained = db.execute_batch("pragma litepack_maintain");
            let checkpoint = db.execute_batch("pragma wal_checkpoint(passive)");
            let now = machine.disk.live_images()["/a.db"].clone();
            assert!(now == before, "{maintained:?} {checkpoint:?}");
        }
        drop(newcomer);
        machine.disk.rot("/a.db", at, bit);
        let db = machine.open().expect("it opens");
        assert_eq!(
            read(&db).expect("readable"),
            expected,
            "bit {bit} of byte {at}"
        );
    }
    assert!(refused > 0, "no damage was met: this shows nothing");
}

const FILL: &str = "create table account(id integer primary key, v, pad);
    insert into account with recursive n(i) as (select 1 union all select i + 1 from n where i < 500)
      select i, 1000, hex(randomblob(60)) from n;";

/// Changes all pages, and the sum.
fn change(db: &Connection, by: i64) {
    let sql = format!("update account set v = v + {by}, pad = hex(randomblob(60))");
    db.execute_batch(&sql).expect("an update");
}

#[test]
fn beside_a_writer_that_has_committed_and_is_idle() {
    let seed = seed_or(1);
    println!("seed {seed}");
    let mut rng = SplitMix64::derived(seed, 1);
    let machine = Machine::new("idle");
    let writer = machine.open().unwrap();
    writer.execute_batch(FILL).unwrap();
    for round in 1..4 {
        change(&writer, 1);
        assert!(expect(&machine, &mut rng, 500, 500_000 + 500 * round) > 0);
    }
}

#[test]
fn after_a_checkpoint_and_with_a_wal_that_has_begun_anew() {
    let seed = seed_or(2);
    println!("seed {seed}");
    let mut rng = SplitMix64::derived(seed, 2);
    for synchronous in ["normal", "full", "off"] {
        let machine = Machine::new(&format!("anew-{synchronous}"));
        let writer = machine.open().unwrap();
        let pragmas = format!("pragma journal_mode = wal; pragma synchronous = {synchronous};");
        writer.execute_batch(&pragmas).unwrap();
        writer.execute_batch(FILL).unwrap();
        change(&writer, 1);
        writer
            .execute_batch("pragma wal_checkpoint(restart)")
            .unwrap();
        writer
            .execute_batch("update account set v = v + 1 where id <= 20")
            .unwrap();
        assert!(expect(&machine, &mut rng, 500, 500_520) > 0);
    }
}

/// A reader keeps the checkpoint from being a whole one, so that no flush follows it; and those that come later are
/// told to take its pages from the database.
#[test]
fn after_a_partial_checkpoint() {
    let seed = seed_or(3);
    println!("seed {seed}");
    let mut rng = SplitMix64::derived(seed, 3);
    let machine = Machine::new("partial");
    let writer = machine.open().unwrap();
    writer.execute_batch("pragma journal_mode = wal").unwrap();
    writer.execute_batch(FILL).unwrap();
    writer
        .execute_batch("pragma wal_checkpoint(truncate)")
        .unwrap();
    change(&writer, 1);
    let reader = machine.open().unwrap();
    reader
        .execute_batch("begin; select count(*) from account")
        .unwrap();
    writer
        .execute_batch("update account set v = v + 1 where id <= 20")
        .unwrap();
    let moved: i64 = writer
        .query_row("pragma wal_checkpoint(passive)", [], |row| row.get(2))
        .unwrap();
    assert!(moved > 0, "nothing was checkpointed: this shows nothing");
    assert!(expect(&machine, &mut rng, 500, 500_520) > 0);
    expect_nothing_written(&machine, &mut rng, (500, 500_520));
}
