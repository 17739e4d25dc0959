//! Encrypted files through the library: they go there and back, another key takes the place of the former one, and
//! whenever that is stopped there is a whole file, with no content in plain beside it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use litepack::{
    Error, Job, Key, MaintainOptions, PackOptions, Progress, RekeyOptions, Stop, UnpackOptions,
};
use rusqlite::Connection;
use tempfile::TempDir;

const CANARY: &str = "canary of the text";
const ROWS: u32 = 4000;

fn key(byte: u8) -> Arc<Key> {
    Arc::new(Key::raw(&[byte; 32]).unwrap())
}

fn with(byte: u8) -> Job<'static> {
    Job::default().with_key(&key(byte))
}

/// A directory with a plain database, and that packed with key 1.
fn place() -> (TempDir, impl Fn(&str) -> PathBuf) {
    let place = TempDir::new().unwrap();
    let directory = place.path().to_owned();
    let path = move |name: &str| directory.join(name);
    let db = Connection::open(path("plain")).unwrap();
    db.execute_batch(&format!(
        "create table secrets(id integer primary key, data text);
         with recursive n(i) as (select 1 union all select i + 1 from n where i < {ROWS})
             insert into secrets select i, i || ' {CANARY} ' || hex(randomblob(30)) from n;"
    ))
    .unwrap();
    db.execute_batch("create table noise(data blob)").unwrap();
    for _ in 0..3 {
        db.execute("insert into noise values (?1)", [noise()])
            .unwrap();
    }
    drop(db);
    let options = PackOptions::default();
    litepack::pack(path("plain"), path("packed"), &options, &with(1)).unwrap();
    (place, path)
}

/// Bytes that no compression changes: they are as they are in a packed file that is not encrypted.
fn noise() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(&mut next).take(3000).collect()
}

/// Whether a file shows content.
fn shows(path: &Path) -> bool {
    let (bytes, noise) = (std::fs::read(path).unwrap(), noise());
    let words = [CANARY, "secrets", "SQLite format 3"].map(str::as_bytes);
    words.into_iter().chain([&noise[1000..1012]]).any(|word| {
        let mut windows = bytes.windows(word.len());
        windows.any(|window| window == word)
    })
}

fn names(place: &TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(place.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// An error unless a packed file opens with this key, is sound, and holds the plain database.
fn expect_same(path: &impl Fn(&str) -> PathBuf, job: &Job<'_>) -> litepack::Result<()> {
    let report = litepack::check(path("packed"), job)?;
    assert!(report.ok, "{report:?}");
    let options = UnpackOptions { replace: true };
    litepack::unpack(path("packed"), path("back"), &options, job)?;
    assert!(std::fs::read(path("back")).unwrap() == std::fs::read(path("plain")).unwrap());
    std::fs::remove_file(path("back")).unwrap();
    Ok(())
}

#[test]
fn an_encrypted_file_goes_there_and_back_with_its_key_only() {
    let (_place, path) = place();
    assert!(!shows(&path("packed")) && shows(&path("plain")));
    expect_same(&path, &with(1)).unwrap();
    let refused = expect_same(&path, &with(2)).unwrap_err();
    assert!(matches!(refused, Error::WrongKey { .. }), "{refused}");
    let refused = expect_same(&path, &Job::default()).unwrap_err();
    assert!(matches!(refused, Error::Encrypted { .. }), "{refused}");
    let info = litepack::info(path("packed"), &with(1)).unwrap();
    assert_eq!(info.content.trees[0].0.name, "secrets");
    litepack::unpack_in_place(path("packed"), &with(1)).unwrap();
    assert!(std::fs::read(path("packed")).unwrap() == std::fs::read(path("plain")).unwrap());
    litepack::pack_in_place(path("packed"), &PackOptions::default(), &with(3)).unwrap();
    assert!(!shows(&path("packed")));
    expect_same(&path, &with(3)).unwrap();
}

#[test]
fn a_key_for_a_file_that_is_not_encrypted_is_an_error() {
    let (_place, path) = place();
    let (open, options) = (path("open"), PackOptions::default());
    litepack::pack(path("plain"), &open, &options, &Job::default()).unwrap();
    let maintain = MaintainOptions::default();
    for refused in [
        litepack::check(&open, &with(1)).map(drop),
        litepack::info(&open, &with(1)).map(drop),
        litepack::unpack(&open, path("new"), &UnpackOptions::default(), &with(1)).map(drop),
        litepack::maintain(&open, &maintain, &with(1)).map(drop),
        litepack::rekey(&open, None, &RekeyOptions::default(), &with(1)).map(drop),
        litepack::rekey(&open, None, &RekeyOptions::default(), &Job::default()).map(drop),
        litepack::open_with_key(&open, Default::default(), Some(&key(1))).map(drop),
    ] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::NotEncrypted { .. }), "{refused}");
    }
}

