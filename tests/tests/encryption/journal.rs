//! The journal of an encrypted database in a transaction over several: it undoes the commit that it was written for, how
//! often whoever tries to is interrupted, and no other one.

use std::sync::atomic::{AtomicU32, Ordering};

use litepack_simdisk::{CallSet, CrashMode, Fault, FaultError, Images, SimDisk, SimVfs};
use litepack_tests::vfs;
use rusqlite::Connection;

use crate::place::IN_URI;

const JOURNAL: &str = "/undone-main.db-lpjourn";

/// The URI of a database on this disk, as it is from now on.
fn register(disk: &SimDisk) -> (SimVfs, impl Fn(&str) -> String) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    vfs::under_test();
    let below = format!("undone-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let registered = disk.register(&below);
    let name = format!("litepack-{below}");
    litepack_rusqlite::register_vfs(&name, &below).unwrap();
    let uri = move |file: &str| format!("file:/undone-{file}.db?vfs={name}&{IN_URI}");
    (registered, uri)
}

/// Both databases of these files.
fn open(disk: &SimDisk) -> (SimVfs, rusqlite::Result<Connection>) {
    let (registered, uri) = register(disk);
    let connection = Connection::open(uri("main")).and_then(|connection| {
        connection.execute("attach ? as aux", [uri("aux")])?;
        Ok(connection)
    });
    (registered, connection)
}

/// The first of them.
fn open_first(disk: &SimDisk) -> (SimVfs, rusqlite::Result<Connection>) {
    let (registered, uri) = register(disk);
    (registered, Connection::open(uri("main")))
}

/// How many rows each of them has as the transaction leaves them.
fn changed(connection: &Connection) -> rusqlite::Result<(u32, u32)> {
    let of = |what: &str| {
        let sql = format!("select count(*) from {what}");
        connection.query_row(&sql, [], |row| row.get(0))
    };
    Ok((of("main.t where v = 'new'")?, of("aux.t")?))
}

/// Uses these files until nothing works any more, from this call on. Whether it was done.
fn die(images: Images, call: u64, sql: &str) -> (bool, Images) {
    let disk = SimDisk::from_images(images);
    let (registered, connection) = open(&disk);
    let connection = connection.unwrap();
    let all = Fault::new(CallSet::IO, FaultError::Io);
    disk.inject(all.at(call).forever());
    let is_done = connection.execute_batch(sql).is_ok();
    drop((connection, registered));
    disk.clear_faults();
    (is_done, disk.live_images())
}

fn has_journal(images: &Images) -> bool {
    images.get(JOURNAL).is_some_and(|bytes| !bytes.is_empty())
}

const ROWS: &str = "create table main.t(v); create table aux.t(v);
    insert into main.t with recursive n(i) as (select 1 union all select i + 1 from n where i < 50)
      select 'old' from n";
const BOTH: &str = "begin; update main.t set v = 'new'; insert into aux.t values (1); commit";

/// Commits that SQLite does not sync come before such a transaction, and then the power is lost. The journal is for the
/// state that is left.
#[test]
fn a_power_loss_leaves_the_commit_that_a_journal_is_for() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    for before in [
        "pragma main.auto_vacuum = full; vacuum main; create table main.x(v);
         insert into main.x select hex(randomblob(3000)) from main.t; delete from main.x",
        "pragma main.synchronous = off; create table main.x(v); pragma main.synchronous = full",
    ] {
        let disk = SimDisk::new();
        let (_registered, connection) = open(&disk);
        let connection = connection.unwrap();
        connection.execute_batch(ROWS).unwrap();
        let begin = disk.op_count();
        connection.execute_batch(before).unwrap();
        let middle = disk.op_count();
        connection.execute_batch(BOTH).unwrap();
        let end = disk.op_count();
        let mut hot = 0;
        for (op, mode) in (middle..=end).flat_map(|op| CrashMode::ALL.map(|mode| (op, mode))) {
            let images = disk.crash_images(op, mode, 1);
            hot += u32::from(has_journal(&images));
            let (_registered, connection) = open(&SimDisk::from_images(images));
            let found = connection.and_then(|connection| changed(&connection));
            let found = found.unwrap_or_else(|error| panic!("{before}: {op}, {mode:?}: {error}"));
            assert!(
                [(0, 0), (50, 1)].contains(&found),
                "{before}: {op}, {mode:?}: {found:?}"
            );
        }
        assert!(middle > begin && hot > 0);
    }
}

