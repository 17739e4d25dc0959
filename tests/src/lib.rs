//! Helpers for the end-to-end tests: opening databases through the VFS under test, running one
//! script on a plain and a packed database, content fingerprints, a seeded generator of SQL, and
//! finding the programs that are built beside the tests.
//!
//! Nothing here is shipped. Environment variables that the tests obey:
//!
//! | variable | meaning |
//! |---|---|
//! | `LITEPACK_TEST_VFS` | VFS under test; `unix` compares plain SQLite with itself |
//! | `LITEPACK_ENCRYPTED=1` | packed databases are encrypted; by `padded` also padded |
//! | `LITEPACK_LONG=1` | many more seeds, trials and sizes (`make test-long`) |
//! | `LITEPACK_SEED=N` | run only this seed of a randomised test |
//! | `LITEPACK_MINIMISE=1` | shrink a failing random run to a short script before reporting it |

#![forbid(unsafe_code)]

pub mod archives;
pub mod bank;
pub mod churn;
pub mod columns;
pub mod commandline;
pub mod content;
pub mod damage;
pub mod generate;
pub mod logs;
pub mod machine;
pub mod outcome;
pub mod pair;
pub mod peer;
pub mod programs;
pub mod rng;
pub mod roundtrip;
pub mod script;
pub mod twin;
pub mod vfs;

/// Whether the long versions of the tests were asked for.
pub fn long() -> bool {
    std::env::var_os("LITEPACK_LONG").is_some_and(|v| v != "0")
}

/// `short` by default, `long` under `LITEPACK_LONG=1`.
pub fn scale<T>(short: T, long: T) -> T {
    if self::long() { long } else { short }
}

/// The seeds a randomised test shall run: `LITEPACK_SEED` alone when it is set, else the first
/// `count` counted from `first`.
pub fn seeds(first: u64, count: u64) -> Vec<u64> {
    match std::env::var("LITEPACK_SEED") {
        Ok(text) => vec![text.parse().expect("LITEPACK_SEED is a number")],
        Err(_) => (first..first + count).collect(),
    }
}
