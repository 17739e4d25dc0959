//! Ctrl-C leaves nothing behind.
#![cfg(unix)]

mod common;

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Place, Run, bytes};

/// Sends a signal as soon as the child has made its temporary file.
fn interrupt(place: &Place, mut child: Child, signal: &str, files: usize) -> Run {
    let started = Instant::now();
    while place.names().len() == files {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "it never began"
        );
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it began");
        std::thread::sleep(Duration::from_millis(2));
    }
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args([signal, &pid])
            .status()
            .unwrap()
            .success()
    );
    Run::of(child.wait_with_output().unwrap())
}

#[test]
fn a_signal_leaves_nothing_behind() {
    let place = Place::new();
    let source = place.database("a.db", 4096, 200_000);
    let before = bytes(&source);
    for (signal, arguments) in [
        ("-INT", &["pack", "a.db", "x", "--level", "19"][..]),
        ("-TERM", &["pack", "--in-place", "a.db", "--level", "19"]),
    ] {
        let child = place
            .command(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let run = interrupt(&place, child, signal, 1);
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
    place.ok(&["pack", "b.db", "x"]);
    let mine = ".x.litepack-backups0123456789";
    std::fs::write(place.path(mine), "mine").unwrap();
    let again = ["pack", "--force", "--level", "19", "a.db", "x"];
    let child = place
        .command(&again)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let run = interrupt(&place, child, "-KILL", 4);
    assert_eq!(run.code, -1, "{run:?}");
    let left = place.names();
    assert_eq!(left.len(), 5, "{left:?}");
    let left = left
        .iter()
        .find(|name| name.starts_with(".x") && *name != mine);
    let check = place.ok(&["check", "x"]);
    assert!(check.stderr.contains(left.unwrap()), "{check:?}");
    // One that goes on is left alone.
    let child = place
        .command(&again)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while place.names().contains(left.unwrap()) || place.names().len() < 5 {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "{left:?} stays"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    place.ok(&["pack", "--force", "b.db", "x"]);
    let run = interrupt(&place, child, "-INT", 0);
    assert_eq!(run.code, 130, "{run:?}");
    assert_eq!(place.names(), [mine, "a.db", "b.db", "x"]);
}

/// A command that has begun to write so many milliseconds ago, or fewer if this machine is faster than that.
fn working(place: &Place, arguments: &[&str], mut after: u64) -> Child {
    loop {
        let mut child = place
            .command(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let started = Instant::now();
        while place.names().len() == 1 {
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "it never began"
            );
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(after));
        let Some(status) = child.try_wait().unwrap() else {
            return child;
        };
        assert!(status.success(), "{arguments:?}: {status}");
        assert!(after > 5, "{arguments:?} ends before it can be told");
        std::fs::remove_file(place.path("x")).unwrap();
        after /= 2;
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
        let child = working(&place, arguments, after);
        let told = Instant::now();
        let run = interrupt(&place, child, "-INT", 0);
        // Much more than it takes on a machine with nothing else to do.
        let took = told.elapsed();
        println!("{arguments:?} after {after} ms: {took:?}");
        assert!(
            took < Duration::from_millis(1500),
            "{arguments:?}: {took:?}"
        );
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
