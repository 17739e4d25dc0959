//! Archives can be read at any offset, in any order, by any number of threads, and by zstd itself.

use std::cell::Cell;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::process::{Command, Stdio};
use std::sync::Arc;

use litepack_archive::{Archive, Cache, Created, Error, FileId, LEVELS, Options, Settings, create};
use litepack_io::storage::ReadAt;
use litepack_skip::{Expected, skip};
use proptest::prelude::*;

mod handmade;
use handmade::{cut, database, open, options, read_all};

fn made(database: &[u8], frame_size: u32, level: i32, threads: usize) -> (Vec<u8>, Created) {
    let settings = Settings {
        frame_size,
        level,
        threads,
        key: None,
    };
    let mut file = Vec::new();
    let mut input = database;
    let go_on = &mut |_| ControlFlow::Continue(());
    let created = create(&mut input, &mut file, &settings, go_on).unwrap();
    (file, created)
}

/// An empty table of SQLite with this page size, then text.
fn sqlite_like(page_size: u16, len: usize) -> Vec<u8> {
    let mut bytes = b"SQLite format 3\0".to_vec();
    bytes.extend_from_slice(&page_size.to_be_bytes());
    bytes.extend_from_slice(&database(len));
    bytes.truncate(len);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_read_of_any_archive_gives_the_bytes_of_the_database(
        len in 0usize..150_000,
        frame_size in 1usize..40_000,
        checksums: bool,
        by_us: bool,
        threads in 1usize..4,
        budget in prop_oneof![Just(0u64), Just(30_000), Just(1 << 20)],
        reads in proptest::collection::vec((0u64..160_000, 0usize..20_000), 1..60),
    ) {
        let database = database(len);
        let frame_size = frame_size.max(len / 5000);
        let file = if by_us {
            made(&database, frame_size as u32, 1, threads).0
        } else {
            cut(&database, frame_size, checksums).finish()
        };
        let mut archive = Archive::open(file.as_slice(), options(threads, budget)).unwrap();
        prop_assert_eq!(archive.size(), len as u64);
        for (offset, wanted) in reads {
            let mut found = vec![0; wanted];
            let n = archive.read_at(offset, &mut found).unwrap();
            let start = (offset as usize).min(len);
            let expected = &database[start..(start + wanted).min(len)];
            prop_assert!(found[..n] == *expected, "{} bytes at {}", wanted, offset);
        }
        prop_assert!(read_all(&mut archive, u64::MAX).unwrap() == database);
    }
}

#[test]
fn every_level_and_the_empty_database() {
    let database = database(30_000);
    for level in LEVELS {
        let (file, created) = made(&database, 8192, level, 2);
        assert_eq!((created.size, created.frames), (30_000, 4));
        assert_eq!(created.stored, file.len() as u64);
        let back = read_all(&mut open(&file).unwrap(), u64::MAX).unwrap();
        assert!(back == database, "level {level}");
    }
    let (file, created) = made(&[], 8192, 3, 2);
    assert_eq!((created.size, created.frames), (0, 0));
    assert_eq!(open(&file).unwrap().size(), 0);
    for level in [0, 23] {
        let settings = Settings {
            level,
            ..Settings::default()
        };
        let go_on = &mut |_| ControlFlow::Continue(());
        let result = create(&mut io::empty(), &mut Vec::new(), &settings, go_on);
        assert!(matches!(result, Err(Error::Limit(_))));
    }
}

#[test]
fn the_file_is_the_same_for_any_number_of_threads() {
    let database = database(500_000);
    let (one, _) = made(&database, 16 << 10, 3, 1);
    for threads in [2, 3, 8] {
        assert!(made(&database, 16 << 10, 3, threads).0 == one, "{threads}");
    }
}

#[test]
fn frames_begin_on_page_boundaries() {
    for (page_size, asked, expected) in [
        (4096, 5000, 8192),
        (4096, 64 << 10, 64 << 10),
        (512, 1, 512),
        (1, 4096, 65536),
    ] {
        let database = sqlite_like(page_size, 300_000);
        let (file, created) = made(&database, asked, 1, 2);
        assert_eq!(created.frame_size, expected);
        let archive = open(&file).unwrap();
        let mut next = archive.table().frame(0);
        while let Some(frame) = next {
            assert_eq!(frame.start, u64::from(frame.number) * u64::from(expected));
            next = archive.table().next(&frame);
        }
        assert!(read_all(&mut open(&file).unwrap(), u64::MAX).unwrap() == database);
    }
}

#[test]
fn the_command_zstd_gives_the_database_back() {
    let database = database(400_000);
    let (file, _) = made(&database, 16 << 10, 3, 2);
    let zstd = Command::new("zstd")
        .args(["-d", "-c", "-q"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut zstd) = zstd else {
        return skip(Expected::InCi, "the command zstd is not here");
    };
    let mut stdin = zstd.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&file));
    let output = zstd.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    assert!(output.stdout == database);
}

