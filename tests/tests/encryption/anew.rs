//! `PRAGMA rekey` encrypts a packed database that is not, and decrypts one: a new file takes the place of the old one.

use std::path::Path;
use std::time::Duration;

use litepack_tests::vfs;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::place::{KEY, Place, count, failure, fill, give, open};

const OTHER: &str = "another passphrase";

/// A packed database in plain.
fn plain(place: &Place) -> std::path::PathBuf {
    let path = place.path("a.db");
    fill(&vfs::open(&path).unwrap());
    path
}

fn is_plain(path: &Path) -> bool {
    vfs::open(path).is_ok_and(|connection| count(&connection).is_ok())
}

fn sound(connection: &Connection) {
    for pragma in ["integrity_check", "litepack_check"] {
        let answer: String = connection
            .query_row(&format!("pragma {pragma}"), [], |row| row.get(0))
            .unwrap();
        assert_eq!(answer, "ok");
    }
    assert_eq!(count(connection).unwrap(), 500);
}

/// The pragma fails with these words, and nothing has changed. What changes at other times is left out.
fn refused(place: &Place, connection: &Connection, value: &str, expected: &str) -> ErrorCode {
    let files = || {
        let files = place.files().into_iter();
        files.filter(|(name, _)| !name.to_string_lossy().ends_with("-shm"))
    };
    let before: Vec<_> = files().collect();
    let (code, words) = failure(give(connection, "rekey", value));
    assert!(words.contains(expected), "{expected}: {words}");
    assert!(files().eq(before), "{expected}");
    code
}

