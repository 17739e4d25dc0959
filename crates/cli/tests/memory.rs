//! Packing, unpacking and reporting take a bounded amount of memory, however large the database is.
#![cfg(target_os = "linux")]

mod common;

use std::process::Stdio;
use std::time::Duration;

use common::Place;

/// Runs the command and returns the most memory it had resident, in KiB.
fn peak(place: &Place, arguments: &[&str]) -> u64 {
    let mut child = place
        .command(arguments)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let now = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        peak = peak.max(now.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(child.wait().unwrap().success(), "{arguments:?}");
    peak
}

#[test]
#[ignore = "makes a database of 1 GB"]
fn a_gigabyte_in_less_than_200_mb() {
    let place = Place::new();
    let source = place.database("a.db", 4096, 8_000_000);
    assert!(source.metadata().unwrap().len() > 1_000_000_000);
    for arguments in [
        &["pack", "a.db", "a.packed"][..],
        &["check", "a.packed"],
        &["info", "a.packed"],
        &["unpack", "a.packed", "b.db"],
    ] {
        let peak = peak(&place, arguments);
        println!("{arguments:?}: {peak} KiB");
        assert!(peak < 200_000, "{arguments:?}: {peak} KiB");
    }
}
