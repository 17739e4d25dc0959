//! The library as a Rust program uses it: what jobs report and how they end, what errors say, what results hold. That
//! the files are right is tested through the command, which calls these functions.

use std::path::PathBuf;
use std::sync::Mutex;

use litepack::{
    Error, FileKind, Job, MaintainOptions, PackOptions, Progress, Stop, UnpackOptions, archive,
    columns,
};
use tempfile::TempDir;

/// A directory with a plain database of so many rows in it.
fn place(rows: u32) -> (TempDir, PathBuf) {
    let place = TempDir::new().unwrap();
    let plain = place.path().join("plain.db");
    let db = rusqlite::Connection::open(&plain).unwrap();
    db.execute_batch(&format!(
        "create table event(id integer primary key, data text);
         with recursive n(i) as (select 1 union all select i + 1 from n where i < {rows})
             insert into event select i, 'the event of ' || i || ', as all others' from n;"
    ))
    .unwrap();
    (place, plain)
}

fn count(db: &rusqlite::Connection) -> u32 {
    let sql = "select count(*) from event";
    db.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// SQL of the program's connections may load no extension, so it sets nothing either.
#[cfg(feature = "remote")]
#[test]
fn the_program_sets_for_the_process_what_its_sql_may_not() {
    litepack::remote_headers("https://data.example", Some("X-Key: one\nX-More: two")).unwrap();
    litepack::remote_config("s3_region", Some("eu-north-1")).unwrap();
    let wrong = litepack::remote_config("s3_endpoint", Some("s3cret")).unwrap_err();
    assert!(wrong.contains("not a valid URL") && !wrong.contains("s3cret"));
    assert!(litepack::remote_config("nonsense", None).is_err());
    let (_place, plain) = place(1);
    let db = litepack::open(&plain).unwrap();
    for sql in [
        "select litepack_remote_config('s3_region', 'eu-west-1')",
        "select litepack_remote_config('s3_region')",
        "select litepack_remote_headers('https://data.example', null)",
        "select litepack_new_databases('packed')",
    ] {
        let refused = db.query_row(sql, [], |_| Ok(())).unwrap_err().to_string();
        assert!(refused.contains("not authorized"), "{sql}: {refused}");
    }
    litepack::remote_config("s3_region", None).unwrap();
    assert_eq!(
        litepack::remote_headers("https://data.example", None),
        Ok(0)
    );
}

#[test]
fn files_go_there_and_back() {
    let (place, plain) = place(20_000);
    let path = |name: &str| place.path().join(name);
    let (packed, back, archived) = (path("packed.db"), path("back.db"), path("a.zst"));
    let job = Job::default();
    let sizes = litepack::pack(&plain, &packed, &PackOptions::default(), &job).unwrap();
    assert_eq!(sizes.before, plain.metadata().unwrap().len());
    assert_eq!(sizes.after, packed.metadata().unwrap().len());
    assert!(sizes.after * 4 < sizes.before, "{sizes:?}");
    assert_eq!(count(&litepack::open(&packed).unwrap()), 20_000);
    litepack::unpack(&packed, &back, &UnpackOptions::default(), &job).unwrap();
    assert!(std::fs::read(&back).unwrap() == std::fs::read(&plain).unwrap());

    let options = archive::CreateOptions::default();
    archive::create(&packed, &archived, &options, &job).unwrap();
    assert_eq!(count(&litepack::open(&archived).unwrap()), 20_000);
    assert!(archive::check(&archived, &job).unwrap().ok);
    assert_eq!(archive::info(&archived).unwrap().page_size, Some(4096));
    let options = archive::ExtractOptions { replace: true };
    archive::extract(&archived, &back, &options, &job).unwrap();
    assert!(std::fs::read(&back).unwrap() == std::fs::read(&plain).unwrap());

    let options = MaintainOptions::default();
    assert!(!litepack::maintain(&packed, &options, &job).unwrap().more);
    litepack::unpack_in_place(&packed, &job).unwrap();
    litepack::pack_in_place(&packed, &PackOptions::default(), &job).unwrap();
    assert!(litepack::check(&packed, &job).unwrap().ok);
}

#[test]
fn names_are_those_of_files() {
    let (place, plain) = place(10);
    // Two slashes at the beginning, which in a URI would be those of a host.
    let twice = format!("/{}", plain.display());
    assert_eq!(count(&litepack::open(twice).unwrap()), 10);
    let names = || std::fs::read_dir(place.path()).unwrap().count();
    let before = names();
    let error = litepack::open(place.path().join("plain\0.db")).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error:?}");
    assert_eq!(names(), before);
}

