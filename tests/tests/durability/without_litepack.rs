//! A program without Litepack comes upon a packed file beside which there is a WAL. It must not take that for its own: it
//! would write its pages into the packed file. (Of journals: `several_databases.rs`.)

use litepack_tests::commandline::{Place, copy_elsewhere, read, succeed};
use litepack_tests::programs::run_litepack;
use litepack_tests::{content, vfs};
use rusqlite::{Connection, ErrorCode};
use std::path::Path;

const ROWS: &str = "create table t(k integer primary key, v);
    insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000)
      select i, hex(randomblob(50)) from n;";

fn packed(path: &Path) -> Connection {
    vfs::open_uri(&vfs::uri(path, "litepack", "")).expect("a packed database")
}

/// Whatever it tries, it hears that this is no database, and the file stays as it is.
fn expect_refused(path: &Path) {
    let before = read(path);
    let plain = vfs::open_plain(path).expect("SQLite opens anything");
    for sql in [
        "select count(*) from t",
        "update t set v = 'destroyed'",
        "pragma wal_checkpoint(truncate)",
        "pragma journal_mode = delete",
        "vacuum",
    ] {
        let found = plain
            .execute_batch(sql)
            .map_err(|error| error.sqlite_error_code());
        assert_eq!(found, Err(Some(ErrorCode::NotADatabase)), "{sql}");
    }
    drop(plain);
    assert!(before == read(path), "the packed file has changed");
}

/// It has a plain database open and idle, which no lock shows, while that is packed in place, and goes on.
#[test]
fn a_program_that_has_the_former_file_open_does_not_reach_the_new_one() {
    vfs::under_test();
    let place = Place::new();
    let path = place.make("app.db", ROWS);
    let idle = vfs::open_plain(&path).expect("a plain database");
    idle.execute("update t set v = 'before'", [])
        .expect("a commit");
    succeed(
        "in place",
        &run_litepack([Path::new("pack"), Path::new("--in-place"), &path]),
    );
    let writer = packed(&path);
    writer
        .execute_batch(
            "pragma journal_mode = wal; pragma wal_autocheckpoint = 0;
             update t set v = 'in the WAL' where k % 7 = 0",
        )
        .expect("a commit in the WAL");
    let expected = content::fingerprint(&writer).expect("a scan");
    for sql in ["update t set v = 'too late'", "select * from t"] {
        let found = idle.execute_batch(sql);
        let code = found.expect_err("no database").sqlite_error_code();
        assert_eq!(code, Some(ErrorCode::NotADatabase), "{sql}");
    }
    drop((idle, writer));
    let again = packed(&path);
    content::assert_sound(&again, "afterwards");
    assert_eq!(expected, content::fingerprint(&again).expect("a scan"));
    place.assert_only(&["app.db", "app.db-lpw", "app.db-shm"]);
}

#[test]
fn pages_in_the_wal_stay_there() {
    vfs::under_test();
    let place = Place::new();
    let live = place.path("live.db");
    let writer = packed(&live);
    writer.execute_batch(ROWS).expect("rows");
    writer
        .execute_batch(
            "pragma journal_mode = wal; pragma wal_autocheckpoint = 0;
             update t set v = 'in the WAL' where k % 7 = 0; create table u(a)",
        )
        .expect("a commit in the WAL");
    let expected = content::fingerprint(&writer).expect("a scan");
    // As after a kill, and while the writer is there.
    let killed = place.path("killed.db");
    copy_elsewhere(&live, &killed);
    copy_elsewhere(&place.path("live.db-lpw"), &place.path("killed.db-lpw"));
    for path in [&live, &killed] {
        assert!(!read(&path.with_extension("db-lpw")).is_empty());
        expect_refused(path);
        // As a second database of a connection to a plain one.
        let both = vfs::open_plain(&place.path("plain.db")).expect("a plain database");
        let attached = both.execute("attach ? as other", [vfs::uri(path, vfs::PLAIN, "")]);
        let attached = attached.and_then(|_| both.execute_batch("select * from other.t"));
        let code = attached.expect_err("no database").sqlite_error_code();
        assert_eq!(code, Some(ErrorCode::NotADatabase));
        drop(both);
        let again = packed(path);
        content::assert_sound(&again, "afterwards");
        assert_eq!(expected, content::fingerprint(&again).expect("a scan"));
    }
    writer
        .execute("insert into u values (1)", [])
        .expect("a commit");
    drop(writer);
    assert!(!place.path("live.db-lpw").exists(), "a clean end");
}
