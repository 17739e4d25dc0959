//! Two that do not know of each other have one file, or one name: a program without Litepack comes upon a packed file, or
//! a file is replaced while it is open. None may take the WAL of another for its own: it would write its pages into the
//! wrong file. (Of journals: `several_databases.rs`.)

use litepack_tests::commandline::{Place, copy_elsewhere, read, succeed};
use litepack_tests::programs::run_litepack;
use litepack_tests::{content, vfs};
use rusqlite::{Connection, ErrorCode};
use std::path::{Path, PathBuf};

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

/// A plain database in WAL mode, as a kill leaves it: its file, its WAL, and a journal that is to be played back.
fn former(place: &Place) -> [PathBuf; 3] {
    let live = place.path("former.db");
    let connection = vfs::open_uri(&vfs::uri(&live, vfs::PLAIN, "")).expect("a database");
    connection
        .execute_batch(&format!(
            "pragma cache_size = 5; {ROWS} begin; update t set v = 'never'"
        ))
        .expect("a transaction");
    let [file, wal, journal] =
        ["killed", "killed-wal", "killed-journal"].map(|name| place.path(name));
    copy_elsewhere(&place.path("former.db-journal"), &journal);
    connection
        .execute_batch("rollback; pragma journal_mode = wal; pragma wal_autocheckpoint = 0; update t set v = 'former'")
        .expect("a commit in the WAL");
    copy_elsewhere(&live, &file);
    copy_elsewhere(&place.path("former.db-wal"), &wal);
    [file, wal, journal]
}

#[test]
fn what_a_former_database_has_left_goes_when_there_is_a_new_one() {
    vfs::under_test();
    let place = Place::new();
    let [_, wal, journal] = former(&place);
    let path = place.path("app.db");
    for (left, suffix) in [(&wal, "db-wal"), (&journal, "db-journal")] {
        for is_copy in [false, true] {
            let beside = path.with_extension(suffix);
            copy_elsewhere(left, &beside);
            if is_copy {
                let source = packed(&place.path(&format!("source-{suffix}")));
                source
                    .execute_batch("create table if not exists t(a)")
                    .expect("a table");
                let copy = vfs::uri(&path, "litepack", "");
                source.execute("vacuum into ?", [copy]).expect("a copy");
            } else {
                let new = packed(&path);
                assert!(beside.exists(), "nothing was written yet");
                new.execute_batch(ROWS).expect("rows");
            }
            assert!(!beside.exists(), "{suffix}");
            expect_refused(&path);
            content::assert_sound(&packed(&path), "afterwards");
            std::fs::remove_file(&path).expect("removable");
        }
    }
}

/// A file was opened while it was empty, and a finished database has taken its name. The files beside that are not
/// removed.
#[test]
fn what_belongs_to_a_file_that_has_taken_the_name_stays() {
    vfs::under_test();
    let place = Place::new();
    let [file, wal, journal] = former(&place);
    for (left, suffix) in [(&wal, "db-wal"), (&journal, "db-journal")] {
        let path = place.path(&format!("{suffix}.db"));
        let early = packed(&path);
        early.execute_batch("pragma user_version").expect("a look");
        let finished = place.path("finished.db");
        copy_elsewhere(&file, &finished);
        std::fs::rename(&finished, &path).expect("renamable");
        let beside = path.with_extension(suffix);
        copy_elsewhere(left, &beside);
        early
            .execute_batch("create table t(a)")
            .expect_err("the name is another's");
        drop(early);
        assert!(read(&beside) == read(left), "{suffix}");
    }
}

/// As archives leave it that have no times.
#[test]
fn a_time_before_1970_is_one() {
    vfs::under_test();
    let place = Place::new();
    let path = place.path("app.db");
    packed(&path)
        .execute_batch(&format!("pragma journal_mode = wal; {ROWS}"))
        .expect("rows");
    let file = std::fs::File::options()
        .write(true)
        .open(&path)
        .expect("it opens");
    let before = std::time::SystemTime::UNIX_EPOCH - std::time::Duration::from_secs(100);
    file.set_modified(before).expect("a time");
    drop(file);
    let [one, other] = [packed(&path), packed(&path)];
    one.execute_batch("select * from t").expect("a read");
    other
        .execute_batch(
            "update t set v = 'new'; pragma wal_checkpoint(truncate); update t set v = 'newer'",
        )
        .expect("commits");
    one.execute_batch("select * from t; update t set v = 'newest'")
        .expect("the same file");
    drop((one, other));
    content::assert_sound(&packed(&path), "afterwards");
}

#[test]
fn a_packed_file_is_not_opened_beside_what_is_none_of_its_own() {
    vfs::under_test();
    let place = Place::new();
    let [_, wal, journal] = former(&place);
    let path = place.path("app.db");
    packed(&path).execute_batch(ROWS).expect("rows");
    let before = read(&path);
    for (left, suffix, own) in [
        (&wal, "db-wal", "app.db-lpw"),
        (&journal, "db-journal", "app.db-lpjourn"),
    ] {
        let beside = path.with_extension(suffix);
        copy_elsewhere(left, &beside);
        let refused = vfs::open_uri(&vfs::uri(&path, "litepack", ""));
        let refused = refused.and_then(|db| db.execute_batch("select * from t"));
        let why = refused.expect_err("refused").to_string();
        assert!(why.contains(suffix) && why.contains(own), "{why}");
        let immutable = vfs::open_uri(&vfs::uri(&path, "litepack", "immutable=1"));
        content::assert_sound(&immutable.expect("it opens"), "what cannot change");
        let unpacked = run_litepack([Path::new("unpack"), Path::new("--in-place"), &path]);
        assert_eq!(unpacked.status.code(), Some(2));
        let why = String::from_utf8_lossy(&unpacked.stderr);
        assert!(why.contains(own), "{why}");
        assert!(read(&beside) == read(left) && before == read(&path));
        std::fs::remove_file(&beside).expect("removable");
    }
    // One that was kept for the next transaction.
    let kept = path.with_extension("db-journal");
    std::fs::write(&kept, [0; 1000]).expect("a journal");
    content::assert_sound(&packed(&path), "afterwards");
    assert!(kept.exists());
}