#[test]
fn a_database_in_memory_is_no_file() {
    for name in [":memory:", ""] {
        let db = litepack::open(name).unwrap();
        db.execute_batch("create table event(id); insert into event values (1)")
            .unwrap();
        assert_eq!(count(&db), 1);
        let sql = "select file, litepack_version() from pragma_database_list";
        let file: String = db.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(file, "", "{name:?}");
        assert!(!std::path::Path::new(":memory:").exists());
    }
}

#[test]
fn reports_are_what_sql_says() {
    let (place, plain) = place(20_000);
    let packed = place.path().join("packed.db");
    let job = Job::default();
    litepack::pack(&plain, &packed, &PackOptions::default(), &job).unwrap();
    let info = litepack::info(&packed, &job).unwrap();
    let (tree, share) = &info.content.trees[0];
    assert_eq!(tree.name, "event");
    assert!(share.stored > 0);
    let all = serde_json::to_value(&info).unwrap();
    let db = litepack::open(&packed).unwrap();
    let sql: String = db
        .query_row("select litepack_info()", [], |row| row.get(0))
        .unwrap();
    let sql: serde_json::Map<_, _> = serde_json::from_str(&sql).unwrap();
    for (field, value) in sql {
        assert_eq!(all[&field], value, "{field}");
    }
    assert_eq!(all["trees"][0]["name"], "event");

    columns::enable(
        &plain,
        &columns::Column::new("event", "data"),
        &Job::default(),
    )
    .unwrap();
    let done = columns::maintain(&plain, &litepack::Limits::default(), true, &job).unwrap();
    assert_eq!((done.compressed, done.left, done.more), (20_000, 0, false));
    let status = columns::status(&plain, &Job::default()).unwrap();
    assert_eq!(status[0].rows_compressed, 20_000);
    assert_eq!(status[0].dictionaries[0].rows, 20_000);
    let db = litepack::open(&plain).unwrap();
    let sql: String = db
        .query_row("select litepack_columns()", [], |row| row.get(0))
        .unwrap();
    let sql: serde_json::Value = serde_json::from_str(&sql).unwrap();
    assert_eq!(serde_json::to_value(&status).unwrap(), sql);
    drop(db);
    columns::disable(&plain, "event", "data", &Job::default()).unwrap();
    let left = columns::status(&plain, &Job::default()).unwrap();
    assert!(left.is_empty());
}

#[test]
fn a_job_reports_its_steps() {
    let (place, plain) = place(2_000);
    let len = plain.metadata().unwrap().len();
    let packed = place.path().join("packed.db");
    let seen = Mutex::new((Vec::new(), 0));
    let show = |progress: Progress<'_>| {
        let mut seen = seen.lock().unwrap();
        match progress {
            Progress::Began { step, total, .. } => seen.0.push((step, total)),
            Progress::Advanced(more) => seen.1 += more,
            _ => {}
        }
    };
    let job = Job::default().with_progress(&show);
    litepack::pack(&plain, &packed, &PackOptions::default(), &job).unwrap();
    let (steps, bytes) = seen.into_inner().unwrap();
    // Nothing is large enough for a dictionary.
    let expected = [
        ("choosing", None),
        ("packing", Some(len)),
        ("verifying", Some(len)),
        ("syncing", None),
    ];
    assert_eq!(steps, expected);
    assert_eq!(bytes, 2 * len);
}

/// Files that are attached again and again, at other offsets of their pages, and rows that quote them.
fn attachments(place: &TempDir) -> PathBuf {
    let plain = place.path().join("mail.db");
    let db = rusqlite::Connection::open(&plain).unwrap();
    db.execute_batch("create table mail(id integer primary key, text text, data blob)")
        .unwrap();
    let mut insert = db.prepare("insert into mail values (null, ?, ?)").unwrap();
    let words = |seed: u64, count: u64| {
        let word = |n: u64| (seed * 0x9e37_79b9 + n).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 20;
        (0..count)
            .map(|n| format!("{:x} ", word(n)))
            .collect::<String>()
    };
    for mail in 0..150 {
        let file = mail % 40;
        let data = words(file, 1500);
        insert
            .execute(rusqlite::params![words(1000 + mail, 20), data.as_bytes()])
            .unwrap();
        insert
            .execute(rusqlite::params![words(file, 300), [0_u8; 0].as_slice()])
            .unwrap();
    }
    drop(insert);
    db.close().unwrap();
    plain
}

