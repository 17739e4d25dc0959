//! Databases on a web server: the same rows as on the plain file, whatever kind of file it is, read-only and without
//! any local file; what is refused, and what is told.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use litepack_rusqlite::{remote_config, remote_headers};
use litepack_tests::archives::{self, Writer};
use litepack_tests::commandline::{JSON_ROWS, Place};
use litepack_tests::outcome::{Failure, Outcome};
use litepack_tests::rng::Rng;
use litepack_tests::{content, vfs};
use litepack_webserver::{Reply, Server};
use rusqlite::Connection;

const QUERIES: [&str; 9] = [
    "select count(*), sum(id), sum(length(data)) from t",
    "select * from t where id = 777",
    "select count(*) from t where data ->> 'year' = 1950",
    "select data ->> 'year' y, count(*), min(id) from t group by y order by 2 desc, y",
    "select id from t order by length(data), data, id desc limit 50",
    "select id, data from t order by id desc limit 20",
    "select count(*) from t a, t b where a.id = b.id + 1 and a.data > b.data",
    "select distinct substr(data, 3, 7) from t order by 1 limit 100",
    "pragma integrity_check",
];

/// Settings are the process's. Who changes them is alone: others would use the cache on its disk, or count requests,
/// which a small cache makes more.
static SETTINGS: RwLock<()> = RwLock::new(());

fn alone_with_settings() -> RwLockWriteGuard<'static, ()> {
    SETTINGS.write().unwrap_or_else(PoisonError::into_inner)
}

fn with_settings_as_they_are() -> RwLockReadGuard<'static, ()> {
    SETTINGS.read().unwrap_or_else(PoisonError::into_inner)
}

/// Serves files by name, with an ETag of its own for each, and each can be replaced.
#[derive(Clone, Default)]
struct Files(Arc<Mutex<HashMap<String, Version>>>);

/// The bytes, and which version they are.
type Version = (Vec<u8>, u32);

impl Files {
    fn put(&self, name: &str, bytes: Vec<u8>) {
        let mut files = self.0.lock().unwrap();
        let version = files.get(name).map_or(0, |(_, version)| version + 1);
        files.insert(format!("/{name}"), (bytes, version));
    }

    fn serve(&self) -> Server {
        let files = self.clone();
        Server::start(move |request| {
            let files = files.0.lock().unwrap();
            let name = request.path.split('?').next().unwrap_or_default();
            match files.get(name) {
                Some((bytes, version)) => {
                    Reply::part(bytes, &format!("\"{name} {version}\""), request)
                }
                None => Reply::status("404 Not Found"),
            }
        })
    }
}

