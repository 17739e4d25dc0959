//! Packing and unpacking give back what was there, whatever state the source is in.

mod common;

use common::{Place, bytes, fill};

#[test]
fn every_page_size_comes_back_bit_for_bit() {
    for page_size in [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536] {
        let place = Place::new();
        let source = place.database("a.db", page_size, 20_000);
        let before = bytes(&source);
        place.ok(&["pack", "a.db", "a.packed"]);
        place.ok(&["check", "a.packed"]);
        place.ok(&["unpack", "a.packed", "b.db"]);
        assert_eq!(place.names(), ["a.db", "a.packed", "b.db"]);
        assert!(before == bytes(&source) && before == bytes(&place.path("b.db")));
        let packed = bytes(&place.path("a.packed")).len();
        assert!(
            packed * 2 < before.len(),
            "{page_size}: {packed} of {}",
            before.len()
        );
        let info = place.ok(&["info", "--json", "a.packed"]).stdout;
        let info: serde_json::Value = serde_json::from_str(&info).unwrap();
        assert_eq!(info["page_size"], page_size);
        assert_eq!(info["unit_size"], page_size.max(4096));
    }
}

#[test]
fn one_page_and_no_page_and_a_tail() {
    let place = Place::new();
    place.database("one.db", 512, 0);
    std::fs::write(place.path("none.db"), b"").unwrap();
    let source = place.database("tail.db", 4096, 100);
    let mut tail = bytes(&source);
    tail.extend_from_slice(b"something behind the last page");
    std::fs::write(&source, &tail).unwrap();
    for name in ["one.db", "none.db", "tail.db"] {
        place.ok(&["pack", name, "packed", "--force"]);
        place.ok(&["check", "packed"]);
        place.ok(&["info", "packed"]);
        place.ok(&["unpack", "packed", "back", "--force"]);
        assert_eq!(
            bytes(&place.path("back")),
            bytes(&place.path(name)),
            "{name}"
        );
    }
}

#[test]
fn a_wal_is_worked_in() {
    let place = Place::new();
    let db = place.open("a.db");
    db.execute_batch("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;")
        .unwrap();
    fill(&db, 5000);
    assert!(bytes(&place.path("a.db-wal")).len() > 500_000);
    // Another program still has the database open, which does not matter.
    place.ok(&["pack", "a.db", "a.packed"]);
    assert_eq!(bytes(&place.path("a.db-wal")).len(), 0);
    place.ok(&["unpack", "a.packed", "b.db"]);
    assert!(bytes(&place.path("a.db")) == bytes(&place.path("b.db")));
    let rows = place
        .open("b.db")
        .query_row("SELECT count(*) FROM t", [], |row| row.get(0));
    assert_eq!(rows, Ok(5000));
}

#[test]
fn a_hot_journal_is_played_back() {
    let place = Place::new();
    let source = place.database("live.db", 4096, 5000);
    let before = bytes(&source);
    let db = place.open("live.db");
    db.execute_batch("PRAGMA cache_size=5; BEGIN; UPDATE t SET data = upper(data);")
        .unwrap();
    // As a crash would leave it: pages of the transaction in the file, and its journal.
    std::fs::copy(place.path("live.db"), place.path("a.db")).unwrap();
    std::fs::copy(place.path("live.db-journal"), place.path("a.db-journal")).unwrap();
    drop(db);
    assert!(bytes(&place.path("a.db")) != before);
    place.ok(&["pack", "a.db", "a.packed"]);
    assert_eq!(place.names(), ["a.db", "a.packed", "live.db"]);
    place.ok(&["unpack", "a.packed", "b.db"]);
    assert!(bytes(&place.path("b.db")) == before);
}

