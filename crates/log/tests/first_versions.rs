//! First versions that stand on a commit of the file: what others take of the file, and a power loss, leaves each that
//! is read as it was written.

mod support;

use std::collections::HashMap;

use litepack_io::random::SplitMix64;
use litepack_io::storage::ReadAt;
use litepack_log::{BoundTo, Error, FileState, Log, Needed, Synced};
use support::{
    Disk, Driver, File, Op, both, content_of, header, is_damage, keys, noise, rounds, seal_some,
};

const PAGE: usize = 512;

fn offset(number: u64) -> u64 {
    32 + (number - 1) * (PAGE as u64 + 24)
}

/// A frame that ends a transaction, of this page.
fn frame(page: u32, content: &[u8]) -> Vec<u8> {
    [&page.to_be_bytes()[..], &[0, 0, 0, 1], &[7; 16], content].concat()
}

fn log(storage: &Disk, file: &File) -> Log<Disk> {
    Log::bound(storage.clone(), Box::new(file.clone())).with_keys(keys())
}

/// Noise for pages 1 to 3, and a file with them.
fn file() -> (HashMap<u32, Vec<u8>>, File) {
    let mut random = SplitMix64::new(1);
    let pages: HashMap<_, _> = (1..=3)
        .map(|page| (page, noise(&mut random, PAGE)))
        .collect();
    (pages.clone(), File::new(1, pages))
}

/// A log that stands on [`file`], with a first version of page 2, which is returned, too.
fn begun() -> (Disk, File, Log<Disk>, Vec<u8>) {
    let (storage, (pages, file)) = (Disk::default(), file());
    let mut writer = log(&storage, &file);
    writer.write(&header(PAGE, 1), 0).unwrap();
    let mut changed = pages[&2].clone();
    changed[100] ^= 1;
    writer.write(&frame(2, &changed), offset(1)).unwrap();
    (storage, file, writer, changed)
}

/// The pages of all frames.
fn pages_of(content: &[u8]) -> HashMap<u32, Vec<u8>> {
    let frames = content.get(32..).unwrap_or_default().chunks(PAGE + 24);
    let page = |frame: &[u8]| u32::from_be_bytes(frame[..4].try_into().unwrap());
    frames
        .map(|frame| (page(frame), frame[24..].to_vec()))
        .collect()
}

/// The commit in each slot, by its seq; 0 for none.
fn slots(storage: &Disk) -> [u64; 2] {
    [0, 512].map(|offset| {
        let mut slot = [0; 384];
        storage.read_at(&mut slot, offset).unwrap();
        match slot[8] {
            3 | 4 => u64::from_le_bytes(slot[104..112].try_into().unwrap()),
            _ => 0,
        }
    })
}

#[test]
fn a_first_version_takes_what_changed_since_the_commit_and_stands_on_no_other_page() {
    both(|| {
        let (storage, file, mut writer, mut changed) = begun();
        let (_, end, _) = writer.reached();
        assert!(end.place < 4096 + 120, "{end:?}");
        // A page that the commit does not have, one that is another one, and a later version.
        let other = noise(&mut SplitMix64::new(2), PAGE);
        writer.write(&frame(9, &other), offset(2)).unwrap();
        writer.write(&frame(3, &other), offset(3)).unwrap();
        changed[101] ^= 1;
        writer.write(&frame(2, &changed), offset(4)).unwrap();
        writer.sync().unwrap();
        let written = content_of(&mut writer, PAGE).unwrap();
        assert_eq!(written[offset(4) as usize + 24..], changed);
        assert!(content_of(&mut log(&storage, &file), PAGE).unwrap() == written);
        // Without the file, and with one whose commit is no longer there, or has another page.
        let alone = content_of(&mut Log::new(storage.clone()).with_keys(keys()), PAGE);
        assert!(matches!(alone, Err(Error::NoFile)));
        let taken = File::new(1, HashMap::new());
        let found = content_of(&mut log(&storage, &taken), PAGE);
        assert!(is_damage(&found));
        let others = File::new(1, HashMap::from([(2, vec![1; PAGE])]));
        let found = content_of(&mut log(&storage, &others), PAGE);
        assert!(is_damage(&found));
    });
}