/// The super-journal of a transaction is gone, and its journals are still there: they count for nothing. In exclusive mode
/// SQLite does not delete them, but begins the next one over them.
#[test]
fn a_journal_that_is_over_does_not_keep_others_from_writing() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let disk = SimDisk::new();
    let (registered, connection) = open(&disk);
    connection.unwrap().execute_batch(ROWS).unwrap();
    drop(registered);
    let mut stale = 0;
    for call in 1.. {
        let (is_done, mut left) = die(disk.live_images(), call, BOTH);
        if is_done {
            break;
        }
        if !has_journal(&left) {
            continue;
        }
        left.retain(|name, _| !name.contains("-mj"));
        for mode in ["delete", "truncate", "persist"] {
            let disk = SimDisk::from_images(left.clone());
            let (_registered, connection) = open_first(&disk);
            let connection = connection.unwrap();
            connection
                .execute_batch(&format!(
                    "pragma locking_mode = exclusive; pragma journal_mode = {mode};
                     insert into t values ('later'); insert into t values ('later')"
                ))
                .unwrap_or_else(|error| panic!("call {call}, {mode}: {error}"));
            stale += 1;
            drop(connection);
            let (_registered, connection) = open_first(&disk);
            let sql = "select count(*) from t where v = 'later'";
            let count = connection
                .unwrap()
                .query_row(sql, [], |row| row.get::<_, u32>(0));
            assert_eq!(count.unwrap(), 2, "call {call}, {mode}");
        }
    }
    assert!(stale > 0);
}

#[test]
fn a_journal_undoes_the_commit_that_it_is_for_and_no_other_one() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let disk = SimDisk::new();
    let (registered, connection) = open(&disk);
    let connection = connection.unwrap();
    connection.execute_batch(ROWS).unwrap();
    drop((connection, registered));
    let before: Images = disk.live_images();
    let (mut undone, mut put_back) = (0, 0);
    for call in 1.. {
        let (is_done, left) = die(before.clone(), call, BOTH);
        let mut hot = left.clone();
        // Interrupted at each call of playing it back, one after the other.
        let mut tries = 0;
        while has_journal(&hot) && tries < 60 {
            tries += 1;
            hot = die(hot, tries, "select * from main.t; select * from aux.t").1;
        }
        let disk = SimDisk::from_images(hot);
        let (registered, connection) = open(&disk);
        let connection = connection.unwrap_or_else(|error| panic!("call {call}: {error}"));
        let found = changed(&connection).unwrap_or_else(|error| panic!("call {call}: {error}"));
        assert!([(0, 0), (50, 1)].contains(&found), "call {call}: {found:?}");
        undone += u32::from(tries > 20 && found == (0, 0));
        connection
            .execute_batch("update main.t set v = 'later'")
            .unwrap();
        drop((connection, registered));
        if has_journal(&left) {
            // Who kept the journal puts it back, with the name of its super-journal.
            let mut images: Images = disk.live_images();
            for (name, bytes) in left.iter().filter(|(name, _)| !name.ends_with(".db")) {
                images.insert(name.clone(), bytes.clone());
            }
            let kept = images.clone();
            let disk = SimDisk::from_images(images);
            let (_registered, connection) = open(&disk);
            match connection.and_then(|connection| changed(&connection)) {
                // It was not whole yet: as if nobody had written it.
                Ok(found) => assert_eq!(found.0, 0, "call {call}"),
                Err(error) => {
                    put_back += 1;
                    assert!(error.to_string().contains("open"), "call {call}: {error}");
                    assert!(disk.live_images().get(JOURNAL) == kept.get(JOURNAL));
                }
            }
            let database = "/undone-main.db";
            assert!(
                disk.live_images().get(database) == kept.get(database),
                "call {call}"
            );
        }
        if is_done {
            break;
        }
    }
    assert!(undone > 0 && put_back > 2, "{undone}, {put_back}");
}
