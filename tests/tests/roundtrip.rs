//! `litepack pack` and `litepack unpack` give back the original file bit for bit, whatever made it:
//! page sizes, auto_vacuum, reserved bytes, free pages, WAL and hot journals. What cannot be packed
//! is refused with a clear message and exit code 2, and nothing is touched.

use litepack_tests::programs::run_litepack;
use litepack_tests::{content, vfs};
use std::path::{Path, PathBuf};
use std::process::Output;
use tempfile::TempDir;

/// A directory for one test, with names for the usual files in it.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Place(tempfile::tempdir().expect("a temporary directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes a plain database.
    fn make(&self, name: &str, sql: &str) -> PathBuf {
        let path = self.path(name);
        let connection = vfs::open_plain(&path).expect("a new database");
        connection
            .execute_batch("pragma synchronous = off")
            .expect("a pragma");
        connection
            .execute_batch(sql)
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
        drop(connection);
        path
    }

    /// Nothing but these files may be here.
    fn assert_only(&self, names: &[&str]) {
        let mut found: Vec<String> = std::fs::read_dir(self.0.path())
            .expect("listable")
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .into_string()
                    .expect("UTF-8")
            })
            .collect();
        found.sort();
        let mut names = names.to_vec();
        names.sort_unstable();
        assert_eq!(found, names, "files left behind or missing");
    }
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn succeed(what: &str, output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{what}: {text}");
    String::from_utf8_lossy(&output.stdout).into_owned() + &text
}

/// Asserts exit code 2 and a message that has one of the words; gives the message.
fn refuse(what: &str, words: &[&str], output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{what}: {text}");
    let lower = text.to_lowercase();
    assert!(
        words.iter().any(|word| lower.contains(word)),
        "{what}: the message is {text:?}"
    );
    assert!(!lower.contains("panicked"), "{what}: {text}");
    text
}

/// Packs and unpacks, and compares bytes, content and the source.
fn round_trip(place: &Place, source: &Path) -> u64 {
    let before = read(source);
    let (packed, back) = (place.path("rt.packed"), place.path("rt.back"));
    succeed("pack", &run_litepack([Path::new("pack"), source, &packed]));
    assert!(before == read(source), "packing changed the source");
    assert!(
        !vfs::looks_plain(&packed).expect("readable"),
        "pack made a plain file"
    );
    succeed("check", &run_litepack([Path::new("check"), &packed]));
    succeed("info", &run_litepack([Path::new("info"), &packed]));
    succeed(
        "unpack",
        &run_litepack([Path::new("unpack"), &packed, &back]),
    );
    let after = read(&back);
    assert_eq!(before.len(), after.len(), "unpacked size");
    let differs = before.iter().zip(&after).position(|(a, b)| a != b);
    assert_eq!(differs, None, "the first byte that differs");

    let plain = vfs::open_plain(&back).expect("it opens");
    let through = vfs::open_with(&packed, "mode=ro").expect("it opens");
    content::assert_sound(&through, "the packed database");
    let same = content::fingerprint(&plain).expect("a scan");
    assert_eq!(same, content::fingerprint(&through).expect("a scan"));
    drop((plain, through));
    let size = std::fs::metadata(&packed).expect("a file").len();
    std::fs::remove_file(&packed).expect("removable");
    std::fs::remove_file(&back).expect("removable");
    size
}

const JSON_ROWS: &str = "
    create table t(id integer primary key, data text);
    create index by_year on t(data ->> 'year');
    insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < 4000)
      select i, json_object('id', i, 'year', 1900 + i % 120, 'title', 'The film number ' || i,
      'score', i * 37 % 100 / 10.0, 'tags', json_array('drama', 'genre ' || (i % 17))) from n;";

const SHOP: &str = "
    create table artist(id integer primary key, name text not null);
    create table album(id integer primary key, title text, artist int references artist(id));
    create table track(id integer primary key, name text, album int references album(id),
      composer text, millis int, bytes int, price numeric(10, 2));
    create table playlist_track(playlist int, track int, primary key(playlist, track));
    create table customer(id integer primary key, first text, last text, email text unique);
    create table invoice(id integer primary key, customer int, at datetime, total numeric);
    insert into artist with recursive n(i) as (select 1 union all select i + 1 from n where i < 275)
      select i, 'Artist ' || i from n;
    insert into album select id, 'Album ' || id, 1 + id * 7 % 275 from artist;
    insert into track with recursive n(i) as (select 1 union all select i + 1 from n where i < 3503)
      select i, 'Song ' || i || ' of love', 1 + i % 275, iif(i % 3, 'Someone ' || (i % 99), null),
      200000 + i * 7919 % 90000, i * 104729 % 9999999, 0.99 from n;
    insert into playlist_track select 1 + id % 18, id from track;
    insert into customer select id, 'First ' || id, 'Last', 'user' || id || '@example.org'
      from artist;
    insert into invoice select id, 1 + id % 59, datetime(1230768000 + id * 86400, 'unixepoch'),
      id % 14 + 0.99 from artist;
    create index track_by_album on track(album);
    create view songs as select * from track join album on album.id = track.album;
    create trigger t after insert on invoice begin select 1; end;";

