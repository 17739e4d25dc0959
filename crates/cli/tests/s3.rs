//! Files in an object store: `pack`, `unpack` and `archive` write them, `info` reports on them.

mod common;

use common::{Place, Run, bytes};
use litepack_webserver::{Reply, Server, Store};

/// Runs the command as one who may use that store, with other variables in place of some.
fn run(place: &Place, store: &Store, instead: &[(&str, &str)], arguments: &[&str]) -> Run {
    let mut command = place.command(arguments);
    command
        .envs(store.variables())
        .envs(instead.iter().copied());
    Run::of(command.output().unwrap())
}

fn ok(place: &Place, store: &Store, arguments: &[&str]) -> Run {
    let run = run(place, store, &[], arguments);
    assert_eq!(run.code, 0, "{arguments:?}: {}", run.stderr);
    run
}

#[test]
fn files_are_written_to_a_store_and_reported_on() {
    let Some(store) = Store::start() else { return };
    let place = Place::new();
    place.database("a.db", 4096, 3000);
    let names = place.names();
    let url = |key| store.url(key);
    ok(&place, &store, &["pack", "a.db", &url("day/a.packed")]);
    ok(
        &place,
        &store,
        &["archive", "create", "a.db", &url("a.zst")],
    );
    for (key, format, made) in [
        ("day/a.packed", "litepack", vec!["pack", "a.db", "here"]),
        (
            "a.zst",
            "zstd seekable",
            vec!["archive", "create", "a.db", "here"],
        ),
    ] {
        let told = ok(&place, &store, &["info", "--json", &url(key)]).stdout;
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["remote"]["url"], url(key));
        assert_eq!(told["remote"]["size"], bytes(&store.file(key)).len());
        assert!(
            told["format"].as_str().is_none_or(|found| found == format),
            "{told}"
        );
        // The object is as long as a local file would be.
        place.ok(&made);
        assert_eq!(
            bytes(&store.file(key)).len(),
            bytes(&place.path("here")).len()
        );
        std::fs::remove_file(place.path("here")).unwrap();
    }
    // An encrypted one is encrypted there, too.
    std::fs::write(place.path("key"), "correct horse").unwrap();
    let sealed = ["--encrypt", "--key-file", "key", "a.db", &url("a.sealed")];
    ok(&place, &store, &[&["pack"], &sealed[..]].concat());
    let info = ["info", "--json", "--key-file", "key", &url("a.sealed")];
    let told: serde_json::Value = serde_json::from_str(&ok(&place, &store, &info).stdout).unwrap();
    assert_eq!(told["encrypted"], true);
    std::fs::remove_file(place.path("key")).unwrap();
    // The object is what a file would be: it opens here, and holds the database.
    std::fs::copy(store.file("day/a.packed"), place.path("got.packed")).unwrap();
    place.ok(&["unpack", "got.packed", "got.db"]);
    assert_eq!(bytes(&place.path("got.db")), bytes(&place.path("a.db")));
    ok(&place, &store, &["unpack", "got.packed", &url("plain.db")]);
    assert_eq!(bytes(&store.file("plain.db")), bytes(&place.path("a.db")));
    for name in ["got.packed", "got.db"] {
        std::fs::remove_file(place.path(name)).unwrap();
    }
    assert_eq!(place.names(), names);
}

#[test]
fn nothing_is_replaced_unasked_and_nothing_is_shown_that_is_secret() {
    let Some(store) = Store::start() else { return };
    let place = Place::new();
    place.database("a.db", 4096, 300);
    place.database("b.db", 4096, 600);
    let url = store.url("a.packed");
    ok(&place, &store, &["pack", "a.db", &url]);
    let first = bytes(&store.file("a.packed"));
    let refused = run(&place, &store, &[], &["pack", "b.db", &url]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("exists"), "{}", refused.stderr);
    assert_eq!(bytes(&store.file("a.packed")), first);
    ok(&place, &store, &["pack", "--force", "b.db", &url]);
    assert_ne!(bytes(&store.file("a.packed")), first);

    let wrong = [("AWS_SECRET_ACCESS_KEY", "an0ther")];
    for arguments in [
        ["info", &url].as_slice(),
        &["pack", "a.db", &url],
        &["pack", "--force", "a.db", &url],
    ] {
        let run = run(&place, &store, &wrong, arguments);
        assert_eq!(run.code, 2, "{arguments:?}");
        assert!(
            run.stderr.contains("SignatureDoesNotMatch"),
            "{}",
            run.stderr
        );
        for secret in [Store::SECRET, Store::KEY, "an0ther", "X-Amz"] {
            assert!(!run.stderr.contains(secret), "{}", run.stderr);
        }
    }
    let none = [
        ("AWS_ACCESS_KEY_ID", ""),
        ("AWS_SECRET_ACCESS_KEY", ""),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ];
    let run = run(&place, &store, &none, &["info", &url]);
    assert!(run.stderr.contains("no AWS credentials"), "{}", run.stderr);
}

