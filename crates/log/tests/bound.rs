//! A log that is bound to a file: which states it follows, while others go on and after a power loss.

mod support;

use std::io;
use std::sync::{Arc, Mutex};

use litepack_io::random::SplitMix64;
use litepack_log::{BoundTo, End, Error, FileState, Log, Refusal};
use support::{Disk, both, content_of, header, keys, rounds};

const PAGE: usize = 512;

fn offset(number: u64) -> u64 {
    32 + (number - 1) * (PAGE as u64 + 24)
}

fn frame(number: u8, is_commit: bool) -> Vec<u8> {
    let pages = [0, 0, 0, u8::from(is_commit)];
    [&[0, 0, 0, 1][..], &pages, &[number; PAGE + 16]].concat()
}

fn append(log: &mut Log<Disk>, frames: std::ops::RangeInclusive<u8>) {
    for number in frames {
        log.write(&frame(number, true), offset(number.into()))
            .unwrap();
    }
}

/// Steps of others on the file, right before its state is told or right after.
struct Step {
    is_after: bool,
    body: Box<dyn FnOnce(&mut FileState) + Send>,
}

/// A file whose state the test sets. Each answer takes one step of others with it.
#[derive(Clone)]
struct File(Arc<Mutex<Inner>>);

struct Inner {
    state: FileState,
    synced: usize,
    next: Vec<Step>,
}

impl File {
    fn new() -> File {
        let state = FileState {
            identity: [5; 16],
            current: 0,
            next: 1,
            end: End::default(),
            is_unfinished: false,
            is_durable: true,
        };
        File(Arc::new(Mutex::new(Inner {
            state,
            synced: 0,
            next: Vec::new(),
        })))
    }

    fn log(&self, storage: &Disk) -> Log<Disk> {
        Log::bound(storage.clone(), Box::new(self.clone())).with_keys(keys())
    }

    fn get(&self) -> FileState {
        self.0.lock().unwrap().state
    }

    fn set(&self, state: FileState) {
        self.0.lock().unwrap().state = state;
    }

    /// A checkpoint of all that this log holds.
    fn checkpoint(&self, log: &mut Log<Disk>, random: &mut SplitMix64) {
        let size = log.size().unwrap();
        let frames = (size - 32) / (PAGE as u64 + 24);
        log.read(&mut [0; PAGE], offset(frames) + 24).unwrap();
        let (current, end, _) = log.reached();
        assert!(end.link != 0);
        self.set(FileState {
            current,
            next: random.next_u64(),
            end,
            ..self.get()
        });
    }
}

impl BoundTo for File {
    fn state(&self) -> io::Result<Option<FileState>> {
        let mut inner = self.0.lock().unwrap();
        let before = inner.state;
        let Some(step) = inner.next.pop() else {
            return Ok(Some(before));
        };
        (step.body)(&mut inner.state);
        Ok(Some(if step.is_after { before } else { inner.state }))
    }

    fn make_durable(&self) -> io::Result<()> {
        self.0.lock().unwrap().synced += 1;
        Ok(())
    }
}

#[test]
fn a_log_follows_its_file_through_checkpoints_and_no_other_state() {
    both(|| {
        let (storage, file, mut random) = (Disk::default(), File::new(), SplitMix64::new(1));
        let mut states = vec![file.get()];
        let mut log = file.log(&storage);
        for generation in 0..5 {
            log.write(&header(PAGE, generation), 0).unwrap();
            let began = states.len() - 1;
            for part in 0..3 {
                append(&mut log, part * 4 + 1..=part * 4 + 4);
                file.checkpoint(&mut log, &mut random);
                states.push(file.get());
            }
            for (at, state) in states.iter().enumerate() {
                let other = File::new();
                other.set(*state);
                let refused = other.log(&storage).refused().unwrap();
                let expected = (at < began).then_some(Refusal::OtherState);
                assert_eq!(refused, expected, "generation {generation}, state {at}");
                other.set(FileState {
                    identity: [6; 16],
                    ..*state
                });
                let refused = other.log(&storage).refused().unwrap();
                assert_eq!(refused, Some(Refusal::OtherFile));
            }
        }
    });
}

