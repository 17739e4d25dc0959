//! `info` and `check`, and what goes to which stream.

mod common;

use common::{Place, bytes};
use serde_json::Value;

fn packed(rows: u32) -> Place {
    let place = Place::new();
    place.database("a.db", 4096, rows);
    let run = place.ok(&["pack", "a.db", "a.packed"]);
    // Piped, there is one line, and no bar.
    assert_eq!(run.stdout, "");
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    assert!(run.stderr.starts_with("a.packed: "), "{}", run.stderr);
    assert!(run.stderr.contains(" x smaller, "), "{}", run.stderr);
    assert!(!run.stderr.contains(['\r', '\x1b']), "{:?}", run.stderr);
    place
}

#[test]
fn info_for_people_and_programs() {
    let place = packed(20_000);
    let text = place.ok(&["info", "a.packed"]).stdout;
    for word in [
        "database",
        "packed file",
        "ratio",
        "pages",
        "dictionaries",
        "commit",
    ] {
        assert!(text.contains(word), "{text}");
    }
    let json: Value =
        serde_json::from_str(&place.ok(&["info", "--json", "a.packed"]).stdout).unwrap();
    assert_eq!(json["logical_bytes"], bytes(&place.path("a.db")).len());
    assert_eq!(json["file_bytes"], bytes(&place.path("a.packed")).len());
    assert_eq!(json["dictionaries"].as_array().unwrap().len(), 1);
}

#[test]
fn check_says_ok() {
    let place = packed(1000);
    let run = place.ok(&["check", "a.packed"]);
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("ok\n", ""));
    let json: Value =
        serde_json::from_str(&place.ok(&["check", "--json", "a.packed"]).stdout).unwrap();
    assert_eq!(json["ok"], true);
    assert_eq!(json["lost_bytes"], 0);
    assert_eq!(json["damage"], Value::Array(Vec::new()));
    assert!(
        json["units"].as_u64() > Some(10) && json["nodes"].as_u64() > Some(0),
        "{json}"
    );
}

#[test]
fn check_names_what_is_damaged() {
    let place = packed(20_000);
    let whole = bytes(&place.path("a.packed"));
    for at in [whole.len() / 2, whole.len() / 3] {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        std::fs::write(place.path("a.packed"), &damaged).unwrap();
        let run = place.run(&["check", "a.packed"]);
        assert_eq!(run.code, 1, "{run:?}");
        assert!(run.stdout.starts_with("page "), "{run:?}");
        let run = place.run(&["check", "--json", "a.packed"]);
        assert_eq!(run.code, 1, "{run:?}");
        let json: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(json["ok"], false);
        let damage = &json["damage"][0];
        assert!(
            damage["what"].as_str().unwrap().starts_with("page "),
            "{json}"
        );
        assert!(
            damage["offset"].is_u64() && damage["why"].is_string(),
            "{json}"
        );
    }
}

#[test]
fn a_file_cut_short_anywhere_is_damaged() {
    let place = packed(5000);
    let whole = bytes(&place.path("a.packed"));
    for kept in [100, 600, 2100, whole.len() / 2, whole.len() - 1] {
        std::fs::write(place.path("a.packed"), &whole[..kept]).unwrap();
        let run = place.run(&["check", "a.packed"]);
        assert!(run.code == 1 || run.code == 2, "{kept}: {run:?}");
        let run = place.run(&["unpack", "a.packed", "x"]);
        if run.code == 0 {
            // What is lost is not part of the database, such as the list of free space.
            assert!(
                bytes(&place.path("x")) == bytes(&place.path("a.db")),
                "{kept}"
            );
            std::fs::remove_file(place.path("x")).unwrap();
        } else {
            assert_eq!(run.code, 2, "{kept}: {run:?}");
            assert_eq!(place.names(), ["a.db", "a.packed"]);
        }
    }
}
