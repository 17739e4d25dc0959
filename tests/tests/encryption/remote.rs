//! An encrypted database on a server: its key in every way, what is told without it, and what the disk cache holds.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use litepack_rusqlite::remote_config;
use litepack_tests::vfs;
use litepack_webserver::{Reply, Server};
use rusqlite::{Connection, ErrorCode};

use crate::place::{IN_URI, KEY, Place, count, failure, fill, fill_with, give, sings};

const OTHER: &str = "x'ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff'";
/// The cache directory is the process's.
static SETTINGS: RwLock<()> = RwLock::new(());

fn alone_with_settings() -> RwLockWriteGuard<'static, ()> {
    SETTINGS.write().unwrap_or_else(PoisonError::into_inner)
}

fn with_settings_as_they_are() -> RwLockReadGuard<'static, ()> {
    SETTINGS.read().unwrap_or_else(PoisonError::into_inner)
}

fn escape(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

fn at(url: &str, parameters: &str) -> String {
    let parameters = format!("mode=ro&url={}{parameters}", escape(url));
    vfs::uri(Path::new("/nonexistent/x"), vfs::under_test(), &parameters)
}

fn open(url: &str, parameters: &str) -> rusqlite::Result<Connection> {
    vfs::open_uri(&at(url, parameters))
}

fn with_key(url: &str) -> Connection {
    let connection = open(url, "").unwrap();
    assert_eq!(give(&connection, "key", KEY).unwrap(), "ok");
    connection
}

/// A server of an encrypted database with pages of this size, as packing makes it.
fn packed(place: &Place, page_size: u32) -> PathBuf {
    let plain = place.path(&format!("plain {page_size}.db"));
    let connection = vfs::open_plain(&plain).unwrap();
    let pages = format!("pragma page_size = {page_size}; pragma journal_mode = wal;");
    connection.execute_batch(&pages).unwrap();
    fill(&connection);
    connection.close().unwrap();
    let target = place.path(&format!("packed {page_size}.db"));
    pack(&plain, &target);
    target
}

fn pack(plain: &Path, target: &Path) {
    let key = litepack::Key::written(KEY.as_bytes()).unwrap();
    let job = litepack::Job::default().with_key(&std::sync::Arc::new(key));
    litepack::pack(plain, target, &litepack::PackOptions::default(), &job).unwrap();
}

fn server(place: &Place, page_size: u32) -> Server {
    Server::of(std::fs::read(packed(place, page_size)).unwrap())
}

#[test]
fn the_key_comes_by_pragma_uri_and_attach_whatever_the_size_of_pages() {
    if !vfs::is_litepack() || vfs::is_encrypted() {
        return vfs::skip_packed();
    }
    let _settings = with_settings_as_they_are();
    for page_size in [512, 4096, 8192, 65536] {
        let place = Place::new();
        let url = server_url(server(&place, page_size));
        let by_uri = open(&url.0, &format!("&{IN_URI}")).unwrap();
        assert_eq!(count(&by_uri).unwrap(), 500, "{page_size}");
        let by_pragma = with_key(&url.0);
        let pages = |connection: &Connection| -> (u32, u32) {
            let sql = "select page_size, page_count from pragma_page_size, pragma_page_count";
            let found = connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)));
            found.unwrap()
        };
        assert_eq!(count(&by_pragma).unwrap(), 500, "{page_size}");
        assert_eq!(pages(&by_pragma), pages(&by_uri));
        assert_eq!(pages(&by_pragma).0, page_size);
        let check =
            by_pragma.query_row("pragma integrity_check", [], |row| row.get::<_, String>(0));
        assert_eq!(check.unwrap(), "ok");
        assert!(by_pragma.is_readonly("main").unwrap());
        for pragma in ["key", "rekey"] {
            failure(give(&by_pragma, pragma, OTHER));
        }
        let cipher = by_pragma.query_row("pragma cipher", [], |row| row.get::<_, String>(0));
        assert_eq!(cipher.unwrap(), "aes256gcm");
        // One that is attached has main's key, or its own.
        let main = vfs::open(&place.path("main.db")).unwrap();
        let attached = "select litepack_attach(?1, 'far', ?2)";
        let attach = |key: &str| {
            main.query_row(attached, [at(&url.0, "").as_str(), key], |row| {
                row.get::<_, String>(0)
            })
        };
        assert_eq!(failure(attach(OTHER)).0, ErrorCode::NotADatabase);
        assert_eq!(attach(KEY).unwrap(), "ok");
        let far = main.query_row("select count(*) from far.t", [], |row| row.get::<_, u32>(0));
        assert_eq!(far.unwrap(), 500);
        by_pragma
            .execute("attach ?1 as far", [at(&url.0, "")])
            .unwrap();
        let far = by_pragma.query_row("select count(*) from far.t", [], |row| row.get::<_, u32>(0));
        assert_eq!(far.unwrap(), 500);
    }
}

