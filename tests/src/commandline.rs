//! Helpers for the tests of the `litepack` command: a directory of files, some databases to pack, and the form of a
//! successful and of a refused command.

use crate::vfs;
use std::path::{Path, PathBuf};
use std::process::Output;
use tempfile::TempDir;

/// Rows of JSON with an index on an expression.
pub const JSON_ROWS: &str = "
    create table t(id integer primary key, data text);
    create index by_year on t(data ->> 'year');
    insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < 4000)
      select i, json_object('id', i, 'year', 1900 + i % 120, 'title', 'The film number ' || i,
      'score', i * 37 % 100 / 10.0, 'tags', json_array('drama', 'genre ' || (i % 17))) from n;";

/// Tables, keys, a view and a trigger as in the database of a music shop.
pub const SHOP: &str = "
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

/// A directory for one test, with names for the usual files in it.
pub struct Place(TempDir);

impl Default for Place {
    fn default() -> Self {
        Self::new()
    }
}

impl Place {
    /// An empty directory.
    pub fn new() -> Self {
        Place(tempfile::tempdir().expect("a temporary directory"))
    }

    /// Path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes a plain database.
    pub fn make(&self, name: &str, sql: &str) -> PathBuf {
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
    pub fn assert_only(&self, names: &[&str]) {
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

/// The bytes of a file.
pub fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The bytes of a file that this process has open in SQLite: read by another process, because
/// closing a file here would release the locks that SQLite holds on it.
pub fn read_elsewhere(path: &Path) -> Vec<u8> {
    let output = std::process::Command::new("cat")
        .arg(path)
        .output()
        .expect("cat runs");
    assert!(output.status.success(), "{}", path.display());
    output.stdout
}

/// Copies a file that this process has open in SQLite, as [`read_elsewhere`] reads it.
pub fn copy_elsewhere(from: &Path, to: &Path) {
    std::fs::write(to, read_elsewhere(from)).expect("writable");
}

/// Asserts exit code 0; gives everything that was printed.
pub fn succeed(what: &str, output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{what}: {text}");
    String::from_utf8_lossy(&output.stdout).into_owned() + &text
}

/// Asserts exit code 2 and a message that has one of the words; gives the message.
pub fn refuse(what: &str, words: &[&str], output: &Output) -> String {
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