#[test]
fn there_and_back() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    for size in [512, 4096, 65536] {
        let path = place.path(&format!("{size}.db"));
        let connection = vfs::open(&path).unwrap();
        connection
            .execute_batch(&format!(
                "pragma page_size = {size}; pragma auto_vacuum = 2; pragma user_version = 17;
                 pragma application_id = 4711"
            ))
            .unwrap();
        fill(&connection);
        connection
            .execute_batch("create view v as select b from t; delete from t where a > 500")
            .unwrap();
        let numbers = |connection: &Connection| {
            let one = |name: &str| {
                connection
                    .query_row(&format!("pragma {name}"), [], |row| row.get::<_, u32>(0))
                    .unwrap()
            };
            [
                "page_size",
                "auto_vacuum",
                "user_version",
                "application_id",
                "page_count",
                "schema_version",
                "data_version",
            ]
            .map(one)
        };
        let content = |connection: &Connection| {
            let mut all = connection
                .prepare("select sql, 0, 0 from sqlite_schema union all select * from t")
                .unwrap();
            let rows = all.query_map([], |row| Ok(format!("{row:?}"))).unwrap();
            rows.map(Result::unwrap).collect::<Vec<_>>()
        };
        let before = (numbers(&connection), content(&connection));
        let mut prepared = connection.prepare("select count(*) from t").unwrap();
        let mut counted = || prepared.query_row([], |row| row.get::<_, u32>(0)).unwrap();
        assert_eq!(counted(), 500);
        // There, to another key, back, and there again.
        for (number, key) in [KEY, OTHER, "", OTHER, "", KEY].iter().enumerate() {
            assert_eq!(give(&connection, "rekey", key).unwrap(), "ok", "{number}");
            assert_eq!(counted(), 500);
            assert_eq!(is_plain(&path), key.is_empty());
            assert_eq!(place.is_silent(), !key.is_empty());
            assert_eq!((numbers(&connection), content(&connection)), before);
            sound(&connection);
            let names: Vec<_> = place.files().into_iter().map(|(name, _)| name).collect();
            assert!(names.iter().all(|name| name.extension().unwrap() == "db"));
            if !key.is_empty() {
                let wrong = failure(open(&path, "a wrong one"));
                assert_eq!(wrong, (ErrorCode::NotADatabase, "wrong key".into()));
                sound(&open(&path, key).unwrap());
                let cipher: String = connection
                    .query_row("pragma cipher", [], |row| row.get(0))
                    .unwrap();
                assert_eq!(cipher, "aes256gcm");
            }
            // It goes on writing, and undoes what it has written.
            connection
                .execute_batch(
                    "begin; delete from t; rollback; begin; update t set c = c where a < 50; commit",
                )
                .unwrap();
            sound(&connection);
        }
        drop(prepared);
        drop(connection);
        sound(&open(&path, KEY).unwrap());
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn all_sizes_of_databases() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    // No bytes at all: it gets the key with its first commit, or none.
    let path = place.path("empty.db");
    std::fs::write(&path, "").unwrap();
    let connection = vfs::open(&path).unwrap();
    for key in ["", KEY, "", OTHER] {
        assert_eq!(give(&connection, "rekey", key).unwrap(), "ok");
        assert_eq!(std::fs::read(&path).unwrap(), b"");
    }
    connection.execute_batch("begin immediate").unwrap();
    for key in [KEY, ""] {
        refused(
            &place,
            &connection,
            key,
            "not inside a transaction that writes",
        );
    }
    connection.execute_batch("rollback").unwrap();
    fill(&connection);
    sound(&open(&path, OTHER).unwrap());
    assert!(place.is_silent());
    drop(connection);
    std::fs::remove_file(&path).unwrap();
    let connection = open(&path, KEY).unwrap();
    give(&connection, "rekey", "").unwrap();
    fill(&connection);
    assert!(is_plain(&path));
    // Without a key there is none to take away.
    let before = std::fs::read(&path).unwrap();
    assert_eq!(give(&connection, "rekey", "").unwrap(), "ok");
    assert!(std::fs::read(&path).unwrap() == before);
    drop(connection);
    // One that others have made meanwhile.
    let path = place.path("new.db");
    let early = vfs::open(&path).unwrap();
    fill(&vfs::open(&path).unwrap());
    early.execute_batch("pragma query_only = 1").unwrap();
    refused(&place, &early, KEY, "query_only");
    early.execute_batch("pragma query_only = 0").unwrap();
    assert_eq!(give(&early, "rekey", KEY).unwrap(), "ok");
    assert!(!is_plain(&path));
    sound(&open(&path, KEY).unwrap());
    // A packed file of nothing.
    let (nothing, path) = (place.path("nothing"), place.path("packed.db"));
    std::fs::write(&nothing, "").unwrap();
    let (options, job) = (litepack::PackOptions::default(), litepack::Job::default());
    litepack::pack(&nothing, &path, &options, &job).unwrap();
    let connection = vfs::open(&path).unwrap();
    for key in [KEY, "", OTHER] {
        assert_eq!(give(&connection, "rekey", key).unwrap(), "ok");
        assert!(!std::fs::read(&path).unwrap().is_empty());
    }
    fill(&connection);
    sound(&open(&path, OTHER).unwrap());
    // One that has become empty.
    let path = place.path("b.db");
    let connection = vfs::open(&path).unwrap();
    fill(&connection);
    connection
        .execute_batch("drop table t; vacuum; create table x(y)")
        .unwrap();
    give(&connection, "rekey", KEY).unwrap();
    drop(connection);
    open(&path, KEY)
        .unwrap()
        .execute_batch("insert into x values (1)")
        .unwrap();
    failure(vfs::open(&path).unwrap().execute_batch("select * from x"));
}