#[test]
fn json_rows_and_a_shop_come_back_bit_for_bit() {
    let place = Place::new();
    for (name, sql) in [("json.db", JSON_ROWS), ("shop.db", SHOP)] {
        let source = place.make(name, sql);
        let size = std::fs::metadata(&source).expect("a file").len();
        let packed = round_trip(&place, &source);
        println!("{name}: {size} bytes packed into {packed}");
        assert!(packed * 2 < size, "{name}: {size} bytes became {packed}");
    }
    place.assert_only(&["json.db", "shop.db"]);
}

#[test]
fn every_page_size_with_and_without_auto_vacuum_comes_back() {
    for size in [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536] {
        let place = Place::new();
        for vacuum in ["none", "full", "incremental"] {
            let head = format!("pragma page_size = {size}; pragma auto_vacuum = {vacuum};");
            let rest = "delete from t where id % 3 = 0;";
            let source = place.make(&format!("{vacuum}.db"), &format!("{head}{JSON_ROWS}{rest}"));
            round_trip(&place, &source);
        }
    }
}

#[test]
fn reserved_bytes_come_back() {
    let place = Place::new();
    let first = place.make("first.db", JSON_ROWS);
    let connection = vfs::open_plain(&first).expect("it opens");
    for (size, reserve) in [
        (512, 32),
        (1024, 8),
        (4096, 1),
        (4096, 16),
        (8192, 255),
        (65536, 64),
    ] {
        let path = place.path(&format!("{size}-{reserve}.db"));
        let into = vfs::uri(&path, vfs::PLAIN, &format!("reserve={reserve}"));
        let set = format!("pragma page_size = {size}");
        connection.execute_batch(&set).expect("a page size");
        connection.execute("vacuum into ?", [into]).expect("a copy");
        assert_eq!(read(&path)[20], reserve, "reserved bytes in the header");
        round_trip(&place, &path);
    }
}

#[test]
fn empty_tiny_and_thinned_out_databases_come_back() {
    let place = Place::new();
    round_trip(&place, &place.make("schema.db", "create table t(x)"));
    round_trip(&place, &place.make("header.db", "pragma user_version = 7"));
    let thin = format!("{JSON_ROWS} delete from t where id between 500 and 3900;");
    round_trip(&place, &place.make("freelist.db", &thin));
    let gone = format!("{JSON_ROWS} drop table t;");
    round_trip(&place, &place.make("all-free.db", &gone));
    let noise = "create table t(x); insert into t with recursive n(i) as (select 1 union all
        select i + 1 from n where i < 300) select randomblob(3000) from n;";
    round_trip(&place, &place.make("noise.db", noise));
    let utf16 = format!("pragma encoding = 'UTF-16be'; {SHOP}");
    round_trip(&place, &place.make("utf16.db", &utf16));
    let fts = "create virtual table f using fts5(x); create virtual table r using rtree(i, a, b);
        insert into f with recursive n(i) as (select 1 union all select i + 1 from n where i < 500)
        select 'words and more words ' || i from n; insert into r values (1, 2, 3);";
    round_trip(&place, &place.make("fts.db", fts));
}

#[test]
fn a_clean_wal_database_comes_back_and_stays_in_wal_mode() {
    let place = Place::new();
    let source = place.make("wal.db", &format!("pragma journal_mode = wal; {SHOP}"));
    assert_eq!(read(&source)[18], 2, "a WAL-mode header");
    round_trip(&place, &source);
}