#[test]
fn a_log_that_is_refused_is_empty_until_another_is_begun() {
    both(|| {
        let (storage, file) = (Disk::default(), File::new());
        let mut log = file.log(&storage);
        log.write(&header(PAGE, 1), 0).unwrap();
        append(&mut log, 1..=5);
        let before = storage.after_power_loss(1);
        let other = File::new();
        other.set(FileState {
            next: 77,
            ..file.get()
        });
        let mut log = other.log(&storage);
        assert_eq!(log.size().unwrap(), 0);
        assert_eq!(log.read(&mut [0; 32], 0).unwrap(), 0);
        assert_eq!(log.was_refused(), Some(Refusal::OtherState));
        assert!(storage.after_power_loss(1) == before, "it is only read");
        log.write(&frame(1, true), offset(1)).unwrap_err();
        log.write(&header(PAGE, 2), 0).unwrap();
        append(&mut log, 1..=2);
        assert_eq!(log.refused().unwrap(), None);
        assert_eq!(log.size().unwrap(), offset(3));
        assert_eq!(other.log(&storage).size().unwrap(), offset(3));
        assert_eq!(file.log(&storage).size().unwrap(), 0);
    });
}

/// The commit that a log begins after is durable before it begins. Where the log before it was begun so, that holds.
#[test]
fn the_file_is_durable_before_its_log_begins() {
    both(|| {
        let (storage, file) = (Disk::default(), File::new());
        let synced = || file.0.lock().unwrap().synced;
        let mut log = file.log(&storage);
        log.write(&header(PAGE, 1), 0).unwrap();
        assert_eq!(synced(), 1);
        append(&mut log, 1..=3);
        log.write(&header(PAGE, 2), 0).unwrap();
        assert_eq!(synced(), 1);
        log.truncate(0).unwrap();
        log.write(&header(PAGE, 3), 0).unwrap();
        assert_eq!(synced(), 2);
        file.set(FileState {
            next: 9,
            ..file.get()
        });
        file.log(&storage).write(&header(PAGE, 4), 0).unwrap();
        assert_eq!(synced(), 3);
    });
}

/// A copy of the log from before a checkpoint, beside the file from after it.
#[test]
fn a_log_without_what_the_file_has_from_it_is_refused() {
    both(|| {
        let (storage, file, mut random) = (Disk::default(), File::new(), SplitMix64::new(2));
        let mut log = file.log(&storage);
        log.write(&header(PAGE, 1), 0).unwrap();
        append(&mut log, 1..=5);
        log.sync().unwrap();
        let older = Disk::with_image(storage.after_power_loss(0));
        append(&mut log, 6..=6);
        file.checkpoint(&mut log, &mut random);
        assert_eq!(file.log(&older).refused().unwrap(), Some(Refusal::CutShort));
        assert_eq!(file.log(&storage).refused().unwrap(), None);
        append(&mut log, 7..=8);
        assert_eq!(file.log(&storage).size().unwrap(), offset(9));
        // In the midst of a checkpoint the file is none without its log.
        file.set(FileState {
            is_unfinished: true,
            ..file.get()
        });
        assert_eq!(file.log(&storage).size().unwrap(), offset(9));
        let found = file.log(&older).refused();
        assert!(
            matches!(found, Err(Error::NotNeeded(Refusal::CutShort))),
            "{found:?}"
        );
        let mut log = file.log(&older);
        log.write(&header(PAGE, 9), 0).unwrap_err();
        log.truncate(0).unwrap_err();
        // Nor with none.
        let none = Disk::default();
        let found = file.log(&none).refused();
        assert!(
            matches!(found, Err(Error::NotNeeded(Refusal::Missing))),
            "{found:?}"
        );
        let mut log = file.log(&none);
        log.size().unwrap_err();
        log.write(&header(PAGE, 9), 0).unwrap_err();
    });
}

