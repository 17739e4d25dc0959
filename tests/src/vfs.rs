//! Owns the choice of VFS: every test opens its databases here, so that all of them can be run on
//! plain SQLite (`LITEPACK_TEST_VFS=unix`) to validate the tests themselves.

use litepack_simdisk::Layer;
use litepack_skip::{Expected, skip};
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::sync::OnceLock;

/// SQLite's own VFS, named explicitly wherever a database must be plain.
pub const PLAIN: &str = "unix";

const PACKED: &str = "litepack";

/// Name of the VFS under test, registered with the SQLite linked into this program.
pub fn under_test() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let name = std::env::var("LITEPACK_TEST_VFS").unwrap_or_else(|_| PACKED.to_string());
        if name == PACKED {
            register();
        }
        name
    })
}

/// Whether the VFS under test really is Litepack.
pub fn is_litepack() -> bool {
    under_test() == PACKED
}

/// Says that the running test is left out, as it is of packed databases alone and none are tested.
pub fn skip_packed() {
    let why = format!("LITEPACK_TEST_VFS={}: no packed database", under_test());
    skip(Expected::ByChoice, why);
}

fn register() {
    litepack_rusqlite::register().expect("Litepack registers itself with the bundled SQLite");
}

/// Whether packed databases are encrypted in this run.
pub fn is_encrypted() -> bool {
    is_litepack() && std::env::var_os("LITEPACK_ENCRYPTED").is_some_and(|v| v != "0")
}

/// The key of packed databases in a run in which they are encrypted, as a parameter of a URI.
const KEY: &str = "&hexkey=5f0c3a0e96dd47b3ac1b93d0d4c5a8e2735f0c3a0e96dd47b3ac1b93d0d4c5a8";

/// The same with a padding.
const PADDED_KEY: &str =
    "&padding=256&hexkey=5f0c3a0e96dd47b3ac1b93d0d4c5a8e2735f0c3a0e96dd47b3ac1b93d0d4c5a8";

/// What the URI of a packed database has behind the name of its VFS: its key, if it is encrypted, and a padding, if that
/// is asked for.
pub fn key() -> &'static str {
    let is_padded = || std::env::var_os("LITEPACK_ENCRYPTED").is_some_and(|v| v == "padded");
    match is_encrypted() {
        false => "",
        true if is_padded() => PADDED_KEY,
        true => KEY,
    }
}

/// Litepack over the simulated disk whose VFS is `parent`.
pub fn over(parent: &str) -> Layer {
    litepack_rusqlite::register().expect("Litepack registers");
    let vfs = format!("litepack-{parent}");
    litepack_rusqlite::register_vfs(&vfs, parent).expect("Litepack goes over the simulated disk");
    let vfs = vfs + key();
    Layer {
        aux: vfs.clone(),
        vfs,
    }
}

/// A URI for `path` on the VFS `vfs`, with more parameters (`"mode=ro&cache=…"`) when not empty.
pub fn uri(path: &Path, vfs: &str, parameters: &str) -> String {
    let mut uri = format!("file:{}?vfs={vfs}", escape(path));
    if vfs == PACKED {
        uri.push_str(key());
    }
    if !parameters.is_empty() {
        uri.push('&');
        uri.push_str(parameters);
    }
    uri
}

fn escape(path: &Path) -> String {
    let text = path.to_str().expect("test paths are UTF-8");
    text.replace('%', "%25")
        .replace('?', "%3f")
        .replace('#', "%23")
}

/// Opens `path` through the VFS under test, creating it when missing.
pub fn open(path: &Path) -> rusqlite::Result<Connection> {
    open_with(path, "")
}

/// [`open`] with URI parameters.
pub fn open_with(path: &Path, parameters: &str) -> rusqlite::Result<Connection> {
    open_uri(&uri(path, under_test(), parameters))
}

/// Opens `path` as a plain SQLite database, creating it when missing.
pub fn open_plain(path: &Path) -> rusqlite::Result<Connection> {
    open_uri(&uri(path, PLAIN, ""))
}

/// Opens whatever the URI says, for reading and writing unless it has `mode=ro`.
pub fn open_uri(uri: &str) -> rusqlite::Result<Connection> {
    under_test();
    let access = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    Connection::open_with_flags(
        uri,
        access | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
}

/// Whether the file begins as a plain SQLite database does.
pub fn looks_plain(path: &Path) -> std::io::Result<bool> {
    use std::io::Read;
    let mut head = [0; 16];
    let mut file = std::fs::File::open(path)?;
    match file.read_exact(&mut head) {
        Ok(()) => Ok(&head == b"SQLite format 3\0"),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Asserts that the file at `path` is packed when Litepack is under test.
pub fn assert_packed(path: &Path) {
    if is_litepack() {
        let plain = looks_plain(path).expect("the database file can be read");
        assert!(
            !plain,
            "{} is a plain database, not a packed one",
            path.display()
        );
    }
}
