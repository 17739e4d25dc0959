//! Archives that claim what is not so: an error, and little memory. All tests of this file share the process whose
//! memory is measured.

use std::cell::Cell;
use std::io;

use litepack_archive::{Archive, Error, SeekTable};
use litepack_io::storage::ReadAt;

mod handmade;
use handmade::{Handmade, SKIPPABLE, database, open, options, read_all, skippable, zstd};

/// The most memory this process ever had; 0 where it cannot be asked.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) >> 10
}

fn assert_little_memory() {
    assert!(peak_mib() < 400, "{} MiB", peak_mib());
}

fn table_error(file: &[u8]) -> String {
    match open(file) {
        Err(error @ (Error::SeekTable { .. } | Error::Limit(_) | Error::Unsupported(_))) => {
            error.to_string()
        }
        other => panic!("{other:?}"),
    }
}

/// A file with a footer that says anything.
fn footer(frames: u32, descriptor: u8) -> Vec<u8> {
    let mut file = Handmade::new(true).frame(&database(5000)).finish();
    let at = file.len() - 9;
    file[at..at + 4].copy_from_slice(&frames.to_le_bytes());
    file[at + 4] = descriptor;
    file
}

#[test]
fn counts_of_frames_that_do_not_fit() {
    for descriptor in [0, 0x80] {
        for frames in [2, 3, 1000, 1 << 28, u32::MAX] {
            table_error(&footer(frames, descriptor));
        }
    }
    table_error(&footer(0, 0x80));
    assert_little_memory();
}

#[test]
fn reserved_bits() {
    for bit in 2..7 {
        assert!(table_error(&footer(1, 0x80 | 1 << bit)).contains("reserved"));
    }
    assert!(open(&footer(1, 0x83)).is_ok());
}

#[test]
fn sizes_that_do_not_add_up() {
    let mut made = Handmade::new(false);
    made.frame(&database(5000)).frame(&database(5000));
    for (at, stored) in [(0, 1), (1, u32::MAX), (0, 0)] {
        let mut lying = made.clone();
        lying.entries[at].0 = stored;
        assert!(!table_error(&lying.finish()).is_empty());
    }
    let mut lying = made.clone();
    lying.entries.push((0, 5000, 0));
    assert!(table_error(&lying.finish()).contains("in none"));
    // They add up, but to something else.
    let mut lying = made.clone();
    lying.entries[0].0 -= 10;
    lying.entries[1].0 += 10;
    let file = lying.finish();
    assert!(read_all(&mut open(&file).unwrap(), u64::MAX).is_err());
}

#[test]
fn frames_of_another_size_than_said() {
    for (said, is) in [
        (4999, 5000),
        (5001, 5000),
        (1, 5000),
        (5000, 0),
        (u32::MAX, 5000),
    ] {
        let bytes = database(is);
        let mut made = Handmade::new(false);
        made.stored(&zstd(&bytes, true), said, 0);
        let file = made.finish();
        let mut archive = open(&file).unwrap();
        assert_eq!(archive.size(), u64::from(said));
        let error = archive.read_at(0, &mut [0; 16]).unwrap_err();
        assert!(
            matches!(error, Error::Frame { number: 0, .. }),
            "{said}: {error}"
        );
    }
    assert_little_memory();
}

#[test]
fn bombs_get_no_more_memory_than_they_said() {
    // 32 GiB in a MiB, from frames that share an entry.
    let many = zstd(&vec![0; 32 << 20], false).repeat(1000);
    for said in [1000, 5 << 20, 100 << 20, u32::MAX] {
        let mut made = Handmade::new(false);
        made.stored(&many, said, 0);
        let file = made.finish();
        for budget in [0, 64 << 20] {
            let source = Sparse::new(file.len() as u64, vec![(0, file.clone())]);
            let mut archive = Archive::open(&source, options(1, budget)).unwrap();
            source.read.set(0);
            let error = archive.read_at(0, &mut [0; 16]).unwrap_err();
            assert!(matches!(error, Error::Frame { number: 0, .. }), "{error}");
            // Decoding does not go on behind what was said: the input is not read to its end.
            let in_pieces = u64::from(said) > (4 << 20).max(budget / 2);
            let stops_early = source.read.get() < many.len();
            assert!(stops_early || !in_pieces);
        }
    }
    assert_little_memory();
}

#[test]
fn a_window_larger_than_zstd_takes_by_itself() {
    // Magic, a descriptor with a window byte, a window of 2 TiB, one empty last block.
    let mut frame = 0xFD2F_B528u32.to_le_bytes().to_vec();
    frame.extend_from_slice(&[0x00, 0xF8, 0x01, 0x00, 0x00]);
    for said in [10, 10 << 20] {
        let mut made = Handmade::new(false);
        made.stored(&frame, said, 0);
        assert!(
            open(&made.finish())
                .unwrap()
                .read_at(0, &mut [0; 16])
                .is_err()
        );
    }
    assert_little_memory();
}

#[test]
fn frames_that_need_a_dictionary_are_refused() {
    // A frame whose header names dictionary 7: single segment, one byte of content.
    let mut frame = 0xFD2F_B528u32.to_le_bytes().to_vec();
    frame.extend_from_slice(&[0x21, 7, 1, 0x09, 0x00, 0x00, b'x']);
    let mut made = Handmade::new(false);
    made.stored(&frame, 1, 0);
    let file = made.finish();
    let error = open(&file).unwrap().read_at(0, &mut [0]).unwrap_err();
    assert!(error.to_string().contains("ictionary"), "{error}");
}