/// A copy of the log from before a power loss, which took its end. Then it went on otherwise, and a checkpoint has brought
/// that into the file. As long as the copy is, it is not what the file has.
#[test]
fn a_log_that_was_cut_off_and_went_on_otherwise_is_refused() {
    both(|| {
        let (storage, file, mut random) = (Disk::default(), File::new(), SplitMix64::new(2));
        let mut log = file.log(&storage);
        log.write(&header(PAGE, 1), 0).unwrap();
        append(&mut log, 1..=5);
        log.sync().unwrap();
        let left = Disk::with_image(storage.after_power_loss(1));
        append(&mut log, 6..=16);
        let lost = Disk::with_image(storage.after_power_loss(1));
        let mut log = file.log(&left);
        log.write(&frame(77, true), offset(6)).unwrap();
        append(&mut log, 7..=8);
        file.checkpoint(&mut log, &mut random);
        assert_eq!(file.log(&lost).refused().unwrap(), Some(Refusal::CutShort));
        assert_eq!(file.log(&left).refused().unwrap(), None);
        append(&mut log, 9..=12);
        assert_eq!(file.log(&left).size().unwrap(), offset(13));
        // Without a link, as an earlier build wrote none, each log that is as long follows.
        let mut state = file.get();
        state.end.link = 0;
        file.set(state);
        assert_eq!(file.log(&lost).refused().unwrap(), None);
    });
}

/// The same with a root and a hint behind that place, which no power loss leaves, but who puts copies together.
#[test]
fn a_hint_does_not_hide_that_a_log_went_on_otherwise() {
    both(|| {
        let (storage, file, mut random) = (Disk::default(), File::new(), SplitMix64::new(2));
        let mut log = file.log(&storage);
        log.write(&header(PAGE, 1), 0).unwrap();
        append(&mut log, 1..=5);
        log.sync().unwrap();
        let copy = Disk::with_image(storage.after_power_loss(1));
        for (way, disk) in [&storage, &copy].into_iter().enumerate() {
            let mut log = file.log(disk);
            log.write(&frame(70 + way as u8, true), offset(6)).unwrap();
            if way == 1 {
                file.checkpoint(&mut log, &mut random);
            }
            for number in 7..=2200 {
                let page = support::noise(&mut random, PAGE);
                let bytes = [&frame(1, true)[..24], &page].concat();
                log.write(&bytes, offset(number)).unwrap();
            }
            log.sync().unwrap();
        }
        let [mut other, its] = [&storage, &copy].map(|disk| disk.after_power_loss(1));
        assert!(other[1024..1088].iter().any(|byte| *byte != 0));
        let refused = |image: &[u8]| file.log(&Disk::with_image(image.to_vec())).refused();
        assert_eq!(refused(&its).unwrap(), None);
        assert_eq!(refused(&other).unwrap(), Some(Refusal::CutShort));
        // The record that the file knows is put into the other one.
        let at = file.get().end.place as usize;
        let len = u32::from_le_bytes(its[at..at + 4].try_into().unwrap()) as usize;
        other[at..at + len].copy_from_slice(&its[at..at + len]);
        if keys().is_some() {
            let found = refused(&other);
            let is_told = matches!(found, Ok(Some(_)) | Err(Error::Damaged { .. }));
            assert!(is_told, "{found:?}");
        }
        // A hint that rots is as none.
        let mut rotten = its;
        rotten[1030] ^= 1;
        assert_eq!(refused(&rotten).unwrap(), None);
    });
}