/// Packed, changed, maintained and unpacked: the file has references, and all is as in the plain one.
#[test]
fn text_that_comes_again_is_stored_once() {
    let place = TempDir::new().unwrap();
    let plain = attachments(&place);
    let path = |name: &str| place.path().join(name);
    let (packed, without, back) = (path("packed.db"), path("without.db"), path("back.db"));
    let job = Job::default();
    let with = litepack::pack(&plain, &packed, &PackOptions::default(), &job).unwrap();
    let options = PackOptions {
        references: false,
        ..PackOptions::default()
    };
    let alone = litepack::pack(&plain, &without, &options, &job).unwrap();
    assert!(
        with.after * 2 < alone.after,
        "{} and {}",
        with.after,
        alone.after
    );
    let number = |file: &PathBuf, field: &str| {
        let info = serde_json::to_value(litepack::info(file, &job).unwrap()).unwrap();
        info[field].as_u64().unwrap()
    };
    let items = |file: &PathBuf| number(file, "items");
    let (told, saved) = (
        number(&packed, "references_save_bytes"),
        alone.after - with.after,
    );
    assert!(
        (saved * 3 / 4..saved * 5 / 4).contains(&told),
        "{told} of {saved}"
    );
    let references = number(&packed, "references");
    assert!(references > items(&packed), "{references}");
    assert_eq!(number(&without, "references_save_bytes"), 0);
    assert!(items(&packed) > 30, "{}", items(&packed));
    assert_eq!(items(&without), 0);

    // The same changes in both, the one that many rows are stored with among them.
    let changes = "update mail set text = text || 'read' where id % 7 = 1;
         delete from mail where id % 5 = 0;
         insert into mail select id + 10000, text, data from mail where id % 11 = 2";
    let all = |db: &rusqlite::Connection| -> Vec<(i64, String, Vec<u8>)> {
        let mut statement = db.prepare("select * from mail order by id").unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        rows.unwrap().map(Result::unwrap).collect()
    };
    let plain_db = rusqlite::Connection::open(&plain).unwrap();
    let db = litepack::open(&packed).unwrap();
    assert!(all(&db) == all(&plain_db));
    db.execute_batch(changes).unwrap();
    plain_db.execute_batch(changes).unwrap();
    assert!(all(&db) == all(&plain_db));
    db.close().unwrap();
    assert!(litepack::check(&packed, &job).unwrap().ok);

    let before = packed.metadata().unwrap().len();
    litepack::maintain(&packed, &MaintainOptions::default(), &job).unwrap();
    assert!(packed.metadata().unwrap().len() <= before);
    assert!(items(&packed) > 20, "{}", items(&packed));
    assert!(litepack::check(&packed, &job).unwrap().ok);
    litepack::unpack(&packed, &back, &UnpackOptions::default(), &job).unwrap();
    assert!(all(&rusqlite::Connection::open(&back).unwrap()) == all(&plain_db));
}

#[test]
fn a_stopped_job_changes_nothing() {
    let (place, plain) = place(20_000);
    let packed = place.path().join("packed.db");
    let stop = Stop::default();
    // As soon as it has begun.
    let show = |_: Progress<'_>| stop.stop();
    let job = Job::default().with_progress(&show).with_stop(&stop);
    let options = PackOptions::default();
    for error in [
        litepack::pack(&plain, &packed, &options, &job).unwrap_err(),
        litepack::pack_in_place(&plain, &options, &job).unwrap_err(),
        archive::create(&plain, &packed, &archive::CreateOptions::default(), &job).unwrap_err(),
    ] {
        assert!(error.is_interrupted(), "{error:?}");
        assert_eq!(error.to_string(), "interrupted; nothing was changed");
    }
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    assert_eq!(count(&rusqlite::Connection::open(&plain).unwrap()), 20_000);
}

#[test]
fn a_stopped_report_ends() {
    let (place, plain) = place(20_000);
    let packed = place.path().join("packed.db");
    litepack::pack(&plain, &packed, &PackOptions::default(), &Job::default()).unwrap();
    for begin in ["check", "info"] {
        let (stop, moves) = (Stop::default(), Mutex::new(0));
        let show = |progress: Progress<'_>| {
            if let Progress::Advanced(_) | Progress::Reached(_) = progress {
                *moves.lock().unwrap() += 1;
                stop.stop();
            }
        };
        let job = Job::default().with_progress(&show).with_stop(&stop);
        let ended = match begin {
            "check" => litepack::check(&packed, &job).map(|_| ()),
            _ => litepack::info(&packed, &job).map(|_| ()),
        };
        let error = ended.unwrap_err();
        assert!(error.is_interrupted(), "{begin}: {error:?}");
        assert_eq!(moves.into_inner().unwrap(), 1, "{begin}");
    }
}

