//! Litepack and the SQLite that is linked into this program.

use std::process::Command;

/// SQLite crates of all versions go with this one, so it may depend on none.
#[test]
fn no_bindings_crate_is_needed() {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "-p", "litepack-linked"])
        .args(["--edges", "normal,build", "--prefix", "none"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let text = String::from_utf8(tree.stdout).unwrap();
    assert!(text.contains("litepack-store"), "{text}");
    assert!(
        !text.contains("sqlite3-sys") && !text.contains("rusqlite"),
        "{text}"
    );
}
