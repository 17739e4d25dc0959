//! No panic crosses into C: it becomes SQLITE_INTERNAL and a line in SQLite's error log.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::api::api;
use crate::codes::{Code, INTERNAL};

/// Runs `body`; if it panics, logs that and answers INTERNAL after calling `poison`.
pub(crate) fn guard(poison: impl FnOnce(), body: impl FnOnce() -> Code) -> Code {
    // What a panic leaves half done is never used again: `poison` sees to that.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(code) => code,
        Err(panic) => {
            let what = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            let _ = catch_unwind(AssertUnwindSafe(|| {
                api().log(
                    INTERNAL,
                    &format!("internal error, please report it: {what}"),
                );
                poison();
            }));
            INTERNAL
        }
    }
}
