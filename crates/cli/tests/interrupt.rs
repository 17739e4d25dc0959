//! Ctrl-C leaves nothing behind.
#![cfg(unix)]

mod common;

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