#[test]
fn what_stands_in_the_way_is_said_and_nothing_changes() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    for (former, new) in [("", KEY), (KEY, "")] {
        let place = Place::new();
        let path = plain(&place);
        let again = |parameters: &str| {
            let connection = vfs::open_with(&path, parameters).unwrap();
            if !former.is_empty() {
                give(&connection, "key", former).unwrap();
            }
            connection.busy_timeout(Duration::ZERO).unwrap();
            connection
        };
        if !former.is_empty() {
            give(&vfs::open(&path).unwrap(), "rekey", former).unwrap();
        }
        let connection = again("");
        let refused = |expected: &str| refused(&place, &connection, new, expected);
        for begin in ["begin", "begin; select * from t", "begin immediate"] {
            connection.execute_batch(begin).unwrap();
            refused("transaction");
            connection.execute_batch("rollback").unwrap();
        }
        {
            let mut running = connection.prepare("select * from t").unwrap();
            let mut rows = running.query([]).unwrap();
            rows.next().unwrap();
            refused("while a statement runs");
        }
        connection.execute_batch("pragma query_only = 1").unwrap();
        assert_eq!(refused("query_only"), ErrorCode::ReadOnly);
        connection.execute_batch("pragma query_only = 0").unwrap();
        {
            let _open = again("");
            let _: u32 = count(&_open).unwrap();
            assert_eq!(refused("another connection"), ErrorCode::DatabaseBusy);
        }
        {
            let reader = again("");
            let mut running = reader.prepare("select * from t").unwrap();
            let mut rows = running.query([]).unwrap();
            rows.next().unwrap();
            assert_eq!(refused("locked"), ErrorCode::DatabaseBusy);
        }
        let uri = vfs::uri(&path, vfs::under_test(), "");
        connection.execute("attach ? as twice", [uri]).unwrap();
        if former.is_empty() {
            assert_eq!(refused("another connection"), ErrorCode::DatabaseBusy);
        }
        connection.execute_batch("detach twice").unwrap();
        let second = place.path("second");
        std::fs::hard_link(&path, &second).unwrap();
        refused("hard links");
        std::fs::remove_file(second).unwrap();
        for suffix in ["-lpjourn", "-lpw"] {
            let beside = place.path(&format!("a.db{suffix}"));
            std::fs::write(&beside, [0x5a; 5000]).unwrap();
            let (_, words) = failure(give(&connection, "rekey", new));
            assert!(!words.is_empty());
            std::fs::remove_file(beside).unwrap();
            assert_eq!(is_plain(&path), former.is_empty());
        }
        for suffix in ["-journal", "-wal"] {
            let beside = place.path(&format!("a.db{suffix}"));
            std::fs::write(&beside, "zzz").unwrap();
            refused(suffix);
            std::fs::remove_file(beside).unwrap();
        }
        let rows = count(&connection).unwrap();
        assert_eq!(rows, 500);
        connection
            .execute_batch("pragma locking_mode = exclusive; select count(*) from t")
            .unwrap();
        refused("locking_mode");
        connection
            .execute_batch("pragma locking_mode = normal; select count(*) from t")
            .unwrap();
        connection
            .execute_batch("pragma journal_mode = wal")
            .unwrap();
        refused("WAL journal mode.");
        connection
            .execute_batch("pragma journal_mode = delete")
            .unwrap();
        // No longer.
        give(&connection, "rekey", new).unwrap();
        give(&connection, "rekey", former).unwrap();
        drop(connection);
        for parameters in ["mode=ro", "immutable=1"] {
            if former.is_empty() {
                let connection = again(parameters);
                let code = self::refused(&place, &connection, new, "readonly");
                assert_eq!(code, ErrorCode::ReadOnly);
            }
        }
        if former.is_empty() {
            let connection = again("cache=shared");
            self::refused(&place, &connection, new, "cannot share");
        }
        // And nothing of that stays.
        let connection = again("");
        give(&connection, "rekey", new).unwrap();
        sound(&connection);
    }
}

/// No file can be made beside it: its name would be too long.
#[test]
fn a_directory_without_room_for_the_new_file_keeps_the_old_one() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.path(&"n".repeat(240));
    let connection = vfs::open(&path).unwrap();
    fill(&connection);
    refused(&place, &connection, KEY, "cannot make a new file");
    sound(&connection);
    drop(connection);
    assert!(is_plain(&path));
}

