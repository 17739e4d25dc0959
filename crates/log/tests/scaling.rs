//! A long log: memory and the reads of an opening do not grow with it. This file has one test only, because it looks at
//! the memory of the process.

mod support;

use std::cell::Cell;
use std::fs::File;

use litepack_io::testing::{Call, Watched};
use litepack_log::Log;
use support::header;

const PAGE: usize = 512;

/// Bytes of memory that the process has.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0usize) * 4096
}

fn frame(number: u64) -> [u8; PAGE + 24] {
    let mut frame = [0; PAGE + 24];
    let page = number % 5000;
    frame[..4].copy_from_slice(&(page as u32 + 1).to_be_bytes());
    frame[7] = u8::from(number.is_multiple_of(50));
    frame[24..32].copy_from_slice(&page.to_le_bytes());
    frame[100..108].copy_from_slice(&number.to_le_bytes());
    frame
}

fn run(frames: u64) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let file = || {
        File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
    };
    let mut log = Log::new(file().unwrap());
    log.write(&header(PAGE, 1), 0).unwrap();
    let before = resident();
    for number in 0..frames {
        log.write(&frame(number), 32 + number * (PAGE as u64 + 24))
            .unwrap();
    }
    log.sync().unwrap();
    let read = Cell::new((0, 0));
    let storage = Watched::new(file().unwrap(), |call| {
        if let Call::Read { len, .. } = call {
            let (calls, bytes) = read.get();
            read.set((calls + 1, bytes + len));
        }
        Ok(())
    });
    let mut other = Log::new(storage);
    assert_eq!(other.size().unwrap(), 32 + frames * (PAGE as u64 + 24));
    // Looking for a witness takes the most.
    assert!(read.get().1 < 4 << 20, "{:?}", read.get());
    let mut random = litepack_io::random::SplitMix64::new(1);
    for _ in 0..20_000 {
        let number = random.below(frames);
        let mut found = [0; PAGE + 24];
        read.set((0, 0));
        other
            .read(&mut found, 32 + number * (PAGE as u64 + 24))
            .unwrap();
        assert!(read.get().0 < 20, "{:?}", read.get());
        assert_eq!(found[24..], frame(number)[24..]);
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 24 << 20, "{frames} frames: {grown}");
}

#[test]
fn memory_and_opening_do_not_grow_with_the_log() {
    let is_long = std::env::var_os("LITEPACK_LONG").is_some_and(|v| v == "1");
    run(if is_long { 10_000_000 } else { 100_000 });
}
