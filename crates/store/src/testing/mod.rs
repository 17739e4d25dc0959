//! Files made to be wrong, for tests and fuzzing.

pub mod forged;
mod forged_bases;
#[cfg(test)]
mod format_test;
pub mod hostile;

/// Options of a file that shares nothing with others.
#[cfg(test)]
pub(crate) fn options() -> crate::Options {
    crate::Options {
        file: litepack_io::cache::FileId::unique(),
        differences: true,
        ..crate::Options::default()
    }
}
