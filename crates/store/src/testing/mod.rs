//! Files made to be wrong, for tests and fuzzing.

pub mod forged;
#[cfg(test)]
mod format_test;
pub mod hostile;
