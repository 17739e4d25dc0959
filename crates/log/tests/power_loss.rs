//! Power losses and killed processes: what is opened afterwards is the log as it was after some write, and none before
//! the last sync.

mod support;

use litepack_io::random::SplitMix64;
use litepack_io::storage::ReadAt;
use litepack_log::Log;
use support::{Disk, Driver, Op, both, content_of, log as open, rounds, seal_some};

const PAGE: usize = 512;

/// A log that is written, and all states that may be found after a power loss.
struct Run {
    storage: Disk,
    driver: Driver,
    log: Log<Disk>,
    /// What could be read after each call since the last sync, that one first.
    states: Vec<Vec<u8>>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let storage = Disk::default();
        Run {
            log: open(storage.clone()),
            storage,
            driver: Driver::new(seed, PAGE),
            states: vec![Vec::new()],
        }
    }

    fn step(&mut self) -> Op {
        let op = self.driver.next();
        op.run(&mut self.log).unwrap();
        self.note(&op);
        op
    }

    fn note(&mut self, op: &Op) {
        if matches!(op, Op::Sync) {
            self.states.clear();
        }
        let readable = self.driver.readable().to_vec();
        if self.states.last() != Some(&readable) {
            self.states.push(readable);
        }
    }

    /// Opens what a power loss leaves, and gives the content.
    fn after_power_loss(&self, loss: u64, context: &str) -> Disk {
        let image = self.storage.after_power_loss(loss);
        let storage = Disk::with_image(image);
        let mut log = open(storage.clone());
        let found = content_of(&mut log, PAGE);
        let found = found.unwrap_or_else(|error| panic!("{context}: {error}"));
        assert!(
            self.states.contains(&found),
            "{context}: {} bytes are none of {:?}",
            found.len(),
            self.states.iter().map(Vec::len).collect::<Vec<_>>()
        );
        storage
    }
}

#[test]
fn a_power_loss_leaves_a_state_after_the_last_sync() {
    for seed in 0..rounds(12) {
        seal_some(seed);
        let mut run = Run::new(seed);
        let mut random = SplitMix64::new(seed);
        for call in 0..600 {
            let op = run.step();
            if random.chance(15) || matches!(op, Op::Truncate(_)) {
                for loss in [0, 1, random.next_u64() | 2, random.next_u64() | 2] {
                    run.after_power_loss(loss, &format!("seed {seed}, call {call}, loss {loss}"));
                }
            }
        }
    }
}

/// After a power loss the tail is written over. What lay behind it, of the same generation, must not come back.
#[test]
fn what_was_torn_off_does_not_come_back() {
    for seed in 0..rounds(12) {
        seal_some(seed);
        let mut run = Run::new(seed);
        let mut random = SplitMix64::new(seed ^ 0xbac);
        for loss in 0..8 {
            // Frames of the same lengths again and again.
            for _ in 0..40 + random.below(100) {
                run.step();
            }
            let context = format!("seed {seed}, loss {loss}");
            let storage = run.after_power_loss(random.next_u64() | 2, &context);
            let mut log = open(storage.clone());
            let found = content_of(&mut log, PAGE).unwrap();
            run.driver.go_on(&found);
            run = Run {
                storage,
                log,
                states: vec![found],
                ..run
            };
        }
    }
}

