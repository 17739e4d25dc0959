//! A bit that rots anywhere: the same content, or an error that says where. Only what no later commit vouches for may be
//! taken for a torn tail.

mod support;

use litepack_io::random::SplitMix64;
use litepack_io::testing::MemoryStorage;
use litepack_log::Error;
use support::{Disk, Driver, Op, both, content_of, log as open, rounds, seal_some};

const PAGE: usize = 512;

/// Calls of a driver, then a sync, then a commit that says so. Gives the file, the content, and a place in the checksum
/// before that commit, or in its length.
fn written(seed: u64, calls: usize) -> (Vec<u8>, Vec<u8>, usize) {
    let storage = Disk::default();
    let mut log = open(storage.clone());
    let mut driver = Driver::new(seed, PAGE);
    for call in 0.. {
        let op = driver.next();
        op.run(&mut log).unwrap();
        if call >= calls && driver.is_between() && driver.readable().len() > 4 * PAGE {
            break;
        }
    }
    Op::Sync.run(&mut log).unwrap();
    let synced = driver.readable().len();
    let before = storage.after_power_loss(1);
    let mut frame = vec![1; driver.frame_len()];
    frame[..8].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 9]);
    let end = synced as u64;
    log.write(&frame[..24], end).unwrap();
    log.write(&frame[24..], end + 24).unwrap();
    let image = storage.after_power_loss(1);
    let content = [driver.readable(), &frame].concat();
    let first = (before.iter().zip(&image).skip(4096)).position(|(a, b)| a != b);
    let last = first.map_or(before.len(), |at| at + 4096);
    // Its first bytes may be those that were there before.
    (image, content, last - 4)
}

fn check(image: &[u8], content: &[u8], last: usize, at: usize, context: &str) -> bool {
    let mut rotten = image.to_vec();
    rotten[at] ^= 1 << (at % 8);
    let mut log = open(MemoryStorage::new(rotten));
    match content_of(&mut log, PAGE) {
        Ok(found) if found == content => false,
        Ok(found) => {
            let shorter = content.len() - PAGE - 24;
            assert!(
                at >= last && found == content[..shorter],
                "{context}, byte {at}"
            );
            false
        }
        Err(Error::Damaged { .. }) => true,
        Err(error) => panic!("{context}, byte {at}: {error}"),
    }
}

#[test]
fn rot_of_any_byte_is_an_error_or_nothing() {
    for seed in 0..rounds(3) {
        seal_some(seed);
        let (image, content, last) = written(seed, 60);
        let mut errors = 0;
        for at in (0..image.len().min(last + 400)).step_by(11) {
            errors += u32::from(check(&image, &content, last, at, &format!("seed {seed}")));
        }
        assert!(errors > 20, "seed {seed}: {errors}");
    }
}

#[test]
fn rot_of_a_long_log_is_an_error_or_nothing() {
    both(|| {
        let (image, content, last) = written(3, 9000);
        let mut random = SplitMix64::new(3);
        let mut errors = 0;
        for _ in 0..rounds(40) {
            let at = random.below(last as u64) as usize;
            errors += u32::from(check(&image, &content, last, at, "a long log"));
        }
        assert!(errors > 10, "{errors}");
    });
}

/// A whole block is lost: it reads as zeros.
#[test]
fn a_lost_block_is_an_error() {
    for seed in 0..rounds(2) {
        seal_some(seed);
        let (image, content, last) = written(seed, 200);
        for at in (4096..last).step_by(4096) {
            let mut lost = image.clone();
            let end = (at + 4096).min(last);
            lost[at..end].fill(0);
            let mut log = open(MemoryStorage::new(lost));
            let found = content_of(&mut log, PAGE);
            assert!(
                matches!(found, Err(Error::Damaged { .. })),
                "seed {seed}, byte {at}"
            );
        }
        let mut log = open(MemoryStorage::new(image));
        assert!(content_of(&mut log, PAGE).unwrap() == content);
    }
}