/// Another process checkpoints and begins the log anew between a look at the file and one at the log, or the other way
/// round: as often as it likes, the log is never refused.
#[test]
fn others_who_go_on_between_two_looks_have_no_log_refused() {
    both(|| {
        let (storage, file) = (Disk::default(), File::new());
        let mut random = SplitMix64::new(3);
        let mut writer = file.log(&storage);
        writer.write(&header(PAGE, 1), 0).unwrap();
        append(&mut writer, 1..=3);
        for round in 0..rounds(400) {
            // The reader's first looks fall before, between and after the steps of others.
            let steps = random.below(4);
            for _ in 0..steps {
                let storage = storage.clone();
                let seed = random.next_u64();
                let step = move |state: &mut FileState| {
                    // All of it, and a new generation after it. The lock on the file's state is held, so by hand.
                    let mut random = SplitMix64::new(seed);
                    let other = File::new();
                    other.set(*state);
                    let mut log = other.log(&storage);
                    if log.size().unwrap() > 32 {
                        other.checkpoint(&mut log, &mut random);
                    }
                    if random.chance(70) {
                        log.write(&header(PAGE, seed), 0).unwrap();
                        append(&mut log, 1..=1 + random.below(3) as u8);
                        if random.chance(50) {
                            other.checkpoint(&mut log, &mut random);
                        }
                    }
                    *state = other.get();
                };
                file.0.lock().unwrap().next.push(Step {
                    is_after: random.chance(50),
                    body: Box::new(step),
                });
            }
            let mut reader = file.log(&storage);
            let refused = reader.refused().unwrap();
            assert_eq!(refused, None, "round {round}");
            assert!(reader.size().unwrap() > 32, "round {round}");
            file.0.lock().unwrap().next.clear();
        }
    });
}

/// The slot of the newest generation rots. What is left is the one before, which the file no longer follows: that is no
/// other database's log.
#[test]
fn rot_of_the_newest_slot_is_damage_and_no_refusal() {
    both(|| {
        let (storage, file, mut random) = (Disk::default(), File::new(), SplitMix64::new(4));
        let mut log = file.log(&storage);
        for generation in 1..=2 {
            log.write(&header(PAGE, generation), 0).unwrap();
            log.sync().unwrap();
            append(&mut log, 1..=4);
            log.sync().unwrap();
            file.checkpoint(&mut log, &mut random);
        }
        append(&mut log, 5..=9);
        log.sync().unwrap();
        let mut image = storage.after_power_loss(0);
        image[512 + 40] ^= 1;
        let rotten = Disk::with_image(image);
        let found = file.log(&rotten).refused();
        assert!(matches!(found, Err(Error::Damaged { .. })), "{found:?}");
    });
}

/// A log that is written over one that is refused, and the power is lost on the way: it is refused still, or begun.
#[test]
fn a_power_loss_while_a_refused_log_is_written_over() {
    both(|| {
        for seed in 0..200 {
            let (storage, file) = (Disk::default(), File::new());
            let mut log = file.log(&storage);
            log.write(&header(PAGE, 1), 0).unwrap();
            append(&mut log, 1..=5);
            log.sync().unwrap();
            file.set(FileState {
                next: 77,
                ..file.get()
            });
            let mut log = file.log(&storage);
            log.write(&header(PAGE, 2), 0).unwrap();
            let is_synced = seed % 2 == 0;
            if is_synced {
                log.sync().unwrap();
                append(&mut log, 1..=2);
            }
            let left = Disk::with_image(storage.after_power_loss(seed));
            let mut log = file.log(&left);
            let refused = log.refused().unwrap();
            assert!(!is_synced || refused.is_none(), "seed {seed}");
            log.write(&header(PAGE, 3), 0).unwrap();
            append(&mut log, 1..=1);
            log.sync().unwrap();
            let left = Disk::with_image(left.after_power_loss(seed));
            let found = content_of(&mut file.log(&left), PAGE).unwrap();
            assert_eq!(found.len() as u64, offset(2), "seed {seed}");
        }
    });
}
