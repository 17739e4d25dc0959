//! Nothing of an encrypted database is in plain in what SQLite keeps on disk for a while: TEMP tables, sorts, journals of
//! statements and of transactions.

use std::sync::{Arc, Mutex};

use litepack_simdisk::{SimDisk, SimVfs};
use litepack_tests::vfs;
use rusqlite::Connection;

use crate::place::{IN_URI, count, fill, fill_with, many_rows, sings};

/// What was written.
#[derive(Default)]
struct Heard {
    /// To files without a name, and to journals.
    bytes: usize,
    /// To any file.
    has_canaries: bool,
}

/// A disk that listens, and a VFS of ours over it. The names of databases and VFSes are the process's.
fn listening(test: &str) -> (SimDisk, SimVfs, String, Arc<Mutex<Heard>>) {
    vfs::under_test();
    let disk = SimDisk::new();
    let below = format!("listening-{test}");
    let registered = disk.register(&below);
    let name = format!("litepack-{below}");
    litepack_rusqlite::register_vfs(&name, &below).unwrap();
    let heard = Arc::<Mutex<Heard>>::default();
    let ear = Arc::clone(&heard);
    disk.on_write(move |name, bytes| {
        let mut heard = ear.lock().unwrap();
        if name.is_empty() || name.ends_with("-lpjourn") {
            heard.bytes += bytes.len();
        }
        heard.has_canaries |= sings(bytes);
    });
    (disk, registered, name, heard)
}

/// The bytes that this writes to temporary files, none of which are canaries.
fn hear(heard: &Mutex<Heard>, connection: &Connection, sql: &str) -> usize {
    *heard.lock().unwrap() = Heard::default();
    connection.execute_batch(sql).unwrap();
    let heard = heard.lock().unwrap();
    assert!(!heard.has_canaries, "{sql}");
    heard.bytes
}

#[test]
fn no_temporary_file_has_content_in_plain() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    for mode in ["delete", "persist", "truncate", "memory", "wal"] {
        let (_disk, _vfs, name, heard) = listening(mode);
        let uri = format!("file:/{mode}.db?vfs={name}&{IN_URI}");
        let connection = Connection::open(uri).unwrap();
        connection
            .execute_batch(&format!(
                "pragma journal_mode = {mode}; pragma temp_store = file; pragma cache_size = 5;
                 pragma temp.cache_size = 5"
            ))
            .unwrap();
        *heard.lock().unwrap() = Heard::default();
        fill_with(&connection, many_rows());
        let heard_so_far = heard.lock().unwrap().has_canaries;
        assert!(!heard_so_far, "{mode}");
        connection.execute_batch("create index i on t(c)").unwrap();
        let hear = |sql: &str| hear(&heard, &connection, sql);
        let sort = hear(
            "create table n as select row_number() over (order by a.c || b.c) as r
               from (select * from t limit 500) a, (select c from t limit 50) b",
        );
        assert!(sort > 50_000, "{mode}: {sort}");
        let table = hear("create temp table s as select * from t; create index temp.x on s(c)");
        assert!(table > 100_000, "{mode}: {table}");
        let journal = hear("begin; update s set c = c || b; rollback");
        assert!(journal > 50_000, "{mode}: {journal}");
        let statement = hear(
            "begin; update t set b = b || b; savepoint a; update t set b = c || c, c = c || c;
             rollback to a; update t set b = b || b; commit",
        );
        assert!(
            statement > 70_000 || mode == "memory",
            "{mode}: {statement}"
        );
        let long = hear(
            "create table long(x); insert into long select a.c || b.c || a.c || b.c from t a, t b limit 15000;
             begin; update long set x = x || 'x'; rollback; drop table long",
        );
        assert!(
            long > 4 << 20 || ["memory", "wal"].contains(&mode),
            "{mode}: {long}"
        );
        hear("vacuum");
        hear("pragma wal_checkpoint(truncate)");
        assert_eq!(u64::from(count(&connection).unwrap()), many_rows());
    }
}

/// Such transactions need their journals on disk, and the pages in them are those of before.
#[test]
fn no_journal_of_several_databases_has_content_in_plain() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    for mode in ["delete", "persist", "truncate"] {
        let (disk, _vfs, name, heard) = listening(&format!("several-{mode}"));
        let uri = |file: &str| format!("file:/several-{mode}-{file}.db?vfs={name}&{IN_URI}");
        let connection = Connection::open(uri("main")).unwrap();
        fill(&connection);
        connection.execute("attach ? as aux", [uri("aux")]).unwrap();
        connection
            .execute_batch(&format!(
                "pragma main.journal_mode = {mode}; pragma aux.journal_mode = {mode};
                 create table aux.t as select * from main.t"
            ))
            .unwrap();
        for cache in [1000, 5] {
            let written = hear(
                &heard,
                &connection,
                &format!(
                    "pragma main.cache_size = {cache}; begin; update main.t set c = b || c;
                     update aux.t set c = b || c; commit"
                ),
            );
            assert!(written > 100_000, "{mode}: {written}");
            assert_eq!(count(&connection).unwrap(), 500);
        }
        let left = disk.live_images();
        let journals = left.iter().filter(|(name, _)| name.ends_with("-lpjourn"));
        assert!(
            journals.clone().all(|(_, bytes)| bytes.is_empty()),
            "{mode}"
        );
        // What is not this database's journal is not played back, and nothing happens to it.
        let journal = format!("/several-{mode}-main.db-lpjourn");
        drop(connection);
        let magic = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
        let plain = [
            &magic[..],
            &[0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 2, 0],
            &[1; 9000],
        ]
        .concat();
        for foreign in [plain, [b"LPjourn\x1a", &[7; 9000][..]].concat()] {
            let mut images = disk.live_images();
            images.insert(journal.clone(), foreign.clone());
            let disk = SimDisk::from_images(images);
            let below = format!("foreign-{mode}-{}", foreign[0]);
            let _below = disk.register(&below);
            let name = format!("litepack-{below}");
            litepack_rusqlite::register_vfs(&name, &below).unwrap();
            let uri = format!("file:/several-{mode}-main.db?vfs={name}&{IN_URI}");
            let connection = Connection::open(uri).unwrap();
            count(&connection).unwrap_err();
            assert!(disk.live_images().get(&journal) == Some(&foreign));
        }
    }
}