fn escape(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// Opens what is at the URL, under the path of a file that is not there.
fn open(url: &str, parameters: &str) -> rusqlite::Result<Connection> {
    open_at(Path::new("/nonexistent/x"), url, parameters)
}

fn open_at(path: &Path, url: &str, parameters: &str) -> rusqlite::Result<Connection> {
    vfs::open_with(path, &format!("mode=ro&url={}{parameters}", escape(url)))
}

fn text(connection: &Connection, sql: &str) -> Result<String, Failure> {
    let answer = connection.query_row(sql, [], |row| row.get::<_, rusqlite::types::Value>(0));
    Ok(match answer.map_err(Failure::from)? {
        rusqlite::types::Value::Text(text) => text,
        other => format!("{other:?}"),
    })
}

fn remote(connection: &Connection) -> serde_json::Value {
    serde_json::from_str(&text(connection, "pragma litepack_remote").unwrap()).unwrap()
}

/// A packed copy of a database.
fn packed(place: &Place, plain: &Path, name: &str) -> PathBuf {
    let path = place.path(name);
    let connection = vfs::open_plain(plain).unwrap();
    let into = vfs::uri(&path, vfs::under_test(), "");
    connection.execute("vacuum into ?1", [&into]).unwrap();
    path
}

/// A plain database, and the same as a packed file and as an archive, on a server.
fn all_kinds(place: &Place, page_size: u32, sql: &str, files: &Files) -> PathBuf {
    let plain = archives::plain(place, page_size, |c| c.execute_batch(sql));
    let archive = archives::archive(&plain, "a.db.zst", Writer::Litepack(64 << 10));
    for (name, path) in [
        ("plain.db", plain.clone()),
        ("packed.db", packed(place, &plain, "packed.db")),
        ("a.db.zst", archive),
    ] {
        files.put(name, std::fs::read(path).unwrap());
    }
    plain
}

/// More than is fetched when it is opened, however it is stored.
const RANDOM_ROWS: &str = "create table t(id integer primary key, data text);
    insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
      select i, hex(randomblob(100)) from n;";

/// Where table `t` may be cut in three.
fn cuts_of(connection: &Connection) -> String {
    let root = "select rootpage from sqlite_schema where name = 't'";
    let root: i64 = connection.query_row(root, [], |row| row.get(0)).unwrap();
    let split = format!("pragma litepack_split = '{root} 3'");
    connection.query_row(&split, [], |row| row.get(0)).unwrap()
}

#[test]
fn every_kind_of_file_gives_the_rows_of_the_plain_one_and_is_only_read() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let _settings = with_settings_as_they_are();
    for page_size in [4096, 65536] {
        let place = Place::new();
        let files = Files::default();
        let plain = all_kinds(&place, page_size, JSON_ROWS, &files);
        let expected = vfs::open_uri(&vfs::uri(&plain, vfs::PLAIN, "mode=ro&immutable=1")).unwrap();
        let server = files.serve();
        let mut cuts = std::collections::BTreeSet::new();
        for (name, format) in [
            ("plain.db", "sqlite"),
            ("packed.db", "packed"),
            ("a.db.zst", "zstd seekable"),
        ] {
            let connection = open(&server.url(&format!("/{name}?sig=s3cret")), "").unwrap();
            assert!(connection.is_readonly("main").unwrap());
            for sql in QUERIES {
                let (expected, found) =
                    (Outcome::of(&expected, sql), Outcome::of(&connection, sql));
                assert!(
                    expected == found,
                    "{name}, {page_size}, {sql}: {expected:?}, but {found:?}"
                );
            }
            for sql in [
                "delete from t",
                "create table u(x)",
                "pragma user_version = 7",
                "vacuum",
            ] {
                let refused = text(&connection, sql).unwrap_err();
                assert_eq!(
                    refused.message, "attempt to write a readonly database",
                    "{name}: {sql}"
                );
            }
            let told = remote(&connection);
            assert_eq!(told["url"], server.url(&format!("/{name}")));
            assert_eq!(
                told["size"],
                files.0.lock().unwrap()[&format!("/{name}")].0.len()
            );
            assert!(
                told["requests"].as_u64() > Some(0) && told["bytes"].as_u64() > Some(0),
                "{told}"
            );
            let info = text(&connection, "pragma litepack_info").unwrap();
            let info: serde_json::Value = serde_json::from_str(&info).unwrap();
            assert_eq!(info["remote"]["url"], told["url"]);
            assert!(info["format"] == format || format == "packed", "{info}");
            assert_eq!(info["page_size"], page_size);
            assert!(!format!("{told}{info}").contains("s3cret"));
            if name != "plain.db" {
                assert_eq!(text(&connection, "pragma litepack_check").unwrap(), "ok");
            }
            cuts.insert(cuts_of(&connection));
            let copy = place.path(&format!("copy of {name}"));
            let into = vfs::uri(&copy, vfs::PLAIN, "");
            connection.execute("vacuum into ?1", [into]).unwrap();
            let copied = content::fingerprint(&vfs::open_plain(&copy).unwrap());
            assert_eq!(copied.unwrap(), content::fingerprint(&expected).unwrap());
            std::fs::remove_file(copy).unwrap();
        }
        let packed = vfs::uri(&place.path("packed.db"), vfs::under_test(), "");
        cuts.insert(cuts_of(&vfs::open_uri(&packed).unwrap()));
        assert_eq!(cuts.len(), 1, "the same table is cut at {cuts:?}");
        let cuts: Vec<i64> = serde_json::from_str(&cuts.pop_first().unwrap()).unwrap();
        assert!(!cuts.is_empty() && cuts.is_sorted(), "{cuts:?}");
        place.assert_only(&["a.db.zst", "packed.db", "plain.db"]);
    }
}

