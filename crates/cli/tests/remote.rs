//! `litepack info URL`.

mod common;

use common::Place;
use litepack_webserver::{Reply, Server};
use serde_json::Value;

#[test]
fn info_tells_what_is_on_a_server_and_what_asking_took() {
    let place = Place::new();
    place.database("a.db", 4096, 3000);
    place.ok(&["pack", "a.db", "a.packed"]);
    place.ok(&["archive", "create", "a.db", "a.db.zst"]);
    for (name, kind) in [
        ("a.db", "plain SQLite"),
        ("a.packed", "packed file"),
        ("a.db.zst", "archive"),
    ] {
        let file = std::fs::read(place.path(name)).unwrap();
        let server = Server::of(file.clone());
        let url = server.url("/x?sig=s3cret");
        let text = place.ok(&["info", &url]).stdout;
        assert!(
            text.contains(kind) && text.contains("requests") && !text.contains("s3cret"),
            "{text}"
        );
        let before = server.requests().len();
        let json: Value =
            serde_json::from_str(&place.ok(&["info", "--json", &url]).stdout).unwrap();
        assert_eq!(json["remote"]["size"], file.len());
        assert_eq!(json["remote"]["requests"], server.requests().len() - before);
        assert_eq!(
            json["logical_bytes"],
            std::fs::metadata(place.path("a.db")).unwrap().len()
        );
    }
}

#[test]
fn what_is_wrong_is_said_without_the_secret() {
    let place = Place::new();
    let server = Server::start(|_| Reply::status("403 Forbidden"));
    place.refused(&["info", &server.url("/x?sig=s3cret")], "status 403");
    let run = place.run(&["info", &server.url("/x?sig=s3cret")]);
    assert!(
        !run.stderr.contains("s3cret") && run.stderr.contains("/x"),
        "{}",
        run.stderr
    );
    place.refused(
        &["info", "--headers-file", "none", &server.url("/x")],
        "headers file none",
    );
    place.refused(&["info", "--headers-file", "none", "a.packed"], "for URLs");
}

#[test]
fn headers_go_with_every_request() {
    let place = Place::new();
    place.database("a.db", 4096, 10);
    std::fs::write(place.path("headers"), "Authorization: Bearer s3cret\n").unwrap();
    let server = Server::of(std::fs::read(place.path("a.db")).unwrap());
    place.ok(&["info", "--headers-file", "headers", &server.url("/x")]);
    assert_eq!(
        server.requests()[0].header("authorization"),
        Some("Bearer s3cret")
    );
}

#[test]
fn an_encrypted_file_takes_its_key_and_says_without_it_what_anyone_sees() {
    let place = Place::new();
    place.database("a.db", 4096, 3000);
    for (name, key) in [("key", "correct s3cret horse\n"), ("other", "s3cret\n")] {
        std::fs::write(place.path(name), key).unwrap();
    }
    place.ok(&["pack", "--encrypt", "--key-file", "key", "a.db", "sealed"]);
    let server = Server::of(std::fs::read(place.path("sealed")).unwrap());
    let url = server.url("/x");
    let json = |arguments: &[&str]| -> Value {
        let all = [&["info", "--json"], arguments, &[&url]].concat();
        serde_json::from_str(&place.ok(&all).stdout).unwrap()
    };
    let without = json(&[]);
    let size = std::fs::metadata(place.path("a.db")).unwrap().len();
    assert_eq!(without["encrypted"], true);
    assert_eq!(without["logical_bytes"], size);
    assert!(without["pages"].is_null() && without["page_size"].is_null());
    assert!(
        place
            .ok(&["info", &url])
            .stdout
            .contains("more with its key")
    );
    let with = json(&["--key-file", "key"]);
    assert_eq!(
        (&with["encrypted"], &with["page_size"]),
        (&true.into(), &4096.into())
    );
    assert_eq!(with["logical_bytes"], size);
    let wrong = ["info", "--key-file", "other", &url];
    place.refused(&wrong, "wrong key");
    let run = place.run(&["catalog", &url, "-o", "c.catalog"]);
    assert!(
        run.stderr.contains("it is encrypted, and a catalog is not"),
        "{run:?}"
    );
    let plain = Server::of(std::fs::read(place.path("a.db")).unwrap());
    let of_plain = plain.url("/x");
    let needless = ["info", "--key-file", "key", &of_plain];
    place.refused(&needless, "the file is not encrypted");
    for arguments in [&wrong, &needless] {
        assert!(!place.run(arguments).stderr.contains("s3cret"));
    }
}
