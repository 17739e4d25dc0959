//! Predictions of the bytes that packing, archiving and compressing columns will save.

use litepack::{Job, Limits, PackOptions, archive, columns, pack};
use litepack_advise::{AdviseOptions, advise};
use litepack_io::random::SplitMix64;
use litepack_testdata::{blobs, logs, titles, tpch};

use super::{Db, NUMBERS, found, len, unhurried};

/// Compares each prediction with the real size.
fn expect_predicted(db: &Db, wanted: &[(&str, &str)], best: bool, sample_mb: u64) {
    let job = Job::default();
    let options = AdviseOptions {
        sample_bytes: sample_mb << 20,
        ..unhurried()
    };
    let report = advise(&db.path, &options, &job).unwrap();
    let packed = db.file("packed");
    let close = |name: &str, real: f64| {
        let mode = report.modes.iter().find(|mode| mode.name == name).unwrap();
        let size = mode.size.unwrap();
        let error = size.bytes as f64 / real - 1.0;
        assert!(
            error.abs() < 0.05,
            "{name}: {size:?}, really {real}: {error}"
        );
        assert!(size.low <= size.bytes && size.bytes <= size.high);
        let (low, high) = (size.low as f64 * 0.99, size.high as f64 * 1.01);
        assert!(
            (low..=high).contains(&real),
            "{name}: {size:?}, really {real}"
        );
    };
    for best in [false, true].into_iter().take(1 + usize::from(best)) {
        let options = PackOptions {
            best,
            replace: true,
            ..PackOptions::default()
        };
        pack(&db.path, &packed, &options, &job).unwrap();
        close(if best { "packed best" } else { "packed" }, len(&packed));
    }
    let zst = db.file("zst");
    archive::create(&db.path, &zst, &archive::CreateOptions::default(), &job).unwrap();
    close("archive", len(&zst));
    let columns_mode = report.modes.iter().find(|mode| mode.name == "columns");
    let columns_mode = columns_mode.unwrap();
    let chosen: Vec<(&str, &str)> = (columns_mode.columns.iter())
        .map(|chosen| (&*chosen.table, &*chosen.column))
        .collect();
    assert_eq!(chosen, wanted);
    if chosen.is_empty() {
        assert_eq!(columns_mode.size, None, "{columns_mode:?}");
        return;
    }
    for (table, column) in chosen {
        let column = columns::Column::new(table, column);
        columns::enable(&db.path, &column, &Job::default()).unwrap();
    }
    columns::maintain(&db.path, &Limits::default(), true, &job).unwrap();
    close("columns", len(&db.path));
}

#[test]
fn sizes_of_json_are_predicted() {
    let db = Db::new(|db| titles::create(db, 20_000, 1));
    expect_predicted(&db, &[("title", "data")], true, 64);
}

#[test]
fn sizes_of_logs_are_predicted() {
    let with = logs::Indexes::With;
    let db = Db::new(|db| logs::create(db, 10_000, 1, logs::Layout::Json, with));
    expect_predicted(&db, &[("log", "data")], true, 64);
    let db = Db::new(|db| logs::create(db, 15_000, 1, logs::Layout::Columns, with));
    expect_predicted(&db, &[("log", "user_agent")], false, 64);
}

#[test]
fn sizes_of_blobs_are_predicted() {
    let db = Db::new(|db| blobs::create(db, 60, 1));
    expect_predicted(&db, &[], true, 64);
    let chosen = db.advise().recommendation;
    assert_eq!(chosen.mode, "leave alone", "{chosen:?}");
    assert_eq!(chosen.command, None);
}