#[test]
fn a_database_in_wal_mode() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let _settings = with_settings_as_they_are();
    let place = Place::new();
    let files = Files::default();
    let plain = archives::plain(&place, 4096, |c| {
        c.execute_batch("pragma journal_mode = wal")?;
        c.execute_batch(JSON_ROWS)
    });
    let bytes = std::fs::read(&plain).unwrap();
    assert_eq!(bytes[18..20], [2, 2]);
    files.put("plain.db", bytes);
    let server = files.serve();
    let connection = open(&server.url("/plain.db"), "").unwrap();
    let expected = vfs::open_plain(&plain).unwrap();
    for sql in &QUERIES[..3] {
        assert!(
            Outcome::of(&expected, sql) == Outcome::of(&connection, sql),
            "{sql}"
        );
    }
}

/// A server has no WAL. Without it such a file is a mixture of two states.
#[test]
fn a_file_in_the_midst_of_a_checkpoint_is_refused() {
    let _settings = with_settings_as_they_are();
    let place = Place::new();
    let files = Files::default();
    let path = place.path("live.db");
    let uri = vfs::uri(&path, "litepack", "");
    let [db, reader] = [(); 2].map(|()| vfs::open_uri(&uri).unwrap());
    db.execute_batch("pragma journal_mode = wal; pragma wal_autocheckpoint = 0")
        .unwrap();
    db.execute_batch(RANDOM_ROWS).unwrap();
    reader.execute_batch("begin; select * from t").unwrap();
    // Pages that the reader's moment has, and others.
    db.execute_batch("insert into t(data) select 'later' from t limit 1000")
        .unwrap();
    let copied = |sql| {
        let counts = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
        db.query_row(sql, [], counts).unwrap()
    };
    let (frames, copied_now) = copied("pragma wal_checkpoint(passive)");
    assert!(0 < copied_now && copied_now < frames);
    files.put("midst.db", std::fs::read(&path).unwrap());
    reader.execute_batch("rollback").unwrap();
    let (frames, copied_now) = copied("pragma wal_checkpoint(passive)");
    assert_eq!(copied_now, frames);
    files.put("whole.db", std::fs::read(&path).unwrap());
    let server = files.serve();
    let count = |name: &str| {
        let opened = open(&server.url(name), "");
        opened.and_then(|db| db.query_row("select count(*) from t", [], |row| row.get::<_, i64>(0)))
    };
    assert_eq!(count("/whole.db").unwrap(), 21_000);
    assert!(count("/midst.db").is_err(), "{:?}", count("/midst.db"));
}

#[test]
fn urls_under_one_path_are_different_databases() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let _settings = with_settings_as_they_are();
    let place = Place::new();
    let files = Files::default();
    for number in [1, 2] {
        let path = place.path(&format!("{number}.db"));
        let connection = vfs::open_plain(&path).unwrap();
        connection
            .execute_batch(&format!("create table t as select {number} x"))
            .unwrap();
        connection.close().unwrap();
        files.put(&format!("{number}.db"), std::fs::read(path).unwrap());
    }
    let server = files.serve();
    // Even under the path of a file that is there, which is not looked at.
    for path in [place.path("1.db"), place.path("none.db")] {
        let one = open_at(&path, &server.url("/1.db"), "").unwrap();
        let two = open_at(&path, &server.url("/2.db"), "").unwrap();
        let x = |connection: &Connection| text(connection, "select x from t").unwrap();
        assert_eq!(
            (x(&one), x(&two)),
            ("Integer(1)".into(), "Integer(2)".into())
        );
        // SQLite would take them for one.
        let shared = open_at(&path, &server.url("/1.db"), "&cache=shared").unwrap_err();
        assert_eq!(Failure::from(shared).code, 21);
        let uri = vfs::uri(
            &path,
            vfs::under_test(),
            &format!("url={}", escape(&server.url("/2.db"))),
        );
        one.execute("attach ?1 as two", [uri]).unwrap();
        assert_eq!(
            text(&one, "select t.x + 10 * u.x from main.t, two.t u").unwrap(),
            "Integer(21)"
        );
    }
    place.assert_only(&["1.db", "2.db"]);
}

