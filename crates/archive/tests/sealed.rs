//! Encrypted archives: the bytes of the database with the key, and with nothing else; every change is an error.

use std::ops::ControlFlow;
use std::sync::Arc;

use litepack_archive::{
    Archive, Cache, Error, FileId, Key, Options, Result, SeekTable, Settings, begins_like_zstd,
    create, is_encrypted, page_size_without_key,
};
use litepack_io::random::SplitMix64;

const FRAME: u32 = 4096;
const HEAD: usize = 512;
const END: usize = 16;
const TAG: usize = 16;

fn key(byte: u8) -> Arc<Key> {
    Arc::new(Key::raw(&[byte; 32]).unwrap())
}

/// A database of frames that compress, each of other bytes and lengths.
fn database(frames: u32) -> Vec<u8> {
    let mut bytes = vec![0; (frames * FRAME) as usize];
    let mut random = SplitMix64::new(3);
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = if at % 3 == 0 {
            random.next_u64() as u8
        } else {
            (at / 64) as u8
        };
    }
    bytes[..16].copy_from_slice(b"SQLite format 3\0");
    bytes[16..18].copy_from_slice(&4096u16.to_be_bytes());
    bytes.truncate(bytes.len() - 100);
    bytes
}

fn sealed(database: &[u8], key: &Arc<Key>, threads: usize) -> Vec<u8> {
    let settings = Settings {
        frame_size: FRAME,
        threads,
        key: Some(Arc::clone(key)),
        ..Settings::default()
    };
    let (mut input, mut file) = (database, Vec::new());
    let go_on = &mut |_| ControlFlow::Continue(());
    let created = create(&mut input, &mut file, &settings, go_on).unwrap();
    assert_eq!(created.stored, file.len() as u64);
    file
}

fn open<'a>(file: &'a [u8], key: Option<&Key>) -> Result<Archive<&'a [u8]>> {
    let options = Options {
        cache: Arc::new(Cache::new(8 << 20)),
        file: FileId::unique(),
        threads: 2,
    };
    Archive::open_with(file, key, options)
}

fn all(file: &[u8], key: &Key) -> Result<Vec<u8>> {
    let mut archive = open(file, Some(key))?;
    let mut bytes = vec![0; archive.size() as usize];
    for (at, part) in bytes.chunks_mut(1000).enumerate() {
        let len = archive.read_at(at as u64 * 1000, part)?;
        assert_eq!(len, part.len());
    }
    Ok(bytes)
}

/// Where the frames are.
fn frames(file: &[u8], key: &Key) -> Vec<std::ops::Range<usize>> {
    let table = SeekTable::read_with(&file, Some(key)).unwrap();
    let all = (0..table.frames()).map(|number| table.frame(number).unwrap());
    all.map(|frame| frame.offset as usize..frame.offset as usize + frame.stored as usize)
        .collect()
}

#[test]
fn it_opens_with_its_key_and_no_other() {
    let database = database(70);
    for threads in [1, 4] {
        let file = sealed(&database, &key(1), threads);
        assert!(all(&file, &key(1)).unwrap() == database);
        assert!(begins_like_zstd(&file) && is_encrypted(&file.as_slice()).unwrap());
        let page_size = page_size_without_key(&file.as_slice()).unwrap();
        assert_eq!(page_size, Some(4096));
        assert!(matches!(open(&file, None), Err(Error::NoKey)));
        assert!(matches!(open(&file, Some(&key(2))), Err(Error::WrongKey)));
        let archive = open(&file, Some(&key(1))).unwrap();
        let info = archive.info().unwrap();
        assert!(info.checksums && info.other_bytes() == HEAD as u64);
        let report = archive
            .check(2, &mut |_| ControlFlow::Continue(()))
            .unwrap();
        assert!(report.is_ok() && report.sound == database.len() as u64);
    }
    // A passphrase, and an empty database.
    let passphrase = Arc::new(Key::passphrase(b"correct horse").unwrap());
    assert!(
        all(&sealed(&[], &passphrase, 1), &passphrase)
            .unwrap()
            .is_empty()
    );
    // One that is not encrypted takes none.
    let mut plain = Vec::new();
    let go_on = &mut |_| ControlFlow::Continue(());
    create(&mut &database[..], &mut plain, &Settings::default(), go_on).unwrap();
    assert!(matches!(
        open(&plain, Some(&key(1))),
        Err(Error::NotEncrypted)
    ));
    assert!(!is_encrypted(&plain.as_slice()).unwrap());
}

/// Nothing of the database is in it, and nothing comes twice: not from the same database with the same key either.
#[test]
fn nothing_is_in_plain_and_no_nonce_comes_again() {
    // Bytes that no compression changes.
    let mut random = SplitMix64::new(9);
    let database: Vec<u8> = (0..20_000)
        .flat_map(|_| random.next_u64().to_le_bytes())
        .collect();
    let words = |bytes: &[u8]| -> std::collections::HashSet<[u8; 8]> {
        bytes
            .windows(8)
            .map(|word| word.try_into().unwrap())
            .collect()
    };
    let mut plain = Vec::new();
    let go_on = &mut |_| ControlFlow::Continue(());
    create(&mut &database[..], &mut plain, &Settings::default(), go_on).unwrap();
    let of_database = words(&database);
    assert!(!words(&plain).is_disjoint(&of_database));
    let [one, two] = [0, 1].map(|_| sealed(&database, &key(1), 1));
    assert!(words(&one[HEAD..]).is_disjoint(&of_database));
    let behind = |file: &[u8]| words(&file[HEAD..file.len() - END]);
    assert!(behind(&one).is_disjoint(&behind(&two)));
}

