//! `litepack adopt`: what it finds and says, and that each database it packs comes back; what it refuses, with every file
//! as it was; and the states that a killed call leaves.
#![cfg(unix)]

mod common;

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use common::{Place, Run, bytes};
use litepack_skip::{Expected, skip};

const KEPT: &str = "a.db.litepack-original";

/// A database of more than a mebibyte with tables of these names, and what it is worth packing for.
fn database(place: &Place, name: &str, tables: &[&str]) {
    let path = place.path(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let db = rusqlite::Connection::open(path).unwrap();
    for table in tables {
        db.execute_batch(&format!("create table \"{table}\"(a, b)"))
            .unwrap();
    }
    common::fill(&db, 12_000);
}

fn rows(path: &Path) -> u32 {
    let db = rusqlite::Connection::open(path).unwrap();
    let check = "pragma integrity_check";
    let sound: String = db.query_row(check, [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    db.query_row("select count(*) from t", [], |row| row.get(0))
        .unwrap()
}

fn write(path: &Path) {
    let db = litepack::open(path).unwrap();
    db.execute_batch("insert into t(data) values ('new')")
        .unwrap();
}

fn is_packed(path: &Path) -> bool {
    !bytes(path).starts_with(b"SQLite format 3\0")
}

/// An error that begins with the file, and nothing is changed.
fn refused(place: &Place, file: &str, words: &str) {
    place.refused(&["adopt", "--pack", file], words);
}

#[test]
fn what_is_found_is_said_and_nothing_is_changed() {
    let place = Place::new();
    database(&place, "wc.db", &["NODES", "WCROOT", "REPOSITORY"]);
    database(
        &place,
        "History",
        &["urls", "visits", "keyword_search_terms"],
    );
    database(&place, "other.db", &[]);
    place.database("small.db", 4096, 10);
    std::fs::write(place.path("text.db"), "no database").unwrap();
    let db = place.open("small.db");
    db.execute_batch("pragma journal_mode=wal").unwrap();
    drop(db);
    let (names, before) = (place.names(), bytes(&place.path("wc.db")));
    let run = place.ok(&["adopt", "."]);
    for words in [
        "Subversion; packed about",
        "opens packed files: yes, start it by `litepack run`",
        "opens packed files: no, it has a SQLite of its own",
        "not known whose; packed about",
        "which is not worth it",
    ] {
        assert!(run.stdout.contains(words), "{words}: {}", run.stdout);
    }
    assert!(run.stderr.starts_with("4 databases, "), "{}", run.stderr);
    assert!(
        run.stderr.contains("; 2 could be packed in place: "),
        "{}",
        run.stderr
    );
    let run = place.ok(&["adopt", "--json", ".", "wc.db"]);
    let json: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let found = json.as_array().unwrap();
    assert_eq!(found.len(), 5);
    let svn = &found[4];
    assert_eq!(
        (&svn["file"], &svn["program"], &svn["opens"], &svn["state"]),
        (
            &"wc.db".into(),
            &"Subversion".into(),
            &"yes".into(),
            &"plain".into()
        )
    );
    assert!(svn["packed_bytes"].as_u64().unwrap() * 2 < svn["bytes"].as_u64().unwrap());
    assert_eq!(svn["is_worthwhile"], true);
    assert!(svn["obstacle"].is_null() && svn["error"].is_null() && svn["kept"].is_null());
    assert_eq!(place.ok(&["adopt", "--json", "--undo", "."]).stdout, "[]\n");
    assert_eq!(place.names(), names);
    assert!(bytes(&place.path("wc.db")) == before);
}

#[test]
fn one_that_was_not_written_comes_back_bit_for_bit() {
    let place = Place::new();
    let path = place.database("a.db", 4096, 3000);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let before = bytes(&path);
    let run = place.ok(&["adopt", "--pack", "a.db"]);
    assert!(
        run.stdout
            .contains("the original is a.db.litepack-original"),
        "{run:?}"
    );
    assert!(is_packed(&path) && bytes(&place.path(KEPT)) == before);
    for name in ["a.db", KEPT] {
        let mode = place.path(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640, "{name}");
    }
    assert!(
        place
            .ok(&["adopt", "."])
            .stdout
            .contains("packed; the original is ./a.db.litepack-original")
    );
    // Once more is no harm.
    assert!(
        place
            .ok(&["adopt", "--pack", "a.db"])
            .stdout
            .contains("packed before")
    );
    let run = place.ok(&["adopt", "--undo", "a.db"]);
    assert!(
        run.stdout.contains("it is the original, bit for bit"),
        "{run:?}"
    );
    assert!(bytes(&path) == before);
    assert_eq!(place.names(), ["a.db"]);
}

/// What is under the database's name may be the only original, or a stranger's.
#[test]
fn an_original_stays_where_something_else_has_the_name() {
    litepack::register().unwrap();
    let place = Place::new();
    let path = place.database("a.db", 4096, 1000);
    let before = bytes(&path);
    place.ok(&["adopt", "--pack", "a.db"]);
    let packed = bytes(&path);
    // A program has opened the original.
    std::fs::write(place.path(&format!("{KEPT}-wal")), "frames").unwrap();
    for then in ["--undo", "--forget"] {
        place.refused(&["adopt", then, "a.db"], "has opened the original");
    }
    std::fs::remove_file(place.path(&format!("{KEPT}-wal"))).unwrap();
    assert!(bytes(&path) == packed);
    // A link to it.
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(KEPT, &path).unwrap();
    for then in ["--undo", "--forget"] {
        place.refused(&["adopt", then, "a.db"], "is not a file of its own");
    }
    assert!(bytes(&place.path(KEPT)) == before);
    // Another database.
    std::fs::remove_file(&path).unwrap();
    place.database("a.db", 4096, 3);
    place.refused(&["adopt", "--undo", "a.db"], "is not its original");
    assert!(bytes(&place.path(KEPT)) == before);
}

#[test]
fn what_was_written_since_stays_and_the_original_until_it_is_let_go() {
    litepack::register().unwrap();
    let place = Place::new();
    let path = place.database("a.db", 4096, 3000);
    let before = bytes(&path);
    place.ok(&["adopt", "--pack", "a.db"]);
    write(&path);
    let run = place.ok(&["adopt", "--json", "--undo", "a.db"]);
    let json: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(json[0]["done"], "plain, and newer");
    assert!(!is_packed(&path) && bytes(&place.path(KEPT)) == before);
    assert_eq!(rows(&path), 3001);
    // It has another content than the database, so it is not overwritten, nor deleted by the way.
    refused(&place, "a.db", "is not what a.db is now");
    // Neither is it, if it is named: what is there may be another program's new database.
    for named in [".", "a.db"] {
        place.refused(&["adopt", "--forget", named], "delete the other yourself");
    }
    assert!(
        place
            .ok(&["adopt", "."])
            .stdout
            .contains("plain, and an original is kept")
    );
    std::fs::remove_file(place.path(KEPT)).unwrap();
    assert_eq!(rows(&path), 3001);
    place.ok(&["adopt", "--pack", "a.db"]);
    place.ok(&["adopt", "--forget", "."]);
    assert!(is_packed(&path));
    assert_eq!(place.names(), ["a.db"]);
    place.refused(&["adopt", "--undo", "a.db"], "no original that is kept");
    place.refused(&["adopt", "--forget", "a.db"], "no original that is kept");
}

/// Below a directory only what is known to go well is packed, and undone is only what was packed so.
#[test]
fn a_directory_is_taken_with_care() {
    let place = Place::new();
    database(
        &place,
        "home/x/.svn/wc.db",
        &["NODES", "WCROOT", "REPOSITORY"],
    );
    database(&place, "home/places.sqlite", &["moz_places"]);
    database(
        &place,
        "home/calibre/metadata.db",
        &["books", "books_authors_link", "custom_columns"],
    );
    database(&place, "home/mine.db", &[]);
    database(
        &place,
        "sync/x/.svn/wc.db",
        &["NODES", "WCROOT", "REPOSITORY"],
    );
    std::fs::create_dir(place.path("sync/.stfolder")).unwrap();
    place.database("home/.svn.db", 4096, 10);
    place.database("packed.db", 4096, 10);
    place.ok(&["pack", "--in-place", "packed.db"]);
    let before = bytes(&place.path("home/x/.svn/wc.db"));
    let run = place.ok(&["adopt", "--pack", "."]);
    for words in [
        "./home/x/.svn/wc.db: packed: ",
        "./home/places.sqlite: left: Firefox cannot open packed files",
        "./home/calibre/metadata.db: left: it depends on how",
        "./home/mine.db: left: it is not known whose it is",
        "./sync/x/.svn/wc.db: left: Syncthing copies ",
        "./packed.db: left: it is packed",
    ] {
        assert!(run.stdout.contains(words), "{words}: {}", run.stdout);
    }
    assert!(is_packed(&place.path("home/x/.svn/wc.db")));
    for name in ["home/places.sqlite", "home/mine.db", "sync/x/.svn/wc.db"] {
        assert!(!is_packed(&place.path(name)), "{name}");
    }
    place.ok(&[
        "adopt",
        "--pack",
        "home/calibre/metadata.db",
        "home/mine.db",
    ]);
    let run = place.ok(&["adopt", "--undo", "."]);
    assert_eq!(run.stdout.lines().count(), 3, "{run:?}");
    assert!(bytes(&place.path("home/x/.svn/wc.db")) == before);
    assert!(is_packed(&place.path("packed.db")));
}

#[test]
fn what_could_not_be_undone_is_refused() {
    let place = Place::new();
    let path = place.database("a.db", 4096, 1000);
    std::os::unix::fs::symlink("a.db", place.path("link.db")).unwrap();
    refused(&place, "link.db", "it is a symbolic link");
    std::fs::hard_link(&path, place.path("second.db")).unwrap();
    refused(&place, "a.db", "it has 1 more names (hard links)");
    std::fs::remove_file(place.path("second.db")).unwrap();
    refused(&place, "missing.db", "missing.db does not exist");
    std::fs::write(place.path("text"), "no database").unwrap();
    refused(&place, "text", "not a SQLite database");
    std::fs::write(place.path("empty"), "").unwrap();
    refused(&place, "empty", "empty is empty");
    std::fs::create_dir(place.path(KEPT)).unwrap();
    refused(&place, "a.db", "is not an ordinary file");
    std::fs::remove_dir(place.path(KEPT)).unwrap();
    place.ok(&["pack", "a.db", "packed.db"]);
    refused(&place, "packed.db", "is a packed file already");
    std::fs::rename(place.path("a.db"), place.path(KEPT)).unwrap();
    place.refused(
        &["adopt", "--undo", "a.db"],
        "a.db does not exist; its original is",
    );
    refused(&place, KEPT, "is the original of a.db");
    assert!(
        place
            .ok(&["adopt", "."])
            .stdout
            .contains("give it that name")
    );
}

#[test]
fn what_others_copy_is_refused() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("cloud/app")).unwrap();
    place.database("cloud/app/a.db", 4096, 1000);
    std::fs::write(place.path("cloud/.sync_0123.db"), "").unwrap();
    refused(&place, "cloud/app/a.db", "Nextcloud copies ");
    std::fs::remove_file(place.path("cloud/.sync_0123.db")).unwrap();
    place.ok(&["adopt", "--pack", "cloud/app/a.db"]);
}

/// It would take the packed file for damaged, and put a new database there.
#[test]
fn what_its_program_cannot_open_is_refused() {
    let place = Place::new();
    database(&place, "places.sqlite", &["moz_places"]);
    refused(
        &place,
        "places.sqlite",
        "Firefox cannot open packed files: it has a SQLite of its own",
    );
}

#[test]
fn what_is_in_use_is_refused() {
    let place = Place::new();
    place.database("a.db", 4096, 1000);
    let in_use = |how: &str| {
        let names = place.names();
        let run = place.run(&["adopt", how, "a.db"]);
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.stderr.contains("in use by another program"), "{run:?}");
        assert_eq!(place.names(), names);
    };
    let db = place.open("a.db");
    db.execute_batch("begin immediate").unwrap();
    in_use("--pack");
    db.execute_batch("rollback; select count(*) from t")
        .unwrap();
    if cfg!(target_os = "linux") {
        // Open and idle, which no lock shows.
        in_use("--pack");
    }
    drop(db);
    place.ok(&["adopt", "--pack", "a.db"]);
    litepack::register().unwrap();
    let db = litepack::open(place.path("a.db")).unwrap();
    db.execute_batch("begin immediate").unwrap();
    in_use("--undo");
    db.execute_batch("rollback").unwrap();
    if cfg!(target_os = "linux") {
        in_use("--undo");
    }
}

