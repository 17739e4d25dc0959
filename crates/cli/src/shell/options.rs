//! Options of the `sqlite3` shell that the user wants it to have. A few cannot be passed on, because the shell would
//! apply them to the database in memory that it starts with.

use crate::output::tell;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The options that the user gives to the shell.
#[derive(Default)]
pub struct Options {
    /// `-readonly`: the database is not written.
    pub readonly: bool,
    /// `-bail`: the shell ends at the first error. Passed on, too.
    pub bail: bool,
    /// `-batch`: there is no prompt. Passed on, too.
    pub batch: bool,
    /// `-init FILE`: what is read in place of the user's own file.
    pub startup_file: Option<PathBuf>,
    /// The options that are passed on.
    pub others: Vec<OsString>,
    /// Whether there are words that are neither options nor their values: SQL to run.
    pub has_sql: bool,
}

impl Options {
    pub fn read(options: &[OsString]) -> Options {
        let mut read = Options::default();
        let mut rest = options.iter();
        while let Some(option) = rest.next() {
            match name(option) {
                Some("readonly") => read.readonly = true,
                Some("init") => read.startup_file = rest.next().map(PathBuf::from),
                other => {
                    read.has_sql |= other.is_none();
                    read.bail |= other == Some("bail");
                    read.batch |= other == Some("batch");
                    read.others.push(option.clone());
                    let values = other.map_or(0, values);
                    read.others.extend(rest.by_ref().take(values).cloned());
                }
            }
        }
        read
    }
}

/// The name of an option, which may have one dash or two.
fn name(option: &OsStr) -> Option<&str> {
    let text = option.to_str()?.strip_prefix('-')?;
    Some(text.strip_prefix('-').unwrap_or(text))
}

/// How many of the next arguments belong to it, and so are none of the options here.
fn values(name: &str) -> usize {
    match name {
        "cmd" | "separator" | "newline" | "nullvalue" | "vfs" | "nonce" | "maxsize" | "mmap"
        | "heap" | "escape" => 1,
        "lookaside" | "pagecache" => 2,
        _ => 0,
    }
}

/// The file that is read at the start, if the user has one: `sqlite3/sqliterc` where XDG says, else `.sqliterc` in the
/// home directory. A file of another user's, such as of the one who calls `sudo`, is passed over with a warning.
pub fn startup_file_of_user() -> Option<PathBuf> {
    let from = |variable: &str, file: &str| {
        let directory = std::env::var_os(variable).filter(|value| !value.is_empty())?;
        let path = Path::new(&directory).join(file);
        path.is_file().then_some(path)
    };
    let home = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
    let file = from("XDG_CONFIG_HOME", "sqlite3/sqliterc").or_else(|| from(home, ".sqliterc"))?;
    if !is_trusted(&file) {
        tell!(
            "warning: {} belongs to another user, and is not read",
            file.display()
        );
        return None;
    }
    Some(file)
}

/// Whether a file belongs to the user or the superuser: its commands are run with the user's rights.
#[cfg(unix)]
fn is_trusted(file: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let user = rustix::process::geteuid().as_raw();
    file.metadata()
        .is_ok_and(|found| [user, 0].contains(&found.uid()))
}

#[cfg(not(unix))]
fn is_trusted(_file: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_us_is_taken_out() {
        let given = [
            "-json",
            "--readonly",
            "-init",
            "a b",
            "-bail",
            "-cmd",
            "-readonly",
        ];
        let read = Options::read(&given.map(OsString::from));
        assert!(read.readonly && read.bail);
        assert_eq!(read.startup_file, Some(PathBuf::from("a b")));
        assert_eq!(read.others, ["-json", "-bail", "-cmd", "-readonly"]);
        assert!(!Options::read(&["-separator".into(), "-readonly".into()]).readonly);
        let read = Options::read(&["-separator".into(), ";".into(), "select 1".into()]);
        assert_eq!(read.others, ["-separator", ";", "select 1"]);
        assert!(read.has_sql);
        assert!(!Options::read(&["-lookaside".into(), "100".into(), "10".into()]).has_sql);
    }
}
