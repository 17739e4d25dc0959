//! The text of `--version`. The first line is all that `-V` says; the others are for those who report a fault.

use std::sync::LazyLock;

/// The version, and what it is made of and reads.
static LONG: LazyLock<String> = LazyLock::new(|| {
    let versions = litepack::versions();
    format!(
        "{}\ncommit {}\nSQLite {}\nzstd {}\nformat {}",
        versions.litepack,
        env!("LITEPACK_COMMIT"),
        versions.sqlite,
        versions.zstd,
        versions.format
    )
});

/// All of it, without the name of the command.
pub fn long() -> &'static str {
    &LONG
}