/// The copy and the packed file have to be there at once.
#[test]
fn what_has_no_room_for_both_is_refused() {
    let place = Place::new();
    let path = place.database("a.db", 4096, 1000);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let was = file.metadata().unwrap().len();
    // A hole, which takes no room.
    file.set_len(8 << 40).unwrap();
    let run = place.run(&["adopt", "--pack", "a.db"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("there is no room for both"), "{run:?}");
    assert_eq!(place.names(), ["a.db"]);
    file.set_len(was).unwrap();
    drop(file);
    place.ok(&["adopt", "--pack", "a.db"]);
}

/// SQLite would drop such a file, or apply it to the new one.
#[test]
fn what_lies_beside_it_and_cannot_be_applied_is_refused() {
    let place = Place::new();
    place.database("a.db", 4096, 1000);
    for (name, words) in [
        (
            "a.db-wal",
            "a.db-wal holds something that SQLite cannot apply",
        ),
        (
            "a.db-journal",
            "a.db-journal holds something that SQLite cannot apply",
        ),
        ("a.db-lpw", "a.db-lpw exists"),
    ] {
        std::fs::write(place.path(name), "precious").unwrap();
        refused(&place, "a.db", words);
        std::fs::remove_file(place.path(name)).unwrap();
    }
    place.ok(&["adopt", "--pack", "a.db"]);
}

/// What a killed program left is recovered first, and is part of the original.
#[test]
fn a_wal_is_brought_in_first() {
    let place = Place::new();
    let db = place.open("live.db");
    db.execute_batch("pragma journal_mode=wal; create table t(a); pragma wal_checkpoint; insert into t values (1), (2)")
        .unwrap();
    for suffix in ["", "-wal"] {
        std::fs::copy(
            place.path(&format!("live.db{suffix}")),
            place.path(&format!("a.db{suffix}")),
        )
        .unwrap();
    }
    drop(db);
    place.ok(&["adopt", "--pack", "a.db"]);
    assert_eq!(rows(&place.path(KEPT)), 2);
    let kept = bytes(&place.path(KEPT));
    place.ok(&["adopt", "--undo", "a.db"]);
    assert!(bytes(&place.path("a.db")) == kept);
    assert_eq!(rows(&place.path("a.db")), 2);
}

/// Not every name is text.
#[test]
fn a_name_that_is_no_text_does_not_end_the_run() {
    use std::os::unix::ffi::OsStrExt as _;
    let place = Place::new();
    place.database("b.db", 4096, 1000);
    std::fs::create_dir(place.path("d")).unwrap();
    let name = std::ffi::OsStr::from_bytes(b"d/\xff.db");
    std::fs::copy(place.path("b.db"), place.path("d").join("x")).unwrap();
    let path = place.path("").join(name);
    std::fs::rename(place.path("d/x"), &path).unwrap();
    let files = |arguments: &[&str]| {
        let json: serde_json::Value = serde_json::from_str(&place.ok(arguments).stdout).unwrap();
        let found = json.as_array().unwrap().iter();
        let mut names: Vec<String> = found
            .map(|found| found["file"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    };
    let both = ["./b.db", "./d/\u{fffd}.db"];
    assert_eq!(files(&["adopt", "--json", "."]), both);
    let mut command = place.command(&["adopt", "--json", "--pack"]);
    let run = Run::of(command.arg(name).output().unwrap());
    assert!(run.code == 0 && is_packed(&path), "{run:?}");
    assert_eq!(files(&["adopt", "--json", "."]), both);
    assert_eq!(files(&["adopt", "--json", "--undo", "."]), both[1..]);
    let mut command = place.command(&["advise", "--json"]);
    let run = Run::of(command.arg(name).output().unwrap());
    assert!(
        run.code == 0 && run.stdout.contains("\u{fffd}.db"),
        "{run:?}"
    );
}

/// It may be the only copy.
#[test]
fn an_original_is_told_of_whatever_is_left_of_its_database() {
    let place = Place::new();
    let path = place.database("a.db", 4096, 1000);
    place.ok(&["adopt", "--pack", "a.db"]);
    for left in [Some("no database"), Some(""), None] {
        match left {
            Some(text) => std::fs::write(&path, text).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        let run = place.ok(&["adopt", "."]);
        assert!(
            run.stdout
                .contains("no database any more; give it that name"),
            "{run:?}"
        );
        for then in ["--undo", "--forget"] {
            place.refused(&["adopt", then, "."], "is an original, and ");
        }
        assert!(place.path(KEPT).exists());
    }
}

/// The other names would keep the packed file.
#[test]
fn one_that_has_other_names_by_now_is_not_made_plain() {
    let place = Place::new();
    let path = place.database("a.db", 4096, 1000);
    place.ok(&["adopt", "--pack", "a.db"]);
    std::fs::hard_link(&path, place.path("second.db")).unwrap();
    place.refused(
        &["adopt", "--undo", "a.db"],
        "it has 1 more names (hard links)",
    );
    std::fs::remove_file(place.path("second.db")).unwrap();
    // A folder that is copied by now is no reason: it is better off with a plain one.
    std::fs::create_dir(place.path(".stfolder")).unwrap();
    place.ok(&["adopt", "--undo", "a.db"]);
}

const NOBODY: u32 = 65534;

/// A copy of the command that everybody can start in a directory where everybody may write. `None` if whoever runs this
/// cannot become somebody else.
fn for_everybody(place: &Place) -> Option<std::path::PathBuf> {
    if !rustix::process::geteuid().is_root() {
        skip(Expected::ByChoice, "only root can become somebody else");
        return None;
    }
    allow(place, "", 0o777);
    let program = tempfile::Builder::new()
        .prefix("litepack")
        .tempfile()
        .unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_litepack"), program.path()).unwrap();
    let (file, path) = program.keep().unwrap();
    drop(file);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    Some(path)
}

fn allow(place: &Place, name: &str, mode: u32) {
    let mode = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(place.path(name), mode).unwrap();
}

fn by_nobody(place: &Place, program: &Path, arguments: &[&str]) -> Run {
    let mut command = place.command_at(program, arguments);
    Run::of(command.uid(NOBODY).gid(NOBODY).output().unwrap())
}

/// The new file would be of who replaces it, and its permissions would say something else.
#[test]
fn a_file_of_another_user_is_not_replaced_in_place() {
    let place = Place::new();
    let Some(program) = for_everybody(&place) else {
        return;
    };
    let path = place.database("a.db", 4096, 100);
    std::fs::write(place.path("key"), "secret").unwrap();
    place.ok(&["pack", "a.db", "packed.db"]);
    for name in ["a.db", "packed.db"] {
        allow(&place, name, 0o666);
    }
    let (names, before) = (place.names(), bytes(&path));
    for arguments in [
        &["pack", "--in-place", "a.db"][..],
        &["unpack", "--in-place", "packed.db"],
        &["rekey", "--new-key-file", "key", "packed.db"],
    ] {
        let run = by_nobody(&place, &program, arguments);
        assert!(
            run.code == 2 && run.stderr.contains("belongs to user 0 and group 0"),
            "{run:?}"
        );
        assert_eq!(place.names(), names);
    }
    assert!(bytes(&path) == before);
    // One that was adopted by its owner.
    place.ok(&["adopt", "--pack", "a.db"]);
    let run = by_nobody(&place, &program, &["adopt", "--undo", "a.db"]);
    assert!(
        run.stderr.contains("belongs to another user (0)"),
        "{run:?}"
    );
    assert!(is_packed(&path) && place.path(KEPT).exists());
    // A copy cannot have the group, so that group and all others may do no more than both could.
    allow(&place, "packed.db", 0o664);
    let run = by_nobody(&place, &program, &["unpack", "packed.db", "b.db"]);
    assert_eq!(run.code, 0, "{run:?}");
    let mode = place.path("b.db").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    std::fs::remove_file(program).unwrap();
}

/// What is in such a directory is not undone.
#[test]
fn a_directory_that_cannot_be_read_is_an_error_where_all_is_asked_for() {
    let place = Place::new();
    let Some(program) = for_everybody(&place) else {
        return;
    };
    std::fs::create_dir(place.path("d")).unwrap();
    allow(&place, "d", 0o700);
    for (then, code) in [("--undo", 2), ("--forget", 2), ("--pack", 0), ("--json", 0)] {
        let run = by_nobody(&place, &program, &["adopt", then, "."]);
        assert_eq!(run.code, code, "{then}: {run:?}");
        assert!(run.stderr.contains("./d is left out"), "{run:?}");
    }
    std::fs::remove_file(program).unwrap();
}

/// Its mask would allow those in the list what the permissions allow the group.
#[cfg(target_os = "linux")]
#[test]
fn in_a_directory_with_an_access_list_a_new_file_gives_nobody_more() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    let place = Place::new();
    std::fs::write(place.path("key"), "secret").unwrap();
    place.database("a.db", 4096, 100);
    allow(&place, "a.db", 0o640);
    // The owner, a user who is named, the group, the most of both, all others.
    let entries = [
        (1_u16, 7_u16, u32::MAX),
        (2, 7, 4711),
        (4, 7, u32::MAX),
        (16, 7, u32::MAX),
        (32, 0, u32::MAX),
    ];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, may, id) in entries {
        list.extend([tag.to_le_bytes(), may.to_le_bytes()].concat());
        list.extend(id.to_le_bytes());
    }
    if let Err(why) = setxattr(
        place.path(""),
        "system.posix_acl_default",
        &list,
        XattrFlags::empty(),
    ) {
        return skip(Expected::ByChoice, why);
    }
    for arguments in [
        &["pack", "--in-place", "a.db"][..],
        &["rekey", "--new-key-file", "key", "a.db"],
        &["unpack", "--in-place", "--key-file", "key", "a.db"],
        &["pack", "a.db", "b.db"],
        &["adopt", "--pack", "a.db"],
        &["adopt", "--undo", "a.db"],
    ] {
        place.ok(arguments);
        for name in ["a.db", "b.db", KEPT] {
            if let Ok(found) = place.path(name).metadata() {
                let mode = found.permissions().mode() & 0o777;
                let has_list =
                    getxattr(place.path(name), "system.posix_acl_access", &mut [0; 99]).is_ok();
                assert_eq!((mode, has_list), (0o640, false), "{arguments:?}: {name}");
            }
        }
    }
}

/// Neither may a user pack what would then be another's, nor in a directory that cannot be written.
#[test]
fn without_rights_it_is_refused() {
    let place = Place::new();
    std::fs::create_dir(place.path("d")).unwrap();
    place.database("d/a.db", 4096, 1000);
    let allow = |name: &str, mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(place.path(name), mode).unwrap();
    };
    allow("", 0o755);
    allow("d", 0o555);
    let before = bytes(&place.path("d/a.db"));
    let is_root = rustix::process::geteuid().is_root();
    let program = place.path("litepack");
    std::fs::copy(env!("CARGO_BIN_EXE_litepack"), &program).unwrap();
    let pack = |user: u32| {
        let mut command = place.command_at(&program, &["adopt", "--pack", "d/a.db"]);
        if is_root {
            command.uid(user).gid(user);
        }
        Run::of(command.output().unwrap())
    };
    if is_root {
        allow("d", 0o777);
        allow("d/a.db", 0o666);
        let run = pack(NOBODY);
        assert!(
            run.stderr.contains("belongs to another user (0)"),
            "{run:?}"
        );
        std::os::unix::fs::chown(place.path("d/a.db"), Some(NOBODY), Some(0)).unwrap();
        let run = pack(NOBODY);
        assert!(
            run.stderr.contains("a group that you are not in (0)"),
            "{run:?}"
        );
        std::os::unix::fs::chown(place.path("d/a.db"), Some(NOBODY), Some(NOBODY)).unwrap();
        allow("d", 0o755);
    }
    let run = pack(NOBODY);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains(" cannot be written: "), "{run:?}");
    let found = std::fs::read_dir(place.path("d")).unwrap().count();
    assert!(bytes(&place.path("d/a.db")) == before && found == 1);
    allow("d", 0o777);
    let run = pack(NOBODY);
    assert_eq!(run.code, 0, "{run:?}");
}