/// Of a table of several megabytes `pack --best` has longer dictionaries, which are tried; of long values, too, whose
/// pages belong to no table that is known.
#[test]
fn sizes_with_longer_dictionaries_are_predicted() {
    const WORDS: [&str; 10] = [
        "user", "order", "paid", "error", "cart", "mail", "login", "item", "page", "done",
    ];
    let db = Db::new(|db| {
        let mut random = SplitMix64::new(1);
        let mut below = |n: u64| (random.next_u64() % n) as usize;
        db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, data TEXT)")?;
        let mut insert = db.prepare("INSERT INTO t(data) VALUES (?1)")?;
        for n in 0..50_000 {
            let who = format!("{}{}", WORDS[below(10)], below(999));
            let text: Vec<&str> = (0..12).map(|_| WORDS[below(10)]).collect();
            let text = text.join(" ");
            insert.execute([format!(
                "{{\"n\": {n}, \"who\": \"{who}\", \"text\": \"{text}\"}}"
            )])?;
        }
        Ok(())
    });
    expect_predicted(&db, &[("t", "data")], true, 64);
}

/// Texts that come again at other offsets of pages, and versions of texts, which grow apart: what storing once saves of
/// them is within the range, and of the first ones near.
#[test]
fn sizes_of_text_that_comes_again_are_predicted() {
    for versions in [false, true] {
        let db = Db::new(|db| {
            let mut random = SplitMix64::new(3);
            let mut hex = |len: usize| -> String {
                let words = std::iter::repeat_with(|| format!("{:x} ", random.next_u64() >> 20));
                words.take(len / 12).collect()
            };
            let mut texts: Vec<String> = (0..60).map(|_| hex(7000)).collect();
            db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, data TEXT)")?;
            let mut insert = db.prepare("INSERT INTO t(data) VALUES (?1)")?;
            for turn in 0..10 {
                for text in &mut texts {
                    if versions {
                        let at = turn * 600;
                        text.replace_range(at..at + 300, &hex(600)[..300]);
                    }
                    insert.execute([format!("{}{text}", hex(90))])?;
                }
            }
            Ok(())
        });
        let job = Job::default();
        let report = advise(&db.path, &unhurried(), &job).unwrap();
        for best in [false, true] {
            let packed = db.file("packed");
            let options = PackOptions {
                best,
                replace: true,
                ..PackOptions::default()
            };
            let real = pack(&db.path, &packed, &options, &job).unwrap().after;
            let name = if best { "packed best" } else { "packed" };
            let mode = report.modes.iter().find(|mode| mode.name == name).unwrap();
            let size = mode.size.unwrap();
            let said = format!("versions {versions}, {name}: {size:?}, really {real}");
            assert!((size.low..=size.high).contains(&real), "{said}");
            let is_near = (size.bytes as f64 / real as f64 - 1.0).abs() < 0.15;
            assert!(versions || is_near, "{said}");
            // Without a look at it, it would be told as twice the size.
            let options = PackOptions {
                references: false,
                ..options
            };
            let alone = pack(&db.path, &packed, &options, &job).unwrap().after;
            assert!(alone > size.high, "{said}, alone {alone}");
        }
    }
}

/// Pages of zeros are not even in the page map.
#[test]
fn sizes_with_free_pages_of_zeros_are_predicted() {
    let db = Db::of(&format!(
        "PRAGMA secure_delete=ON; CREATE TABLE t(id INTEGER PRIMARY KEY, data TEXT);
         {NUMBERS} INSERT INTO t SELECT i, printf('%d %.*c', i * 7919 % 99991, i % 90 + 99, 'x') FROM n LIMIT 40000;
         DELETE FROM t WHERE id > 1500;"
    ));
    expect_predicted(&db, &[], false, 64);
}

/// From a part of the pages, too.
#[test]
fn sizes_of_tpch_are_predicted_from_a_sample() {
    let db = Db::new(|db| tpch::create(db, 0.01));
    let wanted = [("partsupp", "ps_comment"), ("orders", "o_comment")];
    expect_predicted(&db, &wanted, false, 8);
    let chosen = db.advise().recommendation;
    assert_eq!(chosen.mode, "packed", "{chosen:?}");
}