/// It is open and not read yet, so it has neither a lock nor a WAL. Then it is replaced, and the new one is used in WAL
/// mode.
#[test]
fn who_has_the_former_file_open_does_not_use_the_wal_of_the_new_one() {
    vfs::under_test();
    let place = Place::new();
    let other = place.path("other.packed");
    packed(&other)
        .execute_batch("create table t(k, v)")
        .expect("a table");
    let plain = place.make("other.db", "create table t(k, v)");
    let in_wal_mode = "pragma journal_mode = wal; pragma wal_autocheckpoint = 0;";
    let in_place =
        |command: &'static str| vec![command.to_owned(), "--in-place".into(), "app.db".into()];
    let force = |command: &'static str, from: &Path| {
        vec![
            command.to_owned(),
            from.display().to_string(),
            "app.db".into(),
            "--force".into(),
        ]
    };
    for (before, command, after) in [
        ("litepack", in_place("unpack"), vfs::PLAIN),
        ("litepack", force("unpack", &other), vfs::PLAIN),
        ("litepack", force("pack", &plain), "litepack"),
        (vfs::PLAIN, in_place("pack"), "litepack"),
        (vfs::PLAIN, force("pack", &plain), "litepack"),
    ] {
        let path = place.path("app.db");
        let uri = |kind: &str| vfs::uri(&path, kind, "");
        let maker = vfs::open_uri(&uri(before)).expect("a database");
        maker
            .execute_batch(&format!("{in_wal_mode} {ROWS}"))
            .expect("rows");
        drop(maker);
        let idle = vfs::open_uri(&uri(before)).expect("it opens");
        let context = format!("{before}: {command:?}");
        let parts: Vec<_> = command
            .iter()
            .map(|part| match part.as_str() {
                "app.db" => path.clone(),
                part => PathBuf::from(part),
            })
            .collect();
        succeed(&context, &run_litepack(parts.iter().map(PathBuf::as_path)));
        let writer = vfs::open_uri(&uri(after)).expect("it opens");
        writer
            .execute_batch(&format!("{in_wal_mode} create table acknowledged(a)"))
            .expect("a commit in the WAL");
        for sql in [
            "create table lost(a)",
            "pragma wal_checkpoint",
            "select * from t",
        ] {
            idle.execute_batch(sql).expect_err(&context);
        }
        writer
            .execute_batch("insert into acknowledged values (1)")
            .expect("another one");
        drop(idle);
        drop(writer);
        let again = vfs::open_uri(&uri(after)).expect("it opens");
        content::assert_sound(&again, &context);
        let count = |sql: &str| again.query_row(sql, [], |row| row.get::<_, i64>(0));
        assert_eq!(
            count("select count(*) from acknowledged"),
            Ok(1),
            "{context}"
        );
        drop(again);
        place.assert_only(&["app.db", "other.db", "other.packed"]);
        std::fs::remove_file(&path).expect("removable");
    }
}

#[test]
fn a_file_with_other_names_is_not_replaced_in_wal_mode() {
    let place = Place::new();
    let path = place.make("app.db", &format!("pragma journal_mode = wal; {ROWS}"));
    std::fs::hard_link(&path, place.path("link.db")).expect("a link");
    let pack = || run_litepack([Path::new("pack"), Path::new("--in-place"), &path]);
    let refused = pack();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("hard links"));
    let connection = vfs::open_plain(&path).expect("it opens");
    connection
        .execute_batch("pragma journal_mode = delete")
        .expect("another mode");
    drop(connection);
    succeed("with a rollback journal", &pack());
}

/// A connection has an empty file open as a packed database, and another one makes it a plain one. That keeps its
/// journal and its WAL on disk, under its own names.
#[test]
fn a_plain_database_in_the_same_file_has_its_own_journal() {
    vfs::under_test();
    let place = Place::new();
    let path = place.path("app.db");
    let packed_handle = packed(&path);
    let open = |kind: &str| vfs::open_uri(&vfs::uri(&path, kind, "")).expect("it opens");
    open(vfs::PLAIN).execute_batch(ROWS).expect("a plain one");
    let plain = open("litepack");
    plain
        .execute_batch("pragma cache_size = 5; begin; update t set v = 'spilled'")
        .expect("a transaction");
    let journal = path.with_extension("db-journal");
    assert!(journal.metadata().is_ok_and(|found| found.len() > 100_000));
    plain
        .execute_batch(
            "rollback; pragma journal_mode = wal; update t set v = 'new'; select * from t",
        )
        .expect("a WAL");
    assert!(path.with_extension("db-wal").exists());
    packed_handle
        .execute_batch("select * from t")
        .expect_err("it is not packed");
    drop(packed_handle);
    drop(plain);
    content::assert_sound(&open(vfs::PLAIN), "afterwards");
}
