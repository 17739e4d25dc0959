//! Sizes in the seek table that nothing else vouches for: a byte is given out only if all before it are where the table
//! says, and what a small file claims costs little.

use std::cell::Cell;
use std::io;

use litepack_archive::{Archive, Error, Sizes};
use litepack_io::storage::ReadAt;

mod handmade;
use handmade::{Handmade, SKIPPABLE, database, options, skippable, zstd};

/// A file that counts the bytes that are read.
struct Counting<'a> {
    bytes: &'a [u8],
    read: Cell<u64>,
}

impl ReadAt for Counting<'_> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read.set(self.read.get() + buf.len() as u64);
        self.bytes.read_at(buf, offset)
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }
}

/// A frame that does not state its size: one block of bytes as they are.
fn unsized_frame(bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() <= 128 << 10);
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
    let header = (bytes.len() as u32) << 3 | 1;
    frame.extend_from_slice(&header.to_le_bytes()[..3]);
    frame.extend_from_slice(bytes);
    frame
}

/// A frame that does not state its size: so many blocks of 128 KiB of zeros, in four bytes each.
fn bomb(blocks: u32) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
    for block in 0..blocks {
        let header = (128 << 10) << 3 | 1 << 1 | u32::from(block + 1 == blocks);
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.push(0);
    }
    frame
}

const LARGE: u32 = 4095;
const LARGE_SIZE: u32 = LARGE * (128 << 10);

#[test]
fn what_is_behind_costs_nothing_and_what_is_before_is_bounded() {
    let (first, last) = (database(5000), database(700));
    let mut made = Handmade::new(false);
    made.stored(&unsized_frame(&first), 5000, 0);
    let large = bomb(LARGE);
    for _ in 0..200 {
        made.stored(&large, LARGE_SIZE, 0);
    }
    made.stored(&unsized_frame(&last), 700, 0);
    let file = made.finish();
    let source = Counting {
        bytes: &file,
        read: Cell::new(0),
    };
    let mut archive = Archive::open(&source, options(1, 1 << 20)).unwrap();
    let sizes = Sizes::default();
    source.read.set(0);
    archive.expect_place(4999, &sizes).unwrap();
    assert_eq!(source.read.get(), 0);
    // 100 GiB would have to be decoded. No more than half a GiB is.
    let error = archive
        .expect_place(archive.size() - 1, &sizes)
        .unwrap_err();
    let named = matches!(error, Error::Frame { number: 1..=2, .. });
    assert!(
        named && error.to_string().contains("archive create"),
        "{error}"
    );
    assert!(source.read.get() < 4 * large.len() as u64);
    // The sizes found stay known, and the frame itself can be read.
    let mut found = [0; 16];
    archive.read_at(0, &mut found).unwrap();
    assert_eq!(found, first[..16]);
}

/// Of an archive of some size more may be decoded: no writer's is refused.
#[test]
fn what_honest_writers_leave_is_looked_at_once() {
    let bytes = database(100_000);
    let mut made = Handmade::new(false);
    for _ in 0..50 {
        made.stored(&unsized_frame(&bytes), 100_000, 0);
    }
    let file = made.finish();
    let source = Counting {
        bytes: &file,
        read: Cell::new(0),
    };
    let sizes = Sizes::default();
    let mut archive = Archive::open(&source, options(1, 1 << 20)).unwrap();
    archive.expect_place(archive.size() - 1, &sizes).unwrap();
    let mut other = Archive::open(&source, options(1, 1 << 20)).unwrap();
    source.read.set(0);
    other.expect_place(other.size() - 1, &sizes).unwrap();
    assert_eq!(source.read.get(), 0);
}

#[test]
fn a_wrong_size_is_noticed_before_anything_behind_it_is_read() {
    let bytes = database(60_000);
    for states in [true, false] {
        let frame = |bytes: &[u8]| match states {
            true => zstd(bytes, false),
            false => unsized_frame(bytes),
        };
        let mut made = Handmade::new(false);
        for part in bytes.chunks(10_000) {
            made.stored(&frame(part), part.len() as u32, 0);
        }
        let expect = |made: &Handmade, at: u64| {
            let file = made.finish();
            let mut archive = Archive::open(file.as_slice(), options(1, 1 << 20)).unwrap();
            archive.expect_place(at, &Sizes::default())
        };
        expect(&made, 59_999).unwrap();
        // Also where another frame makes the sum what it was, and where nothing is left of a frame.
        for (less, more) in [(1, 4), (4, 1), (1, 2)] {
            for bytes in [1, 4096, 10_000] {
                let mut wrong = made.clone();
                wrong.entries[less].1 -= bytes;
                wrong.entries[more].1 += bytes;
                expect(&wrong, 0).unwrap();
                expect(&wrong, 9_999).unwrap();
                let error = expect(&wrong, 55_000).unwrap_err();
                let number = less.min(more) as u32;
                let is_first = matches!(error, Error::Frame { number: n, .. } if n == number);
                assert!(is_first, "{less} {more} {bytes}: {error}");
            }
        }
    }
}

#[test]
fn entries_that_hold_nothing_are_right() {
    let bytes = database(1000);
    let mut made = Handmade::new(false);
    made.stored(&skippable(SKIPPABLE, b"so"), 0, 0);
    made.stored(&[], 0, 0);
    made.stored(&zstd(b"", false), 0, 0);
    made.stored(&unsized_frame(b""), 0, 0);
    let both = [skippable(SKIPPABLE, b"one"), skippable(SKIPPABLE, b"two")].concat();
    made.stored(&both, 0, 0);
    made.stored(&zstd(&bytes, false), 1000, 0);
    // Larger than what is held at once.
    made.stored(&skippable(SKIPPABLE, &vec![7; 9 << 20]), 0, 0);
    let much = [skippable(SKIPPABLE, &vec![7; 9 << 20]), unsized_frame(b"")].concat();
    made.stored(&much, 0, 0);
    made.stored(&zstd(&bytes, false), 1000, 0);
    let file = made.finish();
    let mut archive = Archive::open(file.as_slice(), options(1, 1 << 20)).unwrap();
    archive.expect_place(1999, &Sizes::default()).unwrap();
}
