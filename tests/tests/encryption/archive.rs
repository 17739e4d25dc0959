//! Encrypted archives as databases, in local files and on servers.

use std::path::{Path, PathBuf};

use litepack_tests::vfs;
use litepack_webserver::Server;
use rusqlite::{Connection, ErrorCode};

use crate::place::{IN_URI, KEY, Place, count, failure, fill, give, sings};

const OTHER: &str = "x'ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff'";

/// A database with pages of this size, in WAL mode, as an archive.
fn archive(place: &Place, page_size: u32) -> PathBuf {
    let plain = place.path(&format!("plain {page_size}.db"));
    let connection = vfs::open_plain(&plain).unwrap();
    let pages = format!("pragma page_size = {page_size}; pragma journal_mode = wal;");
    connection.execute_batch(&pages).unwrap();
    fill(&connection);
    connection.close().unwrap();
    let target = place.path(&format!("{page_size}.zst"));
    let key = litepack::Key::written(KEY.as_bytes()).unwrap();
    let job = litepack::Job::default().with_key(&std::sync::Arc::new(key));
    let options = litepack::archive::CreateOptions {
        encrypt: true,
        ..litepack::archive::CreateOptions::default()
    };
    litepack::archive::create(&plain, &target, &options, &job).unwrap();
    target
}

fn uri(path: &Path, parameters: &str) -> String {
    vfs::uri(path, vfs::under_test(), parameters)
}

fn with_key(uri: &str) -> Connection {
    let connection = vfs::open_uri(uri).unwrap();
    assert_eq!(give(&connection, "key", KEY).unwrap(), "ok");
    connection
}

#[test]
fn an_encrypted_archive_opens_with_its_key_alone() {
    if !vfs::is_litepack() || vfs::is_encrypted() {
        return vfs::skip_packed();
    }
    for page_size in [512, 4096, 8192, 65536] {
        let place = Place::new();
        let path = archive(&place, page_size);
        let bytes = std::fs::read(&path).unwrap();
        assert!(!sings(&bytes));
        let server = Server::of(bytes);
        let url: String = server
            .url("/x")
            .bytes()
            .map(|b| format!("%{b:02x}"))
            .collect();
        for (name, parameters) in [
            (path.as_path(), String::new()),
            (Path::new("/nonexistent/x"), format!("mode=ro&url={url}")),
        ] {
            let bare = uri(name, &parameters);
            let keyed = uri(name, &format!("{parameters}&{IN_URI}"));
            for connection in [with_key(&bare), vfs::open_uri(&keyed).unwrap()] {
                // Before anything is read.
                let size = connection.query_row("pragma page_size", [], |row| row.get::<_, u32>(0));
                assert_eq!(size.unwrap(), page_size);
                assert_eq!(count(&connection).unwrap(), 500, "{page_size}");
                assert!(connection.is_readonly("main").unwrap());
                let text = |sql: &str| {
                    connection
                        .query_row(sql, [], |row| row.get::<_, String>(0))
                        .unwrap()
                };
                assert_eq!(text("pragma integrity_check"), "ok");
                assert_eq!(text("pragma litepack_check"), "ok");
                assert_eq!(text("pragma cipher"), "aes256gcm");
                failure(connection.execute_batch("delete from t"));
                failure(give(&connection, "key", KEY));
                let copy = place.path("copy.db");
                connection
                    .execute("vacuum into ?1", [uri(&copy, "")])
                    .unwrap();
                assert!(!sings(&std::fs::read(&copy).unwrap()));
                assert_eq!(
                    count(&crate::place::open(&copy, KEY).unwrap()).unwrap(),
                    500
                );
                std::fs::remove_file(copy).unwrap();
            }
            let locked = vfs::open_uri(&bare).unwrap();
            assert_eq!(failure(count(&locked)).0, ErrorCode::NotADatabase);
            let info = locked.query_row("pragma litepack_info", [], |row| row.get::<_, String>(0));
            assert_eq!(failure(info).1, "file is encrypted: give PRAGMA key");
            let wrong = (ErrorCode::NotADatabase, "wrong key".to_owned());
            assert_eq!(failure(give(&locked, "key", OTHER)), wrong);
            assert_eq!(failure(count(&locked)).0, ErrorCode::NotADatabase);
            // Not where SQLite writes temporary files in plain; and attached with a key of its own.
            let plain = vfs::open_uri(&vfs::uri(&place.path("main.db"), vfs::PLAIN, "")).unwrap();
            let refused = failure(plain.execute("attach ?1 as far", [&keyed]));
            assert_eq!(refused.0, ErrorCode::ApiMisuse);
            let main = vfs::open(&place.path("packed.db")).unwrap();
            let attach = "select litepack_attach(?1, 'far', ?2)";
            main.query_row(attach, [&bare, KEY], |_| Ok(())).unwrap();
            let far = main.query_row("select count(*) from far.t", [], |row| row.get::<_, u32>(0));
            assert_eq!(far.unwrap(), 500);
        }
        let shared = vfs::open_uri(&uri(&path, "cache=shared"));
        assert_eq!(failure(shared).0, ErrorCode::ApiMisuse);
        let names = place.files();
        assert!(
            names
                .iter()
                .all(|(name, _)| !name.to_string_lossy().contains("zst-"))
        );
    }
}
