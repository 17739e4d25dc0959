//! Tests that need the inside of the crate, and hostile logs for them and for the fuzzer.

#[cfg(test)]
mod format_test;
pub mod hostile;