#[test]
fn in_place_and_back() {
    for mode in ["DELETE", "PERSIST", "WAL"] {
        let place = Place::new();
        let db = place.open("a.db");
        db.execute_batch(&format!("PRAGMA journal_mode={mode};"))
            .unwrap();
        fill(&db, 5000);
        drop(db);
        let names = place.names();
        let before = bytes(&place.path("a.db"));
        place.ok(&["pack", "--in-place", "a.db"]);
        assert_eq!(place.names(), names, "{mode}");
        assert!(
            bytes(&place.path("a.db")).len() < before.len() / 2,
            "{mode}"
        );
        place.refused(&["pack", "--in-place", "a.db"], "already a packed file");
        place.ok(&["check", "a.db"]);
        assert_eq!(place.names(), names, "{mode}");
        place.ok(&["unpack", "--in-place", "a.db"]);
        assert_eq!(place.names(), names, "{mode}");
        assert!(bytes(&place.path("a.db")) == before, "{mode}");
    }
}

/// A program that had the file open, idle, must not go on in a file that has lost its name.
#[test]
fn a_program_that_missed_the_replacement_is_told() {
    litepack::register().unwrap();
    let place = Place::new();
    place.database("a.db", 4096, 100);
    let late = place.open("a.db");
    place.ok(&["pack", "--in-place", "a.db"]);
    let count = "SELECT count(*) FROM t";
    let error = late.query_row(count, [], |_| Ok(())).unwrap_err();
    assert!(error.to_string().contains("not a database"), "{error}");
    let uri = format!("file:{}?vfs=litepack", place.path("a.db").display());
    let late = rusqlite::Connection::open(&uri).unwrap();
    assert_eq!(late.query_row(count, [], |row| row.get(0)), Ok(100));
    place.ok(&["unpack", "--in-place", "a.db"]);
    assert!(late.execute("INSERT INTO t(data) VALUES(1)", []).is_err());
    let rows = place.open("a.db").query_row(count, [], |row| row.get(0));
    assert_eq!(rows, Ok(100));
}

#[test]
fn a_crashed_wal_database_is_packed_in_place() {
    let place = Place::new();
    let db = place.open("live.db");
    db.execute_batch("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;")
        .unwrap();
    fill(&db, 5000);
    for suffix in ["", "-wal", "-shm"] {
        let (from, to) = (format!("live.db{suffix}"), format!("a.db{suffix}"));
        std::fs::copy(place.path(&from), place.path(&to)).unwrap();
    }
    drop(db);
    place.ok(&["pack", "--in-place", "a.db"]);
    assert_eq!(place.names(), ["a.db", "live.db"]);
    place.ok(&["unpack", "a.db", "b.db"]);
    assert!(bytes(&place.path("b.db")) == bytes(&place.path("live.db")));
}

#[test]
fn the_wal_of_a_packed_file_is_worked_in() {
    litepack::register().unwrap();
    let place = Place::new();
    place.database("a.db", 4096, 1000);
    place.ok(&["pack", "a.db", "a.packed"]);
    let uri = format!("file:{}?vfs=litepack", place.path("a.packed").display());
    let db = rusqlite::Connection::open(uri).unwrap();
    db.execute_batch("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;")
        .unwrap();
    fill(&db, 2000);
    place.ok(&["info", "a.packed"]);
    place.ok(&["check", "a.packed"]);
    assert!(
        bytes(&place.path("a.packed-lpw")).len() > 20_000,
        "reports leave the WAL alone"
    );
    place.ok(&["unpack", "a.packed", "b.db"]);
    let rows = place
        .open("b.db")
        .query_row("SELECT count(*) FROM t", [], |row| row.get(0));
    assert_eq!(rows, Ok(3000));
}

#[cfg(unix)]
#[test]
fn names_links_and_permissions() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let place = Place::new();
    let name = "odd ?&#%41 name.db";
    let source = place.database(name, 4096, 1000);
    std::fs::set_permissions(&source, std::fs::Permissions::from_mode(0o640)).unwrap();
    let before = bytes(&source);
    symlink(&source, place.path("link.db")).unwrap();
    place.ok(&["pack", "--in-place", "link.db"]);
    assert!(place.path("link.db").is_symlink());
    assert_eq!(
        source.metadata().unwrap().permissions().mode() & 0o777,
        0o640
    );
    place.ok(&["unpack", name, "plain.db"]);
    assert!(bytes(&place.path("plain.db")) == before);
    assert_eq!(
        place
            .path("plain.db")
            .metadata()
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o640
    );
}

