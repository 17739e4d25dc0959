//! Files made to be wrong, for tests and fuzzing.

#[cfg(test)]
mod encrypted;
pub mod forged;
mod forged_bases;
#[cfg(test)]
mod format_test;
pub mod hostile;

/// The same, of a file that is not encrypted.
#[cfg(test)]
pub(crate) fn plain_options() -> crate::Options {
    crate::Options {
        key: None,
        ..options()
    }
}

/// Notes that something was sealed: in no test of the process a nonce comes twice, whichever file it is of.
#[cfg(test)]
pub(crate) fn note_nonce(nonce: litepack_cipher::Nonce) {
    static KNOWN: std::sync::Mutex<std::collections::BTreeSet<([u8; 16], u64)>> =
        std::sync::Mutex::new(std::collections::BTreeSet::new());
    let mut known = KNOWN
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let is_new = known.insert((nonce.salt, nonce.counter));
    assert!(is_new, "a nonce was used twice");
}

/// A key.
#[cfg(test)]
pub(crate) fn key() -> Option<std::sync::Arc<litepack_cipher::Key>> {
    let key = litepack_cipher::Key::raw(&[7; 32]).ok();
    key.map(std::sync::Arc::new)
}

/// The same key for padded files.
#[cfg(test)]
fn padded(
    key: std::sync::Arc<litepack_cipher::Key>,
) -> Option<std::sync::Arc<litepack_cipher::Key>> {
    let key = key.with_padding(litepack_cipher::Padding::new(256)?);
    key.ok().map(std::sync::Arc::new)
}

/// Options of a file that shares nothing with others.
#[cfg(test)]
pub(crate) fn options() -> crate::Options {
    crate::Options {
        file: litepack_io::cache::FileId::unique(),
        differences: true,
        // The same tests on encrypted files, where that makes no difference.
        key: std::env::var_os("LITEPACK_ENCRYPTED").and_then(|how| match how == "padded" {
            true => key().and_then(padded),
            false => key(),
        }),
        ..crate::Options::default()
    }
}

/// A page of one byte, again and again.
#[cfg(test)]
pub(crate) fn page(content: u8) -> [u8; 4096] {
    [content; 4096]
}

/// The first byte of the database, at the newest commit.
#[cfg(test)]
pub(crate) fn first_byte(store: &mut crate::Store<impl litepack_io::storage::Storage>) -> u8 {
    let mut bytes = [0; 4096];
    store.refresh().unwrap();
    store.read(0, &mut bytes).unwrap();
    bytes[0]
}