/// SQLite takes pages from its free list without reading them. What the file has of such a page is of no use.
#[test]
fn pages_that_do_not_serve_are_not_read_from_the_disk_each_time() {
    for is_at_hand in [false, true] {
        let mut random = SplitMix64::new(3);
        let count = 1100;
        let pages: HashMap<_, _> = (1..=count)
            .map(|page| (page, noise(&mut random, PAGE)))
            .collect();
        let (storage, file) = (Disk::default(), File::new(1, pages.clone()));
        file.is_at_hand(is_at_hand);
        let mut writer = log(&storage, &file);
        writer.write(&header(PAGE, 1), 0).unwrap();
        let mut stand = 0;
        for page in 1..=count {
            let (_, before, _) = writer.reached();
            let serves = page % 11 == 0;
            let content = match serves {
                true => [&[1], &pages[&page][1..]].concat(),
                false => noise(&mut random, PAGE),
            };
            (writer.write(&frame(page, &content), offset(u64::from(page)))).unwrap();
            let (_, after, _) = writer.reached();
            stand += usize::from(after.place < before.place + 200);
        }
        match is_at_hand {
            true => assert_eq!((file.pages_read(), stand), (0, count as usize / 11)),
            false => assert!((10..300).contains(&file.pages_read())),
        }
    }
}

/// Changes all over a page may take more than the page.
#[test]
fn a_page_that_compresses_to_less_than_its_changes_is_stored_alone() {
    both(|| {
        let size = 4096;
        let text = |word: &[u8]| [word].repeat(size / word.len()).concat();
        let before = text(b"one word and ano");
        let (storage, file) = (
            Disk::default(),
            File::new(1, HashMap::from([(2, before.clone())])),
        );
        let mut writer = log(&storage, &file);
        writer.write(&header(size, 1), 0).unwrap();
        let (mut content, mut expected) = (before, Vec::new());
        for (frames, other) in [b"this", b"that"].into_iter().enumerate() {
            let (_, from, _) = writer.reached();
            for place in (0..size).step_by(64) {
                content[place..place + 12].copy_from_slice(&text(other)[..12]);
            }
            let at = 32 + frames * (size + 24);
            writer.write(&frame(2, &content), at as u64).unwrap();
            let (_, to, _) = writer.reached();
            assert!(to.place < from.place.max(4096) + 400, "{from:?} {to:?}");
            expected.push((at + 24, content.clone()));
        }
        let found = content_of(&mut log(&storage, &file), size).unwrap();
        for (at, content) in expected {
            assert!(found[at..at + size] == content);
        }
    });
}

/// The first block of the file is as it was, on a disk that lies: no generation begins after another state than that
/// which the transaction follows.
#[test]
fn a_generation_does_not_begin_after_another_state_of_the_file() {
    /// After so many looks at the file's state.
    fn refuse_after(looks: usize, file: &File) {
        match looks {
            0 => file.refuse(),
            looks => file.before_the_next_state(move |file| refuse_after(looks - 1, file)),
        }
    }
    both(|| {
        let mut refused = 0;
        for looks in 1..8 {
            let (storage, file, mut writer, changed) = begun();
            file.checkpoint(&mut writer, HashMap::from([(2, changed.clone())]));
            refuse_after(looks, &file);
            match writer.write(&header(PAGE, 2), 0) {
                Ok(()) => continue,
                Err(error) => assert!(matches!(error, Error::Io(_)), "{error}"),
            }
            refused += 1;
            let found = content_of(&mut log(&storage, &file), PAGE).unwrap();
            assert!(found.is_empty());
            // It does not matter to those who come after.
            file.flush();
            writer.write(&header(PAGE, 3), 0).unwrap();
            writer.write(&frame(2, &changed), offset(1)).unwrap();
            let found = content_of(&mut log(&storage, &file), PAGE).unwrap();
            assert_eq!(found.len(), PAGE + 56);
        }
        assert!(refused > 0);
    });
}