/// SQLite does not ask again how long it is: there is no page in it that has another size.
#[test]
fn an_empty_one_has_to_be_opened_with_its_key() {
    if !vfs::is_litepack() || vfs::is_encrypted() {
        return vfs::skip_packed();
    }
    let _settings = with_settings_as_they_are();
    let place = Place::new();
    let (plain, target) = (place.path("plain.db"), place.path("packed.db"));
    std::fs::write(&plain, "").unwrap();
    pack(&plain, &target);
    let (url, _server) = server_url(Server::of(std::fs::read(target).unwrap()));
    let tables = |connection: &Connection| {
        let sql = "select count(*) from sqlite_schema";
        connection.query_row(sql, [], |row| row.get::<_, u32>(0))
    };
    let by_pragma = with_key(&url);
    assert_eq!(failure(tables(&by_pragma)).0, ErrorCode::ApiMisuse);
    let by_uri = open(&url, &format!("&{IN_URI}")).unwrap();
    assert_eq!(tables(&by_uri).unwrap(), 0);
}

/// A server, and where it is.
fn server_url(server: Server) -> (String, Server) {
    (server.url("/x.db"), server)
}

#[test]
fn without_its_key_it_says_what_is_missing_and_gives_nothing() {
    if !vfs::is_litepack() || vfs::is_encrypted() {
        return vfs::skip_packed();
    }
    let _settings = with_settings_as_they_are();
    let place = Place::new();
    let (url, server) = server_url(server(&place, 4096));
    let connection = open(&url, "").unwrap();
    let asked = server.requests().len();
    assert_eq!(failure(count(&connection)).0, ErrorCode::NotADatabase);
    let info = connection.query_row("pragma litepack_info", [], |row| row.get::<_, String>(0));
    let no_key = (
        ErrorCode::NotADatabase,
        "file is encrypted: give PRAGMA key".to_owned(),
    );
    assert_eq!(failure(info), no_key);
    let wrong = (ErrorCode::NotADatabase, "wrong key".to_owned());
    assert_eq!(failure(give(&connection, "key", OTHER)), wrong);
    let shared = failure(open(&url, "&cache=shared")).0;
    assert_eq!(shared, ErrorCode::ApiMisuse);
    assert_eq!(
        server.requests().len(),
        asked,
        "what opening brought is enough"
    );
    assert_eq!(give(&connection, "key", KEY).unwrap(), "ok");
    assert_eq!(count(&connection).unwrap(), 500);
    // In a URI no text shows it.
    let digits = OTHER.trim_matches(['x', '\'']);
    let (code, words) = failure(open(&url, &format!("&hexkey={digits}")));
    assert_eq!(code, ErrorCode::NotADatabase);
    assert!(words.ends_with("wrong key"), "{words}");
    let main = vfs::open(&place.path("main.db")).unwrap();
    for (there, key) in [(url.as_str(), digits), ("http://127.0.0.1:1/x", digits)] {
        let name = at(there, &format!("&retries=0&hexkey={key}"));
        let (_, words) = failure(main.execute("attach ?1 as far", [name]));
        assert!(!words.contains(digits), "{words}");
    }
    // A key for what is not encrypted.
    let plain = std::fs::read(place.path("plain 4096.db")).unwrap();
    let (url, _server) = server_url(Server::of(plain));
    let (_, words) = failure(open(&url, &format!("&{IN_URI}")));
    assert!(words.contains("is not encrypted"), "{words}");
    failure(give(&open(&url, "").unwrap(), "key", KEY));
}

