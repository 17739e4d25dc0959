//! Journals and WALs that lie beside a file when the `litepack` command comes: those that belong to
//! the source are honoured, and none is left that would later be applied to the wrong file.

use litepack_tests::commandline::{JSON_ROWS, Place, copy_elsewhere, read, succeed};
use litepack_tests::programs::run_litepack;
use litepack_tests::{content, vfs};
use std::path::Path;

/// Makes `NAME` and `NAME-wal` (or `-journal`) as a crash of a process would leave them, and gives
/// the content that SQLite finds in it.
fn crashed(place: &Place, name: &str, vfs: &str, sql: &str, suffix: &str) -> content::Fingerprint {
    let live = place.path("live.db");
    let connection = vfs::open_uri(&vfs::uri(&live, vfs, "")).expect("a new database");
    connection
        .execute_batch("pragma synchronous = off; pragma cache_size = 5")
        .expect("pragmas");
    connection.execute_batch(JSON_ROWS).expect("data");
    let before = content::fingerprint(&connection).expect("a scan");
    connection.execute_batch(sql).expect("a transaction");
    let path = place.path(name);
    copy_elsewhere(&live, &path);
    let (from, to) = (format!("live.db{suffix}"), format!("{name}{suffix}"));
    copy_elsewhere(&place.path(&from), &place.path(&to));
    let after = content::fingerprint(&connection).expect("a scan");
    let open = !connection.is_autocommit();
    drop(connection);
    std::fs::remove_file(&live).expect("removable");
    if open { before } else { after }
}

const IN_WAL: &str = "pragma journal_mode = wal; pragma wal_autocheckpoint = 0;
    update t set data = '[\"only in the WAL\"]' where id % 3 = 0;";
const IN_JOURNAL: &str = "begin; update t set data = '[\"never committed\"]' where id % 3 = 0;";

fn content_of(path: &Path) -> content::Fingerprint {
    let connection = vfs::open(path).expect("it opens");
    content::assert_sound(&connection, "after the command");
    content::fingerprint(&connection).expect("a scan")
}

#[test]
fn in_place_packing_takes_in_what_a_crash_left_and_leaves_no_journal() {
    let place = Place::new();
    for (sql, suffix) in [(IN_WAL, "-wal"), (IN_JOURNAL, "-journal")] {
        let content = crashed(&place, "app.db", vfs::PLAIN, sql, suffix);
        let path = place.path("app.db");
        succeed(
            "in place",
            &run_litepack([Path::new("pack"), Path::new("--in-place"), &path]),
        );
        assert!(
            !place.path(&format!("app.db{suffix}")).exists(),
            "the {suffix} is still there"
        );
        assert!(!vfs::looks_plain(&path).expect("readable"));
        assert!(content == content_of(&path), "{suffix}: another content");
        place.assert_only(&["app.db"]);
        std::fs::remove_file(&path).expect("removable");
    }
}

#[test]
fn unpacking_takes_in_the_wal_of_a_packed_file() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let content = crashed(&place, "packed.db", vfs::under_test(), IN_WAL, "-lpw");
    let (packed, back) = (place.path("packed.db"), place.path("back.db"));
    succeed("check", &run_litepack([Path::new("check"), &packed]));
    succeed("info", &run_litepack([Path::new("info"), &packed]));
    succeed(
        "unpack",
        &run_litepack([Path::new("unpack"), &packed, &back]),
    );
    let plain = vfs::open_plain(&back).expect("it opens");
    content::assert_sound(&plain, "the unpacked database");
    assert!(
        content == content::fingerprint(&plain).expect("a scan"),
        "the WAL was left out"
    );
    drop(plain);
    assert!(content == content_of(&packed), "the packed file changed");
}

#[test]
fn a_journal_or_wal_of_a_replaced_destination_is_not_applied_to_the_new_file() {
    let place = Place::new();
    let source = place.make("source.db", &JSON_ROWS.replace("film", "work of art"));
    let packed = place.path("packed.db");
    succeed("pack", &run_litepack([Path::new("pack"), &source, &packed]));
    let force = Path::new("--force");
    let truth = content_of(&source);
    for (sql, suffix) in [(IN_WAL, "-wal"), (IN_JOURNAL, "-journal")] {
        for (command, from) in [("pack", &source), ("unpack", &packed)] {
            crashed(&place, "target.db", vfs::PLAIN, sql, suffix);
            let target = place.path("target.db");
            let output = run_litepack([Path::new(command), from, &target, force]);
            // To refuse is fine too, if nothing is touched.
            if output.status.success() {
                assert!(
                    truth == content_of(&target),
                    "{command}: the old {suffix} was applied"
                );
            } else {
                assert_eq!(
                    output.status.code(),
                    Some(2),
                    "{command} over a live {suffix}"
                );
            }
            for name in [
                "target.db",
                "target.db-wal",
                "target.db-journal",
                "target.db-shm",
            ] {
                let _ = std::fs::remove_file(place.path(name));
            }
        }
    }
    // The same when only the journal is there and the file is not.
    for (command, from) in [("pack", &source), ("unpack", &packed)] {
        crashed(&place, "target.db", vfs::PLAIN, IN_WAL, "-wal");
        let target = place.path("target.db");
        std::fs::remove_file(&target).expect("removable");
        let output = run_litepack([Path::new(command), from, &target]);
        if output.status.success() {
            assert!(
                truth == content_of(&target),
                "{command}: an orphaned WAL was applied"
            );
        }
        for name in ["target.db", "target.db-wal", "target.db-shm"] {
            let _ = std::fs::remove_file(place.path(name));
        }
    }
    assert_eq!(read(&source).len() % 512, 0);
}