/// A commit does not fail because a page of the file cannot be read, or because that is interrupted.
#[test]
fn who_writes_needs_no_page_of_the_file() {
    both(|| {
        let (storage, file, _writer, mut changed) = begun();
        let (pages, _) = self::file();
        // Another one has not kept what that stands on.
        let mut other = log(&storage, &file);
        other.size().unwrap();
        file.fail(true);
        assert!(other.read(&mut [0; PAGE], offset(1) + 24).is_err());
        changed[101] ^= 1;
        other.write(&frame(2, &changed), offset(2)).unwrap();
        other.write(&frame(3, &pages[&3]), offset(3)).unwrap();
        file.fail(false);
        let found = content_of(&mut log(&storage, &file), PAGE).unwrap();
        assert_eq!(found[offset(2) as usize + 24..][..PAGE], changed);
        assert_eq!(found[offset(3) as usize + 24..], pages[&3]);
    });
}

#[test]
fn a_generation_stands_on_a_commit_that_was_the_newest_when_it_had_said_so() {
    /// Who begins looks at the state of the file, then which commit is the newest, and at the state again.
    fn between(file: &File, step: impl FnOnce(&File) + Send + 'static) {
        file.before_the_next_state(move |file| file.before_the_next_state(step));
    }
    both(|| {
        let (storage, (_, file)) = (Disk::default(), file());
        let mut writer = log(&storage, &file);
        writer.write(&header(PAGE, 1), 0).unwrap();
        assert_eq!(slots(&storage), [1, 0]);
        // Two commits between the first look and the slot: the second one takes what the first look has found.
        let disk = storage.clone();
        between(&file, move |file| {
            for _ in 0..2 {
                file.maintain(&mut log(&disk, file));
                file.flush();
            }
        });
        writer.write(&header(PAGE, 2), 0).unwrap();
        assert_eq!(file.newest(), 3);
        assert_eq!(
            slots(&storage),
            [3, 1],
            "another generation, in the other slot"
        );
        let (mut one, mut two) = (log(&storage, &file), log(&storage, &file));
        let read = content_of(&mut one, PAGE).unwrap();
        assert!(read == header(PAGE, 2));
        // As often as others like.
        for _ in 0..20 {
            let disk = storage.clone();
            between(&file, move |file| {
                file.maintain(&mut log(&disk, file));
                file.flush();
            });
            writer.write(&header(PAGE, 3), 0).unwrap();
        }
        assert!(content_of(&mut two, PAGE).unwrap() == header(PAGE, 3));
    });
}

#[test]
fn all_that_a_log_needs_is_told_and_durable() {
    both(|| {
        let (storage, (_, file)) = (Disk::default(), file());
        let mut other = log(&storage, &file);
        let syncs = |what: &mut dyn FnMut()| {
            let before = storage.calls();
            what();
            storage.syncs_since(before)
        };
        let mut needed = Needed::Everything;
        // An empty one: each time, as others may have come and gone.
        for _ in 0..2 {
            assert_eq!(syncs(&mut || needed = other.needed().unwrap()), 1);
            assert_eq!(needed, Needed::Nothing);
        }
        let mut writer = log(&storage, &file);
        writer.write(&header(PAGE, 1), 0).unwrap();
        for expected in [1, 0] {
            assert_eq!(syncs(&mut || needed = other.needed().unwrap()), expected);
            assert_eq!(needed, Needed::Commit(File::record(1)));
        }
        let left = Disk::with_image(storage.after_power_loss(0));
        assert_eq!(slots(&left), [1, 0]);
        // A commit that it does not follow: until that is durable a power loss may leave the one that it follows.
        file.refuse();
        assert_eq!(other.needed().unwrap(), Needed::Everything);
        file.flush();
        assert_eq!(other.needed().unwrap(), Needed::Nothing);
        // The next generation: of a commit without a mark none stands on it.
        let mut writer = log(&storage, &file);
        writer.write(&header(PAGE, 2), 0).unwrap();
        assert_eq!(slots(&storage), [2, 0], "what was refused is cut off");
        file.maintain(&mut other);
        writer.write(&header(PAGE, 3), 0).unwrap();
        assert_eq!(slots(&storage), [2, 0]);
        assert_eq!(syncs(&mut || needed = other.needed().unwrap()), 1);
        assert_eq!(needed, Needed::Nothing);
        writer.truncate(0).unwrap();
        assert_eq!(syncs(&mut || needed = other.needed().unwrap()), 1);
        assert_eq!(needed, Needed::Nothing);
        assert!(storage.after_power_loss(0).is_empty());
        // Of one that is damaged, or was there in the midst of a checkpoint, anything may be needed.
        let image = [&[1; 384][..], &[0; 3712], &[1; 100]].concat();
        let torn = Disk::with_image([&image[..4096], &[0; 100]].concat());
        assert_eq!(log(&torn, &file).needed().unwrap(), Needed::Nothing);
        let mut broken = log(&Disk::with_image(image), &file);
        assert_eq!(broken.needed().unwrap(), Needed::Everything);
        let state = BoundTo::state(&file).unwrap().map(|state| FileState {
            is_unfinished: true,
            ..state
        });
        let mut missing = Log::bound(Disk::default(), Box::new(state)).with_keys(keys());
        assert_eq!(missing.needed().unwrap(), Needed::Everything);
        // A WAL as SQLite has it stands on nothing.
        let wal = Disk::with_image(header(PAGE, 1).to_vec());
        assert_eq!(log(&wal, &file).needed().unwrap(), Needed::Nothing);
    });
}