#[test]
fn an_attached_database_gets_a_key_of_its_own() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = plain(&place);
    let connection = vfs::open(&place.path("main.db")).unwrap();
    connection.execute_batch("create table x(y)").unwrap();
    let uri = vfs::uri(&path, vfs::under_test(), "");
    connection.execute("attach ? as other", [&uri]).unwrap();
    assert_eq!(give(&connection, "other.rekey", KEY).unwrap(), "ok");
    let rows: u32 = connection
        .query_row("select count(*) from other.t", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 500);
    // Both in one transaction, with a journal on disk that is sealed.
    connection
        .execute_batch("begin; insert into x values (1); update other.t set c = c; commit")
        .unwrap();
    assert!(place.is_silent());
    connection.execute_batch("detach other").unwrap();
    sound(&open(&path, KEY).unwrap());
    assert!(!is_plain(&path));
    // Main is plain still, and then has the key that the copy gets.
    connection
        .execute_batch("insert into x values (2)")
        .unwrap();
    drop(connection);
    let connection = vfs::open(&place.path("main.db")).unwrap();
    give(&connection, "rekey", OTHER).unwrap();
    let copy = place.path("copy.db");
    connection
        .execute("vacuum into ?", [copy.to_str().unwrap()])
        .unwrap();
    let copied = open(&copy, OTHER).unwrap();
    copied.execute_batch("select y from x").unwrap();
    // Beside a main database that is none of ours, temporary files would be in plain.
    std::fs::remove_file(&path).unwrap();
    fill(&vfs::open(&path).unwrap());
    let sqlite = vfs::open_plain(&place.path("sqlite.db")).unwrap();
    sqlite.execute("attach ? as other", [&uri]).unwrap();
    let (_, words) = failure(give(&sqlite, "other.rekey", KEY));
    assert!(words.contains("temporary files"), "{words}");
    sqlite.execute_batch("select * from other.t").unwrap();
    sqlite.execute_batch("detach other").unwrap();
    assert!(is_plain(&path));
    let wished = vfs::uri(&path, vfs::under_test(), "plain_temp=1");
    sqlite.execute("attach ? as other", [wished]).unwrap();
    assert_eq!(give(&sqlite, "other.rekey", KEY).unwrap(), "ok");
    sqlite.execute_batch("select * from other.t").unwrap();
    assert!(!is_plain(&path));
}

#[test]
fn what_was_set_stays_set() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = plain(&place);
    let connection = vfs::open_with(&path, "level=9").unwrap();
    give(&connection, "litepack_threads", "3").unwrap();
    connection
        .execute_batch("pragma secure_delete = on")
        .unwrap();
    connection.busy_timeout(Duration::from_millis(77)).unwrap();
    for key in [KEY, ""] {
        give(&connection, "rekey", key).unwrap();
        for (name, value) in [("level", "9"), ("threads", "3")] {
            let sql = format!("pragma litepack_{name}");
            let found: String = connection.query_row(&sql, [], |row| row.get(0)).unwrap();
            assert_eq!(found, value);
        }
    }
    // What is deleted is erased: nothing of it is found in the file.
    connection.execute_batch("delete from t").unwrap();
    assert!(place.is_silent());
}

/// Pages are in the cache of the process under names that belong to the file that was.
#[test]
fn a_warm_cache_is_none_of_who_has_no_key() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = plain(&place);
    let warm = vfs::open(&path).unwrap();
    assert_eq!(count(&warm).unwrap(), 500);
    give(&warm, "rekey", KEY).unwrap();
    assert_eq!(count(&warm).unwrap(), 500);
    for _ in 0..2 {
        let connection = vfs::open(&path).unwrap();
        assert_eq!(failure(count(&connection)).0, ErrorCode::NotADatabase);
        failure(give(&connection, "key", OTHER));
        assert_eq!(failure(count(&connection)).0, ErrorCode::NotADatabase);
    }
}

/// Without locks nothing but the transaction itself says that it is there.
#[test]
fn a_statement_that_writes_without_locks_is_not_cut_in_two() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = plain(&place);
    let connection = vfs::open_with(&path, "nolock=1").unwrap();
    connection.execute_batch("pragma cache_size = 1").unwrap();
    let sql = "insert into t(b, c) select 'x', randomblob(900) from t returning a";
    let mut insert = connection.prepare(sql).unwrap();
    let mut rows = insert.query([]).unwrap();
    rows.next().unwrap().unwrap();
    refused(&place, &connection, KEY, "transaction that writes");
    while rows.next().unwrap().is_some() {}
    drop(rows);
    give(&connection, "rekey", KEY).unwrap();
    let rows: u32 = connection
        .query_row("select count(*) from t", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 1000);
    sound(&connection);
}

