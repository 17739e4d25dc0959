//! Encrypted files: where the command has keys from, what it says without one, and that nothing of a database is in
//! plain in any file beside it.

mod common;

use std::path::Path;

use common::{Place, Run, bytes};

/// A word of the database that no file of ours may show.
const CANARY: &str = "canary of the text";
const RAW: &str = "x'00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF'";

/// A directory with a plain database, keys, and the database packed, encrypted with the key in `key`.
fn place() -> Place {
    let place = Place::new();
    canaries(&place);
    std::fs::write(place.path("key"), "correct horse\n").unwrap();
    std::fs::write(place.path("other"), "battery staple\n").unwrap();
    place.ok(&["pack", "--encrypt", "--key-file", "key", "plain", "packed"]);
    place
}

fn canaries(place: &Place) {
    let db = place.open("plain");
    db.execute_batch(&format!(
        "CREATE TABLE secrets(id INTEGER PRIMARY KEY, data TEXT);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
         INSERT INTO secrets(data) SELECT i || ' {CANARY} ' || hex(randomblob(20)) FROM n;"
    ))
    .unwrap();
    db.execute_batch("CREATE TABLE noise(data BLOB)").unwrap();
    for _ in 0..3 {
        db.execute("INSERT INTO noise VALUES (?1)", [noise()])
            .unwrap();
    }
}

/// Runs the command without a terminal, and with a variable that has the key.
fn with_variable(place: &Place, key: &str, arguments: &[&str]) -> Run {
    let mut command = place.command(arguments);
    Run::of(command.env("LITEPACK_TEST_KEY", key).output().unwrap())
}

fn with_input(place: &Place, input: &str, arguments: &[&str]) -> Run {
    use std::io::Write as _;
    use std::process::Stdio;
    let mut command = place.command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    Run::of(child.wait_with_output().unwrap())
}

/// Bytes that no compression changes: they are as they are in a packed file that is not encrypted.
fn noise() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(&mut next).take(3000).collect()
}

/// Whether a file shows content.
fn shows(path: &Path) -> bool {
    let (bytes, noise) = (bytes(path), noise());
    let words = [CANARY, "secrets", "SQLite format 3"].map(str::as_bytes);
    words.into_iter().chain([&noise[1000..1012]]).any(|word| {
        let mut windows = bytes.windows(word.len());
        windows.any(|window| window == word)
    })
}

#[test]
fn a_key_comes_from_a_file_a_variable_or_standard_input() {
    let place = place();
    assert!(!shows(&place.path("packed")));
    assert!(shows(&place.path("plain")));
    place.ok(&["pack", "plain", "open"]);
    assert!(shows(&place.path("open")), "the canaries are none");
    place.ok(&["check", "--key-file", "key", "packed"]);
    let check = ["check", "--key-env", "LITEPACK_TEST_KEY", "packed"];
    assert_eq!(with_variable(&place, "correct horse", &check).code, 0);
    let check = ["check", "--key-file", "-", "packed", "packed"];
    for (input, code) in [("correct horse\n", 0), ("correct horse", 0), ("no\n", 2)] {
        let run = with_input(&place, input, &check);
        assert_eq!(run.code, code, "{}", run.stderr);
    }
    // As it is written.
    std::fs::write(place.path("raw"), RAW).unwrap();
    place.ok(&["pack", "--encrypt", "--key-file", "raw", "plain", "raw.db"]);
    let digits = RAW.trim_start_matches("x'").trim_end_matches('\'');
    std::fs::write(place.path("raw"), format!("raw:{digits}\r\n")).unwrap();
    place.ok(&["check", "--key-file", "raw", "raw.db"]);
    let said = place.ok(&["info", "raw.db"]);
    assert!(said.stdout.contains("raw, of 256 bits"), "{}", said.stdout);
}

