//! Dictionaries of a hostile database do not fill the memory, however many and large they are. A program of its
//! own, because it looks at the memory of the process.

use litepack_tests::vfs;

/// The most memory this process has used, in MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.expect("a number")
        .trim()
        .parse::<u64>()
        .expect("a number")
        >> 10
}

#[test]
fn dictionaries_are_held_within_bounds() {
    let place = tempfile::tempdir().expect("a directory");
    let db = vfs::open_plain(&place.path().join("many.db")).expect("a database");
    // Lengths differ, so that none is taken for another.
    db.execute_batch(
        "pragma synchronous = off;
         create table _zstd_dicts(id integer primary key, chooser_key text unique, dict blob not null);
         insert into _zstd_dicts(id, dict) with recursive n(i) as
           (select 1 union all select i + 1 from n where i < 64) select i, zeroblob((5 << 20) + i) from n;
         create table t(id integer primary key, data);",
    )
    .expect("dictionaries");
    let frame: Vec<u8> = db
        .query_row("select zstd_compress('hello', 3, null, 1)", [], |row| {
            row.get(0)
        })
        .expect("a frame");
    let before = peak();
    // In an attached database there is only what a statement remembers, in the main one more.
    for attach in ["", "attach ':memory:' as other"] {
        db.execute_batch(attach).expect("attached");
        for round in 0..2 {
            let sql = "select count(*) from _zstd_dicts d where length(zstd_decompress(?1, 0, d.id, 1)) = 5";
            let count: i64 = db
                .query_row(sql, [&frame], |row| row.get(0))
                .expect("decoded");
            assert_eq!(count, 64, "{attach} {round}");
        }
    }
    let used = peak() - before;
    assert!(used < 320, "{used} MiB");
}