#[test]
fn errors_say_what_kind_they_are() {
    let (place, plain) = place(100);
    let path = |name: &str| place.path().join(name);
    let packed = path("packed.db");
    let (options, job) = (PackOptions::default(), Job::default());
    litepack::pack(&plain, &packed, &options, &job).unwrap();
    let again = litepack::pack(&plain, &packed, &options, &job).unwrap_err();
    assert!(matches!(again, Error::Exists { .. }), "{again:?}");
    let replacing = PackOptions {
        replace: true,
        ..options
    };
    let same = litepack::pack(&plain, &plain, &replacing, &job).unwrap_err();
    assert!(matches!(same, Error::SameFile { .. }), "{same:?}");
    litepack::pack(&plain, &packed, &replacing, &job).unwrap();
    let wrong = litepack::check(&plain, &job).unwrap_err();
    let found = FileKind::Plain;
    assert!(matches!(&wrong, Error::WrongKind { found: is, .. } if *is == found));
    let missing = litepack::info(path("missing"), &job).unwrap_err();
    assert!(missing.to_string().ends_with("does not exist"), "{missing}");

    let writer = rusqlite::Connection::open(&plain).unwrap();
    writer.execute_batch("begin immediate").unwrap();
    let busy = litepack::pack(&plain, path("other.db"), &options, &job).unwrap_err();
    assert!(matches!(busy, Error::InUse { .. }), "{busy:?}");
    drop(writer);

    let file = std::fs::OpenOptions::new().write(true).open(&plain);
    file.unwrap().set_len(4096).unwrap();
    let short = litepack::pack(&plain, path("other.db"), &options, &job).unwrap_err();
    assert!(
        matches!(short, Error::Truncated { missing, .. } if missing > 0),
        "{short:?}"
    );
    for options in [
        PackOptions {
            level: 99,
            ..options
        },
        PackOptions {
            dictionary_size: Some(1),
            ..options
        },
    ] {
        let refused = litepack::pack(&plain, path("other.db"), &options, &job).unwrap_err();
        assert!(matches!(refused, Error::Refused(_)), "{refused:?}");
    }
    assert!(!path("other.db").exists());
}

#[test]
fn a_warning_is_no_error() {
    let (place, plain) = place(2_000);
    // The type of the last page is none.
    let mut bytes = std::fs::read(&plain).unwrap();
    let last = bytes.len() - 4096;
    bytes[last] = 99;
    std::fs::write(&plain, bytes).unwrap();
    let said = Mutex::new(String::new());
    let warn = |words: &str| said.lock().unwrap().push_str(words);
    let job = Job::default().with_warnings(&warn);
    let packed = place.path().join("packed.db");
    litepack::pack(&plain, &packed, &PackOptions::default(), &job).unwrap();
    let said = said.into_inner().unwrap();
    assert!(said.contains("is malformed"), "{said}");
}

/// POSIX drops all locks of a process on a file when it closes any descriptor of it.
#[cfg(target_os = "linux")]
#[test]
fn calls_leave_the_locks_of_open_connections_alone() {
    use std::os::unix::fs::MetadataExt;
    let (folder, plain) = place(1000);
    let packed = folder.path().join("packed.db");
    litepack::pack(&plain, &packed, &PackOptions::default(), &Job::default()).unwrap();
    for database in [&plain, &packed] {
        let number = database.metadata().unwrap().ino();
        // Not `/proc/locks`, which is read in pieces: what other processes lock meanwhile repeats lines of it.
        let locks = || {
            let all = std::fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
            let all = all.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
            let mut ours = Vec::new();
            for descriptor in all {
                let lines = descriptor.lines();
                let locks = lines.filter_map(|line| line.strip_prefix("lock:")?.split_once(": "));
                let locks = locks.map(|(_, lock)| lock.to_string());
                ours.extend(locks.filter(|lock| lock.contains(&format!(":{number} "))));
            }
            ours.sort();
            ours
        };
        let db = litepack::open(database).unwrap();
        // In WAL mode a connection has its lock as long as it is open.
        db.execute_batch("pragma journal_mode = wal; create table if not exists more(x)")
            .unwrap();
        let before = locks();
        assert!(!before.is_empty(), "this shows nothing");
        let job = Job::default();
        // Whether they succeed or refuse: what counts is that they open the file and close it.
        let _ = litepack::info(database, &job);
        let _ = litepack::check(database, &job);
        let _ = litepack::maintain(database, &MaintainOptions::default(), &job);
        let new = folder.path().join("new");
        let _ = litepack::pack(database, &new, &PackOptions::default(), &job);
        let _ = litepack::unpack(database, &new, &UnpackOptions::default(), &job);
        assert_eq!(locks(), before);
        db.execute_batch("insert into more values(1)").unwrap();
        drop(db);
        // Once nothing has it open, nothing of ours has either.
        let _ = litepack::info(database, &job);
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let of_it = open
            .filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|path| path == *database));
        assert_eq!(of_it.count(), 0);
    }
}

