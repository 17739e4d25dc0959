//! `info` and `check`, and what goes to which stream.

mod common;

use common::{Place, bytes, fill};
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

/// As with `litepack info a.packed | head -1`.
#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let place = packed(2000);
    for arguments in [
        &["info", "a.packed"][..],
        &["info", "--json", "a.packed"],
        &["check", "a.packed"],
        &["advise", "a.db"],
        &["advise", "--json", "a.db"],
        &["columns", "status", "a.db"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = place.command(arguments).stdout(writer).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && said.is_empty(),
            "{arguments:?}: {said}"
        );
    }
    #[cfg(target_os = "linux")]
    {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let output = place
            .command(&["info", "a.packed"])
            .stdout(full)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("cannot write to standard output"), "{said}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_nobody_can_be_told_changes_no_exit_code() {
    let place = packed(2000);
    let code = |arguments: &[&str]| {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let run = place.command(arguments).stderr(full.unwrap()).status();
        run.unwrap().code()
    };
    assert_eq!(code(&["pack", "a.db", "b.packed"]), Some(0));
    assert_eq!(code(&["unpack", "b.packed", "b.db"]), Some(0));
    assert_eq!(code(&["maintain", "b.packed"]), Some(0));
    assert_eq!(code(&["check", "missing"]), Some(2));
}

/// The report, and that it accounts for every page and every byte.
fn whole_report(place: &Place, name: &str) -> Value {
    let run = place.ok(&["info", "--json", name]);
    assert_eq!(run.stderr, "");
    let json: Value = serde_json::from_str(&run.stdout).unwrap();
    let trees = json["trees"].as_array().unwrap().iter();
    let others = json["other_pages"].as_object().unwrap().values();
    let shares: Vec<&Value> = trees.chain(others).collect();
    let sum = |field: &str| -> u64 {
        let fields = shares.iter().map(|share| share[field].as_u64().unwrap());
        fields.sum()
    };
    assert_eq!(sum("pages"), json["pages"]);
    assert_eq!(sum("plain_bytes"), json["logical_bytes"]);
    // Items are of several pages, and so of no table.
    let items = json["item_bytes"].as_u64().unwrap();
    assert_eq!(sum("stored_bytes") + items, json["stored_bytes"]);
    for share in &shares {
        let codecs = share["codecs"].as_object().unwrap().values();
        let bytes: u64 = codecs.map(|bytes| bytes.as_u64().unwrap()).sum();
        assert_eq!(bytes, share["stored_bytes"], "{share}");
    }
    let dictionaries = json["dictionaries"].as_array().unwrap().iter();
    let mut bytes: u64 = dictionaries.map(|len| len.as_u64().unwrap()).sum();
    for field in [
        "stored_bytes",
        "header_bytes",
        "map_bytes",
        "item_tree_bytes",
        "catalog_bytes",
        "prefetch_segment_bytes",
        "free_list_bytes",
        "free_bytes",
    ] {
        bytes += json[field].as_u64().unwrap();
    }
    assert_eq!(bytes, bytes_len(place, name));
    assert_eq!(json["unaccounted_bytes"], 0);
    json
}

fn bytes_len(place: &Place, name: &str) -> u64 {
    bytes(&place.path(name)).len() as u64
}

#[test]
fn info_says_which_tables_take_how_much() {
    for (page_size, auto_vacuum) in [(512, true), (4096, false), (65536, true)] {
        let place = Place::new();
        let db = place.open("a.db");
        db.execute_batch(&format!(
            "PRAGMA page_size={page_size}; PRAGMA auto_vacuum={};",
            2 * u8::from(auto_vacuum)
        ))
        .unwrap();
        fill(&db, 4000);
        db.execute_batch(
            "CREATE INDEX by_data ON t(data);
             CREATE TABLE blobs(b);
             INSERT INTO blobs SELECT randomblob(200000) FROM t LIMIT 8;
             CREATE TABLE zeros(z);
             INSERT INTO zeros VALUES (zeroblob(500000));
             CREATE TABLE gone AS SELECT data FROM t;
             DROP TABLE gone;",
        )
        .unwrap();
        db.close().unwrap();
        place.ok(&["pack", "a.db", "a.packed"]);
        let json = whole_report(&place, "a.packed");
        let trees = json["trees"].as_array().unwrap();
        let names: Vec<_> = trees.iter().map(|tree| tree["name"].as_str()).collect();
        assert_eq!(names.len(), 5, "{json}");
        assert_eq!(names[0], Some("blobs"));
        assert!(trees.is_sorted_by_key(|tree| -tree["stored_bytes"].as_i64().unwrap()));
        assert!(trees[0]["codecs"]["raw"].as_u64() > Some(1_000_000));
        let find = |name| trees.iter().find(|tree| tree["name"] == name).unwrap();
        let index = find("by_data");
        assert_eq!(
            (&index["type"], &index["table"]),
            (&"index".into(), &"t".into())
        );
        // For ten pages of 64 KiB it hardly pays.
        let with_dictionary = index["dictionary_bytes"].as_u64() > Some(0);
        assert!(with_dictionary || page_size == 65536, "{index}");
        // All but the leaf of this table is zeros, and stored nowhere.
        let zeros = find("zeros");
        assert!(zeros["plain_bytes"].as_u64() > Some(500_000), "{zeros}");
        assert!(zeros["stored_bytes"].as_u64() < Some(20_000), "{zeros}");
        let others = &json["other_pages"];
        assert!(others["free_pages"]["pages"].as_u64() > Some(2), "{others}");
        assert_eq!(
            others["pointer_map"]["pages"].as_u64() > Some(0),
            auto_vacuum
        );
        assert_eq!(others["unknown_pages"]["pages"], 0);

        let text = place.ok(&["info", "a.packed"]).stdout;
        for word in [
            "\ntable blobs",
            "\nindex by_data",
            "\nfree pages",
            "\npage map",
            "\nall ",
        ] {
            assert!(text.contains(word), "{text}");
        }
        assert!(!text.contains("damaged"), "{text}");
        assert!(text.lines().all(|line| !line.ends_with(' ')), "{text}");
    }
}