#[test]
fn a_missing_key_a_wrong_one_and_one_for_nothing_are_told_apart() {
    let place = place();
    place.ok(&["pack", "plain", "open"]);
    std::fs::write(place.path("empty"), "").unwrap();
    std::fs::write(place.path("line"), "\n").unwrap();
    std::fs::write(place.path("hex"), "x'0011'").unwrap();
    std::fs::write(place.path("long"), vec![b'k'; 70_000]).unwrap();
    for command in [
        &["check"][..],
        &["unpack", "--force"],
        &["maintain"],
        &["rekey", "--decrypt"],
        &["advise"],
        &["archive", "create"],
        &["columns", "status"],
    ] {
        let run = |key: &[&str], file: &str, words: &str| {
            let needs_target = ["unpack", "archive"].contains(&command[0]);
            let target: &[&str] = if needs_target { &["target"] } else { &[] };
            place.refused(&[command, key, &[file], target].concat(), words);
        };
        let no_key = "packed is encrypted: give --key-file or --key-env";
        run(&[], "packed", no_key);
        run(&["--key-file", "other"], "packed", "wrong key for packed");
        let no_use = "open is not encrypted: leave out the key";
        run(&["--key-file", "key"], "open", no_use);
        run(
            &["--key-file", "empty"],
            "packed",
            "there is no key: empty is empty",
        );
        run(
            &["--key-file", "line"],
            "packed",
            "there is no key: line is empty",
        );
        run(
            &["--key-file", "nothing"],
            "packed",
            "cannot read the key from nothing",
        );
        run(
            &["--key-file", "long"],
            "packed",
            "is longer than 65536 bytes",
        );
        let hex = "the key in hex is none: a raw key has 64 hexadecimal digits";
        run(&["--key-file", "hex"], "packed", hex);
        let unset = "the variable LITEPACK_NO_SUCH is not set";
        run(&["--key-env", "LITEPACK_NO_SUCH"], "packed", unset);
        run(
            &["--key-env", "A", "--key-file", "key"],
            "packed",
            "cannot be used with",
        );
    }
    place.refused(
        &["info", "--key-file", "other", "packed"],
        "wrong key for packed",
    );
    place.refused(&["info", "--key-file", "key", "open"], "is not encrypted");
    place.refused(&["tune", "packed"], "packed is encrypted, and the copies");
    place.refused(
        &["pack", "--key-file", "key", "plain", "new"],
        "mean nothing without --encrypt",
    );
    place.refused(
        &["pack", "--encrypt", "plain", "new"],
        "there is no new key for new: give --key-file or --key-env",
    );
    place.refused(&["pack", "packed", "new"], "is already a packed file");
    // A file that cannot be known to be in use is not replaced.
    place.refused(
        &["pack", "--force", "plain", "packed"],
        "packed is encrypted with another key",
    );
    // No message has a key in it.
    let run = place.run(&["check", "--key-file", "other", "packed"]);
    assert!(!format!("{run:?}").contains("staple"));
}

