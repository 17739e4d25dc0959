//! Connections to the same archive share what is decoded, and only those: a file that took the name of another, or was
//! written over, is another file. In a program of its own, because the cache belongs to the process.

use litepack_io::cache::Cache;
use litepack_tests::archives::{self, Writer};
use litepack_tests::commandline::Place;
use litepack_tests::outcome::Outcome;
use litepack_tests::vfs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// One test at a time: the cache is for all of them.
static ALONE: Mutex<()> = Mutex::new(());

/// So long after it was written a file is taken for one that can be told by its times.
const SETTLED: Duration = Duration::from_millis(2200);

/// An archive without compression to speak of and without checksums in its seek table, so that two of them can differ
/// in nothing that the seek table says.
fn write(path: &Path, place: &Place, seed: u32) {
    let plain = archives::plain(place, 4096, |connection| {
        connection.execute_batch(&format!(
            "create table t(id integer primary key, x blob);
             insert into t with recursive n(i) as (select 1 union all select i + 1 from n
               where i < 300) select i, zeroblob(3000) from n;
             update t set x = cast(printf('%0.*d', 3000, {seed}) as blob) where id % 10 = 0"
        ))
    });
    let bytes = std::fs::read(&plain).unwrap();
    std::fs::remove_file(&plain).unwrap();
    std::fs::write(path, without_checksums(&bytes)).unwrap();
}

/// Frames that store their bytes as they are, by zstd's format: one block of type raw for each page.
fn without_checksums(database: &[u8]) -> Vec<u8> {
    let (mut file, mut table) = (Vec::new(), Vec::new());
    for page in database.chunks(4096) {
        let size = page.len() as u32;
        let begin = file.len();
        file.extend_from_slice(&0xFD2F_B528u32.to_le_bytes());
        // One segment, its size in two bytes that count from 256 on.
        file.push(0x60);
        file.extend_from_slice(&((size - 256) as u16).to_le_bytes());
        // The last block, raw.
        file.extend_from_slice(&(size << 3 | 1).to_le_bytes()[..3]);
        file.extend_from_slice(page);
        table.extend_from_slice(&((file.len() - begin) as u32).to_le_bytes());
        table.extend_from_slice(&size.to_le_bytes());
    }
    let frames = (table.len() / 8) as u32;
    file.extend_from_slice(&0x184D_2A5Eu32.to_le_bytes());
    file.extend_from_slice(&(table.len() as u32 + 9).to_le_bytes());
    file.extend_from_slice(&table);
    file.extend_from_slice(&frames.to_le_bytes());
    file.push(0);
    file.extend_from_slice(&0x8F92_EAB1u32.to_le_bytes());
    file
}

const SUM: &str = "select sum(cast(cast(x as text) as integer)) from t";

fn sum(connection: &rusqlite::Connection) -> i64 {
    connection.query_row(SUM, [], |row| row.get(0)).unwrap()
}

#[test]
fn what_is_decoded_is_shared_by_connections_to_one_file_and_no_others() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    Cache::shared().set_budget(64 << 20);
    let place = Place::new();
    let (path, other) = (place.path("a.db.zst"), place.path("b.db.zst"));
    write(&path, &place, 1);
    write(&other, &place, 2);
    let len = std::fs::metadata(&path).unwrap().len();
    assert_eq!(len, std::fs::metadata(&other).unwrap().len());
    std::thread::sleep(SETTLED);

    let first = archives::open(&path).unwrap();
    assert_eq!(sum(&first), 30);
    let used = Cache::shared().bytes();
    assert!(used > 1_000_000);
    let second = archives::open(&path).unwrap();
    assert_eq!(sum(&second), 30);
    assert_eq!(Cache::shared().bytes(), used, "it was decoded again");
    let linked = place.path("link.zst");
    std::os::unix::fs::symlink(&path, &linked).unwrap();
    assert_eq!(sum(&archives::open(&linked).unwrap()), 30);
    assert_eq!(Cache::shared().bytes(), used, "it was decoded again");

    // Another file, with the same seek table to the byte, under the same name.
    std::fs::rename(&other, &path).unwrap();
    let third = archives::open(&path).unwrap();
    assert_eq!(sum(&third), 60);
    // Written over, while connections to it are open.
    write(&path, &place, 3);
    assert_eq!(sum(&archives::open(&path).unwrap()), 90);
    write(&path, &place, 4);
    assert_eq!(sum(&archives::open(&path).unwrap()), 120);
    // Those that had the first file open go on with it.
    for connection in [&first, &second] {
        connection.execute_batch("pragma shrink_memory").unwrap();
        assert_eq!(sum(connection), 30);
    }
}

/// The bytes in the cache follow `cache_mb`.
#[test]
fn the_cache_keeps_to_its_budget() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Place::new();
    let plain = archives::plain(&place, 4096, |connection| {
        connection.execute_batch(
            "create table t(id integer primary key, x blob);
             insert into t with recursive n(i) as (select 1 union all select i + 1 from n
               where i < 1500) select i, randomblob(4000) from n",
        )
    });
    let archive = archives::archive(&plain, "archive.db.zst", Writer::Zeekstd(300_000));
    let scan = "select count(*), sum(length(x)) from t";
    let expected = Outcome::of(&vfs::open_plain(&plain).unwrap(), scan);
    for budget in [1, 0, 2] {
        let found = vfs::open_with(&archive, &format!("mode=ro&cache_mb={budget}")).unwrap();
        for _ in 0..2 {
            assert!(Outcome::of(&found, scan) == expected);
            let used = Cache::shared().bytes();
            assert!(used <= budget << 20, "{used} bytes of {budget} MiB");
        }
    }
}