/// Nothing of it is on the disk: not in the cache of what came, and not in temporary files of a plain main database.
#[test]
fn what_is_kept_on_disk_is_sealed() {
    if !vfs::is_litepack() || vfs::is_encrypted() {
        return vfs::skip_packed();
    }
    let _settings = alone_with_settings();
    let place = Place::new();
    let target = packed(&place, 4096);
    let bytes = std::fs::read(&target).unwrap();
    let blocks = Place::new();
    let directory = blocks.path("blocks");
    let mut owners = std::fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(&mut owners, 0o700);
    owners.create(&directory).unwrap();
    remote_config("cache_dir", directory.to_str()).unwrap();
    let (url, _server) = server_url(Server::of(bytes.clone()));
    assert_eq!(count(&with_key(&url)).unwrap(), 500);
    remote_config("cache_dir", None).unwrap();
    let kept: Vec<_> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
        .collect();
    let total: usize = kept.iter().map(Vec::len).sum();
    assert!(total >= bytes.len() && !kept.iter().any(|kept| sings(kept)));
    // The plain database, beside the encrypted one, shows that the canaries can be heard.
    assert!(sings(&std::fs::read(place.path("plain 4096.db")).unwrap()));
    // SQLite writes temporary files where the main database is.
    let main = vfs::open_uri(&vfs::uri(&place.path("main.db"), vfs::PLAIN, "")).unwrap();
    let name = at(&url, &format!("&{IN_URI}"));
    let refused = failure(main.execute("attach ?1 as far", [name]));
    assert_eq!(refused.0, ErrorCode::ApiMisuse);
    let name = at(&url, &format!("&{IN_URI}&plain_temp=1"));
    main.execute("attach ?1 as far", [name]).unwrap();
    // A copy has the same key.
    let connection = with_key(&url);
    let copy = place.path("copy.db");
    let into = vfs::uri(&copy, vfs::under_test(), "");
    connection.execute("vacuum into ?1", [into]).unwrap();
    assert!(!sings(&std::fs::read(&copy).unwrap()));
    assert_eq!(
        count(&crate::place::open(&copy, KEY).unwrap()).unwrap(),
        500
    );
}

#[test]
fn a_changed_file_and_damage_are_errors_and_what_was_wrong_once_is_fetched_again() {
    if !vfs::is_litepack() || vfs::is_encrypted() {
        return vfs::skip_packed();
    }
    let _settings = with_settings_as_they_are();
    let place = Place::new();
    let bytes = std::fs::read(packed(&place, 4096)).unwrap();
    // Another version of the same length.
    let version = std::sync::Arc::new(Mutex::new(0));
    let (content, now) = (bytes.clone(), std::sync::Arc::clone(&version));
    let changing = Server::start(move |request| {
        Reply::part(&content, &format!("\"{}\"", now.lock().unwrap()), request)
    });
    let url = changing.url("/changing.db");
    let locked = open(&url, "").unwrap();
    *version.lock().unwrap() = 1;
    // The beginning has come; the rest is another version's.
    let (opened, answer) = (give(&locked, "key", KEY), count(&locked));
    assert!(opened.is_err() || answer.is_err() || bytes.len() <= 128 << 10);
    assert_eq!(count(&with_key(&url)).unwrap(), 500);
    // Each byte of the first requests, changed once or for good. What was wrong once is asked for again.
    for (wrong, is_right_later) in [(0, true), (1, true), (0, false), (1, false)] {
        let content = bytes.clone();
        let etag = format!("\"{wrong} {is_right_later}\"");
        let server = Server::start(move |request| {
            let mut reply = Reply::part(&content, &etag, request);
            if request.number == wrong || (!is_right_later && request.number > wrong) {
                let bytes = reply.body.iter_mut().skip(2048).step_by(999);
                bytes.for_each(|byte| *byte ^= 4);
            }
            reply
        });
        let url = server.url("/x.db");
        let connection = open(&url, "").unwrap();
        let answer = give(&connection, "key", KEY).and_then(|_| count(&connection));
        match is_right_later {
            true => assert_eq!(answer.unwrap(), 500),
            false => assert!(answer.is_err() || server.requests().len() <= wrong),
        }
        assert!(server.requests().len() < 50);
    }
}

