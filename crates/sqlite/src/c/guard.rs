//! No panic crosses into C: it becomes SQLITE_INTERNAL and a line in SQLite's error log.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::api::Api;
use crate::c::codes::{Code, INTERNAL};

/// Runs `body` for a call from the library `api`; if it panics, logs that there and answers INTERNAL after calling
/// `poison`.
pub(crate) fn guard(api: Api, poison: impl FnOnce(), body: impl FnOnce() -> Code) -> Code {
    // State that a panic leaves half done is never used again: `poison` sees to that.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(code) => code,
        Err(panic) => {
            poison();
            let what = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            let log = || {
                let text = format!("internal error, please report it: {what}");
                api.log(INTERNAL, &text);
            };
            let _ = catch_unwind(AssertUnwindSafe(log));
            INTERNAL
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::api::tests::silent;
    use super::*;
    use crate::c::codes::OK;

    #[test]
    fn a_panic_becomes_a_code_and_poisons() {
        let (api, mut poisoned) = (silent(), false);
        assert_eq!(
            guard(api, || poisoned = true, || panic!("on purpose")),
            INTERNAL
        );
        assert!(poisoned);
        assert_eq!(guard(api, || unreachable!("nothing happened"), || OK), OK);
    }
}