#[test]
fn info_on_empty_files_and_databases() {
    let place = Place::new();
    std::fs::write(place.path("a.db"), []).unwrap();
    place.ok(&["pack", "a.db", "a.packed"]);
    let json = whole_report(&place, "a.packed");
    assert_eq!(
        (&json["pages"], &json["trees"]),
        (&0.into(), &Value::Array(Vec::new()))
    );
    place.ok(&["info", "a.packed"]);

    place
        .open("b.db")
        .execute_batch("PRAGMA user_version=1")
        .unwrap();
    place.ok(&["pack", "b.db", "b.packed"]);
    assert_eq!(
        whole_report(&place, "b.packed")["trees"][0]["name"],
        "sqlite_schema"
    );
}

#[test]
fn info_says_what_it_could_not_read() {
    let place = packed(20_000);
    let whole = bytes(&place.path("a.packed"));
    let sound = whole_report(&place, "a.packed");
    // A page of the table, whichever it is; and page 1, which is written right behind the dictionary.
    let first = 2048 + sound["dictionaries"][0].as_u64().unwrap() as usize + 20;
    let all = sound["pages"].as_u64().unwrap();
    for (at, lost) in [(whole.len() / 2, 1), (first, all)] {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        std::fs::write(place.path("a.packed"), &damaged).unwrap();
        let json = whole_report(&place, "a.packed");
        assert_eq!(
            json["other_pages"]["unknown_pages"]["pages"], lost,
            "{json}"
        );
        assert_eq!(json["page_damage_total"], 1);
        assert_eq!(json["logical_bytes"], sound["logical_bytes"]);
        let text = place.ok(&["info", "a.packed"]).stdout;
        assert!(
            text.contains("packed file") && text.contains("\ndamaged"),
            "{text}"
        );
        assert!(
            text.contains("cannot be read") || text.contains("can be read"),
            "{text}"
        );
    }
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
        assert!(
            run.stderr.starts_with("litepack: a.packed is damaged; "),
            "{run:?}"
        );
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
            // The lost bytes are not part of the database, such as the list of free space.
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

#[test]
fn a_malformed_database_is_stored_as_it_is_and_said_to_be_so() {
    let place = Place::new();
    place.database("a.db", 4096, 5000);
    let mut damaged = bytes(&place.path("a.db"));
    let page = damaged.len() / 4096 / 2;
    damaged[page * 4096..(page + 1) * 4096].fill(0xa5);
    std::fs::write(place.path("a.db"), &damaged).unwrap();
    for command in [
        &["pack", "a.db", "a.packed"][..],
        &["archive", "create", "a.db", "a.zst"],
    ] {
        let run = place.ok(command);
        let page = format!("page {} ", page + 1);
        assert!(
            run.stderr.contains("malformed") && run.stderr.contains(&page),
            "{}",
            run.stderr
        );
    }
    place.ok(&["unpack", "a.packed", "back.db"]);
    assert!(damaged == bytes(&place.path("back.db")));
}

#[cfg(unix)]
#[test]
fn other_names_of_a_file_that_is_replaced_are_said() {
    let place = Place::new();
    place.database("a.db", 4096, 100);
    let plain = bytes(&place.path("a.db"));
    std::fs::hard_link(place.path("a.db"), place.path("b.db")).unwrap();
    let run = place.ok(&["pack", "--in-place", "a.db"]);
    assert!(run.stderr.contains("1 other name (hard"), "{}", run.stderr);
    assert!(plain == bytes(&place.path("b.db")));
    let run = place.ok(&["unpack", "--in-place", "a.db"]);
    assert!(!run.stderr.contains("hard"), "{}", run.stderr);
}

/// Several files, of both kinds, in one run: each under its name, and the worst of them gives the exit code.
#[test]
fn info_and_check_take_several_files() {
    let place = packed(3000);
    place.ok(&["archive", "create", "a.db", "a.zst"]);
    let mut damaged = bytes(&place.path("a.packed"));
    let at = damaged.len() / 2;
    damaged[at..at + 64].fill(0x5a);
    std::fs::write(place.path("bad.packed"), damaged).unwrap();
    let mut damaged = bytes(&place.path("a.zst"));
    let at = damaged.len() / 3;
    damaged[at..at + 64].fill(0x5a);
    std::fs::write(place.path("bad\x1b[2J.zst"), damaged).unwrap();
    let json = |run: &common::Run| serde_json::from_str::<Value>(&run.stdout).unwrap();
    let of = |code: i32, arguments: &[&str]| {
        let run = place.run(arguments);
        assert_eq!(run.code, code, "{arguments:?}: {run:?}");
        assert!(
            !run.stdout.contains('\x1b') && !run.stderr.contains('\x1b'),
            "{run:?}"
        );
        run
    };

    // One file is as it always was, and an archive is taken, too.
    assert_eq!(of(0, &["check", "a.packed"]).stdout, "ok\n");
    assert_eq!(of(0, &["check", "a.zst"]).stdout, "ok\n");
    let one = json(&of(0, &["check", "--json", "a.packed"]));
    assert!(one["ok"] == true && one.get("file").is_none(), "{one}");
    let archive = json(&of(0, &["info", "--json", "a.zst"]));
    assert_eq!(
        archive,
        json(&of(0, &["archive", "info", "--json", "a.zst"]))
    );
    assert_eq!(
        of(0, &["info", "a.zst"]).stdout,
        of(0, &["archive", "info", "a.zst"]).stdout
    );
    of(1, &["check", "bad\x1b[2J.zst"]);

    let sound = of(0, &["check", "a.packed", "a.zst"]);
    assert_eq!(
        (sound.stdout.as_str(), sound.stderr.as_str()),
        ("a.packed: ok\na.zst: ok\n", "")
    );
    let worse = of(
        1,
        &["check", "a.packed", "bad.packed", "bad\x1b[2J.zst", "a.zst"],
    );
    assert!(
        worse.stdout.starts_with("a.packed: ok\nbad.packed: "),
        "{worse:?}"
    );
    assert!(
        worse
            .stdout
            .contains("\nbad\u{fffd}[2J.zst: the archive is damaged: frame"),
        "{worse:?}"
    );
    assert!(worse.stdout.ends_with("a.zst: ok\n"), "{worse:?}");
    for files in [
        ["missing", "bad.packed", "a.packed"],
        ["bad.packed", "a.db", "a.packed"],
    ] {
        let worst = of(2, &[&["check"], &files[..]].concat());
        assert!(worst.stdout.ends_with("a.packed: ok\n"), "{worst:?}");
        let worst = of(2, &[&["check", "--json"], &files[..]].concat());
        let all = json(&worst);
        let all = all.as_array().unwrap();
        let names: Vec<_> = all
            .iter()
            .map(|one| one["file"].as_str().unwrap())
            .collect();
        assert_eq!(names, files);
        let failed = all.iter().find(|one| one.get("error").is_some()).unwrap();
        assert!(failed.get("ok").is_none(), "{failed}");
        assert_eq!(
            all.iter().find(|one| one["file"] == "bad.packed").unwrap()["ok"],
            false
        );
        assert_eq!(all[2]["ok"], true);
    }

    let info = of(0, &["info", "a.packed", "a.zst"]);
    assert!(info.stdout.starts_with("a.packed:\ndatabase"), "{info:?}");
    assert!(info.stdout.contains("\n\na.zst:\ndatabase"), "{info:?}");
    let info = of(2, &["info", "--json", "a.zst", "missing", "a.packed"]);
    let all = json(&info);
    assert_eq!(all[0]["format"], "zstd seekable");
    assert_eq!(
        (&all[0]["file"], &all[2]["file"]),
        (&"a.zst".into(), &"a.packed".into())
    );
    assert!(
        all[1]["error"].as_str().unwrap().contains("missing"),
        "{all}"
    );
    assert_eq!(all[2]["file_bytes"], bytes(&place.path("a.packed")).len());
    place.refused(
        &["info", "--html", "x.html", "a.packed", "a.zst"],
        "one file",
    );
    place.refused(
        &["info", "--html", "x.html", "a.zst"],
        "no page for an archive",
    );
    place.refused(&["check"], "required");
}