/// Once the new file has the name, there is no way back.
#[cfg(unix)]
#[test]
fn an_interrupt_that_comes_too_late_does_not_count() {
    use std::os::unix::fs::MetadataExt as _;
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = plain(&place);
    let mut connection = vfs::open(&path).unwrap();
    count(&connection).unwrap();
    let (name, former) = (path.clone(), path.metadata().unwrap().ino());
    let is_replaced = move || name.metadata().unwrap().ino() != former;
    connection.progress_handler(1, Some(is_replaced)).unwrap();
    let done = give(&connection, "rekey", OTHER);
    connection
        .progress_handler(1, None::<fn() -> bool>)
        .unwrap();
    sound(&connection);
    assert!(done.is_ok() || failure(done).0 == ErrorCode::OperationInterrupted);
    sound(&open(&path, OTHER).unwrap());
}

#[test]
fn it_ends_when_the_connection_is_interrupted() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = plain(&place);
    let mut connection = vfs::open(&path).unwrap();
    count(&connection).unwrap();
    connection.progress_handler(1, Some(|| true)).unwrap();
    let code = failure(give(&connection, "rekey", KEY)).0;
    assert_eq!(code, ErrorCode::OperationInterrupted);
    connection
        .progress_handler(1, None::<fn() -> bool>)
        .unwrap();
    assert!(is_plain(&path));
    assert_eq!(place.files().len(), 1);
    assert_eq!(give(&connection, "rekey", KEY).unwrap(), "ok");
}

/// The command opens what the pragma has made, and the other way round.
#[test]
fn the_command_and_the_pragma_understand_each_other() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = plain(&place);
    let key = std::sync::Arc::new(litepack::Key::written(KEY.as_bytes()).unwrap());
    give(&vfs::open(&path).unwrap(), "rekey", KEY).unwrap();
    let job = litepack::Job::default().with_key(&key);
    assert!(litepack::check(&path, &job).unwrap().ok);
    let options = litepack::RekeyOptions::default();
    litepack::rekey(&path, None, &options, &job).unwrap();
    give(&vfs::open(&path).unwrap(), "rekey", KEY).unwrap();
    give(&open(&path, KEY).unwrap(), "rekey", "").unwrap();
    assert!(
        litepack::check(&path, &litepack::Job::default())
            .unwrap()
            .ok
    );
    sound(&vfs::open(&path).unwrap());
}

#[cfg(unix)]
#[test]
fn the_new_file_has_the_rights_of_the_old_one_and_links_lead_to_it() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = plain(&place);
    let link = place.path("link.db");
    symlink("a.db", &link).unwrap();
    for mode in [0o640, 0o604] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let key = if is_plain(&path) { KEY } else { "" };
        let connection = vfs::open(&link).unwrap();
        if key.is_empty() {
            give(&connection, "key", KEY).unwrap();
        }
        give(&connection, "rekey", key).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, mode);
        assert!(link.symlink_metadata().unwrap().is_symlink());
    }
}