/// A process is killed at a write, which was not done or in part. Another goes on, beside a reader that was there before.
#[test]
fn a_killed_writer_leaves_what_it_had_written() {
    for seed in 0..rounds(12) {
        seal_some(seed);
        let mut random = SplitMix64::new(seed ^ 0x17);
        let mut run = Run::new(seed);
        let mut reader = open(run.storage.clone());
        for kill in 0..20 {
            let until = run.storage.calls() + random.below(60);
            run.storage.fail(until, u64::MAX);
            // Of a transaction that is running, parts of frames may not be in the file yet.
            let state = |driver: &Driver| (driver.readable().to_vec(), driver.stable_len());
            let mut before = state(&run.driver);
            let op = loop {
                let op = run.driver.next();
                if op.run(&mut run.log).is_err() {
                    break op;
                }
                before = state(&run.driver);
                if random.chance(10) {
                    reader.size().unwrap();
                }
            };
            run.storage.fail(0, 0);
            run.log = open(run.storage.clone());
            let found = content_of(&mut run.log, PAGE).unwrap();
            let context = format!("seed {seed}, kill {kill} in {op:?}");
            let is_cut = matches!(op, Op::Truncate(_)) && found == run.driver.readable();
            let (before, stable) = before;
            let is_as_before = found.len() == before.len() && found[..stable] == before[..stable];
            assert!(is_as_before || is_cut, "{context}");
            assert!(content_of(&mut reader, PAGE).unwrap() == found, "{context}");
            run.driver.go_on(&found);
        }
    }
}

/// A sync fails, and the system gives up what it had. The next one that returns counts for all.
#[test]
fn a_failed_sync_loses_nothing_that_a_later_one_promises() {
    for seed in 0..rounds(12) {
        seal_some(seed);
        let mut run = Run::new(seed);
        run.storage.fail_badly();
        let mut random = SplitMix64::new(seed ^ 0xf5);
        for call in 0..400 {
            let op = run.driver.next();
            if matches!(op, Op::Sync) && random.chance(20) {
                let at = run.storage.calls();
                run.storage.fail(at, at + 1);
                assert!(op.run(&mut run.log).is_err());
                run.storage.fail(0, 0);
            }
            op.run(&mut run.log).unwrap();
            run.note(&op);
            if random.chance(10) {
                let loss = random.next_u64() | 2;
                run.after_power_loss(loss, &format!("seed {seed}, call {call}"));
            }
        }
    }
}

/// A write fails, or reports so, and may have been done. The same handle goes on.
#[test]
fn a_writer_goes_on_after_a_failed_write() {
    for seed in 0..rounds(12) {
        seal_some(seed);
        let mut random = SplitMix64::new(seed ^ 0x90);
        let mut run = Run::new(seed);
        run.storage.fail_badly();
        let mut reader = open(run.storage.clone());
        for failure in 0..30 {
            let at = run.storage.calls() + random.below(40);
            run.storage.fail(at, at + 2);
            while run.driver.next().run(&mut run.log).is_ok() {
                reader.size().unwrap();
            }
            run.storage.fail(0, 0);
            let found = content_of(&mut run.log, PAGE).unwrap();
            let context = format!("seed {seed}, failure {failure}");
            assert!(content_of(&mut reader, PAGE).unwrap() == found, "{context}");
            run.driver.go_on(&found);
        }
    }
}

/// The index is written with this frame, and a call of that fails.
#[test]
fn a_writer_goes_on_after_its_index_was_not_written() {
    both(|| {
        let offset = |number: u64| 32 + (number - 1) * (PAGE as u64 + 24);
        let frame = |n: u64| {
            let number = n as u8;
            [&[0, 0, 0, 1, 0, 0, 0, 1][..], &[number; PAGE + 16]].concat()
        };
        for call in 0..8 {
            let storage = Disk::default();
            let mut log = open(storage.clone());
            log.write(&support::header(PAGE, 1), 0).unwrap();
            for number in 1..2048 {
                log.write(&frame(number), offset(number)).unwrap();
            }
            let at = storage.calls() + call;
            storage.fail(at, at + 1);
            let done = log.write(&frame(2048), offset(2048));
            assert_eq!(done.is_ok(), storage.calls() <= at, "call {call}");
            storage.fail(0, 0);
            for number in 2048..2060 {
                log.write(&frame(number), offset(number)).unwrap();
            }
            let found = content_of(&mut log, PAGE).unwrap();
            assert!(
                found[32..] == (1..2060).flat_map(frame).collect::<Vec<_>>(),
                "call {call}"
            );
            assert!(
                content_of(&mut open(storage), PAGE).unwrap() == found,
                "call {call}"
            );
        }
    });
}

