//! Ctrl-C leaves nothing behind.
#![cfg(unix)]

mod common;

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::signals::Signal;
use common::{Place, bytes};

#[test]
fn a_signal_leaves_nothing_behind() {
    let place = Place::new();
    let source = place.database("a.db", 4096, 200_000);
    let before = bytes(&source);
    for (name, arguments) in [
        ("-INT", &["pack", "a.db", "x", "--level", "19"][..]),
        ("-TERM", &["pack", "--in-place", "a.db", "--level", "19"]),
    ] {
        let run = Signal {
            name,
            command: &|| place.command(arguments),
            begun: &|| place.names().len() > 1,
            after: Duration::ZERO,
            undo: &|| {
                let _ = std::fs::remove_file(place.path("x"));
                std::fs::write(&source, &before).unwrap();
            },
        }
        .ends();
        assert_eq!(run.code, 130, "{run:?}");
        assert!(run.stderr.contains("interrupted"), "{run:?}");
        assert_eq!(place.names(), ["a.db"]);
        assert!(bytes(&source) == before);
    }
}

/// A command that is killed cannot clean up. The next one does, and a check says what there is.
#[test]
fn what_a_killed_command_left_is_named_and_goes() {
    let place = Place::new();
    place.database("a.db", 4096, 100_000);
    place.database("b.db", 4096, 1000);
    let mine = ".x.litepack-backups0123456789";
    std::fs::write(place.path(mine), "mine").unwrap();
    for (command, check) in [
        (&["pack", "--level", "19"][..], &["check"][..]),
        (&["archive", "create", "--level", "22"], &["check"]),
        (
            &["archive", "create", "--level", "22"],
            &["archive", "check"],
        ),
    ] {
        let with = |more: &[&'static str]| [command, &["--force"], more].concat();
        let small = || drop(place.ok(&with(&["b.db", "x"])));
        small();
        let left = || {
            let mut names = place.names().into_iter();
            names.find(|name| name.starts_with(".x") && name != mine)
        };
        let again = || place.command(&with(&["a.db", "x"]));
        let run = Signal {
            name: "-KILL",
            command: &again,
            begun: &|| left().is_some(),
            after: Duration::ZERO,
            undo: &small,
        }
        .meets(&|_, _| left().is_some());
        assert_eq!(run.code, -1, "{run:?}");
        assert_eq!(place.names().len(), 5, "{:?}", place.names());
        let killed = left().unwrap();
        let said = place.ok(&[check, &["x"]].concat()).stderr;
        assert!(said.contains(&killed), "{check:?}: {said}");
        // One that goes on is left alone.
        let run = Signal {
            name: "-INT",
            command: &again,
            begun: &|| {
                let at_work = left().filter(|name| *name != killed);
                if at_work.is_some() {
                    small();
                }
                at_work.is_some()
            },
            after: Duration::ZERO,
            undo: &|| (),
        }
        .ends();
        assert_eq!(run.code, 130, "{run:?}");
        assert_eq!(place.names(), [mine, "a.db", "b.db", "x"]);
    }
}

/// The way back has the same temporary files.
#[test]
fn the_next_command_removes_what_a_killed_one_left_of_the_way_back() {
    let place = Place::new();
    place.database("a.db", 4096, 100_000);
    place.ok(&["pack", "--fast", "a.db", "a.packed"]);
    place.ok(&["archive", "create", "--level", "1", "a.db", "a.zst"]);
    for command in [
        &["unpack", "--force", "a.packed", "x"][..],
        &["archive", "extract", "--force", "a.zst", "x"],
    ] {
        let left = || place.names().iter().any(|name| name.starts_with(".x"));
        let run = Signal {
            name: "-KILL",
            command: &|| place.command(command),
            begun: &left,
            after: Duration::ZERO,
            undo: &|| (),
        }
        .meets(&|_, _| left());
        assert_eq!(run.code, -1, "{run:?}");
        place.ok(command);
        assert_eq!(place.names(), ["a.db", "a.packed", "a.zst", "x"]);
        assert!(bytes(&place.path("a.db")) == bytes(&place.path("x")));
        std::fs::remove_file(place.path("x")).unwrap();
    }
}

/// It works in the file itself, by commits: a kill leaves what was committed, and no other file.
#[test]
fn a_killed_maintenance_leaves_a_sound_file_and_nothing_else() {
    let place = Place::new();
    let lines = (0..200_000_u64).map(|n| {
        let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!(
            r#"{{"id":{n},"kind":{},"note":"{mixed:x}","text":"some words that repeat"}}"#,
            n % 7
        ) + "\n"
    });
    std::fs::write(place.path("lines"), lines.collect::<String>()).unwrap();
    place.ok(&["ingest", "lines", "--into", "x"]);
    place.ok(&["unpack", "x", "plain"]);
    let before = bytes(&place.path("x"));
    let run = Signal {
        name: "-KILL",
        command: &|| place.command(&["maintain", "x"]),
        // The first change of it.
        begun: &|| bytes(&place.path("x")) != before,
        after: Duration::ZERO,
        undo: &|| std::fs::write(place.path("x"), &before).unwrap(),
    }
    .ends();
    assert_eq!(run.code, -1, "{run:?}");
    assert_eq!(place.names(), ["lines", "plain", "x"]);
    assert_eq!(place.ok(&["check", "x"]).stderr, "");
    let goes_on = place.ok(&["maintain", "x"]);
    assert!(!goes_on.stderr.contains("nothing to do"), "{goes_on:?}");
    place.ok(&["unpack", "x", "after"]);
    assert!(bytes(&place.path("plain")) == bytes(&place.path("after")));
    assert_eq!(place.names(), ["after", "lines", "plain", "x"]);
}

/// As under `nohup`, and as a shell starts jobs in the background. Others end it as ever.
#[test]
#[cfg(target_os = "linux")]
fn a_signal_that_is_ignored_from_the_beginning_stays_so() {
    let place = Place::new();
    place.database("a.db", 4096, 100_000);
    for (name, before) in [
        ("-HUP", &["nohup"][..]),
        ("-INT", &["sh", "-c", "trap '' INT; exec \"$@\"", "sh"]),
    ] {
        let command = || {
            let own = [
                env!("CARGO_BIN_EXE_litepack"),
                "pack",
                "--level",
                "19",
                "a.db",
                "x",
            ];
            let arguments = [&before[1..], &own].concat();
            let mut command = place.command_at(Path::new(before[0]), &arguments);
            command.stdin(Stdio::null()).stdout(Stdio::null());
            command
        };
        let remove = || drop(std::fs::remove_file(place.path("x")));
        let begun = || place.names().len() > 1;
        let signal = |name| Signal {
            name,
            command: &command,
            begun: &begun,
            after: Duration::ZERO,
            undo: &remove,
        };
        signal(name).meets(&|run, _| run.code == 0);
        assert_eq!(place.names(), ["a.db", "x"], "{name}");
        remove();
        let run = signal("-TERM").ends();
        assert_eq!(run.code, 130, "{run:?}");
        assert_eq!(place.names(), ["a.db"]);
    }
}

/// The time from a signal to the end, in each part of the work.
#[test]
fn a_signal_is_heeded_at_once() {
    let place = Place::new();
    place.database("a.db", 4096, 150_000);
    for (arguments, after) in [
        (&["pack", "--best", "a.db", "x"][..], 20),
        (&["pack", "--best", "a.db", "x"], 400),
        (&["pack", "--level", "19", "a.db", "x"], 700),
        (&["archive", "create", "--level", "22", "a.db", "x"], 300),
    ] {
        let run = Signal {
            name: "-INT",
            command: &|| place.command(arguments),
            begun: &|| place.names().len() > 1,
            after: Duration::from_millis(after),
            undo: &|| drop(std::fs::remove_file(place.path("x"))),
        }
        // Much more than it takes, and in one of several tries: a machine may have other work.
        .meets(&|run, took| {
            println!("{arguments:?} at most {after} ms after its begin: {took:?}");
            run.code != 0 && took < Duration::from_millis(1500)
        });
        assert_eq!(run.code, 130, "{run:?}");
        assert_eq!(place.names(), ["a.db"]);
    }
}

/// A command that changes nothing ends wherever it waits, here for the reader of its output, which is longer than a pipe
/// has room for: so it is sure to go on when the signal comes.
#[test]
fn a_command_that_only_reads_says_that_it_was_interrupted() {
    let place = Place::new();
    place.database("plain.db", 4096, 100);
    // A name of 200 characters makes lines long.
    let name = "x".repeat(200);
    place.ok(&["pack", "plain.db", &name]);
    let archive = format!("{name}.zst");
    place.ok(&["archive", "create", "plain.db", &archive]);
    for command in ["info", "check"] {
        for file in [&name, &archive] {
            let mut arguments = vec![command];
            arguments.extend([file.as_str(); 1000]);
            let mut child = place
                .command(&arguments)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut out = child.stdout.take().unwrap();
            out.read_exact(&mut [0]).unwrap();
            let pid = child.id().to_string();
            let sent = Command::new("kill").args(["-INT", &pid]).status().unwrap();
            assert!(sent.success());
            let mut stderr = String::new();
            child
                .stderr
                .take()
                .unwrap()
                .read_to_string(&mut stderr)
                .unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(130), "{command}");
            assert_eq!(stderr, "litepack: interrupted\n", "{command}");
        }
    }
}
