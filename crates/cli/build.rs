//! Tells the command from which commit it is built: `LITEPACK_COMMIT`, or what the package says, or git.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=LITEPACK_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    let given = std::env::var("LITEPACK_COMMIT").ok();
    let given = given.filter(|commit| !commit.trim().is_empty());
    let commit = given.or_else(of_package).or_else(of_git);
    let commit = commit.unwrap_or_else(|| "unknown".into());
    println!("cargo:rustc-env=LITEPACK_COMMIT={}", commit.trim());
}

/// The commit that `cargo package` wrote down.
fn of_package() -> Option<String> {
    let said = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, rest) = said.split_once("\"sha1\"")?;
    let sum: String = rest
        .chars()
        .skip_while(|c| !c.is_ascii_hexdigit())
        .collect();
    let sum: String = sum.chars().take_while(char::is_ascii_hexdigit).collect();
    (sum.len() >= 12).then(|| sum.chars().take(12).collect())
}

/// The commit that is checked out, if this file is of that repository and not only below it.
fn of_git() -> Option<String> {
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name])?;
        if Path::new(path.trim()).exists() {
            println!("cargo:rerun-if-changed={}", path.trim());
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    (output.status.success()).then_some(said)
}
