//! Scans find what was decoded ahead of them, read nothing twice, and say of damage only where it is.

use std::cell::Cell;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ahead::{Ahead, RULE};
use crate::create::{Settings, create};
use crate::reader::{Archive, Options};
use litepack_io::cache::{Cache, FileId};
use litepack_io::storage::ReadAt;

const RUN_MIN: u32 = RULE.run_min as u32;
const FRAME: u64 = 8192;
const FRAMES: u64 = 200;

fn database() -> Vec<u8> {
    let line = |number| format!("line {number} of {}; ", number * 7919 % 10_007);
    let text = (0u64..).flat_map(|number| line(number).into_bytes());
    text.take((FRAME * FRAMES) as usize).collect()
}

fn archive(database: &[u8]) -> Vec<u8> {
    let settings = Settings {
        frame_size: FRAME as u32,
        ..Settings::default()
    };
    let (mut input, mut file) = (database, Vec::new());
    let go_on = &mut |_| ControlFlow::Continue(());
    create(&mut input, &mut file, &settings, go_on).unwrap();
    file
}

fn options(threads: usize) -> Options {
    Options {
        cache: Arc::new(Cache::new(8 << 20)),
        file: FileId::unique(),
        threads,
    }
}

fn assert_frame(archive: &mut Archive<impl ReadAt>, database: &[u8], number: u64) {
    let mut bytes = vec![0; FRAME as usize];
    archive.read_at(number * FRAME, &mut bytes).unwrap();
    let expected = &database[(number * FRAME) as usize..][..FRAME as usize];
    assert!(bytes == expected, "frame {number}");
}

fn until(mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        let waited = begun.elapsed();
        assert!(waited < Duration::from_secs(300), "no thread reads ahead");
        std::thread::yield_now();
    }
}

#[test]
fn a_scan_finds_frames_decoded_that_it_never_read() {
    let database = database();
    let file = archive(&database);
    let options = options(2);
    let mut archive = Archive::open(file.as_slice(), options.clone()).unwrap();
    for number in 0..=u64::from(RUN_MIN) {
        assert_frame(&mut archive, &database, number);
    }
    until(|| archive.ahead.has(RUN_MIN + 1));
    for number in 0..FRAMES {
        assert_frame(&mut archive, &database, number);
    }
}

/// As with an index that leads through its table.
#[test]
fn a_scan_goes_on_beside_other_reads() {
    let database = database();
    let file = archive(&database);
    let mut archive = Archive::open(file.as_slice(), options(2)).unwrap();
    // A worker that the system does not run for long would end reading ahead.
    archive.ahead.patience = u64::MAX;
    for number in 0..FRAMES / 2 {
        if number > u64::from(RUN_MIN) {
            until(|| archive.ahead.has(number as u32));
        }
        assert_frame(&mut archive, &database, number);
        // The index goes forward, too, but slowly; and later on there is what lies here and there.
        assert_frame(&mut archive, &database, 150 + number / 4);
        if number > u64::from(RUN_MIN) {
            assert_frame(&mut archive, &database, 101 + number * 37 % 47);
        }
    }
}

#[test]
fn several_scans_go_on_at_once() {
    let database = database();
    let file = archive(&database);
    let mut archive = Archive::open(file.as_slice(), options(2)).unwrap();
    for step in 0..50 {
        for start in [0, 50, 100, 150] {
            if step > u64::from(RUN_MIN) {
                until(|| archive.ahead.has((start + step) as u32));
            }
            assert_frame(&mut archive, &database, start + step);
        }
    }
}

#[test]
fn what_was_decoded_for_a_scan_that_is_over_is_dropped_when_another_begins() {
    let database = database();
    let file = archive(&database);
    let mut archive = Archive::open(file.as_slice(), options(2)).unwrap();
    let run = u64::from(RUN_MIN);
    (0..=run).for_each(|number| assert_frame(&mut archive, &database, number));
    until(|| archive.ahead.has(RUN_MIN + 1));
    (0..=run).for_each(|number| assert_frame(&mut archive, &database, 100 + number));
    assert!(!archive.ahead.has(RUN_MIN + 1));
    until(|| archive.ahead.has(100 + RUN_MIN + 1));
    assert_frame(&mut archive, &database, run + 1);
    until(|| archive.ahead.has(RUN_MIN + 2));
}