#[test]
fn without_a_key_an_encrypted_file_says_what_anyone_can_see() {
    let place = place();
    let said = place.ok(&["info", "packed"]).stdout;
    assert!(said.contains("AES-256-GCM; more with its key"), "{said}");
    assert!(said.contains("Argon2id with 19456 KiB, 2 passes"), "{said}");
    let json = place.ok(&["info", "--json", "packed"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["encrypted"], true);
    let len = |name: &str| place.path(name).metadata().unwrap().len();
    assert_eq!(json["file_bytes"], len("packed"));
    assert_eq!(json["logical_bytes"], len("plain"));
    assert_eq!(json["derivation"]["memory_kib"], 19456);
    let all = place.ok(&["info", "--key-file", "key", "packed"]).stdout;
    assert!(all.contains("secrets") && !said.contains("secrets"));
}

/// The places of the key are needed for all else.
#[test]
fn damaged_places_of_the_key_are_damage_and_no_wrong_key() {
    let place = place();
    let mut bytes = std::fs::read(place.path("packed")).unwrap();
    bytes[4096 + 60] ^= 1;
    std::fs::write(place.path("packed"), &bytes).unwrap();
    place.ok(&["check", "--key-file", "key", "packed"]);
    bytes[8192 + 60] ^= 1;
    std::fs::write(place.path("packed"), &bytes).unwrap();
    let run = place.run(&["check", "--key-file", "key", "packed"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stdout.contains("key block"), "{}", run.stdout);
}

#[test]
fn a_file_gets_another_key_is_decrypted_and_encrypted() {
    let place = place();
    let sealed = bytes(&place.path("packed"));
    let new = ["--key-file", "key", "--new-key-file", "other"];
    let run = |options: &[&str]| place.ok(&[&["rekey"], options, &["packed"]].concat());
    let opens_with = |key: &str| place.ok(&["check", "--key-file", key, "packed"]);
    run(&new);
    opens_with("other");
    assert_eq!(place.run(&["check", "--key-file", "key", "packed"]).code, 2);
    // Only the places of the key are others.
    assert!(bytes(&place.path("packed"))[12288..] == sealed[12288..]);
    run(&["--key-file", "other", "--new-data-key"]);
    opens_with("other");
    run(&["--key-file", "other", "--decrypt"]);
    place.ok(&["check", "packed"]);
    run(&["--new-key-file", "key"]);
    opens_with("key");
    assert!(!shows(&place.path("packed")));
    place.ok(&["unpack", "--key-file", "key", "packed", "back"]);
    assert!(bytes(&place.path("back")) == bytes(&place.path("plain")));
    for (arguments, words) in [
        (
            &["--key-file", "-", "--new-key-file", "-"][..],
            "only one of the keys",
        ),
        (
            &["--key-file", "key"],
            "there is no new key for packed: give --new-key-file",
        ),
        (
            &["--decrypt", "--new-key-file", "key"],
            "cannot be used with",
        ),
    ] {
        place.refused(&[&["rekey"], arguments, &["packed"]].concat(), words);
    }
    place.refused(
        &["rekey", "--new-key-file", "key", "plain"],
        "plain is not a packed file",
    );
}

/// Of what `kill -9` leaves, the file is the old or the new one, and no other file shows content.
#[cfg(unix)]
#[test]
fn a_command_that_is_killed_leaves_a_whole_file_and_nothing_in_plain() {
    use std::time::{Duration, Instant};
    let place = place();
    place.ok(&["unpack", "--key-file", "key", "packed", "content"]);
    let content = bytes(&place.path("content"));
    std::fs::remove_file(place.path("content")).unwrap();
    let rekey = [
        "rekey",
        "--key-file",
        "key",
        "--new-key-file",
        "other",
        "--new-data-key",
        "packed",
    ];
    let maintain = ["maintain", "--key-file", "key", "--level", "9", "packed"];
    let pack = [
        "pack",
        "--encrypt",
        "--key-file",
        "key",
        "--force",
        "plain",
        "packed",
    ];
    let sealed = bytes(&place.path("packed"));
    let rounds = if std::env::var_os("LITEPACK_LONG").is_some() {
        60
    } else {
        12
    };
    // Another seed, other moments.
    let seed: u32 = std::env::var("LITEPACK_SEED").map_or(0, |seed| seed.parse().unwrap());
    let later = (seed % 1000) as f64 / 1000.0;
    println!("LITEPACK_SEED={seed}");
    let (mut killed, mut beside) = (0, 0);
    for command in [&rekey[..], &maintain, &pack] {
        std::fs::write(place.path("packed"), &sealed).unwrap();
        let started = Instant::now();
        place.ok(command);
        let whole = started.elapsed();
        for round in 0..rounds {
            std::fs::write(place.path("packed"), &sealed).unwrap();
            let mut child = place.command(command).spawn().unwrap();
            let moment = whole.mul_f64((f64::from(round) + later) / f64::from(rounds));
            std::thread::sleep(moment + Duration::from_millis(1));
            child.kill().unwrap();
            println!("trials of kills: 1");
            killed += u32::from(!child.wait().unwrap().success());
            for name in place.names() {
                beside += u32::from(name.contains(".litepack-"));
                let is_ours = !["plain", "key", "other"].contains(&name.as_str());
                assert!(!(is_ours && shows(&place.path(&name))), "{name}");
            }
            let keys = ["key", "other"];
            let opens = |key: &&&str| {
                let unpack = ["unpack", "--force", "--key-file", key, "packed", "back"];
                place.run(&unpack).code == 0
            };
            assert!(
                keys.iter().find(opens).is_some(),
                "{command:?} after {round}"
            );
            assert!(bytes(&place.path("back")) == content);
            std::fs::remove_file(place.path("back")).unwrap();
        }
    }
    assert!(killed > rounds, "{killed} were killed");
    assert!(beside > 0, "no temporary file was seen");
}

/// One that is asked to end leaves no database in plain, where it was to make one.
#[cfg(unix)]
#[test]
fn decryption_that_is_interrupted_leaves_nothing_in_plain() {
    use std::time::Duration;
    let place = place();
    let sealed = bytes(&place.path("packed"));
    let signal = common::signals::Signal {
        name: "-INT",
        command: &|| {
            place.command(&[
                "rekey",
                "--key-file",
                "key",
                "--best",
                "--decrypt",
                "packed",
            ])
        },
        begun: &|| place.names().iter().any(|name| name.contains(".litepack-")),
        after: Duration::from_millis(20),
        undo: &|| std::fs::write(place.path("packed"), &sealed).unwrap(),
    };
    assert_eq!(signal.ends().code, 130);
    assert!(bytes(&place.path("packed")) == sealed);
    assert_eq!(place.names(), ["key", "other", "packed", "plain"]);
}

#[cfg(unix)]
#[test]
fn logs_are_read_into_an_encrypted_database() {
    let place = Place::new();
    std::fs::write(place.path("key"), "k").unwrap();
    std::fs::write(place.path("wrong"), "w").unwrap();
    let lines = |from: u32| {
        let line = |n| format!("{{\"n\": {n}, \"text\": \"{CANARY}\"}}\n");
        (from..from + 5000).map(line).collect::<String>()
    };
    std::fs::write(place.path("log"), lines(0)).unwrap();
    let ingest = |key: &str, log: &str| {
        let key = ["--key-file", key];
        place.run(
            &[
                &["ingest", "--format", "json"],
                &key[..],
                &[log, "--into", "db"],
            ]
            .concat(),
        )
    };
    let run = ingest("key", "log");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!shows(&place.path("db")));
    std::fs::write(place.path("more"), lines(5000)).unwrap();
    assert_eq!(ingest("wrong", "more").code, 2);
    assert_eq!(ingest("key", "more").code, 0);
    let advice = place.ok(&["advise", "--key-file", "key", "db"]);
    assert!(advice.stdout.contains("logs"), "{}", advice.stdout);
    place.ok(&["unpack", "--key-file", "key", "db", "plain"]);
    let count = "SELECT count(*) FROM logs";
    let count: u32 = place
        .open("plain")
        .query_row(count, [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, 10_000);
}

/// What is typed is not shown, and the terminal shows again what is typed after that.
#[cfg(unix)]
#[test]
fn a_key_is_asked_for_and_not_shown() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, tcgetattr};
    use std::fs::File;
    use std::io::{Read as _, Write as _};
    let place = place();
    let asked = |arguments: &[&str], answers: &[&str], ends_by: Option<&str>| {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let side = || {
            let mut file = File::options();
            file.read(true)
                .write(true)
                .open(name.to_str().unwrap())
                .unwrap()
        };
        let mut command = place.command(arguments);
        command.stdin(side()).stdout(side()).stderr(side());
        let kept = side();
        let mut child = command.spawn().unwrap();
        let mut terminal = File::from(terminal);
        let mut shown = String::new();
        let mut until = |terminal: &mut File, end: &str| {
            while !shown.contains(end) {
                let mut part = [0; 1000];
                let n = terminal.read(&mut part).unwrap();
                shown.push_str(&String::from_utf8_lossy(&part[..n]));
            }
            std::mem::take(&mut shown)
        };
        let mut all = String::new();
        for answer in answers {
            all += &until(&mut terminal, ": ");
            terminal
                .write_all(format!("{answer}\n").as_bytes())
                .unwrap();
        }
        if let Some(signal) = ends_by {
            all += &until(&mut terminal, ": ");
            let pid = child.id().to_string();
            let sent = std::process::Command::new("kill")
                .args([signal, &pid])
                .status();
            assert!(sent.unwrap().success());
        }
        let code = child.wait().unwrap().code();
        let modes = tcgetattr(&kept).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ECHO));
        (code, all)
    };
    let (code, shown) = asked(&["check", "packed"], &["correct horse"], None);
    assert_eq!((code, shown.as_str()), (Some(0), "key for packed: "));
    assert_eq!(asked(&["check", "packed"], &["no"], None).0, Some(2));
    assert_eq!(asked(&["check", "packed"], &[], Some("-INT")).0, Some(130));
    let pack = ["pack", "--encrypt", "plain", "new"];
    assert_eq!(asked(&pack, &["a", "b"], None).0, Some(2));
    assert!(!place.path("new").exists());
    let (code, shown) = asked(&pack, &["s3cret", "s3cret"], None);
    assert_eq!(code, Some(0));
    assert!(!shown.contains("s3cret"), "{shown}");
    std::fs::write(place.path("asked"), "s3cret").unwrap();
    place.ok(&["check", "--key-file", "asked", "new"]);
}