#[test]
fn every_changed_byte_is_an_error() {
    let database = database(2);
    let file = sealed(&database, &key(1), 1);
    for at in 0..file.len() {
        let mut other = file.clone();
        other[at] ^= 1 << (at % 8);
        assert!(all(&other, &key(1)).is_err(), "byte {at}");
    }
    for len in 0..file.len() {
        assert!(all(&file[..len], &key(1)).is_err(), "{len} bytes");
    }
    let longer = [&file[..], &[0; 9]].concat();
    assert!(all(&longer, &key(1)).is_err());
}

/// Frames that are moved, left out or repeated, and those of another archive with the same key.
#[test]
fn what_was_sealed_opens_in_its_own_place_only() {
    let database = database(6);
    let key = key(1);
    let file = sealed(&database, &key, 1);
    let places = frames(&file, &key);
    // Frames of one length, so that nothing else is wrong.
    let noise = |seed| {
        let mut random = SplitMix64::new(seed);
        let words = std::iter::repeat_with(move || random.next_u64().to_le_bytes());
        words
            .flatten()
            .take(6 * FRAME as usize)
            .collect::<Vec<u8>>()
    };
    let even = sealed(&noise(1), &key, 1);
    let of_even = frames(&even, &key);
    assert!(of_even.iter().all(|place| place.len() == of_even[0].len()));
    let mut swapped = even.clone();
    swapped.copy_within(of_even[1].clone(), of_even[2].start);
    swapped[of_even[1].clone()].copy_from_slice(&even[of_even[2].clone()]);
    let mut archive = open(&swapped, Some(&key)).unwrap();
    for frame in 0..6 {
        let read = archive.read_at(frame * u64::from(FRAME), &mut [0; 10]);
        assert_eq!(read.is_err(), frame == 1 || frame == 2, "{frame}");
    }
    // Of the same place in another archive; and its table, its end, its head.
    let other = sealed(&noise(2), &key, 1);
    let table = even.len() - END - TAG - 6 * 8;
    for part in [of_even[3].clone(), table..even.len() - END, 0..HEAD] {
        let mut mixed = even.clone();
        mixed[part.clone()].copy_from_slice(&other[part.clone()]);
        assert!(all(&mixed, &key).is_err(), "{part:?}");
    }
    // Without the last frame, with a table that says so: none that was sealed does.
    let shorter = [&file[..places[5].start], &file[places[5].end..]].concat();
    assert!(all(&shorter, &key).is_err());
    let mut fewer = file.clone();
    let at = file.len() - END;
    fewer[at..at + 4].copy_from_slice(&5u32.to_le_bytes());
    assert!(all(&fewer, &key).is_err());
}

/// Whatever the end claims costs nothing before it is known to be so.
#[test]
fn claims_are_not_believed() {
    let file = sealed(&database(3), &key(1), 1);
    for claimed in [u32::MAX, 1 << 25, 1 << 24, 4, 0] {
        let mut other = file.clone();
        let at = file.len() - END;
        other[at..at + 4].copy_from_slice(&claimed.to_le_bytes());
        assert!(open(&other, Some(&key(1))).is_err(), "{claimed}");
    }
    let large = Settings {
        frame_size: 4 << 20,
        key: Some(key(1)),
        ..Settings::default()
    };
    let go_on = &mut |_| ControlFlow::Continue(());
    let refused = create(&mut &b""[..], &mut Vec::new(), &large, go_on);
    assert!(matches!(refused, Err(Error::Limit(_))));
}

/// Other readers of zstd refuse it: they do not take it for an empty file, or for one that was cut off.
#[test]
fn other_readers_find_no_frame_in_it() {
    let file = sealed(&database(3), &key(1), 1);
    let decoded = zstd_safe::decompress(&mut Vec::with_capacity(1 << 20), &file);
    let name = zstd_safe::get_error_name(decoded.unwrap_err());
    assert!(name.contains("Unknown frame descriptor"), "{name}");
    // Nor is there a seek table at its end.
    assert_ne!(file[file.len() - 4..], 0x8F92_EAB1u32.to_le_bytes());
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.zst");
    std::fs::write(&path, &file).unwrap();
    let Ok(run) = std::process::Command::new("zstd")
        .args(["-t", "-q"])
        .arg(&path)
        .output()
    else {
        return litepack_skip::skip(
            litepack_skip::Expected::InCi,
            "the command zstd is not here",
        );
    };
    assert!(!run.status.success(), "{run:?}");
}

/// `tests/reader` was written from docs/format.md alone.
#[test]
fn another_reader_finds_the_same() {
    let database = database(3);
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.sealed");
    std::fs::write(&path, sealed(&database, &key(0xab), 1)).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/reader");
    let read = |digits: &str| {
        let mut python = std::process::Command::new("python3");
        python
            .arg(script)
            .arg(&path)
            .args(["--frames", "--key", &digits.repeat(32)])
            .output()
    };
    let Ok(found) = read("ab") else {
        return litepack_skip::skip(litepack_skip::Expected::InCi, "there is no python3");
    };
    let errors = String::from_utf8_lossy(&found.stderr);
    assert!(found.status.success(), "{errors}");
    let mut decoded = Vec::with_capacity(database.len());
    zstd_safe::decompress(&mut decoded, &found.stdout).unwrap();
    assert!(decoded == database);
    assert!(String::from_utf8_lossy(&read("ac").unwrap().stderr).contains("wrong key"));
}