/// A program that has the old file open in WAL mode would go on beside the new one.
#[test]
fn an_encrypted_file_is_replaced_only_by_who_has_its_key() {
    let (_place, path) = place();
    let options = PackOptions {
        replace: true,
        ..PackOptions::default()
    };
    let before = std::fs::read(path("packed")).unwrap();
    for job in [Job::default(), with(2)] {
        let refused = litepack::pack(path("plain"), path("packed"), &options, &job);
        let words = refused.unwrap_err().to_string();
        assert!(words.contains("is encrypted with another key"), "{words}");
        assert!(std::fs::read(path("packed")).unwrap() == before);
    }
    litepack::pack(path("plain"), path("packed"), &options, &with(1)).unwrap();
    expect_same(&path, &with(1)).unwrap();
}

#[test]
fn another_key_takes_the_place_of_the_former_one() {
    let (place, path) = place();
    let options = RekeyOptions::default();
    let content = |path: PathBuf| std::fs::read(path).unwrap().split_off(12288);
    let before = content(path("packed"));
    // Others go on meanwhile.
    let open = |byte| {
        let flags = rusqlite::OpenFlags::default();
        litepack::open_with_key(path("packed"), flags, Some(&key(byte))).unwrap()
    };
    let count = |db: &Connection| -> u32 {
        db.query_row("select count(*) from secrets", [], |row| row.get(0))
            .unwrap()
    };
    let other = open(1);
    assert_eq!(count(&other), ROWS);
    litepack::rekey(path("packed"), Some(&key(2)), &options, &with(1)).unwrap();
    assert!(content(path("packed")) == before);
    assert_eq!(count(&other), ROWS);
    assert_eq!(count(&open(2)), ROWS);
    expect_same(&path, &with(2)).unwrap();
    let refused = expect_same(&path, &with(1)).unwrap_err();
    assert!(matches!(refused, Error::WrongKey { .. }), "{refused}");
    // Who writes keeps it from being changed meanwhile.
    other.execute_batch("begin immediate").unwrap();
    let refused = litepack::rekey(path("packed"), Some(&key(3)), &options, &with(2));
    assert!(matches!(refused, Err(Error::InUse { .. })), "{refused:?}");
    other.execute_batch("rollback").unwrap();
    drop(other);
    assert_eq!(names(&place), ["packed", "plain"]);
}

#[test]
fn files_are_encrypted_decrypted_and_encrypted_anew() {
    let (place, path) = place();
    let anew = RekeyOptions {
        new_data_key: true,
        ..RekeyOptions::default()
    };
    let packed = path("packed");
    let before = std::fs::read(&packed).unwrap();
    for (byte, options) in [(1, anew), (2, anew), (2, anew)] {
        let job = with(byte);
        litepack::rekey(&packed, Some(&key(2)), &options, &job).unwrap();
        expect_same(&path, &with(2)).unwrap();
        assert!(!shows(&packed));
    }
    assert_ne!(std::fs::read(&packed).unwrap()[32..48], before[32..48]);
    litepack::rekey(&packed, None, &RekeyOptions::default(), &with(2)).unwrap();
    assert!(shows(&packed), "the canaries are none");
    expect_same(&path, &Job::default()).unwrap();
    assert!(!litepack::is_encrypted(&packed).unwrap());
    let options = RekeyOptions::default();
    litepack::rekey(&packed, Some(&key(4)), &options, &Job::default()).unwrap();
    expect_same(&path, &with(4)).unwrap();
    assert!(!shows(&packed));
    assert_eq!(names(&place), ["packed", "plain"]);
}

