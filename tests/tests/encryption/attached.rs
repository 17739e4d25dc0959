//! What is attached, copied and kept beside an encrypted database.

use std::path::Path;

use litepack_tests::vfs;
use rusqlite::backup::Backup;
use rusqlite::{Connection, ErrorCode};

use crate::place::{CANARY, IN_URI, KEY, Place, count, failure, fill, open};

const OTHER: &str = "another passphrase";

fn uri(path: &Path) -> String {
    vfs::uri(path, vfs::under_test(), "")
}

fn attach(connection: &Connection, path: &Path, key: &str) -> rusqlite::Result<String> {
    let sql = "select litepack_attach(?1, 'other', ?2)";
    connection.query_row(sql, [path.to_str().unwrap(), key], |row| row.get(0))
}

fn count_in(connection: &Connection, schema: &str) -> rusqlite::Result<u32> {
    let sql = format!("select count(*) from {schema}.t where b like '{CANARY}%'");
    connection.query_row(&sql, [], |row| row.get(0))
}

#[test]
fn a_key_that_attach_drops_leads_to_no_plain_file() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let connection = vfs::open(&place.path("main.db")).unwrap();
    connection.execute_batch("create table x(y)").unwrap();
    let new = place.path("new.db");
    let attached = connection.execute("attach ? as other key 'secret'", [uri(&new)]);
    attached.unwrap_err();
    assert!(connection.execute_batch("create table other.t(x)").is_err());
    assert!(!new.exists() || std::fs::read(&new).unwrap().is_empty());
    // Without the word it is a database in plain.
    connection
        .execute("attach ? as \"key\"", [uri(&new)])
        .unwrap();
    connection
        .execute_batch("create table \"key\".t(x)")
        .unwrap();
    // An encrypted one is not opened without its key.
    let path = place.filled("a.db");
    for sql in ["attach ? as other", "attach ? as other key 'secret'"] {
        let (code, _) = failure(connection.execute(sql, [uri(&path)]));
        assert_eq!(code, ErrorCode::NotADatabase);
    }
}

#[test]
fn a_database_is_attached_with_its_key_or_that_of_main() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.filled("a.db");
    let plain = vfs::open(&place.path("main.db")).unwrap();
    assert!(failure(attach(&plain, &path, OTHER)).0 == ErrorCode::NotADatabase);
    assert_eq!(attach(&plain, &path, KEY).unwrap(), "ok");
    assert_eq!(count_in(&plain, "other").unwrap(), 500);
    plain.execute_batch("detach other").unwrap();
    let name = vfs::uri(&path, vfs::under_test(), IN_URI);
    plain.execute("attach ? as other", [name]).unwrap();
    assert_eq!(count_in(&plain, "other").unwrap(), 500);
    plain.execute_batch("detach other").unwrap();
    // A new one.
    let new = place.path("new.db");
    attach(&plain, &new, OTHER).unwrap();
    let sql =
        format!("create table other.t(a, b, c); insert into other.t values (1, '{CANARY}', 0)");
    plain.execute_batch(&sql).unwrap();
    drop(plain);
    assert_eq!(count(&open(&new, OTHER).unwrap()).unwrap(), 1);
    // A database that is not encrypted.
    let main = open(&path, KEY).unwrap();
    let in_plain = place.path("plain.db");
    vfs::open(&in_plain)
        .unwrap()
        .execute_batch("create table x(y)")
        .unwrap();
    failure(attach(&main, &in_plain, KEY));
    // With that of main, if no other is given.
    let second = place.filled("b.db");
    main.execute("attach ? as other", [uri(&second)]).unwrap();
    assert_eq!(count_in(&main, "other").unwrap(), 500);
    let third = place.path("c.db");
    main.execute("attach ? as third", [uri(&third)]).unwrap();
    let sql =
        format!("create table third.t(a, b, c); insert into third.t values (1, '{CANARY}', 0)");
    main.execute_batch(&sql).unwrap();
    drop(main);
    assert_eq!(count(&open(&third, KEY).unwrap()).unwrap(), 1);
    assert!(failure(vfs::open(&third).and_then(|c| count(&c))).0 == ErrorCode::NotADatabase);
    assert!(place.is_silent());
}

#[test]
fn vacuum_into_takes_the_key_of_what_it_copies() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.filled("a.db");
    let connection = open(&path, KEY).unwrap();
    for (number, name) in ["1.db", "2.db"].iter().enumerate() {
        let copy = place.path(name);
        // By the name alone, and as a URI.
        let into = if number == 0 {
            copy.to_str().unwrap().to_owned()
        } else {
            uri(&copy)
        };
        connection.execute("vacuum into ?", [into]).unwrap();
        assert_eq!(count(&open(&copy, KEY).unwrap()).unwrap(), 500);
    }
    // Of one that is attached to a database in plain.
    let plain = vfs::open(&place.path("main.db")).unwrap();
    attach(&plain, &path, KEY).unwrap();
    plain
        .execute("vacuum other into ?", [uri(&place.path("3.db"))])
        .unwrap();
    assert_eq!(
        count(&open(&place.path("3.db"), KEY).unwrap()).unwrap(),
        500
    );
    connection.execute_batch("vacuum").unwrap();
    assert_eq!(count(&connection).unwrap(), 500);
    assert!(place.is_silent());
}