/// Something is damaged, and what comes then is sound, but of another state of the file. SQLite has pages of the former
/// one and does not look again, so nothing more is read.
#[test]
fn two_states_of_a_file_are_not_mixed_after_damage() {
    if !vfs::is_litepack() || vfs::is_encrypted() {
        return vfs::skip_packed();
    }
    let _settings = with_settings_as_they_are();
    let place = Place::new();
    let path = place.path("states.db");
    let connection = crate::place::open(&path, KEY).unwrap();
    fill_with(&connection, 10_000);
    connection.close().unwrap();
    let mut states = vec![std::fs::read(&path).unwrap()];
    let connection = crate::place::open(&path, KEY).unwrap();
    connection
        .execute_batch("update t set b = b || 'later'")
        .unwrap();
    connection.close().unwrap();
    states.push(std::fs::read(&path).unwrap());
    let len = states.iter().map(Vec::len).max().unwrap();
    states.iter_mut().for_each(|state| state.resize(len, 0));
    // Which state is sent, and whether it is damaged, once.
    let sent = std::sync::Arc::new(Mutex::new((0, false)));
    let now = std::sync::Arc::clone(&sent);
    let server = Server::start(move |request| {
        let mut now = now.lock().unwrap();
        let mut reply = Reply::part(&states[now.0], "\"one\"", request);
        if std::mem::take(&mut now.1) {
            reply.body.iter_mut().for_each(|byte| *byte ^= 4);
            now.0 = 1;
        }
        reply
    });
    let connection = with_key(&server.url("/states.db"));
    let row = "select b from t where a = 1";
    let first: String = connection.query_row(row, [], |row| row.get(0)).unwrap();
    assert!(!first.ends_with("later"));
    sent.lock().unwrap().1 = true;
    for _ in 0..3 {
        let error = count(&connection).unwrap_err();
        assert_eq!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseCorrupt),
            "{error}"
        );
    }
    assert_eq!(sent.lock().unwrap().0, 1);
}

/// A row takes as many requests as from a file that is not encrypted.
#[test]
fn a_row_takes_no_more_requests_than_in_plain() {
    if !vfs::is_litepack() || vfs::is_encrypted() {
        return vfs::skip_packed();
    }
    let _settings = with_settings_as_they_are();
    let place = Place::new();
    let plain = place.path("plain.db");
    let connection = vfs::open_plain(&plain).unwrap();
    connection
        .execute_batch(
            "create table t(id integer primary key, name text, data text);
             with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)
             insert into t select i, 'name ' || (i * 7919 % 60000),
                 json_object('sensor', i % 50, 'measured', i * i % 100003, 'unit', 'degrees',
                             'note', 'as every day, number ' || (i * 31 % 1009)) from n;
             create index t_name on t(name);",
        )
        .unwrap();
    connection.close().unwrap();
    let key = std::sync::Arc::new(litepack::Key::written(KEY.as_bytes()).unwrap());
    let jobs = [
        litepack::Job::default(),
        litepack::Job::default().with_key(&key),
    ];
    let [open_one, sealed] = [0, 1].map(|at| {
        let target = place.path(&format!("{at}.db"));
        litepack::pack(
            &plain,
            &target,
            &litepack::PackOptions::default(),
            &jobs[at],
        )
        .unwrap();
        std::fs::read(target).unwrap()
    });
    for id in [1, 777, 31_777, 59_999] {
        for sql in [
            format!("select data from t where id = {id}"),
            format!("select data from t where name = 'name {id}'"),
        ] {
            let taken = [(&open_one, ""), (&sealed, "")].map(|(bytes, parameters)| {
                let server = Server::of(bytes.clone());
                let url = server.url("/x.db");
                let connection = open(&url, parameters).unwrap();
                if bytes == &sealed {
                    give(&connection, "key", KEY).unwrap();
                }
                let row = connection.query_row(&sql, [], |row| row.get::<_, String>(0));
                (row.unwrap(), server.requests().len())
            });
            assert_eq!(taken[0], taken[1], "{sql}");
        }
    }
}
