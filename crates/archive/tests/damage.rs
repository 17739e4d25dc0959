//! Damaged and cut archives: an error or the exact bytes, never other bytes and never a panic.

use std::io;
use std::ops::ControlFlow;
use std::sync::Mutex;

use litepack_archive::{Archive, Error, Info, Result, SeekTable};
use litepack_io::storage::ReadAt;

mod handmade;
use handmade::{Handmade, SKIPPABLE, cut, database, open, options, read_all, skippable, zstd};

/// Opens a file and reads all of it.
fn all(file: &[u8]) -> Result<Vec<u8>> {
    let mut archive = open(file)?;
    read_all(&mut archive, 1 << 20)
}

fn flipped(file: &[u8], at: usize) -> impl Iterator<Item = Vec<u8>> {
    [1, 0x10, 0x80, 0xFF].into_iter().map(move |bits| {
        let mut damaged = file.to_vec();
        damaged[at] ^= bits;
        damaged
    })
}

/// Frames with zstd's own checksum, with or without another one in the table.
fn checksummed(database: &[u8], in_table: bool) -> Handmade {
    let mut file = Handmade::new(in_table);
    for frame in database.chunks(5000) {
        let sum = twox_hash::XxHash64::oneshot(0, frame) as u32;
        file.stored(&zstd(frame, true), frame.len() as u32, sum);
    }
    file
}

#[test]
fn a_damaged_byte_of_the_seek_table_is_an_error_or_changes_nothing() {
    let database = database(60_000);
    for in_table in [true, false] {
        let made = checksummed(&database, in_table);
        let file = made.finish();
        let mut harmless = 0;
        for at in made.body.len()..file.len() {
            for damaged in flipped(&file, at) {
                match all(&damaged) {
                    Ok(bytes) => {
                        assert!(bytes == database, "byte {at}");
                        harmless += 1;
                    }
                    Err(error) => assert!(!error.to_string().is_empty()),
                }
            }
        }
        // Of the descriptor's bits two mean nothing.
        assert_eq!(harmless, 1);
    }
}

#[test]
fn a_damaged_byte_of_a_frame_is_an_error_or_changes_nothing() {
    let database = database(60_000);
    for file in [
        checksummed(&database, true),
        checksummed(&database, false),
        // The table's checksums alone.
        cut(&database, 5000, true),
    ] {
        let frames = file.body.len();
        let file = file.finish();
        let mut noticed = 0;
        for at in (0..frames).step_by(7).chain(0..64) {
            for damaged in flipped(&file, at) {
                match all(&damaged) {
                    Ok(bytes) => assert!(bytes == database, "byte {at}"),
                    Err(Error::Frame { offset, .. }) => {
                        assert!(offset <= at as u64);
                        noticed += 1;
                    }
                    Err(error) => panic!("byte {at}: {error}"),
                }
            }
        }
        assert!(noticed > frames / 7 * 3, "{noticed} of {frames} bytes");
    }
}

/// Damage that cannot be noticed: neither the frame nor the table has a checksum. Only lengths are compared then.
#[test]
fn without_any_checksum_the_length_is_still_right() {
    let database = database(20_000);
    let made = cut(&database, 5000, false);
    let file = made.finish();
    for at in 0..made.body.len() {
        for damaged in flipped(&file, at) {
            if let Ok(bytes) = all(&damaged) {
                assert_eq!(bytes.len(), database.len());
            }
        }
    }
}

#[test]
fn an_archive_that_was_cut_is_refused() {
    let database = database(60_000);
    let file = checksummed(&database, true).finish();
    let near_the_end = file.len() - 600..file.len();
    for len in (0..file.len()).step_by(97).chain(near_the_end) {
        let error = open(&file[..len]).unwrap_err();
        match error {
            Error::NotZstd => assert!(len < 4),
            Error::NoSeekTable => assert!(error.to_string().contains("litepack archive create")),
            _ => panic!("{len}: {error}"),
        }
    }
}

#[test]
fn what_is_no_archive_is_named() {
    assert!(matches!(open(b""), Err(Error::NotZstd)));
    assert!(matches!(open(b"SQLite format 3\0..."), Err(Error::NotZstd)));
    let plain = zstd(&database(1000), true);
    assert!(matches!(open(&plain), Err(Error::NoSeekTable)));
}

#[test]
fn the_error_of_a_frame_says_which_and_where() {
    let database = database(20_000);
    let mut made = cut(&database, 5000, true);
    let offset: u32 = made.entries[..2].iter().map(|entry| entry.0).sum();
    made.entries[2].2 ^= 1;
    let file = made.finish();
    let mut archive = open(&file).unwrap();
    let mut page = [0; 1000];
    archive.read_at(9_000, &mut page).unwrap();
    let error = archive.read_at(9_500, &mut page).unwrap_err().to_string();
    assert!(
        error.contains(&format!("frame 2 at byte {offset}")),
        "{error}"
    );
    archive.read_at(15_000, &mut page).unwrap();
    assert!(page == database[15_000..16_000]);
}