/// Main's key may come when something is attached already, and a key may have been withdrawn by another connection.
#[test]
fn a_new_database_has_the_key_that_main_has_by_then() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let main = vfs::open(&place.path("main.db")).unwrap();
    let new = place.path("new.db");
    main.execute("attach ? as other", [uri(&new)]).unwrap();
    assert!(count_in(&main, "other").is_err());
    main.execute_batch(&format!("pragma main.key = \"{KEY}\""))
        .unwrap();
    let sql =
        format!("create table other.t(a, b, c); insert into other.t values (1, '{CANARY}', 0)");
    main.execute_batch(&sql).unwrap();
    drop(main);
    assert_eq!(count(&open(&new, KEY).unwrap()).unwrap(), 1);
    let path = place.filled("a.db");
    for mode in ["delete", "wal"] {
        let (one, two) = (open(&path, KEY).unwrap(), open(&path, KEY).unwrap());
        one.execute_batch(&format!("pragma journal_mode = {mode}"))
            .unwrap();
        assert_eq!(count(&two).unwrap() + count(&one).unwrap(), 1000);
        one.execute_batch(&format!("pragma rekey = '{OTHER}'"))
            .unwrap();
        let copy = place.path(&format!("{mode}.db"));
        failure(two.execute("vacuum into ?", [uri(&copy)]));
        assert!(!copy.exists() || std::fs::read(&copy).unwrap().is_empty());
        let again = open(&path, OTHER).unwrap();
        for sql in ["vacuum into ?", ";vacuum main into ?"] {
            let _ = std::fs::remove_file(&copy);
            again.execute(sql, [uri(&copy)]).unwrap();
            assert_eq!(count(&open(&copy, OTHER).unwrap()).unwrap(), 500);
        }
        again
            .execute_batch(&format!("pragma rekey = \"{KEY}\""))
            .unwrap();
    }
}

/// A rekey is followed by closing: SQLite checkpoints then, and nothing is looked at any more.
#[test]
fn a_wal_goes_when_its_database_is_closed_after_rekey() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.filled("a.db");
    let main = vfs::open(&place.path("main.db")).unwrap();
    attach(&main, &path, KEY).unwrap();
    main.execute_batch("pragma other.journal_mode = wal; insert into other.t(b) values ('x')")
        .unwrap();
    assert!(place.path("a.db-lpw").exists());
    main.execute_batch(&format!("pragma other.rekey = '{OTHER}'"))
        .unwrap();
    drop(main);
    assert!(!place.path("a.db-lpw").exists());
    assert_eq!(count(&open(&path, OTHER).unwrap()).unwrap(), 500);
}

#[test]
fn a_backup_has_the_key_of_its_destination() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let source = open(&place.filled("a.db"), KEY).unwrap();
    let copy = place.path("copy.db");
    let mut destination = open(&copy, OTHER).unwrap();
    Backup::new(&source, &mut destination)
        .and_then(|backup| backup.run_to_completion(100, std::time::Duration::ZERO, None))
        .unwrap();
    drop(destination);
    assert_eq!(count(&open(&copy, OTHER).unwrap()).unwrap(), 500);
    assert!(place.is_silent());
    // From one in plain.
    let plain = vfs::open(&place.path("plain.db")).unwrap();
    fill(&plain);
    let mut destination = open(&copy, OTHER).unwrap();
    Backup::new(&plain, &mut destination)
        .and_then(|backup| backup.run_to_completion(100, std::time::Duration::ZERO, None))
        .unwrap();
    drop((plain, destination));
    std::fs::remove_file(place.path("plain.db")).unwrap();
    assert_eq!(count(&open(&copy, OTHER).unwrap()).unwrap(), 500);
    assert!(place.is_silent());
}

#[test]
fn an_encrypted_database_is_not_attached_where_temporary_files_are_in_plain() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.filled("a.db");
    let plain = vfs::open_plain(&place.path("main.db")).unwrap();
    plain.execute_batch("create table x(y)").unwrap();
    let name = |more: &str| vfs::uri(&path, vfs::under_test(), &format!("{IN_URI}{more}"));
    let (code, _) = failure(plain.execute("attach ? as other", [name("")]));
    assert_eq!(code, ErrorCode::ApiMisuse);
    plain
        .execute("attach ? as other", [name("&plain_temp=1")])
        .unwrap();
    assert_eq!(count_in(&plain, "other").unwrap(), 500);
}