#[test]
fn a_file_that_changes_is_an_error_and_its_new_version_opens() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let _settings = with_settings_as_they_are();
    let place = Place::new();
    let files = Files::default();
    all_kinds(&place, 4096, RANDOM_ROWS, &files);
    let server = files.serve();
    for name in ["plain.db", "packed.db", "a.db.zst"] {
        let connection = open(&server.url(&format!("/{name}")), "").unwrap();
        let count =
            |connection: &Connection| text(connection, "select count(*), sum(length(data)) from t");
        // Another version of the same length, whose every byte may be different.
        let key = format!("/{name}");
        let bytes = files.0.lock().unwrap()[&key].0.clone();
        files.0.lock().unwrap().insert(key, (bytes, 7));
        let error = count(&connection).unwrap_err();
        assert_eq!(error.code & 0xff, 10, "{name}: {error:?}");
        let again = open(&server.url(&format!("/{name}")), "").unwrap();
        count(&again).unwrap();
    }
}

/// A proxy, for one, sends wrong bytes once. They must not stay in the caches.
#[test]
fn bytes_that_were_wrong_once_are_fetched_again() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let _settings = with_settings_as_they_are();
    let place = Place::new();
    let files = Files::default();
    let plain = all_kinds(&place, 4096, RANDOM_ROWS, &files);
    let truth = vfs::open_uri(&vfs::uri(&plain, vfs::PLAIN, "mode=ro&immutable=1")).unwrap();
    let sql = "select count(*), sum(id), sum(length(data)), min(data) from t";
    for name in ["packed.db", "a.db.zst"] {
        for (wrong, is_right_later) in [(0, true), (1, true), (3, true), (3, false)] {
            let what = format!("{name}, request {wrong}, {is_right_later}");
            let content = files.0.lock().unwrap()[&format!("/{name}")].0.clone();
            let etag = format!("\"{what}\"");
            let server = Server::start(move |request| {
                let mut reply = Reply::part(&content, &etag, request);
                if request.number == wrong || (!is_right_later && request.number > wrong) {
                    reply
                        .body
                        .iter_mut()
                        .step_by(999)
                        .for_each(|byte| *byte ^= 4);
                }
                reply
            });
            let answer = |connection: rusqlite::Result<Connection>| {
                connection.map(|connection| Outcome::of(&connection, sql))
            };
            let opened = || answer(open(&server.url(&format!("/{name}")), ""));
            let found = opened();
            if is_right_later {
                let mut found = found.unwrap();
                // If the wrong byte was a frame's checksum in the table, the right table looks like that of another state,
                // which a handle does not go on with. Who opens the file again gets it.
                if name == "a.db.zst" && format!("{found:?}").contains("malformed") {
                    found = opened().unwrap();
                }
                assert!(found == Outcome::of(&truth, sql), "{what}: {found:?}");
            } else {
                let wrong = found.unwrap();
                assert!(
                    format!("{wrong:?}").contains("malformed"),
                    "{what}: {wrong:?}"
                );
            }
            assert!(server.requests().len() < 200, "{what}");
        }
    }
}

/// Leaves of the page map lie among the pages, so that to read all of them would be to fetch the file.
#[test]
fn a_report_on_a_packed_file_does_not_fetch_it() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let _settings = with_settings_as_they_are();
    let place = Place::new();
    let files = Files::default();
    all_kinds(&place, 4096, RANDOM_ROWS, &files);
    let server = files.serve();
    let connection = open(&server.url("/packed.db"), "").unwrap();
    let info = text(&connection, "pragma litepack_info").unwrap();
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    let size = info["file_bytes"].as_u64().unwrap();
    assert!(size > 2_000_000, "{info}");
    assert!(info["remote"]["requests"].as_u64() <= Some(2), "{info}");
    assert!(info["remote"]["bytes"].as_u64() < Some(size / 5), "{info}");
    assert!(info["stored_bytes"].as_u64() > Some(size / 2), "{info}");
    for counted in [
        "codecs",
        "map_bytes",
        "item_bytes",
        "item_tree_bytes",
        "references",
        "references_save_bytes",
        "free_list_bytes",
        "unaccounted_bytes",
        "damage",
    ] {
        assert_eq!(info[counted], serde_json::Value::Null, "{info}");
    }
}