/// An archive is encrypted if it is asked to be, with the key of the database or another one.
#[test]
fn an_archive_is_encrypted_on_request() {
    let place = place();
    let create = ["archive", "create", "--encrypt", "--key-file", "key"];
    for (source, out) in [("packed", "of packed"), ("plain", "of plain")] {
        place.ok(&[&create[..], &[source, out]].concat());
        fn of_key<'a>(command: &[&'a str], out: &'a str) -> Vec<&'a str> {
            [command, &["--key-file", "key", out]].concat()
        }
        for command in [
            &["archive", "check"][..],
            &["check"],
            &["archive", "info"],
            &["info"],
        ] {
            place.ok(&of_key(command, out));
            let no_key = format!("{out} is encrypted: give --key-file or --key-env");
            place.refused(&[command, &[out]].concat(), &no_key);
            let wrong = [command, &["--key-file", "other", out]].concat();
            place.refused(&wrong, &format!("wrong key for {out}"));
        }
        let told = place.ok(&of_key(&["info", "--json"], out)).stdout;
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!(
            (&told["encrypted"], &told["page_size"]),
            (&true.into(), &4096.into())
        );
        place.ok(&[&of_key(&["archive", "extract"], out)[..], &["back"]].concat());
        assert_eq!(
            std::fs::read(place.path("back")).unwrap(),
            std::fs::read(place.path("plain")).unwrap()
        );
        std::fs::remove_file(place.path("back")).unwrap();
        place.refused(&["archive", "extract", out, "back"], "is encrypted");
        assert!(!place.path("back").exists());
        let server = litepack_webserver::Server::of(std::fs::read(place.path(out)).unwrap());
        let url = server.url("/x");
        let without = place.ok(&["info", "--json", &url]).stdout;
        assert!(without.contains("\"encrypted\":true"), "{without}");
        place.ok(&["info", "--key-file", "key", &url]);
        place.refused(&["info", "--key-file", "other", &url], "wrong key");
    }
    let needless = ["archive", "create", "--key-file", "key", "plain", "out"];
    place.refused(&needless, "plain is not encrypted");
    let run = place.run(&[
        "archive",
        "create",
        "--key-file",
        "key",
        "packed",
        "open.zst",
    ]);
    assert!(
        run.code == 0 && run.stderr.contains("is not encrypted"),
        "{run:?}"
    );
    place.refused(
        &["archive", "check", "--key-file", "key", "open.zst"],
        "not encrypted",
    );
}