#[test]
fn what_is_cached_already_is_left_out_and_not_the_end() {
    let database = database();
    let file = archive(&database);
    let options = options(2);
    let cached = RUN_MIN + 3..RUN_MIN + 7;
    let mut other = Archive::open(file.as_slice(), options.clone()).unwrap();
    for number in cached.clone() {
        assert_frame(&mut other, &database, number.into());
    }
    let mut archive = Archive::open(file.as_slice(), options).unwrap();
    for number in 0..=u64::from(RUN_MIN) {
        assert_frame(&mut archive, &database, number);
    }
    until(|| archive.ahead.has(cached.start - 1) && archive.ahead.has(cached.end));
    assert!(cached.into_iter().all(|number| !archive.ahead.has(number)));
    for number in 0..FRAMES {
        assert_frame(&mut archive, &database, number);
    }
}

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

/// The scan waits for a frame that a worker is decoding and takes back one that none has begun, so it reads each byte
/// once.
#[test]
fn a_scan_reads_no_byte_twice() {
    let database = database();
    let file = archive(&database);
    let frames = file.len() - (8 + FRAMES as usize * 12 + 9);
    for threads in [1, 2, 4] {
        let read = Cell::new(0);
        let source = Counted {
            file: &file,
            read: &read,
        };
        let mut archive = Archive::open(source, options(threads)).unwrap();
        // On a busy machine workers stand still at times.
        archive.ahead.patience = u64::MAX;
        let opening = read.get();
        for number in 0..FRAMES {
            assert_frame(&mut archive, &database, number);
        }
        assert_eq!(read.get() - opening, frames, "{threads} threads");
    }
}

#[test]
fn scans_that_break_off_and_go_elsewhere_get_the_right_bytes() {
    let database = database();
    let file = archive(&database);
    let mut archive = Archive::open(file.as_slice(), options(3)).unwrap();
    for turn in 0..FRAMES {
        let from = turn * 71 % (FRAMES - 10);
        for number in from..from + 3 + turn % 7 {
            assert_frame(&mut archive, &database, number);
        }
    }
}

#[test]
fn workers_start_with_a_scan_and_not_before() {
    let mut ahead = Ahead::new(1);
    for number in (0..500).map(|n| n * 37 % 100) {
        assert_eq!(ahead.next(number), None);
    }
    assert_eq!(ahead.next(300), None);
    assert_eq!(ahead.next(300), None);
    assert_eq!(ahead.next(301), None);
    assert_eq!(ahead.next(302), Some((2, 303)));
    assert!(ahead.workers.started() == 0);
    let mut alone = Ahead::new(0);
    assert!((0..100).all(|number| alone.next(number).is_none()));
}

/// However fast workers are: every frame of the scan was decoded before it is asked for.
#[test]
fn a_scan_does_not_push_out_what_is_used_again_and_again() {
    let database = database();
    let file = archive(&database);
    let options = Options {
        cache: Arc::new(Cache::new(FRAME * 100)),
        ..options(2)
    };
    let mut alone = options.clone();
    alone.threads = 1;
    let mut often = Archive::open(file.as_slice(), alone).unwrap();
    for number in (0..3).flat_map(|_| 0..40) {
        assert_frame(&mut often, &database, number);
    }
    let mut archive = Archive::open(file.as_slice(), options.clone()).unwrap();
    for number in 40..FRAMES {
        let number32 = number as u32;
        if number > 40 + u64::from(RUN_MIN) {
            until(|| archive.ahead.has(number32));
        }
        assert_frame(&mut archive, &database, number);
    }
    let table = archive.table();
    let here = |number: &u32| {
        let key = often.place.key(&table.frame(*number).unwrap(), None);
        options.cache.has_frame(&key)
    };
    let left = (0..40).filter(here).count();
    assert!(left > 38, "{left} of 40 are left");
}

/// Damage ahead of a scan is reported when the scan gets there, and not before.
#[test]
fn damage_ahead_is_reported_where_it_is() {
    let database = database();
    let mut file = archive(&database);
    let table = crate::SeekTable::read(&file.as_slice()).unwrap();
    let damaged = RUN_MIN + 3;
    let frame = table.frame(damaged).unwrap();
    file[(frame.offset + u64::from(frame.stored) / 2) as usize] ^= 1;
    let mut archive = Archive::open(file.as_slice(), options(2)).unwrap();
    for number in 0..u64::from(damaged) {
        assert_frame(&mut archive, &database, number);
    }
    let error = archive.read_at(frame.start, &mut [0]).unwrap_err();
    let named = format!("frame {damaged} at byte {}", frame.offset);
    assert!(error.to_string().contains(&named), "{error}");
    for number in u64::from(damaged) + 1..FRAMES {
        assert_frame(&mut archive, &database, number);
    }
}

#[test]
fn a_reader_that_does_not_wait_decodes_itself() {
    let database = database();
    let file = archive(&database);
    let mut archive = Archive::open(file.as_slice(), options(2)).unwrap();
    archive.ahead.patience = 0;
    for number in 0..FRAMES {
        assert_frame(&mut archive, &database, number);
    }
}