/// A small shop of many tables, as samples of databases are: all of it is read, and too small for another format.
#[test]
fn a_small_shop_is_left_alone() {
    // The same in each run: of so small a database a few bytes count.
    let mut random = SplitMix64::new(1);
    let mut below = |limit| random.below(limit).cast_signed();
    let db = Db::new(|db| {
        db.execute_batch(
            "BEGIN;
             CREATE TABLE artist(id INTEGER NOT NULL PRIMARY KEY, name NVARCHAR(120));
             CREATE TABLE track(id INTEGER NOT NULL PRIMARY KEY, name NVARCHAR(200) NOT NULL,
                 artist INTEGER REFERENCES artist(id), composer NVARCHAR(220), milliseconds INTEGER NOT NULL,
                 price NUMERIC(10, 2) NOT NULL);
             CREATE TABLE line(id INTEGER NOT NULL PRIMARY KEY, track INTEGER NOT NULL REFERENCES track(id), n INTEGER NOT NULL);
             CREATE TABLE listed(list INTEGER NOT NULL, track INTEGER NOT NULL REFERENCES track(id),
                 CONSTRAINT pk PRIMARY KEY (list, track));",
        )?;
        let mut insert = db.prepare("INSERT INTO artist VALUES (?1, 'Artist ' || ?2)")?;
        for id in 1..=300 {
            insert.execute((id, below(99_999)))?;
        }
        let mut insert = db.prepare(
            "INSERT INTO track VALUES (?1, 'Song ' || ?2, ?1 % 300 + 1,
             iif(?1 % 3, 'Composer ' || (?1 % 300) || ', ' || ?3, NULL), ?4, 0.99)",
        )?;
        for id in 1..=3500 {
            let name = format!("{:012X}", below(1 << 48));
            insert.execute((id, name, below(999), below(400_000)))?;
        }
        let mut insert = db.prepare("INSERT INTO line VALUES (?1, ?2, 1)")?;
        for id in 1..=2200 {
            insert.execute((id, below(3500) + 1))?;
        }
        db.execute_batch(&format!(
            "{NUMBERS} INSERT INTO listed SELECT i % 3, i / 3 + 1 FROM n LIMIT 9000;
             CREATE INDEX track_artist ON track(artist); CREATE INDEX line_track ON line(track);
             CREATE INDEX listed_list ON listed(list); CREATE INDEX listed_track ON listed(track);
             COMMIT;"
        ))
    });
    let report = db.advise();
    assert!(report.is_whole && db.len() < 1 << 20, "{}", db.len());
    assert_eq!(report.recommendation.mode, "leave alone");
    let finding = found(&db, "redundant_index");
    assert_eq!(finding.sql.as_deref(), Some("DROP INDEX \"listed_list\";"));
    // It is at the end of a foreign key and has other indexes: nothing that could be pasted.
    assert_eq!(found(&db, "without_rowid").sql, None);
    expect_predicted(&db, &[], true, 64);
}

/// Small ones too, of which the last frame, which is shorter, is much: within the range that is said.
#[test]
fn sizes_of_small_databases_are_predicted() {
    for rows in [1, 30, 700, 2000, 5000, 12_000] {
        let db = Db::of(&format!(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b BLOB); CREATE INDEX i ON t(a);
             {NUMBERS} INSERT INTO t SELECT i, 'text ' || i % 90, iif(i < {rows} / 3, zeroblob(40), randomblob(40)) FROM n
             LIMIT {rows};"
        ));
        let report = db.advise();
        let size = |name: &str| {
            let mode = report.modes.iter().find(|mode| mode.name == name);
            mode.unwrap().size.unwrap()
        };
        let (zst, packed) = (db.file("zst"), db.file("packed"));
        let job = Job::default();
        archive::create(&db.path, &zst, &archive::CreateOptions::default(), &job).unwrap();
        pack(&db.path, &packed, &PackOptions::default(), &job).unwrap();
        for (name, real) in [("archive", len(&zst)), ("packed", len(&packed))] {
            let size = size(name);
            let within = (size.low as f64..=size.high as f64).contains(&real);
            assert!(
                within,
                "{} bytes: {name}: {size:?}, really {real}",
                db.len()
            );
        }
    }
}
