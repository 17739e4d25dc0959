//! The `litepack` command refuses with a clear message and exit code 2, and nothing is touched; `check` says no with
//! exit code 1; an interrupted `pack` leaves nothing behind.

use litepack_tests::commandline::{JSON_ROWS, Place, SHOP, read, read_elsewhere, refuse, succeed};
use litepack_tests::programs::run_litepack;
use litepack_tests::{content, vfs};
use std::path::Path;

#[test]
fn in_place_packing_refuses_while_someone_has_the_database_open() {
    let place = Place::new();
    for (name, sql) in [
        (
            "wal.db",
            "pragma journal_mode = wal; insert into t(data) values ('{}')",
        ),
        ("reading.db", "begin; select * from t limit 1"),
        ("writing.db", "begin immediate"),
    ] {
        let source = place.make(name, JSON_ROWS);
        let connection = vfs::open_plain(&source).expect("it opens");
        connection.execute_batch(sql).expect("a lock");
        let before = read_elsewhere(&source);
        let output = run_litepack([Path::new("pack"), Path::new("--in-place"), &source]);
        refuse(name, &["open", "lock", "use", "busy"], &output);
        assert!(before == read_elsewhere(&source), "{name} was touched");
        drop(connection);
        let output = run_litepack([Path::new("pack"), Path::new("--in-place"), &source]);
        succeed(name, &output);
    }
}

#[test]
fn what_is_not_a_plain_database_is_refused() {
    let place = Place::new();
    let good = place.make("good.db", JSON_ROWS);
    let bytes = read(&good);
    let packed = place.path("packed.db");
    succeed("pack", &run_litepack([Path::new("pack"), &good, &packed]));
    let mut noise = litepack_tests::rng::Rng::new(3).bytes(40_960);
    noise[0] = 0x9b;
    let cases: [(&str, Vec<u8>, &[&str]); 6] = [
        (
            "text.db",
            b"this is a text file, not a database\n".repeat(300),
            &["not a", "sqlite"],
        ),
        (
            "short.db",
            b"SQLite for".to_vec(),
            &["not a", "short", "trunc"],
        ),
        ("encrypted.db", noise, &["not a", "encrypted"]),
        (
            "truncated.db",
            bytes[..bytes.len() / 2 + 700].to_vec(),
            &["trunc", "short", "malformed"],
        ),
        (
            "half.db",
            bytes[..bytes.len() / 4096 / 2 * 4096].to_vec(),
            &["trunc", "short", "malf"],
        ),
        ("already.db", read(&packed), &["already", "packed"]),
    ];
    let to = place.path("to.db");
    for (name, bytes, words) in cases {
        let from = place.path(name);
        std::fs::write(&from, &bytes).expect("writable");
        refuse(name, words, &run_litepack([Path::new("pack"), &from, &to]));
        assert!(!to.exists(), "{name}: a destination was made");
        let in_place = run_litepack([Path::new("pack"), Path::new("--in-place"), &from]);
        refuse(name, words, &in_place);
        assert!(bytes == read(&from), "{name} was touched");
        std::fs::remove_file(&from).expect("removable");
    }
    let missing = place.path("missing.db");
    let words = ["no such file", "not found", "does not exist"];
    for command in ["pack", "unpack"] {
        refuse(
            command,
            &words,
            &run_litepack([Path::new(command), &missing, &to]),
        );
    }
    for command in ["info", "check"] {
        refuse(
            command,
            &words,
            &run_litepack([Path::new(command), &missing]),
        );
    }
    let message = refuse(
        "unpacking a plain database",
        &["not packed", "not a packed", "plain"],
        &run_litepack([Path::new("unpack"), &good, &to]),
    );
    assert!(
        message.contains("good.db"),
        "the message does not name the file: {message}"
    );
    place.assert_only(&["good.db", "packed.db"]);
}

#[test]
fn an_existing_destination_is_kept_without_force() {
    let place = Place::new();
    let source = place.make("source.db", SHOP);
    let (packed, precious) = (place.path("packed.db"), place.path("precious.txt"));
    std::fs::write(&precious, "precious").expect("writable");
    succeed("pack", &run_litepack([Path::new("pack"), &source, &packed]));
    for (command, from) in [("pack", &source), ("unpack", &packed)] {
        let output = run_litepack([Path::new(command), from, &precious]);
        refuse(command, &["exist", "--force"], &output);
        assert_eq!(read(&precious), b"precious");
    }
    let force = Path::new("--force");
    succeed(
        "pack",
        &run_litepack([Path::new("pack"), &source, &precious, force]),
    );
    succeed(
        "unpack",
        &run_litepack([Path::new("unpack"), &precious, &packed, force]),
    );
    assert!(read(&source) == read(&packed));
    let onto_itself = run_litepack([Path::new("pack"), &source, &source, force]);
    assert_ne!(
        onto_itself.status.code(),
        Some(0),
        "packing a file onto itself"
    );
    assert!(read(&source) == read(&packed), "the source was touched");
    place.assert_only(&["source.db", "packed.db", "precious.txt"]);
}

#[test]
fn check_says_no_to_a_damaged_file_with_exit_code_1() {
    let place = Place::new();
    let source = place.make("source.db", JSON_ROWS);
    let packed = place.path("packed.db");
    succeed("pack", &run_litepack([Path::new("pack"), &source, &packed]));
    let mut bytes = read(&packed);
    let mut noticed = 0;
    for part in 1..10 {
        let at = bytes.len() * part / 10;
        bytes[at] ^= 0x10;
        std::fs::write(&packed, &bytes).expect("writable");
        let output = run_litepack([Path::new("check"), &packed]);
        bytes[at] ^= 0x10;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!text.contains("panicked"), "byte {at}: {text}");
        assert!(
            [Some(0), Some(1)].contains(&output.status.code()),
            "byte {at}: {text}"
        );
        noticed += usize::from(output.status.code() == Some(1));
    }
    assert!(
        noticed >= 5,
        "only {noticed} of 9 flipped bits were noticed"
    );
}

#[test]
fn an_interrupted_pack_leaves_nothing_behind() {
    let place = Place::new();
    let bigger = JSON_ROWS.replace("i < 4000", "i < 150000");
    let source = place.make("source.db", &bigger);
    let before = content::hash_bytes(&read(&source));
    for millis in [30, 120, 300] {
        let mut child = std::process::Command::new(litepack_tests::programs::litepack())
            .args([Path::new("pack"), &source, &place.path("packed.db")])
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("the command starts");
        std::thread::sleep(std::time::Duration::from_millis(millis));
        let pid = child.id().to_string();
        std::process::Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .expect("kill runs");
        let status = child.wait().expect("an end");
        if status.code() == Some(0) {
            std::fs::remove_file(place.path("packed.db")).expect("removable");
        }
        place.assert_only(&["source.db"]);
        assert_eq!(
            before,
            content::hash_bytes(&read(&source)),
            "the source was touched"
        );
    }
}