/// `--padding` is of a file that is made; what makes it anew keeps it, and nothing takes it in silence.
#[test]
fn a_padded_file_is_made_and_stays_one() {
    let place = place();
    let padding = |file: &str| {
        let report = place.ok(&["info", "--json", "--key-file", "key", file]);
        let report: serde_json::Value = serde_json::from_str(&report.stdout).unwrap();
        report["padding"].as_u64()
    };
    let pack = ["pack", "--encrypt", "--key-file", "key", "--padding"];
    place.ok(&[&pack[..], &["512", "plain", "padded"]].concat());
    assert_eq!((padding("padded"), padding("packed")), (Some(512), None));
    assert!(
        place.path("padded").metadata().unwrap().len()
            > place.path("packed").metadata().unwrap().len()
    );
    let known = place.ok(&["info", "padded"]).stdout;
    assert!(known.contains("padding      to 512 bytes"), "{known}");
    place.ok(&["unpack", "--key-file", "key", "padded", "again"]);
    assert_eq!(bytes(&place.path("again")), bytes(&place.path("plain")));

    let anew = ["rekey", "--key-file", "key", "--new-data-key"];
    place.ok(&[&anew[..], &["padded"]].concat());
    assert_eq!(padding("padded"), Some(512));
    place.ok(&[&anew[..], &["--padding", "64", "padded"]].concat());
    assert_eq!(padding("padded"), Some(64));
    place.ok(&[&anew[..], &["--padding", "0", "padded"]].concat());
    assert_eq!(padding("padded"), None);
    place.ok(&["check", "--key-file", "key", "padded"]);

    for (arguments, words) in [
        (
            &["pack", "--padding", "64", "plain", "new"][..],
            "nothing without --encrypt",
        ),
        (
            &[
                "rekey",
                "--key-file",
                "key",
                "--new-key-file",
                "other",
                "--padding",
                "64",
                "packed",
            ],
            "nothing without --new-data-key",
        ),
        (
            &[
                "rekey",
                "--key-file",
                "key",
                "--decrypt",
                "--padding",
                "64",
                "packed",
            ],
            "nothing without encryption",
        ),
        (
            &[
                "pack",
                "--encrypt",
                "--key-file",
                "key",
                "--padding",
                "100",
                "plain",
                "new",
            ],
            "neither 0 nor a power of two from 64 to 4096",
        ),
    ] {
        place.refused(arguments, words);
    }
    assert!(!place.path("new").exists());

    // What makes a database makes padded ones.
    let shell = [
        "shell",
        "--create",
        "--key-file",
        "key",
        "--padding",
        "128",
        "new",
    ];
    place.ok(&[&shell[..], &["create table t(x); insert into t values (1)"]].concat());
    assert_eq!(padding("new"), Some(128));
    place.refused(
        &["shell", "--create", "--padding", "128", "other", "select 1"],
        "nothing without --create and a key",
    );
    std::fs::write(place.path("lines.jsonl"), "{\"n\": 1}\n{\"n\": 2}\n").unwrap();
    let ingest = [
        "ingest",
        "--key-file",
        "key",
        "--padding",
        "128",
        "lines.jsonl",
        "--into",
    ];
    place.ok(&[&ingest[..], &["lines.db"]].concat());
    assert_eq!(padding("lines.db"), Some(128));
}