#[test]
fn what_cannot_be_opened_says_so() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let _settings = with_settings_as_they_are();
    let files = Files::default();
    files.put("text", b"hello".to_vec());
    let server = files.serve();
    let code = |url: &str, parameters: &str| {
        let error = open(url, parameters)
            .map(|connection| text(&connection, "select 1 from sqlite_schema"));
        match error {
            Ok(answer) => answer.err().map_or(0, |error| error.code),
            Err(error) => Failure::from(error).code,
        }
    };
    assert_eq!(code(&server.url("/text"), ""), 26);
    let place = Place::new();
    all_kinds(&place, 4096, "create table t(x)", &files);
    let url = server.url("/plain.db");
    assert_eq!(code(&server.url("/missing"), "&retries=0"), 14);
    assert_eq!(code("ftp://h/x", ""), 21);
    for wrong in [
        "&beaerer=x",
        "&level=3",
        "&timeout=0",
        "&cache_dir_mb=3",
        "&headers_file=/nonexistent",
        "&threads=0",
    ] {
        assert_eq!(code(&url, wrong), 21, "{wrong}");
    }
    assert_eq!(code(&url, "&_journal_mode=WAL&timezone=UTC"), 0);
    // Without a URL these mean nothing.
    vfs::open(&place.path("x.db"))
        .unwrap()
        .execute_batch("create table t(x)")
        .unwrap();
    let local = vfs::open_with(&place.path("x.db"), "bearer=s3cret").unwrap_err();
    assert_eq!(Failure::from(local).code, 21);
    let local = vfs::open(&place.path("x.db")).unwrap();
    let error = text(&local, "pragma litepack_remote").unwrap_err();
    assert!(
        error.message.contains("not read from a server"),
        "{error:?}"
    );
}

#[test]
fn settings_reach_the_server_and_the_disk() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let _settings = alone_with_settings();
    let place = Place::new();
    let files = Files::default();
    let plain = all_kinds(&place, 4096, JSON_ROWS, &files);
    let server = files.serve();
    let blocks = place.path("blocks");
    let mut owners = std::fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(&mut owners, 0o700);
    owners.create(&blocks).unwrap();
    remote_config("cache_dir", blocks.to_str()).unwrap();
    remote_config("cache_dir_mb", Some("1")).unwrap();
    let (here, elsewhere) = (server.url(""), "http://elsewhere.example");
    let sent = remote_headers(&here, Some("# who we are\nX-Api-Key: one\n")).unwrap();
    assert_eq!(sent, 1);
    remote_headers(elsewhere, Some("X-Elsewhere: s3cret")).unwrap();
    for (origin, lines, why) in [
        (here.as_str(), "s3cret", "line 1: a header is written"),
        ("http://h/s3cret", "X-A: 1", "an origin is written"),
    ] {
        let error = remote_headers(origin, Some(lines)).unwrap_err();
        assert!(error.contains(why) && !error.contains("s3cret"), "{error}");
    }
    for (name, value, why) in [
        ("cache_dir", "/nonexistent/s", "/nonexistent/s"),
        ("ca_file", "/nonexistent/c", "/nonexistent/c"),
        (
            "cache",
            "1",
            "the settings are ca_file, cache_dir, cache_dir_mb, s3_endpoint",
        ),
        ("cache_dir_mb", "0", "a number between 1 and 1073741824"),
        ("cache_dir_mb", "s3cret", "a number between 1 and"),
        ("s3_endpoint", "ftp://s3cret", "it begins with http"),
        ("s3_endpoint", "https://user:s3cret@h", "no user, password"),
        ("s3_region", "evil.example/s3cret", "region is not valid"),
        ("s3_profile", " ", "s3_profile is text"),
    ] {
        let error = remote_config(name, Some(value)).unwrap_err();
        assert!(error.contains(why) && !error.contains("s3cret"), "{error}");
    }
    // SQL that may load nothing sets nothing and is told nothing, and no schema calls them.
    let told = Connection::open_in_memory().unwrap();
    let tell = |sql: &str| {
        let answer = told.query_row(sql, [], |row| row.get::<_, rusqlite::types::Value>(0));
        answer.unwrap_err().to_string()
    };
    for call in [
        "litepack_remote_headers('http://h', 'X-A: 1')",
        "litepack_remote_config('s3_endpoint', 'http://h')",
        "litepack_remote_config('cache_dir')",
    ] {
        let refused = tell(&format!("select {call}"));
        assert!(refused.contains("not authorized"), "{call}: {refused}");
    }
    told.execute_batch("create view v as select litepack_remote_headers('http://h', 'X-A: 1')")
        .unwrap();
    let unsafe_use = tell("select * from v");
    assert!(unsafe_use.contains("unsafe use of"), "{unsafe_use}");
    let parameters = "&bearer=two&header=X-Other:three&cache_mb=3";
    let connection = open(&server.url("/plain.db"), parameters).unwrap();
    assert_eq!(text(&connection, "pragma litepack_cache_mb").unwrap(), "3");
    text(
        &connection,
        "select count(*) from t where data ->> 'year' + 1 = 1950",
    )
    .unwrap();
    for request in server.requests() {
        let sent =
            ["authorization", "x-other", "x-api-key"].map(|name| request.header(name).unwrap());
        assert_eq!(sent, ["Bearer two", "three", "one"]);
        assert!(request.header("x-elsewhere").is_none());
    }
    remote_config("cache_dir", None).unwrap();
    remote_config("cache_dir_mb", None).unwrap();
    assert_eq!(remote_headers(&here, None), Ok(0));
    remote_headers(elsewhere, None).unwrap();
    let kept: u64 = std::fs::read_dir(blocks)
        .unwrap()
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    assert!((1..=1 << 20).contains(&kept), "{kept}");
    drop(plain);
}

