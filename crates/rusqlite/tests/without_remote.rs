//! Without the feature `remote`, a database on a web server is refused in words that say why.
#![cfg(not(feature = "remote"))]

use rusqlite::{Connection, OpenFlags};

#[test]
fn a_url_is_refused_and_all_else_works() {
    litepack_rusqlite::register().unwrap();
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
    let url = "file:/logs?vfs=litepack&mode=ro&url=https%3A%2F%2Fdata.example%2Flogs.db";
    let error = Connection::open_with_flags(url, flags).unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains("cannot read from web servers") && said.contains("'remote'"),
        "{said}"
    );
    let place = tempfile::tempdir().unwrap();
    let uri = format!("file:{}/a.db?vfs=litepack", place.path().display());
    let connection = Connection::open_with_flags(uri, flags).unwrap();
    connection.execute_batch("create table t(x)").unwrap();
    let missing = connection.prepare("select litepack_remote_config('ca_file')");
    assert!(
        missing
            .unwrap_err()
            .to_string()
            .contains("no such function")
    );
}
