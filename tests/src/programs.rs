//! Finds the programs that the tests run as a user would: the `litepack` command of this workspace,
//! built once when it is missing or stale.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::OnceLock;
use std::thread::JoinHandle;

/// Path of the `litepack` command, built in the profile and target directory of this test.
pub fn litepack() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        if let Some(path) = std::env::var_os("LITEPACK_BIN") {
            return path.into();
        }
        let profile = profile_directory();
        build(&profile, "litepack-cli");
        profile.join(format!("litepack{}", std::env::consts::EXE_SUFFIX))
    })
}

/// Runs `litepack` with these arguments to its end.
pub fn run_litepack<I, S>(arguments: I) -> Output
where
    I: IntoIterator<Item = S>,
    S: AsRef<std::ffi::OsStr>,
{
    let mut command = Command::new(litepack());
    command.args(arguments).stdin(std::process::Stdio::null());
    command.output().expect("the litepack command starts")
}

/// A process whose output is read while it runs, so that a full pipe never stops it.
#[derive(Debug)]
pub struct Listened(JoinHandle<std::io::Result<Output>>);

impl Listened {
    /// Begins to read.
    pub fn to(child: Child) -> Self {
        Listened(std::thread::spawn(move || child.wait_with_output()))
    }

    /// Waits for the process to end.
    pub fn output(self) -> Output {
        let read = self.0.join().expect("the listener does not panic");
        read.expect("a process can be waited for")
    }
}

/// `target/debug` or `target/release`: two levels above a test program.
fn profile_directory() -> PathBuf {
    let program = std::env::current_exe().expect("a test knows its own path");
    let deps = program.parent().expect("a test lies in deps");
    deps.parent().expect("deps lies in a profile").to_path_buf()
}

fn build(profile: &Path, package: &str) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "-p", package]);
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    command
        .arg("--target-dir")
        .arg(profile.parent().expect("a profile lies in target"));
    if profile.ends_with("release") {
        command.arg("--release");
    }
    let status = command.status().expect("cargo starts");
    assert!(status.success(), "cargo could not build {package}");
}