/// A database that is only to be read is not created, and nothing is tried beside it.
#[test]
fn a_missing_database_that_is_only_read_is_missing() {
    let (folder, _) = place(1);
    let before = folder.path().metadata().unwrap().modified().unwrap();
    let missing = folder.path().join("missing.db");
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let error = litepack::open_with_flags(&missing, flags).unwrap_err();
    assert!(error.to_string().contains("cannot open"), "{error}");
    let after = folder.path().metadata().unwrap().modified().unwrap();
    assert_eq!(after, before);
}

/// Rows that are committed are packed as they are when that begins, whatever others do then: one reads, one is in the
/// middle of a transaction, which it ends meanwhile, and one checkpoints.
#[test]
fn a_database_in_wal_mode_is_taken_as_it_is_at_one_moment() {
    for (kind, all_in_file) in [
        ("plain", false),
        ("plain", true),
        ("packed", false),
        ("packed", true),
    ] {
        let place = TempDir::new().unwrap();
        let path = |name: &str| place.path().join(name);
        let source = path("source.db");
        let open = |at: &PathBuf| match kind {
            "plain" => rusqlite::Connection::open(at).unwrap(),
            _ => litepack::open(at).unwrap(),
        };
        let db = open(&source);
        db.execute_batch(
            "pragma journal_mode = wal; pragma wal_autocheckpoint = 0;
             create table event(id integer primary key, data text);
             with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
                 insert into event select i, 'the event of ' || i || ', as all others' from n;
             pragma wal_checkpoint(truncate);",
        )
        .unwrap();
        let reader = open(&source);
        let reads = "begin; select count(*) from event;";
        if !all_in_file {
            // No checkpoint gets beyond it.
            reader.execute_batch(reads).unwrap();
        }
        db.execute_batch(
            "update event set data = 'newer ' || id where id % 5 = 0;
             with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000)
                 insert into event select 20000 + i, 'one more ' || i from n;",
        )
        .unwrap();
        if all_in_file {
            db.execute_batch("pragma wal_checkpoint(passive)").unwrap();
            reader.execute_batch(reads).unwrap();
        }
        // The same as it is after a checkpoint.
        std::fs::create_dir(path("copy")).unwrap();
        let copy = path("copy").join("source.db");
        for suffix in ["", "-wal", "-lpw"] {
            let from = path(&format!("source.db{suffix}"));
            if from.exists() {
                std::fs::copy(from, path("copy").join(format!("source.db{suffix}"))).unwrap();
            }
        }
        open(&copy)
            .execute_batch("pragma wal_checkpoint(truncate)")
            .unwrap();
        let (expected, silent) = (path("expected.db"), Job::default());
        match kind {
            "plain" => std::fs::copy(&copy, &expected).map(drop).unwrap(),
            _ => litepack::unpack(&copy, &expected, &UnpackOptions::default(), &silent)
                .map(drop)
                .unwrap(),
        }
        let expected = std::fs::read(expected).unwrap();

        let (packed, back, archived) = (path("packed.db"), path("back.db"), path("a.zst"));
        for round in 0..2 {
            let writer = open(&source);
            writer
                .execute_batch("pragma wal_autocheckpoint = 0; pragma cache_size = 1; begin; update event set data = 'changed'")
                .unwrap();
            let writer = Mutex::new(Some(writer));
            let others = |_: Progress<'_>| {
                if let Some(writer) = writer.lock().unwrap().take() {
                    writer
                        .execute_batch(
                            "commit; pragma wal_checkpoint(passive); delete from event where id % 3 = 0;
                             pragma wal_checkpoint(passive); insert into event(data) values ('last');
                             pragma wal_checkpoint(passive);",
                        )
                        .unwrap();
                }
            };
            let job = Job::default().with_progress(&others);
            if round == 0 {
                match kind {
                    "plain" => {
                        litepack::pack(&source, &packed, &PackOptions::default(), &job).unwrap();
                        litepack::unpack(&packed, &back, &UnpackOptions::default(), &silent)
                            .unwrap();
                    }
                    _ => drop(
                        litepack::unpack(&source, &back, &UnpackOptions::default(), &job).unwrap(),
                    ),
                }
                assert!(
                    std::fs::read(&back).unwrap() == expected,
                    "{kind}, {all_in_file}"
                );
            } else {
                // At a later moment, and by another way.
                let rows = count(&open(&source));
                archive::create(&source, &archived, &archive::CreateOptions::default(), &job)
                    .unwrap();
                assert_eq!(count(&litepack::open(&archived).unwrap()), rows);
            }
            assert!(writer.lock().unwrap().is_none(), "no writer went on");
        }
        let rows: u32 = reader
            .query_row("select count(*) from event", [], |row| row.get(0))
            .unwrap();
        assert_eq!(rows, if all_in_file { 22_000 } else { 20_000 });
        // No lock or WAL was lost.
        drop(reader);
        let check: String = db
            .query_row("pragma integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(check, "ok");
    }
}