#[test]
fn the_head_is_durable_before_the_next_slot() {
    both(|| {
        let (storage, (_, file)) = (Disk::default(), file());
        let mut writer = log(&storage, &file);
        for number in 1..5 {
            writer.write(&header(PAGE, number), 0).unwrap();
            let durable = Disk::with_image(storage.after_power_loss(0));
            let [a, b] = slots(&durable);
            assert_eq!((a > 0, b > 0), (number > 1, number > 2));
        }
        // A cut, also where the next one stands on nothing.
        for number in [9, 10] {
            writer.sync().unwrap();
            writer.truncate(0).unwrap();
            if number == 10 {
                file.refuse();
            }
            writer.write(&header(PAGE, number), 0).unwrap();
            assert_eq!(slots(&storage)[0] > 0, number == 9);
            assert!(storage.after_power_loss(0).is_empty());
        }
    });
}

#[test]
fn no_sync_is_believed_until_what_a_failed_one_gave_up_is_written_again() {
    both(|| {
        let (storage, (_, file)) = (Disk::default(), file());
        let synced = Synced::default();
        let mut writer = log(&storage, &file).with_synced(synced.clone());
        let mut other = log(&storage, &file).with_synced(synced);
        writer.write(&header(PAGE, 1), 0).unwrap();
        storage.fail(storage.calls(), storage.calls() + 1);
        assert!(matches!(other.needed(), Err(Error::Io(_))));
        storage.fail(0, 0);
        storage.forget();
        for _ in 0..2 {
            assert_eq!(other.needed().unwrap(), Needed::Everything);
            assert_eq!(other.seems_needed().unwrap(), Needed::Everything);
        }
        writer.sync().unwrap();
        assert_eq!(
            slots(&Disk::with_image(storage.after_power_loss(0))),
            [1, 0]
        );
        assert_eq!(other.needed().unwrap(), Needed::Commit(File::record(1)));
        // A cut that was given up.
        writer.truncate(0).unwrap();
        storage.fail(storage.calls(), storage.calls() + 1);
        assert!(other.needed().is_err());
        storage.fail(0, 0);
        storage.forget();
        writer.sync().unwrap();
        assert_eq!(other.needed().unwrap(), Needed::Nothing);
        assert_eq!(
            slots(&Disk::with_image(storage.after_power_loss(0))),
            [0, 0]
        );
    });
}

/// A file and its log that are written, and all contents that may be found after a power loss.
struct Run {
    storage: Disk,
    file: File,
    synced: Synced,
    writer: Log<Disk>,
    driver: Driver,
    states: Vec<Vec<u8>>,
    random: SplitMix64,
}

impl Run {
    fn new(seed: u64) -> Run {
        let (storage, file) = (Disk::default(), File::new(seed, HashMap::new()));
        let synced = Synced::default();
        storage.fail_badly();
        Run {
            writer: log(&storage, &file).with_synced(synced.clone()),
            synced,
            driver: Driver::new(seed, PAGE),
            states: vec![Vec::new()],
            random: SplitMix64::new(seed ^ 0xf1),
            storage,
            file,
        }
    }

