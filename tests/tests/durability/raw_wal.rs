//! A WAL as SQLite writes it beside a packed file, as an earlier Litepack left it: it is read and written as it is until
//! SQLite begins it anew.

use litepack_tests::commandline::{Place, copy_elsewhere, read, succeed};
use litepack_tests::content;
use litepack_tests::programs::run_litepack;
use litepack_tests::vfs;
use std::path::Path;

const ROWS: &str = "create table t(k integer primary key, v);
    with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)
    insert into t select i, 'row ' || i || ' of many' from n;
    pragma journal_mode = wal";

fn starts_with(path: &Path, magic: &[u8]) -> bool {
    read(path).starts_with(magic)
}

#[test]
fn a_raw_wal_is_played_in_and_the_next_one_is_a_log() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let (plain, packed) = (place.path("plain.db"), place.path("packed.db"));
    let writer = vfs::open_uri(&vfs::uri(&plain, vfs::PLAIN, "")).expect("a plain database");
    writer.execute_batch(ROWS).expect("rows");
    writer
        .execute_batch("pragma wal_checkpoint(truncate); pragma wal_autocheckpoint = 0")
        .expect("a checkpoint");
    succeed("pack", &run_litepack([Path::new("pack"), &plain, &packed]));
    // Pages are the same in both, so the WAL of the one is a WAL of the other.
    writer
        .execute_batch(
            "update t set v = 'in the WAL' where k % 3 = 0; delete from t where k > 2900",
        )
        .expect("commits");
    let wal = place.path("packed.db-lpw");
    copy_elsewhere(&place.path("plain.db-wal"), &wal);
    let expected = content::fingerprint(&writer).expect("a scan");
    drop(writer);
    let raw = [0x37, 0x7f, 0x06];
    assert!(starts_with(&wal, &raw));

    let [one, other] = [(); 2].map(|()| vfs::open(&packed).expect("it opens"));
    assert_eq!(expected, content::fingerprint(&one).expect("a scan"));
    // It goes on as it is.
    let before = read(&wal).len();
    one.execute_batch("pragma wal_autocheckpoint = 0; insert into t values (5000, 'behind it')")
        .expect("a commit");
    assert!(starts_with(&wal, &raw) && read(&wal).len() > before);
    let count = |db: &rusqlite::Connection| {
        db.query_row("select count(*) from t", [], |row| row.get::<_, i64>(0))
    };
    assert_eq!(count(&other), Ok(2901));
    one.execute_batch("pragma wal_checkpoint; insert into t values (5001, 'in a log')")
        .expect("a checkpoint and a commit");
    assert!(starts_with(&wal, b"LPlog"));
    assert_eq!((count(&one), count(&other)), (Ok(2902), Ok(2902)));
    content::assert_sound(&other, "in the log");
    drop((one, other));
    assert!(!wal.exists(), "a clean end");
    assert_eq!(count(&vfs::open(&packed).expect("it opens")), Ok(2902));
}