/// No file can take the name of one that is mounted there.
#[cfg(target_os = "linux")]
#[test]
fn what_is_mounted_by_itself_is_refused() {
    let place = Place::new();
    place.database("a.db", 4096, 1000);
    let Ok(other) = tempfile::tempdir_in("/dev/shm") else {
        return skip(Expected::ByChoice, "there is no /dev/shm");
    };
    std::fs::copy(place.path("a.db"), other.path().join("b.db")).unwrap();
    let script = "mount --bind \"$1\" a.db || exit 77; exec \"$2\" adopt --pack a.db";
    let run = std::process::Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(other.path().join("b.db"))
        .arg(env!("CARGO_BIN_EXE_litepack"))
        .current_dir(place.path(""))
        .output();
    let Ok(run) = run else {
        return skip(Expected::ByChoice, "there is no unshare");
    };
    if run.status.code() != Some(2) || !run.stderr.starts_with(b"litepack: ") {
        let why = String::from_utf8_lossy(&run.stderr);
        assert_ne!(run.status.code(), Some(0), "{why}");
        return skip(Expected::ByChoice, why);
    }
    let why = String::from_utf8(run.stderr).unwrap();
    assert!(why.contains("it is mounted by itself"), "{why}");
}

/// Each state that a call leaves that is killed: the next one finds it and goes on.
#[test]
fn a_killed_call_is_gone_on_with() {
    let place = Place::new();
    let path = place.database("a.db", 4096, 1000);
    let before = bytes(&path);
    place.ok(&["pack", "a.db", "packed"]);
    let packed = bytes(&place.path("packed"));
    std::fs::remove_file(place.path("packed")).unwrap();
    let temporary = |target: &str| format!(".{target}.litepack-00000000712d6de8");
    let clean = |place: &Place| {
        for name in place.names() {
            std::fs::remove_file(place.path(&name)).unwrap();
        }
    };
    // While one of the two files was written; when the original had its second name; when the packed file had the first;
    // when the database was plain again.
    for (now, is_kept) in [
        (&before, false),
        (&before, true),
        (&packed, true),
        (&before, true),
    ] {
        for then in ["--pack", "--undo", "--forget"] {
            clean(&place);
            std::fs::write(&path, now).unwrap();
            if is_kept {
                std::fs::write(place.path(KEPT), &before).unwrap();
            }
            for target in ["a.db", KEPT] {
                std::fs::write(place.path(&temporary(target)), &before[..5000]).unwrap();
            }
            if !is_kept && then != "--pack" {
                place.refused(&["adopt", then, "a.db"], "no original that is kept");
                continue;
            }
            place.ok(&["adopt", then, "a.db"]);
            match then {
                "--pack" => {
                    assert!(is_packed(&path) && bytes(&place.path(KEPT)) == before);
                    place.ok(&["adopt", "--undo", "a.db"]);
                    assert!(bytes(&path) == before);
                }
                "--undo" => assert!(bytes(&path) == before),
                _ => assert!(bytes(&path) == *now),
            }
            assert!(!place.path(KEPT).exists());
            let clears = then == "--pack" && now == &before;
            assert!(!clears || place.names() == ["a.db"], "{:?}", place.names());
        }
    }
}