    /// The same from what a power loss has left.
    fn go_on(&mut self, storage: Disk, file: File, found: Vec<u8>) {
        storage.fail_badly();
        self.synced = Synced::default();
        self.writer = log(&storage, &file).with_synced(self.synced.clone());
        self.driver.go_on(&found);
        (self.storage, self.file, self.states) = (storage, file, vec![found]);
    }

    fn other(&self) -> Log<Disk> {
        log(&self.storage, &self.file).with_synced(self.synced.clone())
    }

    fn checkpoint(&mut self, content: &[u8]) {
        if !content.is_empty() {
            self.writer.sync().unwrap();
            self.states = vec![content.to_vec()];
            self.file.checkpoint(&mut self.writer, pages_of(content));
        }
    }

    fn step(&mut self) {
        match self.random.below(30) {
            0..3 => {
                let mut other = self.other();
                self.file.maintain(&mut other);
            }
            3..7 => self.file.flush(),
            7 => {
                // In the midst of what the writer does next.
                let (disk, synced) = (self.storage.clone(), self.synced.clone());
                let times = 1 + self.random.below(2);
                self.file.before_the_next_state(move |file| {
                    for _ in 0..times {
                        file.maintain(&mut log(&disk, file).with_synced(synced.clone()));
                        file.flush();
                    }
                });
            }
            8 => {
                let at = self.storage.calls();
                self.storage.fail(at, at + 1);
                let _ = self.other().needed();
                self.storage.fail(0, 0);
            }
            9 if self.driver.is_between() => {
                let content = self.driver.readable().to_vec();
                self.checkpoint(&content);
            }
            _ => {}
        }
        let before = self.driver.readable().to_vec();
        let op = self.driver.next();
        if matches!(op, Op::Write(_, 0) | Op::Truncate(0)) {
            // All of it is in the file then.
            self.checkpoint(&before);
        }
        op.run(&mut self.writer).unwrap();
        if matches!(op, Op::Sync) {
            self.states.clear();
        }
        let readable = self.driver.readable().to_vec();
        if self.states.last() != Some(&readable) {
            self.states.push(readable);
        }
    }

    /// Opens what a power loss leaves.
    fn after_power_loss(&self, loss: u64, context: &str) -> (Disk, File, Vec<u8>) {
        let storage = Disk::with_image(self.storage.after_power_loss(loss));
        let file = self.file.after_power_loss(loss);
        let mut found = log(&storage, &file);
        let content = content_of(&mut found, PAGE).unwrap_or_else(|e| panic!("{context}: {e}"));
        assert!(
            self.states.contains(&content),
            "{context}: {} bytes are none of {:?}, {:?}",
            content.len(),
            self.states.iter().map(Vec::len).collect::<Vec<_>>(),
            found.was_refused()
        );
        (storage, file, content)
    }
}

#[test]
fn whatever_others_take_and_a_power_loss_leaves_each_version_is_read() {
    let mut stood = 0;
    for seed in 0..rounds(30) {
        seal_some(seed);
        let mut run = Run::new(seed);
        let mut reader = run.other();
        for call in 0..600 {
            run.step();
            let context = format!("seed {seed}, call {call}");
            stood += usize::from(slots(&run.storage) != [0, 0]);
            if run.random.chance(20) {
                for loss in [0, 1, run.random.next_u64() | 2, run.random.next_u64() | 2] {
                    run.after_power_loss(loss, &format!("{context}, loss {loss}"));
                }
            }
            if run.random.chance(10) && run.driver.is_between() {
                let found = content_of(&mut reader, PAGE).unwrap();
                assert!(found == run.driver.readable(), "{context}");
            }
            if run.random.chance(1) {
                let loss = run.random.next_u64() | 2;
                let (storage, file, found) = run.after_power_loss(loss, &context);
                run.go_on(storage, file, found);
                reader = run.other();
            }
        }
    }
    assert!(stood > 5000, "{stood}");
}
