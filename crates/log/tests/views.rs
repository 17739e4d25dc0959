//! What a handle need not look at while it knows that others wait.

mod support;

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use litepack_io::cache::{Cache, CacheKind};
use litepack_io::random::SplitMix64;
use litepack_io::testing::{Call, Watched};
use litepack_log::Log;
use support::{Disk, Driver, both, content_of, header, log as open, rounds, seal_some};

const PAGE: usize = 512;

fn offset(number: u64) -> u64 {
    32 + (number - 1) * (PAGE as u64 + 24)
}

fn frame(number: u8) -> Vec<u8> {
    [&[0, 0, 0, 1, 0, 0, 0, 1][..], &[number; PAGE + 16]].concat()
}

/// Handles take turns in writing, each under a lock of its own as the number of its view; some without one. Others read.
#[test]
fn a_new_view_shows_what_others_have_written() {
    for seed in 0..rounds(25) {
        seal_some(seed);
        let mut random = SplitMix64::new(seed ^ 0x71e3);
        let storage = Disk::default();
        let mut driver = Driver::new(seed, PAGE);
        let mut logs = [(); 3].map(|()| open(storage.clone()));
        let (mut writer, mut locks) = (0, 0);
        logs[writer].set_view(Some(locks));
        for call in 0..1500 {
            if driver.is_between() && random.chance(30) {
                logs[writer].set_view(None);
                writer = random.below(3) as usize;
                locks += 1;
                logs[writer].set_view(Some(locks).filter(|_| random.chance(80)));
            }
            let op = driver.next();
            op.run(&mut logs[writer]).unwrap();
            let reader = random.below(3) as usize;
            if driver.is_between() || reader == writer {
                let found = content_of(&mut logs[reader], PAGE).unwrap();
                assert!(found == driver.readable(), "seed {seed}, call {call}");
            }
        }
    }
}

/// A reader keeps its view while another handle appends, and writes over what it had not committed.
#[test]
fn a_view_keeps_what_was_there_when_it_began() {
    both(|| {
        let storage = Disk::default();
        let (mut writer, mut reader) = (open(storage.clone()), open(storage));
        writer.write(&header(PAGE, 1), 0).unwrap();
        for number in 1..=5 {
            writer.write(&frame(number), offset(number.into())).unwrap();
        }
        let found = |reader: &mut Log<_>| content_of(reader, PAGE).unwrap()[32..].to_vec();
        let all = |numbers: &[u8]| numbers.iter().flat_map(|n| frame(*n)).collect::<Vec<_>>();
        reader.set_view(Some(1));
        assert!(found(&mut reader) == all(&[1, 2, 3, 4, 5]));
        for (number, content) in [(4, 14), (5, 15), (6, 16)] {
            writer.write(&frame(content), offset(number)).unwrap();
        }
        assert!(found(&mut reader) == all(&[1, 2, 3, 4, 5]));
        reader.set_view(Some(2));
        assert!(found(&mut reader) == all(&[1, 2, 3, 14, 15, 16]));
        writer.write(&frame(17), offset(7)).unwrap();
        reader.set_view(None);
        for content in [18, 19] {
            writer.write(&frame(content), offset(8)).unwrap();
            assert!(found(&mut reader) == all(&[1, 2, 3, 14, 15, 16, 17, content]));
        }
    });
}

/// With `synchronous=OFF` a generation is begun without a sync. The first one may be that of a checkpoint, which keeps no
/// other process from appending.
#[test]
fn a_sync_cuts_off_nothing_that_another_handle_appends() {
    both(|| {
        const LARGE: usize = 65536;
        let storage = Disk::default();
        let (mut one, mut other) = (open(storage.clone()), open(storage));
        let mut random = SplitMix64::new(7);
        let noise = std::iter::repeat_with(|| random.next_u64().to_le_bytes());
        let noise: Vec<u8> = noise.take(2 * LARGE / 8).flatten().collect();
        let frame = |number: u64| {
            let page = &noise[number as usize * 64..][..LARGE];
            [&frame(1)[..24], page].concat()
        };
        let offset = |number: u64| 32 + (number - 1) * (LARGE as u64 + 24);
        one.write(&header(LARGE, 1), 0).unwrap();
        one.write(&frame(1), offset(1)).unwrap();
        one.set_view(Some(1));
        assert_eq!(one.size().unwrap(), offset(2));
        for number in 2..=300 {
            other.write(&frame(number), offset(number)).unwrap();
        }
        one.sync().unwrap();
        one.set_view(None);
        assert_eq!(one.size().unwrap(), offset(301));
        let mut found = vec![0; LARGE + 24];
        for number in 1..=300 {
            assert_eq!(one.read(&mut found, offset(number)).unwrap(), LARGE + 24);
            assert!(found == frame(number), "frame {number}");
        }
    });
}