/// The two slots take turns: one that is torn within a sector leaves the generation before.
#[test]
fn a_torn_slot_leaves_the_generation_before() {
    both(|| {
        let mut run = Run::new(1);
        while run.driver.readable().len() < 8 * PAGE || !run.driver.is_between() {
            run.step();
        }
        for round in 0..4 {
            let before = run.storage.after_power_loss(1);
            let content = run.driver.readable().to_vec();
            let header = support::header(PAGE, 100 + round);
            run.log.write(&header, 0).unwrap();
            let after = run.storage.after_power_loss(1);
            let changed: Vec<usize> = (0..4096).filter(|at| before[*at] != after[*at]).collect();
            for arrived in 1..changed.len() {
                let mut torn = before.clone();
                changed[..arrived]
                    .iter()
                    .for_each(|at| torn[*at] = after[*at]);
                let mut log = open(Disk::with_image(torn));
                let found = content_of(&mut log, PAGE).unwrap();
                assert!(found == content, "round {round}, {arrived} bytes");
            }
            assert!(content_of(&mut run.log, PAGE).unwrap() == header);
            run.driver.go_on(&header);
            while run.driver.readable().len() < 8 * PAGE || !run.driver.is_between() {
                run.step();
            }
        }
    });
}

/// The first slot of all has none before it: torn, it leaves an empty log, whose next generation begins.
#[test]
fn a_torn_first_slot_leaves_an_empty_log() {
    both(|| {
        let (storage, header) = (Disk::default(), support::header(PAGE, 1));
        let mut log = open(storage.clone());
        log.write(&header, 0).unwrap();
        log.sync().unwrap();
        let whole = storage.after_power_loss(0);
        let slot: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != 0).collect();
        for arrived in 1..slot.len() {
            for torn in [&slot[..arrived], &slot[arrived..]] {
                let mut image = vec![0; 8192];
                torn.iter().for_each(|at| image[*at] = whole[*at]);
                let disk = Disk::with_image(image.clone());
                let mut log = open(disk.clone());
                assert_eq!(content_of(&mut log, PAGE).unwrap(), [], "{arrived} bytes");
                let mut driver = Driver::new(arrived as u64, PAGE);
                driver.next().run(&mut log).unwrap();
                let found = content_of(&mut open(disk), PAGE).unwrap();
                assert!(!found.is_empty() && found == driver.readable());
                // With a record it is one that has rotted.
                image[4096] = 1;
                let rotten = content_of(&mut open(Disk::with_image(image)), PAGE);
                assert!(rotten.is_err(), "{arrived} bytes");
            }
        }
    });
}

/// The same where that one has no record, and older ones stand behind the head.
#[test]
fn a_torn_slot_leaves_a_generation_without_records() {
    both(|| {
        let mut run = Run::new(1);
        while run.driver.readable().len() < 8 * PAGE || !run.driver.is_between() {
            run.step();
        }
        for round in 0..4 {
            let former = support::header(PAGE, 100 + round);
            run.log.write(&former, 0).unwrap();
            let before = run.storage.after_power_loss(1);
            let next = support::header(PAGE, 200 + round);
            run.log.write(&next, 0).unwrap();
            let after = run.storage.after_power_loss(1);
            let mut torn = run.storage.after_power_loss(0);
            assert!(torn[..4096] == before[..4096], "it is durable");
            let changed: Vec<usize> = (0..4096).filter(|at| before[*at] != after[*at]).collect();
            for at in &changed[..changed.len() - 1] {
                torn[*at] = after[*at];
                let mut log = open(Disk::with_image(torn.clone()));
                let found = content_of(&mut log, PAGE).unwrap();
                assert!(found == former, "round {round}, byte {at}");
            }
            run.driver.go_on(&next);
            while run.driver.readable().len() < 8 * PAGE || !run.driver.is_between() {
                run.step();
            }
        }
    });
}