/// The former key's file is in WAL mode, and has content in its WAL only.
#[test]
fn content_of_the_wal_comes_along() {
    let (place, path) = place();
    let flags = rusqlite::OpenFlags::default();
    let open = |byte| litepack::open_with_key(path("packed"), flags, Some(&key(byte))).unwrap();
    let db = open(1);
    db.execute_batch(
        "pragma journal_mode=wal; pragma wal_autocheckpoint=0; delete from secrets where id > 100;",
    )
    .unwrap();
    // Another key is no matter of the log.
    let options = RekeyOptions::default();
    litepack::rekey(path("packed"), Some(&key(2)), &options, &with(1)).unwrap();
    let anew = RekeyOptions {
        new_data_key: true,
        ..options
    };
    let in_use = litepack::rekey(path("packed"), Some(&key(2)), &anew, &with(2));
    assert!(matches!(in_use, Err(Error::InUse { .. })), "{in_use:?}");
    db.execute_batch("delete from secrets where id > 50")
        .unwrap();
    drop(db);
    litepack::rekey(path("packed"), Some(&key(2)), &anew, &with(2)).unwrap();
    let db = open(2);
    let count: u32 = db
        .query_row("select count(*) from secrets", [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, 50);
    for name in names(&place)
        .iter()
        .filter(|name| *name != "plain" && !name.ends_with("-shm"))
    {
        assert!(!shows(&place.path().join(name)), "{name}");
    }
}

/// Others read and write in WAL mode, and what is committed is in a log that is sealed.
#[test]
fn what_the_log_of_an_encrypted_database_has_is_read_with_its_key() {
    let (place, path) = place();
    let flags = rusqlite::OpenFlags::default();
    let open = || litepack::open_with_key(path("packed"), flags, Some(&key(1))).unwrap();
    let (writer, reader) = (open(), open());
    writer
        .execute_batch("pragma journal_mode=wal; pragma wal_autocheckpoint=0;")
        .unwrap();
    // Keeps what comes after it in the log.
    reader
        .execute_batch("begin; select count(*) from secrets")
        .unwrap();
    writer
        .execute_batch(&format!(
            "insert into secrets(data) select data || ' {CANARY}' from secrets"
        ))
        .unwrap();
    let options = UnpackOptions::default();
    litepack::unpack(path("packed"), path("back"), &options, &with(1)).unwrap();
    writer
        .execute("insert into noise values (?1)", [noise()])
        .unwrap();
    let back = Connection::open(path("back")).unwrap();
    let count: u32 = back
        .query_row("select count(*) from secrets", [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, 2 * ROWS);
    assert!(litepack::check(path("packed"), &with(1)).unwrap().ok);
    let log = names(&place)
        .into_iter()
        .find(|name| name.ends_with("-lpw"));
    let log = path(&log.unwrap());
    assert!(log.metadata().unwrap().len() > 100_000 && !shows(&log));
    // As a crash leaves them.
    for name in ["packed", "packed-lpw"] {
        std::fs::copy(path(name), path(&format!("copy{}", &name[6..]))).unwrap();
    }
    assert!(litepack::check(path("copy"), &with(1)).unwrap().ok);
    let mut bytes = std::fs::read(path("copy-lpw")).unwrap();
    bytes[50_000] ^= 1;
    std::fs::write(path("copy-lpw"), bytes).unwrap();
    let report = litepack::check(path("copy"), &with(1)).unwrap();
    assert_eq!(report.damage[0].what, "WAL", "{report:?}");
}

/// Stops a call at each of its reports. Until the last step there is the old file, bit for bit, and nothing beside it.
#[test]
fn a_rekey_that_is_stopped_leaves_the_old_file_or_the_new_one() {
    let (place, path) = place();
    let packed = path("packed");
    let anew = RekeyOptions {
        new_data_key: true,
        ..RekeyOptions::default()
    };
    litepack::rekey(&packed, None, &RekeyOptions::default(), &with(1)).unwrap();
    let open = std::fs::read(&packed).unwrap();
    litepack::pack(
        path("plain"),
        path("sealed"),
        &PackOptions::default(),
        &with(1),
    )
    .unwrap();
    let sealed = std::fs::read(path("sealed")).unwrap();
    std::fs::remove_file(path("sealed")).unwrap();
    for (before, former, new) in [
        (&open, None, Some(key(2))),
        (&sealed, Some(key(1)), Some(key(2))),
        (&sealed, Some(key(1)), None),
    ] {
        let mut stopped = 0;
        for at in 0.. {
            std::fs::write(&packed, before).unwrap();
            let (stop, seen) = (Stop::default(), AtomicUsize::new(0));
            let temporary = |name: &str| name.contains(".litepack-");
            let tell = |_: Progress<'_>| {
                // What is there meanwhile is encrypted, or asked for in plain.
                for name in names(&place).iter().filter(|name| temporary(name)) {
                    assert!(new.is_none() || !shows(&place.path().join(name)), "{name}");
                }
                if seen.fetch_add(1, Ordering::Relaxed) == at {
                    stop.stop();
                }
            };
            let job = Job::default().with_progress(&tell).with_stop(&stop);
            let job = match &former {
                Some(former) => job.with_key(former),
                None => job,
            };
            let done = litepack::rekey(&packed, new.as_ref(), &anew, &job);
            assert_eq!(names(&place), ["packed", "plain"]);
            match done {
                Err(error) => {
                    assert!(error.is_interrupted(), "{error}");
                    assert!(std::fs::read(&packed).unwrap() == *before, "at {at}");
                    stopped += 1;
                }
                Ok(_) => {
                    let job = new.as_ref().map(|key| Job::default().with_key(key));
                    expect_same(&path, &job.unwrap_or_default()).unwrap();
                    break;
                }
            }
        }
        assert!(stopped > 4, "{stopped}");
    }
}