/// A VFS above writes the rest of a frame only after the transaction, when it is told to sync the next one.
#[test]
fn the_rest_of_a_new_frame_may_come_under_another_view() {
    both(|| {
        let mut log = open(Disk::default());
        log.set_view(Some(1));
        log.write(&header(PAGE, 1), 0).unwrap();
        log.write(&frame(1), offset(1)).unwrap();
        log.write(&frame(2)[..100], offset(2)).unwrap();
        for view in [None, Some(2), None, Some(3)] {
            log.set_view(view);
            assert!(content_of(&mut log, PAGE).unwrap()[32..] == frame(1));
        }
        log.write(&frame(2)[100..], offset(2) + 100).unwrap();
        assert!(content_of(&mut log, PAGE).unwrap()[32..] == [frame(1), frame(2)].concat());
        // Not of one that is there, and not after another write.
        log.write(&frame(3)[..100], offset(3)).unwrap();
        log.set_view(Some(4));
        log.write(&frame(4), offset(3)).unwrap();
        log.write(&frame(5)[..100], offset(3)).unwrap();
        log.set_view(Some(5));
        log.write(&frame(6)[100..], offset(3) + 100).unwrap();
        let third = [&frame(4)[..100], &frame(6)[100..]].concat();
        let found = content_of(&mut log, PAGE).unwrap();
        assert!(found[32..] == [frame(1), frame(2), third].concat());
    });
}

/// A handle finds the end of the log, and then looks whether what is behind was synced. In between another one appends,
/// syncs, and says so.
#[test]
fn what_is_appended_while_a_handle_opens_is_no_damage() {
    both(|| {
        let mut met = 0;
        for moment in 0..12 {
            let storage = Disk::default();
            let writer = RefCell::new(open(storage.clone()));
            writer.borrow_mut().write(&header(PAGE, 1), 0).unwrap();
            let next = Cell::new(1);
            let append = || {
                for _ in 0..3 {
                    let number = next.replace(next.get() + 1);
                    let mut writer = writer.borrow_mut();
                    writer.write(&frame(number), offset(number.into())).unwrap();
                    writer.sync().unwrap();
                }
            };
            append();
            let reads = Cell::new(0);
            let watched = Watched::new(storage.clone(), |call| {
                if let Call::Read { .. } = call {
                    reads.set(reads.get() + 1);
                    if reads.get() == moment {
                        append();
                    }
                }
                Ok(())
            });
            let found = open(watched).size().unwrap();
            let frames = (found - 32) / (PAGE as u64 + 24);
            assert!([3, 6].contains(&frames), "moment {moment}: {frames}");
            met += u32::from(frames == 6);
        }
        assert!(met > 2, "{met}");
    });
}

/// Records of each generation are at the same places.
#[test]
fn the_cache_has_no_page_of_another_generation() {
    both(|| {
        let cache = Arc::new(Cache::new(1 << 20));
        cache.begin_use(CacheKind::Pages);
        let storage = Disk::default();
        let mut writer = open(storage.clone());
        let mut readers = [(); 2].map(|()| open(storage.clone()).with_cache(Arc::clone(&cache)));
        for round in 1..=4 {
            writer.write(&header(PAGE, round.into()), 0).unwrap();
            writer.write(&frame(round), offset(1)).unwrap();
            for reader in &mut readers {
                assert!(
                    content_of(reader, PAGE).unwrap()[32..] == frame(round),
                    "{round}"
                );
            }
        }
    });
}

/// Frames of one page, each of which stands on the one before. With a view the file is only written.
#[test]
fn one_look_is_enough_for_a_view() {
    both(|| {
        let reads = Cell::new(0);
        let storage = Watched::new(Disk::default(), |call| {
            if let Call::Read { .. } = call {
                reads.set(reads.get() + 1);
            }
            Ok(())
        });
        let mut log = open(storage);
        log.write(&header(PAGE, 1), 0).unwrap();
        log.set_view(Some(1));
        log.size().unwrap();
        reads.set(0);
        for number in 1..=200 {
            let bytes = frame(number);
            log.write(&bytes[..24], offset(number.into())).unwrap();
            log.write(&bytes[24..], offset(number.into()) + 24).unwrap();
        }
        log.sync().unwrap();
        assert_eq!(reads.get(), 0);
        log.set_view(None);
        log.size().unwrap();
        assert!(reads.get() > 0);
    });
}

/// A transaction ends after half a frame, without a word, and another handle writes that frame.
#[test]
fn half_a_frame_is_forgotten_with_its_view() {
    both(|| {
        for is_new in [false, true] {
            let storage = Disk::default();
            let (mut one, mut other) = (open(storage.clone()), open(storage));
            one.set_view(Some(1));
            one.write(&header(PAGE, 1), 0).unwrap();
            one.write(&frame(1), offset(1)).unwrap();
            if !is_new {
                one.write(&frame(2), offset(2)).unwrap();
            }
            let mut half = frame(3)[..24].to_vec();
            half[4..8].fill(0);
            one.write(&half, offset(2)).unwrap();
            other.write(&frame(4), offset(2)).unwrap();
            one.set_view(Some(2));
            one.size().unwrap();
            one.write(&frame(5), offset(3)).unwrap();
            let found = content_of(&mut other, PAGE).unwrap();
            assert!(found[32..] == [frame(1), frame(4), frame(5)].concat());
        }
    });
}