/// Frames that are read in pieces are verified to their end before anything of them is given out.
#[test]
fn damage_at_the_end_of_a_large_frame_is_found_at_its_beginning() {
    let database = database(6 << 20);
    for checksums in [true, false] {
        let mut made = Handmade::new(checksums);
        let stored = zstd(&database, !checksums);
        let sum = twox_hash::XxHash64::oneshot(0, &database) as u32;
        made.stored(&stored, database.len() as u32, sum);
        let at = stored.len() - 6;
        let file = made.finish();
        let mut page = [0; 4096];
        open(&file).unwrap().read_at(0, &mut page).unwrap();
        assert!(page == database[..4096]);
        for damaged in flipped(&file, at) {
            let error = open(&damaged).unwrap().read_at(0, &mut page).unwrap_err();
            assert!(matches!(error, Error::Frame { number: 0, .. }));
        }
    }
}

/// One page of such a frame can take seconds.
#[test]
fn reading_a_large_frame_ends_when_it_is_interrupted() {
    let database = database(6 << 20);
    let mut made = Handmade::new(false);
    made.stored(&zstd(&database, true), database.len() as u32, 0);
    let file = made.finish();
    let mut archive = open(&file).unwrap();
    let mut page = [0; 4096];
    let read = litepack_io::interrupt::listen(|| true, || archive.read_at(0, &mut page));
    assert!(matches!(read, Err(Error::Stopped)), "{read:?}");
    archive.read_at(0, &mut page).unwrap();
    assert!(page == database[..4096]);
}

#[test]
fn a_check_finds_the_damaged_frames_and_no_others() {
    let database = database(60_000);
    for (threads, in_table) in [(1, true), (3, false)] {
        let made = checksummed(&database, in_table);
        let file = made.finish();
        let go_on = &mut |_| ControlFlow::Continue(());
        let report = open(&file).unwrap().check(threads, go_on).unwrap();
        assert!(report.is_ok());
        assert_eq!((report.frames, report.sound), (12, 60_000));

        let mut damaged = file.clone();
        let table = SeekTable::read(&file.as_slice()).unwrap();
        let frame = |number| table.frame(number).unwrap();
        for number in [0, 4, 11] {
            let frame = frame(number);
            damaged[frame.offset as usize + frame.stored as usize / 2] ^= 0x10;
        }
        let report = open(&damaged).unwrap().check(threads, go_on).unwrap();
        assert_eq!((report.frames, report.sound), (12, 45_000));
        let found: Vec<_> = report.damage.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 3, "{found:?}");
        for (text, number) in found.iter().zip([0, 4, 11]) {
            let place = format!("frame {number} at byte {}: ", frame(number).offset);
            assert!(text.contains(&place), "{text}");
        }
    }
}

/// Bytes that connections have read and kept say nothing of the file.
#[test]
fn a_check_looks_at_the_file_and_not_at_the_cache() {
    let database = database(60_000);
    let file = Mutex::new(checksummed(&database, true).finish());
    struct Changing<'a>(&'a Mutex<Vec<u8>>);
    impl ReadAt for Changing<'_> {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            self.0.lock().unwrap().as_slice().read_at(buf, offset)
        }
        fn len(&self) -> io::Result<u64> {
            Ok(self.0.lock().unwrap().len() as u64)
        }
    }
    let mut archive = Archive::open(Changing(&file), options(1, 1 << 20)).unwrap();
    assert!(read_all(&mut archive, u64::MAX).unwrap() == database);
    file.lock().unwrap()[100] ^= 1;
    assert!(read_all(&mut archive, u64::MAX).unwrap() == database);
    let go_on = &mut |_| ControlFlow::Continue(());
    assert!(!archive.check(1, go_on).unwrap().is_ok());
    let stop = &mut |_| ControlFlow::Break(());
    assert!(matches!(archive.check(1, stop), Err(Error::Stopped)));
}

#[test]
fn what_an_archive_is_made_of() {
    let database = database(60_000);
    let made = checksummed(&database, true);
    let file = made.finish();
    let info = open(&file).unwrap().info().unwrap();
    let table_bytes = 8 + 12 * 12 + 9;
    let expected = Info {
        size: 60_000,
        stored: file.len() as u64,
        frames: 12,
        largest_frame: 5000,
        frame_bytes: file.len() as u64 - table_bytes,
        table_bytes,
        checksums: true,
    };
    assert_eq!(info, expected);
    assert_eq!(info.other_bytes(), 0);
    let mut made = checksummed(&database, false);
    made.stored(&skippable(SKIPPABLE, b"padding"), 0, 0);
    let info = open(&made.finish()).unwrap().info().unwrap();
    assert_eq!((info.frames, info.other_bytes()), (12, 15));
    assert!(!info.checksums);
}