/// Another program, of which one knows no more than its locks.
#[cfg(target_os = "linux")]
mod processes {
    use super::*;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Child, ChildStdout, Command, Stdio};

    const SQL: &str = "LITEPACK_TEST_SQL";
    const FILE: &str = "LITEPACK_TEST_FILE";

    /// Runs the statements that its environment has, each when it is told to, and says how each ended.
    #[test]
    fn child() {
        let (Some(sql), Some(file)) = (std::env::var_os(SQL), std::env::var_os(FILE)) else {
            return;
        };
        let connection = vfs::open(Path::new(&file)).unwrap();
        connection.busy_timeout(Duration::ZERO).unwrap();
        let mut told = std::io::stdin().lines();
        for sql in sql.to_str().unwrap().split(';') {
            let done = connection.prepare(sql).and_then(|mut statement| {
                let mut rows = statement.query([])?;
                while rows.next()?.is_some() {}
                Ok(())
            });
            let words = done.map_or_else(|error| error.to_string(), |()| "ok".into());
            println!("\nanswer: {words}");
            told.next();
        }
    }

    pub struct Other {
        child: Child,
        answers: std::io::Lines<BufReader<ChildStdout>>,
    }

    pub fn command(file: &Path, sql: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "anew::processes::child", "--nocapture"]);
        command.env(SQL, sql).env(FILE, file);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    impl Other {
        pub fn new(file: &Path, sql: &str) -> Other {
            let mut child = command(file, sql).spawn().unwrap();
            let answers = BufReader::new(child.stdout.take().unwrap()).lines();
            Other { child, answers }
        }

        pub fn answer(&mut self) -> String {
            loop {
                let line = self.answers.next().unwrap().unwrap();
                if let Some(words) = line.strip_prefix("answer: ") {
                    return words.into();
                }
            }
        }

        pub fn go_on(&mut self) -> String {
            self.tell();
            self.answer()
        }

        fn tell(&mut self) {
            self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        }
    }

    impl Drop for Other {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    #[test]
    fn who_has_it_locked_is_waited_for() {
        if !vfs::is_litepack() {
            return vfs::skip_packed();
        }
        for lock in [
            "begin immediate",
            "begin exclusive",
            "begin; select * from t",
        ] {
            let place = Place::new();
            let path = plain(&place);
            let connection = vfs::open(&path).unwrap();
            let sql = format!("{lock}; commit; select * from t");
            let mut other = Other::new(&path, &sql);
            assert_eq!(other.answer(), "ok");
            for _ in lock.matches(';') {
                assert_eq!(other.go_on(), "ok");
            }
            connection.busy_timeout(Duration::ZERO).unwrap();
            let code = refused(&place, &connection, KEY, "locked");
            assert_eq!(code, ErrorCode::DatabaseBusy);
            // As long as the connection says.
            connection.busy_timeout(Duration::from_secs(60)).unwrap();
            let telling = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(300));
                assert_eq!(other.go_on(), "ok");
                other
            });
            assert_eq!(give(&connection, "rekey", KEY).unwrap(), "ok");
            sound(&connection);
            // It had the old file open.
            let mut other = telling.join().unwrap();
            let words = other.go_on();
            assert!(words.contains("not a database"), "{words}");
        }
    }

    /// In a rollback mode nobody can see that it has the file open.
    #[test]
    fn who_has_it_open_and_idle_is_told_to_open_it_anew() {
        if !vfs::is_litepack() {
            return vfs::skip_packed();
        }
        for (former, new) in [("", KEY), (KEY, "")] {
            for then in ["select * from t", "insert into t values (1000, '', '')"] {
                let place = Place::new();
                let path = plain(&place);
                let connection = vfs::open(&path).unwrap();
                let mut sql = format!("select count(*) from t; {then}");
                if !former.is_empty() {
                    give(&connection, "rekey", former).unwrap();
                    sql = format!("pragma key = \"{former}\"; {sql}");
                }
                let mut other = Other::new(&path, &sql);
                assert_eq!(other.answer(), "ok");
                if !former.is_empty() {
                    assert_eq!(other.go_on(), "ok");
                }
                give(&connection, "rekey", new).unwrap();
                let words = other.go_on();
                assert!(words.contains("not a database"), "{words}");
                drop(other);
                sound(&connection);
                assert_eq!(place.is_silent(), former.is_empty());
            }
        }
    }

    /// What was written in plain before the process had a key may be of this database.
    #[test]
    fn a_temporary_database_in_plain_is_in_the_way() {
        if !vfs::is_litepack() {
            return vfs::skip_packed();
        }
        let place = Place::new();
        let path = plain(&place);
        let sql = format!(
            "pragma temp_store = file; pragma temp.cache_size = 1;
             create temp table s as select * from t; pragma rekey = \"{KEY}\"; select * from t"
        );
        let mut other = Other::new(&path, &sql);
        let mut answers = vec![other.answer()];
        answers.extend((0..4).map(|_| other.go_on()));
        assert!(
            answers[3].contains("a temporary database in plain"),
            "{answers:?}"
        );
        assert_eq!(answers[4], "ok");
        assert!(is_plain(&path));
    }

    /// Ends a process that works on a database before the call of this number.
    const KILLER: &str = "/../crates/cli/tests/common/kill_at.c";
    /// Writes down which calls it makes.
    const LISTENER: &str = "/tests/encryption/calls.c";

    /// A library that is loaded into a process; `None` where it cannot be compiled.
    fn library(place: &Place, source: &str) -> Option<std::path::PathBuf> {
        let library = place.path("library.so");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library)
            .arg(format!("{}{source}", env!("CARGO_MANIFEST_DIR")))
            .arg("-ldl")
            .output();
        match compiled {
            Ok(run) if run.status.success() => Some(library),
            Ok(run) => panic!("{}", String::from_utf8_lossy(&run.stderr)),
            Err(why) => {
                litepack_skip::skip(litepack_skip::Expected::ByChoice, why);
                None
            }
        }
    }

    /// Killed before each of its steps, it leaves the old file or the new one under the name, and what else is left goes
    /// with the next try.
    #[test]
    fn a_kill_leaves_one_of_the_two_files_whole() {
        if !vfs::is_litepack() {
            return vfs::skip_packed();
        }
        let libraries = Place::new();
        let Some(killer) = library(&libraries, KILLER) else {
            return;
        };
        for (former, new) in [("", KEY), (KEY, "")] {
            let original = Place::new();
            let path = plain(&original);
            let mut sql = format!("select 1; pragma rekey = \"{new}\"; select count(*) from t");
            if !former.is_empty() {
                give(&vfs::open(&path).unwrap(), "rekey", former).unwrap();
                sql = format!("pragma key = \"{former}\"; {sql}");
            }
            let (mut found, mut left) = ([0, 0], 0);
            for at in 1..1000 {
                let place = Place::new();
                let copy = place.path("a.db");
                std::fs::copy(&path, &copy).unwrap();
                let mut command = command(&copy, &sql);
                command.env("LD_PRELOAD", &killer);
                command.env("LITEPACK_KILL_AT", at.to_string());
                let run = command.stdin(Stdio::null()).output().unwrap();
                let is_killed = run.status.signal() == Some(9);
                let answers = String::from_utf8_lossy(&run.stdout);
                assert!(is_killed || run.status.success(), "{at}: {answers}");
                let is_new = is_plain(&copy) != former.is_empty();
                found[usize::from(is_new)] += 1;
                let (key, next) = if is_new { (new, former) } else { (former, new) };
                let connection = vfs::open(&copy).unwrap();
                if !key.is_empty() {
                    give(&connection, "key", key).unwrap();
                }
                sound(&connection);
                left += place.files().len() - 1;
                assert_eq!(give(&connection, "rekey", next).unwrap(), "ok", "{at}");
                sound(&connection);
                assert_eq!(place.files().len(), 1, "{at}");
                if !is_killed {
                    assert!(
                        is_new && answers.matches("answer: ok").count() >= 3,
                        "{answers}"
                    );
                    break;
                }
            }
            assert!(found[0] > 3 && found[1] > 1 && left > 3, "{found:?} {left}");
        }
    }

    /// So a power loss leaves one of the two files whole: the new one is durable before it has the name, and has it
    /// durably before anything of the old one goes. And whoever opens the new one keeps the locks that they take there.
    #[test]
    fn its_steps_are_in_an_order_that_a_power_loss_may_cut() {
        if !vfs::is_litepack() {
            return vfs::skip_packed();
        }
        let libraries = Place::new();
        let Some(listener) = library(&libraries, LISTENER) else {
            return;
        };
        let place = Place::new();
        let path = plain(&place);
        let heard = libraries.path("calls");
        let sql = format!("select 1; pragma rekey = \"{KEY}\"; select 1");
        let mut command = command(&path, &sql);
        command.env("LD_PRELOAD", &listener);
        command.env("LITEPACK_CALLS", &heard);
        command.env("LITEPACK_NAMED", &path);
        let run = command.stdin(Stdio::null()).output().unwrap();
        let answers = String::from_utf8_lossy(&run.stdout);
        assert_eq!(answers.matches("answer: ok").count(), 3, "{answers}");
        let heard = std::fs::read_to_string(heard).unwrap();
        // A call, the file of the name at that moment, and which one the call is for.
        let calls: Vec<(&str, &str, &str)> = heard
            .lines()
            .map(|line| {
                let (named, rest) = line.split_once(' ').unwrap();
                let (call, file) = rest.split_once(' ').unwrap();
                (named, call, file)
            })
            .collect();
        let is_new = |file: &str| file.contains("/.a.db.litepack-");
        let changes = |call: &str| {
            [
                "write",
                "pwrite",
                "pwrite64",
                "ftruncate",
                "ftruncate64",
                "fchmod",
            ]
            .contains(&call)
        };
        let syncs = |call: &str| ["fsync", "fdatasync"].contains(&call);
        let last = |is_it: &dyn Fn(&str) -> bool| {
            let found = calls
                .iter()
                .rposition(|(_, call, file)| is_new(file) && is_it(call));
            found.expect(&heard)
        };
        // It is whole, durable and closed before it has the name.
        let (changed, synced) = (last(&changes), last(&syncs));
        let closed = last(&|call| call == "close");
        assert!(changed < synced && synced < closed, "{heard}");
        assert_eq!(calls[closed].0, "old", "{heard}");
        // It has the name durably before the old one is touched.
        let directory = path.parent().unwrap().to_str().unwrap();
        let durable = |&(named, call, file): &(&str, &str, &str)| {
            named == "new" && call == "fsync" && file == directory
        };
        let durable = calls.iter().position(durable).expect(&heard);
        let is_old = |file: &str| {
            file.strip_suffix(" (deleted)")
                .unwrap_or(file)
                .ends_with("/a.db")
        };
        let touched = |&(named, call, file): &(&str, &str, &str)| {
            is_old(file) && changes(call) && (named == "old" || file.ends_with("(deleted)"))
        };
        let touched = calls.iter().position(touched).expect(&heard);
        assert!(durable < touched, "{heard}");
        // Nothing but the connection's own file is closed there: it would take the locks of others along.
        let closes = |&&(named, call, file): &&(&str, &str, &str)| {
            named == "new" && call == "close" && file.ends_with("/a.db")
        };
        assert_eq!(calls.iter().filter(closes).count(), 1, "{heard}");
    }

    #[test]
    fn a_full_disk_leaves_the_old_file() {
        if !vfs::is_litepack() {
            return vfs::skip_packed();
        }
        let place = Place::new();
        let path = plain(&place);
        let before = place.files();
        assert!(before[0].1.len() > 20 << 10);
        // No file of more than 10 KiB or so.
        let inner = command(
            &path,
            &format!("select 1; pragma rekey = \"{KEY}\"; select * from t"),
        );
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg("trap '' XFSZ; ulimit -f 20; exec \"$0\" \"$@\"");
        command.arg(inner.get_program()).args(inner.get_args());
        command.envs(inner.get_envs().map(|(name, value)| (name, value.unwrap())));
        let run = command.stdin(Stdio::null()).output().unwrap();
        let answers = String::from_utf8_lossy(&run.stdout);
        assert!(answers.contains("answer: the disk is full"), "{answers}");
        assert_eq!(answers.matches("answer: ok").count(), 2, "{answers}");
        assert!(place.files() == before);
        sound(&vfs::open(&path).unwrap());
    }
}

/// A database that is not packed hears no such pragma, as before.
#[test]
fn a_plain_database_hears_nothing() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.path("sqlite.db");
    fill(&vfs::open_plain(&path).unwrap());
    let connection = Connection::open_with_flags(&path, OpenFlags::default()).unwrap();
    let mut asked = connection.prepare("pragma rekey = 'x'").unwrap();
    assert!(asked.query([]).unwrap().next().unwrap().is_none());
}
