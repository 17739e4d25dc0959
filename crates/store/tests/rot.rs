//! Rot at any moment: bits flip in the file of a killed process, of one that is alive and idle, or of a machine that
//! lost power. A process that opens the file then gets the right content or an error: never a commit that is older than
//! one that a flush returned for.
//!
//! Every run prints its seed when it fails; LITEPACK_SEED runs one seed, LITEPACK_LONG many more.

mod support;

use std::ops::Range;

use litepack_io::testing::CrashingStorage;
use litepack_store::{Result, Store};
use rand::rngs::StdRng as SmallRng;
use rand::{RngExt, SeedableRng};
use support::{at_once, encrypt_some, open, options, seeds};

const PAGE: usize = 4096;
/// Slots and marks (docs/format.md).
const HEAD: Range<usize> = 512..1856;
const MARKS: [usize; 2] = [1536, 1792];

/// All of a file's content, by a handle that is new to it.
fn content(image: Vec<u8>) -> Result<Vec<u8>> {
    let mut store = Store::open(CrashingStorage::with_image(image), options())?;
    store.refresh()?;
    let mut bytes = vec![0; store.size() as usize];
    store.read(0, &mut bytes)?;
    Ok(bytes)
}

/// One damage, or two at once.
fn rot(rng: &mut SmallRng, image: &mut [u8]) -> String {
    let mut done = String::new();
    for _ in 0..rng.random_range(1..=2) {
        // Half of them where they hurt: anywhere, the head has few bytes.
        let at = match rng.random_range(0..6) {
            0..3 => rng.random_range(0..image.len()),
            3..5 => rng.random_range(HEAD),
            _ => {
                // A sector, or two, of nothing.
                let from = rng.random_range(1..image.len().div_ceil(512)) * 512;
                let stop = (from + 512 * rng.random_range(1..=2)).min(image.len());
                image[from..stop].fill(0);
                done += &format!(" zeros {from}..{stop}");
                continue;
            }
        };
        let bit = rng.random_range(0..8);
        image[at] ^= 1 << bit;
        done += &format!(" byte {at} bit {bit}");
    }
    done
}

/// The newest commit that a mark of this image vouches for.
fn marked(image: &[u8]) -> u64 {
    let seq = |at: usize| {
        image
            .get(at + 8..at + 16)
            .map_or([0; 8], |b| b.try_into().unwrap())
    };
    MARKS
        .into_iter()
        .map(|at| u64::from_le_bytes(seq(at)))
        .max()
        .unwrap_or(0)
}

/// The contents that the file may hold.
#[derive(Default)]
struct Model {
    current: Vec<u8>,
    /// The last flushed content, and all committed since.
    possible: Vec<Vec<u8>>,
    /// The contents possible before the last flush.
    former: Vec<Vec<u8>>,
    /// The last flushed commit.
    flushed: u64,
}

impl Model {
    fn flush(&mut self, seq: u64) {
        self.former = std::mem::replace(&mut self.possible, vec![self.current.clone()]);
        self.flushed = seq;
    }
}

fn judge(image: Vec<u8>, model: &Model, may_be_former: bool, context: &str) -> bool {
    let Ok(found) = content(image) else {
        return false;
    };
    let right = model.possible.contains(&found) || may_be_former && model.former.contains(&found);
    assert!(
        right,
        "{context}: {} bytes that are silently wrong",
        found.len()
    );
    true
}

fn run(seed: u64, steps: usize) -> (usize, usize) {
    encrypt_some(seed);
    let mut rng = SmallRng::seed_from_u64(seed);
    let disk = CrashingStorage::default();
    let mut store = open(&disk);
    let mut model = Model::default();
    model.possible.push(Vec::new());
    let (mut answered, mut refused) = (0, 0);
    for step in 0..steps {
        for _ in 0..rng.random_range(1..6) {
            let offset = rng.random_range(0..30) * PAGE;
            let mut page = vec![0; PAGE];
            rng.fill(&mut page[..]);
            store.write(offset as u64, &page).unwrap();
            let len = model.current.len().max(offset + PAGE);
            model.current.resize(len, 0);
            model.current[offset..offset + PAGE].copy_from_slice(&page);
        }
        store.commit().unwrap();
        model.possible.push(model.current.clone());
        match rng.random_range(0..10) {
            0..6 => {
                store.flush().unwrap();
                model.flush(store.seq());
            }
            6 => {
                store.flush_for_good().unwrap();
                model.flush(store.seq());
            }
            7 => {
                store.flush_both_slots().unwrap();
                model.flush(store.seq());
            }
            // Not flushed, and another handle goes on: it flushes first.
            8 => store = open(&disk),
            _ => {}
        }
        for round in 0..6_u64 {
            // 0 loses all that was not flushed; 1 nothing, as when the process alone is killed, or lives on.
            let loss = if round < 3 {
                1
            } else {
                round * 7919 + step as u64
            };
            let mut image = disk.after_power_loss(loss);
            // Only if the power was lost before anything later reached the disk, even the mark, it may be the commit
            // before. The mark counts as it was before it rotted.
            let may_be_former = loss != 1 && marked(&image) < model.flushed;
            let done = rot(&mut rng, &mut image);
            let context = format!("seed {seed}, step {step}, loss {loss}:{done}");
            if judge(image, &model, may_be_former, &context) {
                answered += 1;
            } else {
                refused += 1;
            }
        }
    }
    (answered, refused)
}