#[test]
fn what_cannot_be_a_target_is_refused_before_any_work() {
    let place = Place::new();
    place.database("a.db", 4096, 10);
    place.refused(&["pack", "a.db", "https://h.example/a"], "a web server");
    place.refused(&["pack", "a.db", "s3://b/a"], "s3://bucket/key");
    place.refused(&["pack", "a.db", "s3://logs/../x"], "s3://bucket/key");
}

/// A failure in the middle leaves the store as it was.
#[test]
fn a_store_that_fails_is_an_error() {
    let place = Place::new();
    place.database("a.db", 4096, 10);
    let server = Server::start(|request| match request.method.as_str() {
        "GET" => Reply::status("404 Not Found"),
        _ => Reply::status("507 Insufficient Storage"),
    });
    let mut command = place.command(&["pack", "a.db", "s3://logs/a.packed"]);
    command.env("AWS_ENDPOINT_URL", server.url(""));
    command
        .env("AWS_ACCESS_KEY_ID", "a")
        .env("AWS_SECRET_ACCESS_KEY", "b");
    let run = Run::of(command.output().unwrap());
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("status 507"), "{}", run.stderr);
    assert_eq!(place.names(), ["a.db"]);
}

#[test]
fn a_catalog_of_a_folder_reads_only_objects_that_changed() {
    let Some(store) = Store::start() else { return };
    let place = Place::new();
    place.database("a.db", 4096, 300);
    for key in ["day/1.db", "day/2.db", "day/deep/3.db", "day/4.txt"] {
        ok(&place, &store, &["pack", "a.db", &store.url(key)]);
    }
    let catalog = || {
        let run = ok(
            &place,
            &store,
            &["catalog", &store.url("day/"), "-o", "c", "--json"],
        );
        let told: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        ["files", "read", "unchanged", "removed"].map(|name| told[name].as_u64().unwrap())
    };
    assert_eq!(catalog(), [2, 2, 0, 0]);
    assert_eq!(catalog(), [2, 0, 2, 0]);
    ok(
        &place,
        &store,
        &["pack", "--best", "--force", "a.db", &store.url("day/1.db")],
    );
    std::fs::remove_file(store.file("day/2.db")).unwrap();
    assert_eq!(catalog(), [1, 1, 0, 1]);
    // A listing gives the same marks of an object as opening it, by which readers compare.
    let by_prefix = bytes(&place.path("c"));
    let run = ok(
        &place,
        &store,
        &["catalog", &store.url("day/1.db"), "-o", "c", "--json"],
    );
    assert!(run.stdout.contains("\"unchanged\": 1"), "{}", run.stdout);
    assert_eq!(bytes(&place.path("c")), by_prefix);
    let none = ["catalog", &store.url("none/"), "-o", "d"];
    let refused = self::run(&place, &store, &[], &none);
    assert!(
        refused.code == 2 && refused.stderr.contains("no objects"),
        "{}",
        refused.stderr
    );
    let secret = [("AWS_SECRET_ACCESS_KEY", "wrong-secret")];
    let refused = self::run(
        &place,
        &store,
        &secret,
        &["catalog", &store.url("day/"), "-o", "d"],
    );
    assert!(
        refused.code == 2 && !refused.stderr.contains("wrong-secret"),
        "{}",
        refused.stderr
    );
    assert!(!place.path("d").exists());
}