/// Deleted rows leave pages that hold them, which `pack` keeps bit for bit unless it is told otherwise.
#[test]
fn free_pages_are_left_out_if_that_is_wanted() {
    for page_size in [512, 4096, 65536] {
        let place = Place::new();
        place.database("a.db", page_size, 40_000);
        let db = place.open("a.db");
        db.execute_batch("PRAGMA secure_delete=OFF; DELETE FROM t WHERE id > 8000")
            .unwrap();
        let before = bytes(&place.path("a.db"));
        place.ok(&["pack", "a.db", "whole.packed"]);
        let told = place.ok(&["info", "whole.packed"]).stdout;
        assert!(
            told.contains("litepack maintain gives that back"),
            "{page_size}: {told}"
        );
        place.ok(&["pack", "--drop-free-pages", "a.db", "dropped.packed"]);
        let told = place.ok(&["info", "dropped.packed"]).stdout;
        assert!(!told.contains("gives that back"), "{page_size}: {told}");
        let fresh = format!("VACUUM INTO '{}'", place.path("fresh.db").display());
        db.execute_batch(&fresh).unwrap();
        place.ok(&["pack", "fresh.db", "fresh.packed"]);
        let len = |name: &str| bytes(&place.path(name)).len();
        assert!(len("whole.packed") > 2 * len("fresh.packed"), "{page_size}");
        // Pages that hold the list are kept, and in small pages they are many.
        let most = if page_size == 512 { 125 } else { 115 };
        assert!(
            len("dropped.packed") * 100 < len("fresh.packed") * most,
            "{page_size}: {} {}",
            len("dropped.packed"),
            len("fresh.packed")
        );
        // All but those pages is as it was, and those are zeros.
        place.ok(&["unpack", "dropped.packed", "back.db"]);
        let back = bytes(&place.path("back.db"));
        assert_eq!(back.len(), before.len());
        let mut zeros = 0;
        for (back, before) in back
            .chunks(page_size as usize)
            .zip(before.chunks(page_size as usize))
        {
            let is_zero = back.iter().all(|byte| *byte == 0);
            assert!(back == before || is_zero, "{page_size}");
            zeros += usize::from(back != before);
        }
        assert!(zeros > before.len() / page_size as usize / 2, "{page_size}");
        let sound: String = place
            .open("back.db")
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(sound, "ok");
        drop(db);
        place.ok(&["unpack", "whole.packed", "same.db"]);
        assert!(bytes(&place.path("same.db")) == before);
        place.ok(&["pack", "--drop-free-pages", "--in-place", "a.db"]);
        assert_eq!(len("a.db"), len("dropped.packed"));
    }
}

/// With any doubt about the list, nothing is dropped.
#[test]
fn free_pages_of_a_list_in_doubt_are_kept() {
    let place = Place::new();
    place.database("a.db", 4096, 20_000);
    place
        .open("a.db")
        .execute_batch("PRAGMA secure_delete=OFF; DELETE FROM t WHERE id > 2000")
        .unwrap();
    let path = place.path("a.db");
    let mut before = bytes(&path);
    // The first trunk names a page that a table has: the root of `t`.
    let trunk = u32::from_be_bytes(before[32..36].try_into().unwrap()) as usize - 1;
    before[trunk * 4096 + 8..trunk * 4096 + 12].copy_from_slice(&2_u32.to_be_bytes());
    std::fs::write(&path, &before).unwrap();
    let run = place.ok(&["pack", "--drop-free-pages", "a.db", "a.packed"]);
    assert!(
        run.stderr.contains("keeps its free pages"),
        "{}",
        run.stderr
    );
    place.ok(&["unpack", "a.packed", "b.db"]);
    assert!(bytes(&place.path("b.db")) == before);
    // An empty database has none.
    std::fs::write(place.path("empty.db"), b"").unwrap();
    let run = place.ok(&["pack", "--drop-free-pages", "empty.db", "empty.packed"]);
    assert!(!run.stderr.contains("free pages"), "{}", run.stderr);
}