#[test]
fn what_is_only_in_the_wal_of_the_source_is_packed() {
    let place = Place::new();
    let source = place.make(
        "live.db",
        &format!("pragma journal_mode = wal; {JSON_ROWS}"),
    );
    let mut connection = vfs::open_plain(&source).expect("it opens");
    connection
        .execute_batch("update t set data = 'in the wal' where id % 5 = 0; create table late(x);")
        .expect("an update");
    // The copy has a WAL and no process that knows of it, as after a crash.
    for name in ["db", "db-wal"] {
        std::fs::copy(
            place.path(&format!("live.{name}")),
            place.path(&format!("copy.{name}")),
        )
        .expect("copied");
    }
    for name in ["live", "copy"] {
        let (from, to) = (
            place.path(&format!("{name}.db")),
            place.path(&format!("{name}.packed")),
        );
        succeed(name, &run_litepack([Path::new("pack"), &from, &to]));
        let back = place.path(&format!("{name}.back"));
        succeed(name, &run_litepack([Path::new("unpack"), &to, &back]));
        let image = content::image(&mut connection).expect("an image");
        assert!(image == read(&back), "{name}: not what the source holds");
    }
}

#[test]
fn a_hot_journal_of_the_source_is_rolled_back() {
    let place = Place::new();
    let source = place.make("live.db", JSON_ROWS);
    let committed = read(&source);
    let connection = vfs::open_plain(&source).expect("it opens");
    connection
        .execute_batch("pragma cache_size = 5; begin; update t set data = 'never committed';")
        .expect("an update that spills");
    let (copy, packed, back) = (
        place.path("copy.db"),
        place.path("packed"),
        place.path("back"),
    );
    std::fs::copy(&source, &copy).expect("copied");
    std::fs::copy(place.path("live.db-journal"), place.path("copy.db-journal")).expect("copied");
    assert!(read(&copy) != committed, "the transaction did not spill");
    connection.execute_batch("rollback").expect("a rollback");
    succeed("pack", &run_litepack([Path::new("pack"), &copy, &packed]));
    succeed(
        "unpack",
        &run_litepack([Path::new("unpack"), &packed, &back]),
    );
    assert!(committed == read(&back), "not the committed state");
}

#[test]
fn in_place_packing_keeps_the_name_and_the_content() {
    let place = Place::new();
    let source = place.make("app.db", SHOP);
    let before = read(&source);
    let packed = run_litepack([Path::new("pack"), Path::new("--in-place"), &source]);
    succeed("pack --in-place", &packed);
    place.assert_only(&["app.db"]);
    assert!(
        !vfs::looks_plain(&source).expect("readable"),
        "it is still plain"
    );
    let back = place.path("back.db");
    succeed(
        "unpack",
        &run_litepack([Path::new("unpack"), &source, &back]),
    );
    assert!(before == read(&back));
}

#[test]
fn in_place_packing_refuses_while_someone_has_the_database_open() {
    let place = Place::new();
    for (name, sql) in [
        (
            "wal.db",
            "pragma journal_mode = wal; insert into t(data) values ('x')",
        ),
        ("reading.db", "begin; select * from t limit 1"),
        ("writing.db", "begin immediate"),
    ] {
        let source = place.make(name, JSON_ROWS);
        let connection = vfs::open_plain(&source).expect("it opens");
        connection.execute_batch(sql).expect("a lock");
        let before = read(&source);
        let output = run_litepack([Path::new("pack"), Path::new("--in-place"), &source]);
        refuse(name, &["open", "lock", "use", "busy"], &output);
        assert!(before == read(&source), "{name} was touched");
        drop(connection);
        let output = run_litepack([Path::new("pack"), Path::new("--in-place"), &source]);
        succeed(name, &output);
    }
}

