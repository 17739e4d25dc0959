//! Journals that a killed writer has left are found, although SQLite may be told from memory that there is none
//! (`known_absent.rs`).

use litepack_tests::commandline::Place;
use litepack_tests::vfs;
use rusqlite::{Connection, ErrorCode};
use std::path::{Path, PathBuf};

const PAGE: usize = 4096;

/// A journal that brings back the pages of `image`, in the format of
/// <https://sqlite.org/fileformat.html#the_rollback_journal>.
fn journal_of(image: &[u8]) -> Vec<u8> {
    const NONCE: u32 = 7;
    let pages = image.chunks(PAGE);
    let numbers = [
        pages.len() as u32,
        NONCE,
        pages.len() as u32,
        512,
        PAGE as u32,
    ];
    let mut journal = vec![0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    journal.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
    journal.resize(512, 0);
    for (number, page) in (1_u32..).zip(pages) {
        let sum = (1..PAGE)
            .filter(|at| at % 200 == PAGE % 200)
            .fold(NONCE, |sum, at| sum.wrapping_add(page[at].into()));
        journal.extend(number.to_be_bytes());
        journal.extend(page);
        journal.extend(sum.to_be_bytes());
    }
    journal
}

/// Where a database of this VFS has its journal.
fn journal_beside(path: &Path, vfs: &str) -> PathBuf {
    let suffix = match vfs {
        vfs::PLAIN => "journal",
        _ => "lpjourn",
    };
    path.with_extension(format!("db-{suffix}"))
}

/// A database with one text, and its bytes.
fn database(path: &Path, vfs: &str, text: &str) -> (Connection, Vec<u8>) {
    let mut connection = vfs::open_uri(&vfs::uri(path, vfs, "")).expect("a new database");
    let sql =
        format!("pragma page_size = {PAGE}; create table t(a); insert into t values('{text}')");
    connection.execute_batch(&sql).expect("a table");
    let image = connection.serialize("main").expect("an image").to_vec();
    (connection, image)
}

fn texts(connection: &Connection) -> String {
    let sql = "select group_concat(a) from t";
    connection
        .query_row(sql, [], |row| row.get(0))
        .expect("texts")
}

#[test]
fn one_that_came_with_a_commit_is_played_back() {
    let place = Place::new();
    let path = place.path("app.db");
    let (reader, image) = database(&path, vfs::under_test(), "old");
    for _ in 0..2 {
        assert_eq!(texts(&reader), "old");
    }
    let writer = vfs::open(&path).expect("it opens");
    writer
        .execute("update t set a = 'new'", [])
        .expect("an update");
    std::fs::write(journal_beside(&path, vfs::under_test()), journal_of(&image))
        .expect("a journal");
    assert_eq!(texts(&reader), "old");
}

#[test]
fn one_that_came_without_a_commit_is_played_back_before_anything_is_written() {
    for in_transaction in [false, true] {
        let place = Place::new();
        let path = place.path("app.db");
        let (writer, image) = database(&path, vfs::under_test(), "old");
        writer
            .execute("update t set a = 'new'", [])
            .expect("an update");
        for _ in 0..2 {
            assert_eq!(texts(&writer), "new");
        }
        let journal = journal_beside(&path, vfs::under_test());
        std::fs::write(&journal, journal_of(&image)).expect("a journal");
        if in_transaction && vfs::is_litepack() {
            // Too late to begin anew: SQLite cannot go on in this transaction.
            writer
                .execute_batch("begin; select * from t")
                .expect("a read");
            let refused = writer.execute("insert into t values('more')", []);
            let code = refused.expect_err("it may not write").sqlite_error_code();
            assert_eq!(code, Some(ErrorCode::DatabaseBusy));
            writer.execute_batch("rollback").expect("an end");
        }
        writer
            .execute("insert into t values('more')", [])
            .expect("an insert");
        assert!(!journal.exists());
        assert_eq!(texts(&vfs::open(&path).expect("it opens")), "old,more");
    }
}

#[test]
fn that_of_another_file_of_the_same_name_is_played_back() {
    let place = Place::new();
    let path = place.path("app.db");
    let (reader, _) = database(&path, vfs::under_test(), "packed");
    for _ in 0..2 {
        assert_eq!(texts(&reader), "packed");
    }
    reader
        .execute_batch("begin; select * from t")
        .expect("a read");
    for kind in [vfs::PLAIN, vfs::under_test()] {
        let other = place.path("other.db");
        let (writer, image) = database(&other, kind, "old");
        writer
            .execute("update t set a = 'new'", [])
            .expect("an update");
        drop(writer);
        std::fs::rename(&other, &path).expect("renamable");
        std::fs::write(journal_beside(&path, kind), journal_of(&image)).expect("a journal");
        assert_eq!(texts(&vfs::open(&path).expect("it opens")), "old");
    }
    assert_eq!(texts(&reader), "packed");
}