/// Frames say their size and have a checksum of their own, for readers that know nothing of the table.
#[test]
fn each_frame_says_its_size_and_has_a_checksum() {
    let (file, _) = made(&database(100_000), 16 << 10, 3, 2);
    let archive = open(&file).unwrap();
    let mut next = archive.table().frame(0);
    while let Some(frame) = next {
        let stored = &file[frame.offset as usize..][..frame.stored as usize];
        let size = zstd_safe::get_frame_content_size(stored).unwrap();
        assert_eq!(size, Some(u64::from(frame.size)));
        assert!(stored[4] & 4 != 0, "frame {}", frame.number);
        next = archive.table().next(&frame);
    }
    assert!(archive.table().has_checksums());
}

#[test]
fn progress_counts_up_and_can_stop() {
    let database = database(400_000);
    let mut seen = Vec::new();
    let settings = Settings {
        frame_size: 16 << 10,
        ..Settings::default()
    };
    let mut file = Vec::new();
    let mut input = database.as_slice();
    create(&mut input, &mut file, &settings, &mut |done| {
        seen.push(done);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(seen.is_sorted());
    assert_eq!(seen.last(), Some(&400_000));
    let mut input = database.as_slice();
    let mut calls = 0;
    let stopped = create(&mut input, &mut Vec::new(), &settings, &mut |_| {
        calls += 1;
        match calls {
            3 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    assert!(matches!(stopped, Err(Error::Stopped)));
    assert_eq!(calls, 3);
}

#[test]
fn what_fails_while_an_archive_is_made_is_said() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::other("no space"))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let go_on = &mut |_| ControlFlow::Continue(());
    let mut input = &database(400_000)[..];
    let error = create(&mut input, &mut Full, &Settings::default(), go_on).unwrap_err();
    assert_eq!(error.to_string(), "no space");
}

/// A file that counts the bytes read.
struct Counted<'a> {
    file: &'a [u8],
    read: &'a Cell<usize>,
}

impl ReadAt for Counted<'_> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read.set(self.read.get() + buf.len());
        ReadAt::read_at(self.file, buf, offset)
    }
    fn len(&self) -> io::Result<u64> {
        ReadAt::len(self.file)
    }
}

#[test]
fn what_was_decoded_is_not_read_again_by_any_handle() {
    let database = database(600_000);
    let (file, _) = made(&database, 64 << 10, 3, 2);
    let read = Cell::new(0);
    let counted = || Counted {
        file: &file,
        read: &read,
    };
    let options = Options {
        cache: Arc::new(Cache::new(1 << 20)),
        file: FileId::unique(),
        threads: 1,
    };
    let mut archive = Archive::open(counted(), options.clone()).unwrap();
    assert!(read_all(&mut archive, u64::MAX).unwrap() == database);
    let table = Arc::clone(archive.table());
    let before = read.get();
    let mut other = Archive::with_table(counted(), table, options);
    let mut page = [0; 4096];
    for turn in 0..2000u64 {
        let offset = turn * 7919 * 4096 % 590_000;
        for handle in [&mut archive, &mut other] {
            handle.read_at(offset, &mut page).unwrap();
            assert!(page == database[offset as usize..][..4096]);
        }
    }
    assert_eq!(read.get(), before);
}

/// Half of the budget is the largest frame that is decoded whole.
#[test]
fn a_frame_of_half_the_budget_is_kept() {
    let database = database(8 << 20);
    let (file, _) = made(&database, 8 << 20, 1, 1);
    let options = options(1, 16 << 20);
    let read = Cell::new(0);
    let mut before = 0;
    for turn in 0..3 {
        let source = Counted {
            file: &file,
            read: &read,
        };
        let mut archive = Archive::open(source, options.clone()).unwrap();
        assert!(read_all(&mut archive, u64::MAX).unwrap() == database);
        let now = read.get() - std::mem::replace(&mut before, read.get());
        assert!(turn == 0 || now < 100_000, "{now} bytes read again");
    }
}

/// A file that was replaced under the same identity: its frames have other checksums.
#[test]
fn another_archive_of_the_same_identity_does_not_find_the_frames() {
    let one = database(100_000);
    let other: Vec<u8> = one.iter().rev().copied().collect();
    let options = options(1, 1 << 20);
    for database in [&one, &other, &one] {
        let (file, _) = made(database, 16 << 10, 3, 1);
        let mut archive = Archive::open(file.as_slice(), options.clone()).unwrap();
        assert!(read_all(&mut archive, u64::MAX).unwrap() == *database);
    }
}

#[test]
fn frames_larger_than_what_is_held_are_read_in_pieces() {
    let database = database(9 << 20);
    for (frame_size, checksums) in [(9 << 20, true), (5 << 20, false)] {
        let file = cut(&database, frame_size, checksums).finish();
        for budget in [0, 1 << 20] {
            let mut archive = Archive::open(file.as_slice(), options(2, budget)).unwrap();
            let mut page = vec![0; 300_000];
            for offset in [7 << 20, 7_100_000, 1, 8 << 20, 100, (4 << 20) - 5] {
                let n = archive.read_at(offset, &mut page).unwrap();
                assert_eq!(n, page.len());
                assert!(page == database[offset as usize..][..n], "at {offset}");
            }
            assert!(read_all(&mut archive, u64::MAX).unwrap() == database);
        }
    }
}

#[test]
fn a_file_on_disk_is_a_source() {
    let database = database(100_000);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&made(&database, 8192, 3, 2).0).unwrap();
    let mut archive = Archive::open(file, Options::default()).unwrap();
    assert!(read_all(&mut archive, u64::MAX).unwrap() == database);
}