#[test]
fn what_is_not_a_plain_database_is_refused() {
    let place = Place::new();
    let good = place.make("good.db", JSON_ROWS);
    let bytes = read(&good);
    let packed = place.path("packed.db");
    succeed("pack", &run_litepack([Path::new("pack"), &good, &packed]));
    let mut noise = litepack_tests::rng::Rng::new(3).bytes(40_960);
    noise[0] = 0x9b;
    let cases: [(&str, Vec<u8>, &[&str]); 6] = [
        (
            "text.db",
            b"this is a text file, not a database\n".repeat(300),
            &["not a", "sqlite"],
        ),
        (
            "short.db",
            b"SQLite for".to_vec(),
            &["not a", "short", "trunc"],
        ),
        ("encrypted.db", noise, &["not a", "encrypted"]),
        (
            "truncated.db",
            bytes[..bytes.len() / 2 + 700].to_vec(),
            &["trunc", "short", "malformed"],
        ),
        (
            "half.db",
            bytes[..bytes.len() / 4096 / 2 * 4096].to_vec(),
            &["trunc", "short", "malf"],
        ),
        ("already.db", read(&packed), &["already", "packed"]),
    ];
    let to = place.path("to.db");
    for (name, bytes, words) in cases {
        let from = place.path(name);
        std::fs::write(&from, &bytes).expect("writable");
        refuse(name, words, &run_litepack([Path::new("pack"), &from, &to]));
        assert!(!to.exists(), "{name}: a destination was made");
        let in_place = run_litepack([Path::new("pack"), Path::new("--in-place"), &from]);
        refuse(name, words, &in_place);
        assert!(bytes == read(&from), "{name} was touched");
        std::fs::remove_file(&from).expect("removable");
    }
    let missing = place.path("missing.db");
    let words = ["no such file", "not found", "does not exist"];
    for command in ["pack", "unpack"] {
        refuse(
            command,
            &words,
            &run_litepack([Path::new(command), &missing, &to]),
        );
    }
    for command in ["info", "check"] {
        refuse(
            command,
            &words,
            &run_litepack([Path::new(command), &missing]),
        );
    }
    let message = refuse(
        "unpacking a plain database",
        &["not packed", "not a packed", "plain"],
        &run_litepack([Path::new("unpack"), &good, &to]),
    );
    assert!(
        message.contains("good.db"),
        "the message does not name the file: {message}"
    );
    place.assert_only(&["good.db", "packed.db"]);
}

#[test]
fn an_existing_destination_is_kept_without_force() {
    let place = Place::new();
    let source = place.make("source.db", SHOP);
    let (packed, precious) = (place.path("packed.db"), place.path("precious.txt"));
    std::fs::write(&precious, "precious").expect("writable");
    succeed("pack", &run_litepack([Path::new("pack"), &source, &packed]));
    for (command, from) in [("pack", &source), ("unpack", &packed)] {
        let output = run_litepack([Path::new(command), from, &precious]);
        refuse(command, &["exist", "--force"], &output);
        assert_eq!(read(&precious), b"precious");
    }
    let force = Path::new("--force");
    succeed(
        "pack",
        &run_litepack([Path::new("pack"), &source, &precious, force]),
    );
    succeed(
        "unpack",
        &run_litepack([Path::new("unpack"), &precious, &packed, force]),
    );
    assert!(read(&source) == read(&packed));
    let onto_itself = run_litepack([Path::new("pack"), &source, &source, force]);
    assert_ne!(
        onto_itself.status.code(),
        Some(0),
        "packing a file onto itself"
    );
    assert!(read(&source) == read(&packed), "the source was touched");
    place.assert_only(&["source.db", "packed.db", "precious.txt"]);
}

#[test]
fn check_says_no_to_a_damaged_file_with_exit_code_1() {
    let place = Place::new();
    let source = place.make("source.db", JSON_ROWS);
    let packed = place.path("packed.db");
    succeed("pack", &run_litepack([Path::new("pack"), &source, &packed]));
    let mut bytes = read(&packed);
    let mut noticed = 0;
    for part in 1..10 {
        let at = bytes.len() * part / 10;
        bytes[at] ^= 0x10;
        std::fs::write(&packed, &bytes).expect("writable");
        let output = run_litepack([Path::new("check"), &packed]);
        bytes[at] ^= 0x10;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!text.contains("panicked"), "byte {at}: {text}");
        assert!(
            [Some(0), Some(1)].contains(&output.status.code()),
            "byte {at}: {text}"
        );
        noticed += usize::from(output.status.code() == Some(1));
    }
    assert!(
        noticed >= 5,
        "only {noticed} of 9 flipped bits were noticed"
    );
}

#[test]
fn an_interrupted_pack_leaves_nothing_behind() {
    let place = Place::new();
    let bigger = JSON_ROWS.replace("i < 4000", "i < 150000");
    let source = place.make("source.db", &bigger);
    let before = content::hash_bytes(&read(&source));
    for millis in [30, 120, 300] {
        let mut child = std::process::Command::new(litepack_tests::programs::litepack())
            .args([Path::new("pack"), &source, &place.path("packed.db")])
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("the command starts");
        std::thread::sleep(std::time::Duration::from_millis(millis));
        let pid = child.id().to_string();
        std::process::Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .expect("kill runs");
        let status = child.wait().expect("an end");
        if status.code() == Some(0) {
            std::fs::remove_file(place.path("packed.db")).expect("removable");
        }
        place.assert_only(&["source.db"]);
        assert_eq!(
            before,
            content::hash_bytes(&read(&source)),
            "the source was touched"
        );
    }
}
