//! Archives of other writers, and ours read by other readers. Formats that no crate here writes are laid out by hand.

use std::io::{Read, Write};
use std::ops::ControlFlow;

use litepack_archive::{Archive, Settings, create};
use zeekstd::{BytesWrapper, Decoder, EncodeOptions, FrameSizePolicy};
use zstd_safe::seekable::{Seekable, SeekableCStream};
use zstd_safe::{InBuffer, OutBuffer};

mod handmade;
use handmade::{Handmade, SKIPPABLE, cut, database, open, options, read_all, skippable, zstd};

fn assert_reads(file: &[u8], database: &[u8]) {
    for threads in [1, 3] {
        let mut archive = Archive::open(file, options(threads, 256 << 10)).unwrap();
        assert_eq!(archive.size(), database.len() as u64);
        assert!(read_all(&mut archive, u64::MAX).unwrap() == database);
        for offset in (0..database.len()).step_by(4096).rev() {
            let mut page = [0; 4096];
            let found = archive.read_at(offset as u64, &mut page).unwrap();
            assert!(database[offset..].starts_with(&page[..found]));
        }
    }
}

fn ours(database: &[u8]) -> Vec<u8> {
    let settings = Settings {
        frame_size: 10_000,
        ..Settings::default()
    };
    let mut file = Vec::new();
    let mut input = database;
    let go_on = &mut |_| ControlFlow::Continue(());
    create(&mut input, &mut file, &settings, go_on).unwrap();
    file
}

/// facebook/zstd, contrib/seekable_format: the library itself.
fn facebook(database: &[u8], checksums: bool, frame_size: u32) -> Vec<u8> {
    let mut stream = SeekableCStream::create();
    stream.init(3, checksums, frame_size).unwrap();
    let mut file = vec![0; database.len() * 2 + 10_000];
    let mut output = OutBuffer::around(file.as_mut_slice());
    let mut input = InBuffer::around(database);
    while input.pos() < database.len() {
        stream.compress_stream(&mut output, &mut input).unwrap();
    }
    while stream.end_stream(&mut output).unwrap() > 0 {}
    let len = output.pos();
    file.truncate(len);
    file
}

#[test]
fn facebooks_library_writes_and_we_read() {
    let database = database(300_000);
    for checksums in [true, false] {
        for frame_size in [1000, 4096, 70_001, 1 << 30] {
            assert_reads(&facebook(&database, checksums, frame_size), &database);
        }
        assert_reads(&facebook(&[], checksums, 4096), &[]);
    }
}

#[test]
fn we_write_and_facebooks_library_reads() {
    let database = database(300_000);
    let file = ours(&database);
    let mut seekable = Seekable::create();
    seekable.init_buff(&file).unwrap();
    assert_eq!(seekable.num_frames(), 30);
    let mut page = vec![0; 4096];
    for offset in (0..295_000).step_by(8192) {
        let found = seekable.decompress(page.as_mut_slice(), offset).unwrap();
        assert!(page[..found] == database[offset as usize..][..4096]);
    }
}

#[test]
fn zeekstd_writes_and_we_read() {
    let database = database(300_000);
    for policy in [
        || FrameSizePolicy::Uncompressed(4096),
        || FrameSizePolicy::Uncompressed(70_001),
        || FrameSizePolicy::Compressed(3000),
        FrameSizePolicy::default,
    ] {
        for checksums in [true, false] {
            let mut file = Vec::new();
            let encoder = EncodeOptions::new()
                .checksum_flag(checksums)
                .frame_size_policy(policy());
            let mut encoder = encoder.into_encoder(&mut file).unwrap();
            encoder.write_all(&database).unwrap();
            encoder.finish().unwrap();
            assert_reads(&file, &database);
        }
    }
}

#[test]
fn we_write_and_zeekstd_reads() {
    let database = database(300_000);
    let file = ours(&database);
    let mut decoder = Decoder::new(BytesWrapper::new(&file)).unwrap();
    let mut back = Vec::new();
    decoder.read_to_end(&mut back).unwrap();
    assert!(back == database);
}

/// github.com/SaveTheRbtz/zstd-seekable-format-go, which the command `zstdseek` uses: frames of any size, cut where the
/// content says, checksums in the table; encoding nothing gives an entry of zeros.
#[test]
fn frames_of_all_sizes_and_entries_of_zeros() {
    let database = database(200_000);
    let mut made = Handmade::new(true);
    let mut rest = database.as_slice();
    for size in [1, 128, 4097, 8192, 1, 30_000].into_iter().cycle() {
        let (frame, behind) = rest.split_at(size.min(rest.len()));
        made.frame(frame);
        made.stored(&[], 0, 0);
        rest = behind;
        if rest.is_empty() {
            break;
        }
    }
    assert_reads(&made.finish(), &database);
}

/// Python's pyzstd: no checksums in the table, frames of a GiB unless told otherwise, empty frames where nothing was
/// written, and several frames in one entry where there were too many.
#[test]
fn empty_frames_and_several_frames_in_one_entry() {
    let database = database(200_000);
    let mut made = Handmade::new(false);
    made.stored(&zstd(&[], true), 0, 0);
    for piece in database.chunks(30_000) {
        let (one, other) = piece.split_at(piece.len() / 3);
        let stored = [zstd(one, true), zstd(other, false)].concat();
        made.stored(&stored, piece.len() as u32, 0);
    }
    made.stored(&zstd(&[], true), 0, 0);
    assert_reads(&made.finish(), &database);
    assert_reads(&cut(&database, 1 << 30, false).finish(), &database);
}

#[test]
fn skippable_frames_of_others() {
    let database = database(100_000);
    let foreign = skippable(
        0x184D_2A5E,
        b"whatever; it may even have the table's own magic number",
    );
    let mut made = Handmade::new(true);
    // Counted by the table: in front, between, with another checksum than that of nothing, and at the end.
    made.stored(&foreign, 0, 0);
    for frame in database.chunks(10_000) {
        made.frame(frame);
        made.stored(&skippable(SKIPPABLE, b"padding"), 0, 7);
    }
    assert_reads(&made.finish(), &database);
    // In one entry with the frame behind it, as a writer that puts a header before each frame would have it.
    let mut shared = Handmade::new(false);
    for frame in database.chunks(10_000) {
        let stored = [skippable(SKIPPABLE, b"header"), zstd(frame, true)].concat();
        shared.stored(&stored, frame.len() as u32, 0);
    }
    assert_reads(&shared.finish(), &database);
    // Not counted: in front of all.
    let plain = cut(&database, 10_000, true).finish();
    assert_reads(&[&foreign[..], &foreign, &plain].concat(), &database);
    // Not counted and elsewhere: a reader could not find the frames.
    let made = cut(&database, 10_000, true);
    let file = [&made.body[..], &foreign, &made.table()].concat();
    assert!(open(&file).is_err());
}

/// The same in frames that are read in pieces.
#[test]
fn skippable_frames_within_a_large_entry() {
    let database = database(9 << 20);
    let mut made = Handmade::new(false);
    let mut stored = skippable(SKIPPABLE, b"first");
    for frame in database.chunks(1 << 20) {
        stored.extend_from_slice(&zstd(frame, true));
        stored.extend_from_slice(&skippable(SKIPPABLE, &[9; 300_000]));
    }
    made.stored(&stored, database.len() as u32, 0);
    assert_reads(&made.finish(), &database);
}