#[test]
fn nothing_but_a_table_is_an_empty_database() {
    let file = Handmade::new(true).finish();
    assert_eq!(file.len(), 17);
    let mut archive = open(&file).unwrap();
    assert_eq!(archive.size(), 0);
    assert_eq!(archive.read_at(0, &mut [0; 10]).unwrap(), 0);
    assert_eq!(archive.read_at(u64::MAX, &mut [0; 10]).unwrap(), 0);
}

#[test]
fn many_frames_that_hold_nothing_do_not_slow_down_a_read() {
    let mut made = Handmade::new(false);
    made.entries = vec![(0, 0, 0); 3_000_000];
    made.frame(b"only this");
    made.entries.extend([(0, 0, 0); 100]);
    let file = made.finish();
    let mut archive = open(&file).unwrap();
    for _ in 0..20_000 {
        let frame = archive.table().frame_at(8).unwrap();
        assert_eq!(frame.number, 3_000_000);
    }
    assert!(read_all(&mut archive, u64::MAX).unwrap() == b"only this");
    assert_little_memory();
}

#[test]
fn skippable_frames_the_table_does_not_count_are_looked_for_only_so_far() {
    let made = Handmade::new(false).frame(&database(5000)).clone();
    for (count, fine) in [(1, true), (16, true), (17, false), (2000, false)] {
        let mut file = skippable(SKIPPABLE, b"").repeat(count);
        file.extend_from_slice(&made.finish());
        assert_eq!(open(&file).is_ok(), fine, "{count}");
    }
}

/// A file of any length, of which little is there; the rest is zeros.
struct Sparse {
    len: u64,
    parts: Vec<(u64, Vec<u8>)>,
    read: Cell<usize>,
}

impl Sparse {
    fn new(len: u64, parts: Vec<(u64, Vec<u8>)>) -> Sparse {
        let read = Cell::new(0);
        Sparse { len, parts, read }
    }
}

impl ReadAt for Sparse {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read.set(self.read.get() + buf.len());
        let len = buf.len().min(self.len.saturating_sub(offset) as usize);
        buf[..len].fill(0);
        for (start, part) in &self.parts {
            let from = offset.max(*start);
            let end = (offset + len as u64).min(start + part.len() as u64);
            if from < end {
                let part = &part[(from - start) as usize..(end - start) as usize];
                buf[(from - offset) as usize..][..part.len()].copy_from_slice(part);
            }
        }
        Ok(len)
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }
}

#[test]
fn offsets_beyond_four_gibibytes_on_both_sides() {
    let (zeros, bytes) = (vec![0; 8 << 20], database(70_000));
    let mut made = Handmade::new(true);
    made.entries = vec![(u32::MAX, 0, 0); 3];
    let zeros_at = 3 * u64::from(u32::MAX);
    for _ in 0..600 {
        made.frame(&zeros);
    }
    made.frame(&bytes);
    let file = made.finish();
    let source = Sparse::new(zeros_at + file.len() as u64, vec![(zeros_at, file)]);
    let mut archive = Archive::open(source, options(2, 64 << 20)).unwrap();
    let before = 600 * (8u64 << 20);
    assert!(before > 1 << 32);
    assert_eq!(archive.size(), before + 70_000);
    let mut page = [1; 4096];
    archive.read_at(before - 96, &mut page).unwrap();
    assert!(page[..96] == [0; 96] && page[96..] == bytes[..4000]);
    archive.read_at(before + 60_000, &mut page).unwrap();
    assert!(page == bytes[60_000..64_096]);
    assert_little_memory();
}

/// Small, but behind a skippable frame that is not.
#[test]
fn an_entry_with_much_in_front_of_its_frame_is_read_in_steps() {
    const SKIPPED: u32 = 700 << 20;
    let bytes = database(10_000);
    let frame = zstd(&bytes, true);
    let mut made = Handmade::new(false);
    made.entries = vec![(8 + SKIPPED + frame.len() as u32, 10_000, 0)];
    let mut head = SKIPPABLE.to_le_bytes().to_vec();
    head.extend_from_slice(&SKIPPED.to_le_bytes());
    let at = 8 + u64::from(SKIPPED);
    let end = [frame, made.table()].concat();
    let source = Sparse::new(at + end.len() as u64, vec![(0, head), (at, end)]);
    let mut archive = Archive::open(source, options(1, 1 << 20)).unwrap();
    assert!(read_all(&mut archive, u64::MAX).unwrap() == bytes);
    assert_little_memory();
}

#[test]
fn a_table_too_long_to_be_kept_is_refused_before_it_is_read() {
    // All of it is there, and it says so itself.
    let frames = (256u32 << 20) / 8;
    let content = u64::from(frames) * 8 + 9;
    let mut head = 0x184D_2A5Eu32.to_le_bytes().to_vec();
    head.extend_from_slice(&(content as u32).to_le_bytes());
    let mut foot = frames.to_le_bytes().to_vec();
    foot.push(0);
    foot.extend_from_slice(&0x8F92_EAB1u32.to_le_bytes());
    let source = Sparse::new(content + 8, vec![(0, head), (content + 8 - 9, foot)]);
    let error = SeekTable::read(&source).unwrap_err();
    assert!(matches!(error, Error::Limit(_)), "{error}");
    assert_little_memory();
}