/// Maintenance and `pack` put copies of what a reader wants first side by side.
#[test]
fn a_row_of_a_maintained_file_takes_few_requests() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let _settings = with_settings_as_they_are();
    let place = Place::new();
    let files = Files::default();
    // The same bytes each time: where a leaf lies in the blocks that are fetched decides about a request.
    let mut rng = Rng::new(1);
    let plain = archives::plain(&place, 4096, |c| {
        c.execute_batch("create table t(id integer primary key, name text, data blob); begin")?;
        let mut insert = c.prepare("insert into t values (?, ?, ?)")?;
        for id in 1..=60_000 {
            let name = format!("{:016X}", rng.bits());
            insert.execute((id, name, rng.bytes(80)))?;
        }
        c.execute_batch("commit; create index t_name on t(name);")
    });
    let path = packed(&place, &plain, "packed.db");
    let before = std::fs::read(&path).unwrap();
    // Maintenance leaves a file alone that would not become shorter.
    let maintained = vfs::open(&path).unwrap();
    maintained
        .execute_batch("create table gone as select * from t limit 20000; drop table gone")
        .unwrap();
    let left = maintained.query_row("select litepack_maintain(null, 1)", [], |row| row.get(0));
    assert_eq!(left, Ok(0));
    drop(maintained);
    let after = std::fs::read(&path).unwrap();
    let server = files.serve();
    let truth = vfs::open_plain(&plain).unwrap();
    let name: String = truth
        .query_row("select name from t where id = 31415", [], |row| row.get(0))
        .unwrap();
    // A file of its own for each query: of one that was open before, blocks are in the cache.
    let requests = |file: &str, content: &[u8], sql: &str| {
        files.put(file, content.to_vec());
        let connection = open(&server.url(&format!("/{file}")), "").unwrap();
        assert!(
            Outcome::of(&truth, sql) == Outcome::of(&connection, sql),
            "{file}: {sql}"
        );
        remote(&connection)["requests"].as_u64().unwrap()
    };
    // The first rows of a table lie where opening a fresh file looks anyway, so nothing can be gained there.
    for (at, (sql, counts)) in [
        ("select data from t where id = 777".to_owned(), [3, 3]),
        ("select data from t where id = 50000".to_owned(), [5, 4]),
        (
            format!("select id, data from t where name = '{name}'"),
            [7, 5],
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let found = [("before", &before), ("after", &after)]
            .map(|(file, content)| requests(&format!("{file}{at}.db"), content, &sql));
        assert_eq!(found, counts, "{sql}");
    }
}

