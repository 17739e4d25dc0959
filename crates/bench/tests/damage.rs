//! The program that damages databases, with the engines that need no network.
#![allow(missing_docs)]

use std::process::Command;

#[test]
fn litepack_gives_no_wrong_answer_and_plain_sqlite_does() {
    let output = Command::new(env!("CARGO_BIN_EXE_damage"))
        .args(["--engine", "plain SQLite", "--engine", "Litepack"])
        .args(["--engine", "Litepack, encrypted"])
        .args(["--trials", "3", "--rows", "3000"])
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    assert!(words.contains("seed "));
    let table = String::from_utf8(output.stdout).unwrap();
    let total = table.lines().last().unwrap();
    let cells: Vec<_> = total.trim_matches('|').split('|').map(str::trim).collect();
    let [name, plain, packed, encrypted] = cells[..] else {
        panic!("{table}");
    };
    assert_eq!(name, "**all**");
    // Right, error, an earlier state, wrong.
    let silent = |cell: &str| cell.split(" / ").nth(3).map(|count| count != "0");
    assert_eq!(
        silent(plain),
        Some(true),
        "the damage does nothing: {table}"
    );
    assert_eq!(silent(packed), Some(false), "{table}");
    assert_eq!(silent(encrypted), Some(false), "{table}");
}

#[test]
fn an_engine_that_is_not_there_is_an_error() {
    let output = Command::new(env!("CARGO_BIN_EXE_damage"))
        .args(["--engine", "dbase"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}