#[test]
fn rot_is_the_right_answer_or_an_error() {
    let counts = at_once(&seeds(40, 3000), |&seed| run(seed, 20));
    let (answered, refused) = counts
        .into_iter()
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    println!("{answered} right answers, {refused} errors");
    assert!(answered > 0 && refused > 0, "this shows nothing");
}

/// A commit of which the mark is durable is never dropped, even if the power is lost and nothing later has reached the
/// disk.
#[test]
fn what_is_flushed_for_good_never_falls_back() {
    at_once(&seeds(60, 2000), |&seed| {
        encrypt_some(seed);
        let mut rng = SmallRng::seed_from_u64(seed);
        let disk = CrashingStorage::default();
        let mut store = open(&disk);
        for byte in 1..4 {
            for unit in 0..3 {
                store.write(unit * PAGE as u64, &[byte; PAGE]).unwrap();
            }
            store.flush_for_good().unwrap();
        }
        for _ in 0..10 {
            let mut image = disk.after_power_loss(0);
            let done = rot(&mut rng, &mut image);
            if let Ok(found) = content(image) {
                assert!(
                    found == [3; 3 * PAGE],
                    "seed {seed}:{done}: an older commit"
                );
            }
        }
    });
}

/// After it was up to date, a file has its newest commit twice: no damage of one slot makes it older, or empty.
#[test]
fn a_settled_file_survives_the_loss_of_a_slot() {
    let disk = CrashingStorage::default();
    let mut store = open(&disk);
    store.write(0, &[7; PAGE]).unwrap();
    store.flush_both_slots().unwrap();
    for slot in [512, 1024] {
        let mut image = disk.after_power_loss(1);
        image[slot..slot + 512].fill(0);
        assert_eq!(content(image).unwrap(), [7; PAGE]);
    }
    // With both marks gone, too, nothing says that nothing newer was in that slot.
    for slot in [512, 1024] {
        let mut image = disk.after_power_loss(1);
        image[slot..slot + 512].fill(0);
        image[1536..2048].fill(0);
        assert!(content(image).is_err());
    }
}

/// The mark that nothing depends on at the moment is one that the next accident needs.
#[test]
fn a_check_notices_each_flipped_bit_of_the_older_mark() {
    let disk = CrashingStorage::default();
    let mut store = open(&disk);
    for byte in [1, 2, 3] {
        store.write(0, &[byte; PAGE]).unwrap();
        store.flush().unwrap();
    }
    drop(store.close());
    let image = disk.after_power_loss(1);
    let damage = |image: Vec<u8>| {
        let mut store = Store::open(CrashingStorage::with_image(image), options()).unwrap();
        store.check(&mut |_| Ok(())).unwrap().damage
    };
    assert!(damage(image.clone()).is_empty());
    let seq = |mark: usize| u64::from_le_bytes(image[mark + 8..][..8].try_into().unwrap());
    let older = MARKS.into_iter().min_by_key(|mark| seq(*mark)).unwrap();
    for bit in (0..64 * 8).step_by(37) {
        let mut image = image.clone();
        image[older + bit / 8] ^= 1 << (bit % 8);
        let found = damage(image);
        assert_eq!(found.len(), 1, "bit {bit}: {found:?}");
        assert_eq!(
            (&*found[0].what, found[0].offset.0),
            ("mark of durability", older as u64)
        );
    }
}

/// The first commit of a file is that of an empty database: damage must not bring it back.
#[test]
fn two_damages_make_no_empty_database() {
    let disk = CrashingStorage::default();
    let mut store = open(&disk);
    store.write(0, &[7; PAGE]).unwrap();
    store.flush().unwrap();
    drop(store.close());
    let image = disk.after_power_loss(1);
    let expect = |image: Vec<u8>, what: &str| {
        let found = content(image);
        let fine = found.as_ref().map_or(true, |found| *found == [7; PAGE]);
        assert!(fine, "{what}: {} bytes", found.unwrap().len());
    };
    for (a, b) in [(1030, 1540), (1030, 1800), (600, 1540), (1100, 1850)] {
        let mut image = image.clone();
        image[a] ^= 1;
        image[b] ^= 4;
        expect(image, &format!("bits at {a} and {b}"));
    }
    let mut zeroed = image.clone();
    zeroed[1024..2048].fill(0);
    expect(zeroed, "zeros from slot B on");
    let mut inserted = image.clone();
    inserted.splice(900..900, [0; 512]);
    expect(inserted, "512 bytes more");
    let lengths: Vec<usize> = (1..image.len()).collect();
    at_once(&lengths, |&len| {
        expect(image[..len].to_vec(), &format!("cut to {len} bytes"));
    });
}