/// `pack` has all that comes first at the beginning of the file, and leaves of the page map beside their pages.
#[test]
fn a_row_of_a_file_that_was_packed_takes_two_requests_and_one_by_an_index_three() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let _settings = with_settings_as_they_are();
    let place = Place::new();
    let plain = archives::plain(&place, 4096, |c| {
        c.execute_batch(
            "create table t(id integer primary key, name text, data text);
             with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)
             insert into t select i, 'name ' || (i * 7919 % 60000),
                 json_object('sensor', i % 50, 'measured', i * i % 100003, 'unit', 'degrees',
                             'note', 'as every day, number ' || (i * 31 % 1009)) from n;
             create index t_name on t(name);",
        )
    });
    let packed = place.path("packed.db");
    let (options, job) = (litepack::PackOptions::default(), litepack::Job::default());
    litepack::pack(&plain, &packed, &options, &job).unwrap();
    let files = Files::default();
    files.put("plain.db", std::fs::read(&plain).unwrap());
    files.put("packed.db", std::fs::read(&packed).unwrap());
    let server = files.serve();
    let truth = vfs::open_plain(&plain).unwrap();
    let taken = |file: &str, sql: &str| {
        let connection = open(&server.url(&format!("/{file}")), "").unwrap();
        let answer = Outcome::of(&connection, sql);
        assert!(Outcome::of(&truth, sql) == answer, "{file}: {sql}");
        let told = remote(&connection);
        ["requests", "bytes"].map(|what| told[what].as_u64().unwrap())
    };
    for id in [1, 777, 20_000, 31_777, 45_454, 60_000] {
        let by_id = format!("select data from t where id = {id}");
        let by_name = format!("select id, data from t where name = 'name {id}'");
        for (sql, most) in [(by_id, 2), (by_name, 3)] {
            let ([packed, bytes], [plain, of_plain]) =
                (taken("packed.db", &sql), taken("plain.db", &sql));
            assert!(
                packed <= most && packed <= plain,
                "{sql}: {packed} and {plain}"
            );
            assert!(bytes <= of_plain, "{sql}: {bytes} and {of_plain}");
        }
    }
}

/// SQLite counts pages in 32 bits: of a length beyond that it would see another database, or an empty one.
#[test]
fn a_length_that_no_database_has_is_an_error() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let _settings = with_settings_as_they_are();
    let place = Place::new();
    let plain = archives::plain(&place, 4096, |c| c.execute_batch(JSON_ROWS));
    let mut unstated = std::fs::read(&plain).unwrap();
    let stated = unstated.clone();
    unstated[95] ^= 1;
    let (len, pages) = (stated.len() as u64, 1u64 << 32);
    for (bytes, claimed, is_possible) in [
        (&stated, len, true),
        (&stated, 1 << 40, true),
        (&unstated, 1 << 40, true),
        (&stated, pages * 4096, false),
        (&unstated, pages * 4096, false),
        (&stated, (pages + 1) * 4096, false),
        (&unstated, 1 << 48, false),
        (&stated, 1 << 62, false),
        (&unstated, u64::MAX - 1, false),
    ] {
        let file = bytes.clone();
        let server = Server::start(move |request| {
            let (first, last) = request.range().unwrap();
            let last = last.min(claimed - 1);
            // Bytes behind the file are zeros.
            let byte = |at: u64| file.get(at as usize).copied().unwrap_or(0);
            let body: Vec<u8> = (first..=last).map(byte).collect();
            let mut reply = Reply::whole(&body, "\"one\"");
            reply.status = "206 Partial Content".into();
            reply.with("Content-Range", &format!("bytes {first}-{last}/{claimed}"))
        });
        let found = open(&server.url("/x.db"), "").map_err(Failure::from);
        let found = found.and_then(|connection| text(&connection, "select count(*) from t"));
        match found {
            Ok(count) => assert!(
                is_possible && count == "Integer(4000)",
                "{claimed}: {count}"
            ),
            Err(error) => assert!(!is_possible, "{claimed}: {error:?}"),
        }
    }
}