/// Who is in the way is waited for, but not by a call that is stopped.
#[test]
fn a_stop_ends_the_wait_for_others() {
    let (place, plain) = place(1000);
    let writer = rusqlite::Connection::open(&plain).unwrap();
    writer.execute_batch("begin exclusive").unwrap();
    // It waits for two seconds. A machine with other work may be late, but not each time.
    let mut waits = Vec::new();
    for _ in 0..8 {
        let stop = Stop::default();
        let job = Job::default().with_stop(&stop);
        let later = stop.clone();
        let began = std::time::Instant::now();
        let stopper = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(200));
            later.stop();
        });
        let packed = place.path().join("packed.db");
        let error = litepack::pack(&plain, &packed, &PackOptions::default(), &job).unwrap_err();
        assert!(error.is_interrupted(), "{error:?}");
        waits.push(began.elapsed());
        stopper.join().unwrap();
        if waits.last() < Some(&std::time::Duration::from_millis(1500)) {
            return;
        }
    }
    panic!("it waits: {waits:?}");
}

#[test]
fn pack_says_what_share_each_step_has_and_goes_through_all_of_them() {
    let (place, plain) = place(30_000);
    let steps = Mutex::new((Vec::new(), Vec::new()));
    let note = |progress: Progress<'_>| {
        let mut steps = steps.lock().unwrap();
        match progress {
            Progress::Shares(shares) => steps.0 = shares.to_vec(),
            Progress::Began { step, .. } => steps.1.push(step),
            _ => {}
        }
    };
    let job = Job::default().with_progress(&note);
    let packed = place.path().join("packed.db");
    litepack::pack(&plain, &packed, &PackOptions::default(), &job).unwrap();
    let (shares, mut begun) = steps.into_inner().unwrap();
    begun.dedup();
    let names: Vec<_> = shares.iter().map(|(step, _)| *step).collect();
    assert_eq!(names, begun);
    assert_eq!(names, ["choosing", "packing", "verifying", "syncing"]);
    let all: u32 = shares.iter().map(|(_, share)| share).sum();
    assert!((990..=1000).contains(&all), "{shares:?}");
}

/// A log that is not all in the database keeps free pages as they are.
#[test]
fn maintenance_brings_the_log_into_the_file_first() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("packed.db");
    let db = litepack::open(&path).unwrap();
    db.execute_batch(
        "pragma journal_mode = wal; pragma secure_delete = off;
         create table event(id integer primary key, data text);
         with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
             insert into event select i, hex(randomblob(60)) from n;
         pragma wal_checkpoint(truncate); pragma wal_autocheckpoint = 0;
         delete from event where id > 1000",
    )
    .unwrap();
    let options = MaintainOptions::default();
    let done = litepack::maintain(&path, &options, &Job::default()).unwrap();
    assert!(
        done.sizes.after * 5 < done.sizes.before,
        "{:?}: free pages are still there",
        done.sizes
    );
    assert_eq!(count(&db), 1000);
}