#[test]
fn the_original_is_not_let_go_if_the_packed_file_is_damaged() {
    let place = Place::new();
    let path = place.database("a.db", 4096, 20_000);
    place.ok(&["adopt", "--pack", "a.db"]);
    let packed = bytes(&path);
    let mut damaged = packed.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 4;
    for now in [&damaged[..], b"", b"text that is no database"] {
        std::fs::write(&path, now).unwrap();
        place.refused(
            &["adopt", "--forget", "a.db"],
            "a.db.litepack-original stays",
        );
    }
    place.refused(
        &["adopt", "--undo", "a.db"],
        "its original is a.db.litepack-original",
    );
    std::fs::write(&path, packed).unwrap();
    place.ok(&["adopt", "--forget", "a.db"]);
    assert_eq!(place.names(), ["a.db"]);
}

/// Its key is for other commands.
#[test]
fn one_that_was_encrypted_since_is_left_to_them() {
    let place = Place::new();
    place.database("a.db", 4096, 1000);
    place.ok(&["adopt", "--pack", "a.db"]);
    std::fs::write(place.path("key"), "secret").unwrap();
    place.ok(&["rekey", "--new-key-file", "key", "a.db"]);
    for then in ["--undo", "--forget"] {
        place.refused(&["adopt", then, "a.db"], "is encrypted by now");
    }
    place.ok(&["unpack", "--in-place", "--key-file", "key", "a.db"]);
    place.ok(&["adopt", "--undo", "a.db"]);
    assert_eq!(place.names(), ["a.db", "key"]);
}

/// Access lists, labels and notes.
#[cfg(target_os = "linux")]
#[test]
fn what_the_file_system_notes_of_it_stays() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    let place = Place::new();
    let path = place.database("a.db", 4096, 1000);
    if let Err(why) = setxattr(&path, "user.note", b"mine", XattrFlags::empty()) {
        return skip(Expected::ByChoice, why);
    }
    let noted = |name: &str| {
        let mut value = [0; 8];
        let len = getxattr(place.path(name), "user.note", &mut value).unwrap_or(0);
        value[..len].to_vec()
    };
    place.ok(&["adopt", "--pack", "a.db"]);
    assert_eq!(
        (noted("a.db"), noted(KEPT)),
        (b"mine".to_vec(), b"mine".to_vec())
    );
    place.ok(&["adopt", "--undo", "a.db"]);
    assert_eq!(noted("a.db"), b"mine");
}