/// The place is cleared once nothing can need it: the power is lost at each call of the beginning.
#[test]
fn a_record_at_the_first_place_is_cleared_once_it_is_of_no_use() {
    both(|| {
        for call in 0..6 {
            let mut run = Run::new(2);
            while run.driver.readable().len() < 8 * PAGE || !run.driver.is_between() {
                run.step();
            }
            run.log.sync().unwrap();
            let content = run.driver.readable().to_vec();
            let former = support::header(PAGE, 100);
            run.log.write(&former, 0).unwrap();
            run.storage.fail(run.storage.calls() + call, u64::MAX);
            let next = support::header(PAGE, 200);
            let is_begun = run.log.write(&next, 0).is_ok();
            assert_eq!(is_begun, call > 3);
            for loss in 0..40 {
                let mut log = open(Disk::with_image(run.storage.after_power_loss(loss)));
                let found = content_of(&mut log, PAGE).unwrap();
                let is_one = [&content[..], &former, &next].contains(&&found[..]);
                assert!(is_one, "call {call}, loss {loss}");
            }
        }
    });
}

/// Of a frame whose second half never came nothing is left when others have written that frame.
#[test]
fn half_a_frame_before_a_failed_sync_is_forgotten() {
    both(|| {
        let storage = Disk::default();
        let (mut one, mut other) = (open(storage.clone()), open(storage.clone()));
        let offset = |number: u64| 32 + (number - 1) * (PAGE as u64 + 24);
        let frame = |n: u8| [&[0, 0, 0, 1, 0, 0, 0, 1][..], &[n; PAGE + 16]].concat();
        one.write(&support::header(PAGE, 1), 0).unwrap();
        one.write(&frame(1), offset(1)).unwrap();
        one.write(&frame(2)[..24], offset(2)).unwrap();
        let at = storage.calls();
        storage.fail(at, at + 1);
        one.sync().unwrap_err();
        storage.fail(0, 0);
        other.write(&frame(3), offset(2)).unwrap();
        one.write(&frame(4), offset(3)).unwrap();
        let found = content_of(&mut other, PAGE).unwrap();
        assert!(found[32..] == [frame(1), frame(3), frame(4)].concat());
    });
}

/// Until the next generation is durable, a power loss may leave the one before, and all of it is needed.
#[test]
fn a_long_file_is_cut_once_the_next_generation_is_durable() {
    both(|| {
        const LARGE: usize = 1 << 16;
        let storage = Disk::default();
        let mut log = open(storage.clone());
        let mut random = SplitMix64::new(7);
        log.write(&support::header(LARGE, 1), 0).unwrap();
        for number in 0..300 {
            let bytes: Vec<u8> = (0..LARGE / 8)
                .flat_map(|_| random.next_u64().to_le_bytes())
                .collect();
            let start = 32 + number * (LARGE as u64 + 24);
            log.write(&[0, 0, 0, 1, 0, 0, 0, 1].repeat(3), start)
                .unwrap();
            log.write(&bytes, start + 24).unwrap();
        }
        log.sync().unwrap();
        let full = content_of(&mut log, LARGE).unwrap();
        let len = || ReadAt::len(&storage).unwrap() as usize;
        assert!(len() > 300 * LARGE);
        log.write(&support::header(LARGE, 2), 0).unwrap();
        assert!(len() > 300 * LARGE);
        for loss in 0..20 {
            let left = Disk::with_image(storage.after_power_loss(loss));
            let found = content_of(&mut open(left), LARGE).unwrap();
            assert!(found == full || found.len() == 32, "{}", found.len());
        }
        log.sync().unwrap();
        assert_eq!(len(), 16 << 20);
        log.write(&[0, 0, 0, 1, 0, 0, 0, 1].repeat(3), 32).unwrap();
        log.write(&[5; LARGE], 56).unwrap();
        log.sync().unwrap();
        let left = Disk::with_image(storage.after_power_loss(1));
        assert_eq!(
            content_of(&mut open(left), LARGE).unwrap().len(),
            32 + 24 + LARGE
        );
    });
}
