//! What a sealed log promises besides what each log does: nothing of it can be read or changed without the key, and no
//! two messages have one nonce. (The nonces are looked at in `support/disk.rs`, in the other tests, too.)

mod support;

use std::sync::Arc;

use litepack_cipher::Keys;
use litepack_io::random::SplitMix64;
use litepack_io::storage::ReadAt;
use litepack_log::{End, Error, FileKind, FileState, Log, Refusal};
use support::{
    Disk, Driver, both, content_of, header, keys, keys_of, log, seal, sealed, watch_for,
};

const PAGE: usize = 512;

fn offset(number: u64) -> u64 {
    32 + (number - 1) * (PAGE as u64 + 24)
}

fn frame(content: u8) -> Vec<u8> {
    [&[0, 0, 0, 1, 0, 0, 0, 1][..], &[content; PAGE + 16]].concat()
}

/// A log with so many frames, each a commit, the first so many of them synced.
fn written(frames: u8, synced: u8) -> Disk {
    let disk = Disk::default();
    let mut log = log(disk.clone());
    log.write(&header(PAGE, 1), 0).unwrap();
    for number in 1..=frames {
        log.write(&frame(number), offset(number.into())).unwrap();
        if number == synced {
            log.sync().unwrap();
        }
    }
    disk
}

#[test]
fn nothing_of_what_is_written_is_in_the_file() {
    seal(true);
    let text = b"a canary that nobody may see";
    watch_for(text);
    let mut random = SplitMix64::new(1);
    let disk = Disk::default();
    let mut log = log(disk.clone());
    log.write(&header(4096, 1), 0).unwrap();
    let page_len = 4096;
    let (mut last, mut frames) = (vec![0; page_len], 0);
    for number in 0..10_000_u64 {
        // As it is, compressed, and as a change to the one before; some are written over.
        let mut page = match number % 4 {
            0 => support::noise(&mut random, page_len),
            1 => text.iter().cycle().take(page_len).copied().collect(),
            _ => last.clone(),
        };
        let at = random.below((page_len - text.len()) as u64) as usize;
        page[at..at + text.len()].copy_from_slice(text);
        let mut frame = header(page_len, 1)[8..32].to_vec();
        frame[..4].copy_from_slice(&(1 + number as u32 % 900).to_be_bytes());
        frame[4..8].copy_from_slice(&1_u32.to_be_bytes());
        frame.extend(&page);
        frames += u64::from(number % 7 != 6);
        let place = 32 + (frames - 1) * (page_len as u64 + 24);
        log.write(&frame, place).unwrap();
        if number % 1000 == 0 {
            log.sync().unwrap();
        }
        last = page;
    }
    let content = content_of(&mut log, page_len).unwrap();
    assert!(content.windows(text.len()).any(|bytes| bytes == text));
    assert!(sealed().0 > 10_000);
}

/// Not each writer of a transaction has a salt, but each handle has one in each generation.
#[test]
fn handles_that_take_turns_have_a_salt_each() {
    seal(true);
    let disk = Disk::default();
    let mut logs = [(); 3].map(|()| log(disk.clone()));
    for generation in 1..=3 {
        logs[0].write(&header(PAGE, generation), 0).unwrap();
        for number in 1..=30 {
            let writer = &mut logs[number as usize % 3];
            writer.write(&frame(number), offset(number.into())).unwrap();
        }
        let (messages, salts) = sealed();
        assert_eq!(
            (messages as u64, salts as u64),
            (30 * generation, 3 * generation)
        );
        let content: Vec<u8> = (1..=30).flat_map(frame).collect();
        for log in &mut logs {
            assert!(content_of(log, PAGE).unwrap()[32..] == content);
        }
    }
}

/// Whoever finds the log anew seals with another salt: after a failed write, and after a power loss in each of two copies
/// of what is left.
#[test]
fn who_finds_the_log_anew_has_another_salt() {
    seal(true);
    let disk = written(3, 3);
    assert_eq!(sealed().1, 1);
    let mut first = log(disk.clone());
    let at = disk.calls();
    disk.fail(at, at + 2);
    first.write(&frame(4), offset(4)).unwrap_err();
    disk.fail(0, 0);
    first.write(&frame(5), offset(4)).unwrap();
    assert_eq!(
        sealed().1,
        3,
        "that of the write that failed is another one"
    );
    for loss in [0, 0, 1, 1] {
        let left = Disk::with_image(disk.after_power_loss(loss));
        log(left).write(&frame(6), offset(4)).unwrap();
    }
    assert_eq!(sealed().1, 7);
}

/// A log of some 30 frames: its file up to the last record, its content, and that after each write.
fn short_log() -> (Vec<u8>, Vec<u8>, Vec<Vec<u8>>) {
    for seed in 0.. {
        let disk = Disk::default();
        let mut writer = log(disk.clone());
        let mut driver = Driver::new(seed, PAGE);
        let mut states = vec![Vec::new()];
        while states.len() < 60 || !driver.is_between() {
            driver.next().run(&mut writer).unwrap();
            states.push(driver.readable().to_vec());
        }
        writer.sync().unwrap();
        let mut image = disk.after_power_loss(1);
        image.truncate(image.iter().rposition(|byte| *byte != 0).unwrap() + 1);
        let content = driver.readable().to_vec();
        if (15..40).contains(&(content.len() / PAGE)) {
            return (image, content, states);
        }
    }
    unreachable!()
}

/// Each bit of the file flips, one at a time. States are those after each write.
#[test]
fn a_bit_that_flips_is_an_error_or_an_earlier_state_or_nothing() {
    seal(true);
    let (image, content, states) = short_log();
    let end = image.len();
    let (mut errors, mut earlier) = (0, 0);
    // Of the records all at both ends, and some in the midst.
    let is_chosen = |byte: &usize| {
        *byte < 1100 || (4096..4700).contains(byte) || *byte + 300 > end || byte.is_multiple_of(41)
    };
    for bit in (0..end)
        .filter(is_chosen)
        .flat_map(|byte| byte * 8..byte * 8 + 8)
    {
        let mut changed = image.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        match content_of(&mut log(Disk::with_image(changed)), PAGE) {
            Ok(found) if found == content => {}
            Ok(found) => {
                assert!(states.contains(&found), "bit {bit}");
                earlier += 1;
            }
            Err(Error::Damaged { .. }) => errors += 1,
            Err(error) => panic!("bit {bit}: {error}"),
        }
    }
    assert!(errors > 100 && earlier > 100, "{errors}, {earlier}");
}

/// The first record has the salt of all others. If it rots, what a later one says of it can be read still.
#[test]
fn rot_of_a_salt_is_damage_once_it_was_synced() {
    seal(true);
    let image = written(5, 4).after_power_loss(1);
    for at in 4096..4096 + 40 {
        let mut rotten = image.clone();
        rotten[at] ^= 4;
        let found = log(Disk::with_image(rotten)).size();
        assert!(
            matches!(found, Err(Error::Damaged { .. })),
            "{at}: {found:?}"
        );
    }
    // Else it is taken for torn off.
    let mut rotten = written(5, 0).after_power_loss(1);
    rotten[4100] ^= 4;
    assert_eq!(log(Disk::with_image(rotten)).size().unwrap(), 32);
}

/// Frames of noise, so many that there is a root and a hint, once they are synced.
const TO_A_ROOT: u64 = 2100;

fn noise(random: &mut SplitMix64) -> Vec<u8> {
    [&frame(1)[..24], &support::noise(random, PAGE)].concat()
}

/// Whether a reader begins at a root.
fn has_hint(image: &[u8]) -> bool {
    image[1024..1088].iter().any(|byte| *byte != 0)
}

/// A power loss took a record, another session wrote at its place, and then who had kept it puts it back there. Who begins
/// at the hint does not see that the one behind it follows another.
#[test]
fn a_record_that_was_cut_off_is_not_taken_at_its_place() {
    seal(true);
    let mut random = SplitMix64::new(7);
    let disk = written(5, 5);
    let image = disk.after_power_loss(1);
    let tail = image.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let lost = {
        let disk = Disk::with_image(image.clone());
        let mut log = log(disk.clone());
        (6..=8).for_each(|number| log.write(&noise(&mut random), offset(number)).unwrap());
        disk.after_power_loss(1)
    };
    let disk = Disk::with_image(image);
    let mut log_ = log(disk.clone());
    let mut frames = Vec::new();
    for number in 6..=TO_A_ROOT {
        frames.push(noise(&mut random));
        log_.write(frames.last().unwrap(), offset(number)).unwrap();
    }
    log_.sync().unwrap();
    let mut image = disk.after_power_loss(1);
    assert!(has_hint(&image));
    let read = |image: &[u8], number: u64| {
        let (mut log, mut bytes) = (log(Disk::with_image(image.to_vec())), frame(0));
        log.read(&mut bytes, offset(number)).map(|_| bytes)
    };
    assert!(read(&image, 6).unwrap() == frames[0]);
    let len = u32::from_le_bytes(lost[tail..tail + 4].try_into().unwrap()) as usize;
    image[tail..tail + len].copy_from_slice(&lost[tail..tail + len]);
    let found = read(&image, 6);
    assert!(matches!(found, Err(Error::Damaged { .. })), "{found:?}");
    assert!(read(&image, TO_A_ROOT).unwrap() == *frames.last().unwrap());
    // Who begins at the front sees that the next one follows another: what the power loss took is back, and no more.
    image[1024..1088].fill(0);
    let size = log(Disk::with_image(image)).size().unwrap();
    assert_eq!(size, offset(7));
}

/// The salt of the newest records is far behind them and rots. They can be read: the root between has it, too.
#[test]
fn rot_of_a_salt_far_back_takes_nothing_off_the_end() {
    seal(true);
    let mut random = SplitMix64::new(8);
    let disk = Disk::default();
    let (mut first, mut second) = (log(disk.clone()), log(disk.clone()));
    first.write(&header(PAGE, 1), 0).unwrap();
    first.write(&noise(&mut random), offset(1)).unwrap();
    for number in 2..=TO_A_ROOT {
        second.write(&noise(&mut random), offset(number)).unwrap();
    }
    second.sync().unwrap();
    let (last, end) = (noise(&mut random), offset(TO_A_ROOT + 1));
    first.write(&last, end).unwrap();
    first.sync().unwrap();
    let mut image = disk.after_power_loss(1);
    assert!(has_hint(&image));
    // In the salt of the first record.
    image[4096 + 12] ^= 1;
    let (mut reader, mut bytes) = (log(Disk::with_image(image)), frame(0));
    assert_eq!(reader.size().unwrap(), end + bytes.len() as u64);
    reader.read(&mut bytes, end).unwrap();
    assert!(bytes == last);
    let found = reader.read(&mut bytes, offset(1));
    assert!(matches!(found, Err(Error::Damaged { .. })), "{found:?}");
}

/// Bytes of an earlier generation, or of another file, at the places where they were.
#[test]
fn records_of_others_are_not_taken() {
    seal(true);
    let disk = written(9, 9);
    let earlier = disk.after_power_loss(1);
    let mut log_ = log(disk.clone());
    log_.write(&header(PAGE, 2), 0).unwrap();
    for number in 1..=9 {
        log_.write(&frame(100 + number), offset(number.into()))
            .unwrap();
    }
    let image = disk.after_power_loss(1);
    let other_key = {
        let disk = Disk::default();
        let mut log = Log::new(disk.clone()).with_keys(Some(Arc::new(keys_of(2))));
        log.write(&header(PAGE, 2), 0).unwrap();
        for number in 1..=9 {
            log.write(&frame(number), offset(number.into())).unwrap();
        }
        disk.after_power_loss(1)
    };
    let states: Vec<Vec<u8>> = (0..=9)
        .map(|frames| {
            (1..=frames)
                .flat_map(|number| frame(100 + number))
                .collect()
        })
        .collect();
    for others in [earlier, other_key] {
        let end = image.iter().rposition(|byte| *byte != 0).unwrap();
        for from in 4096..end {
            let mut changed = image.clone();
            let to = (from + 300).min(others.len());
            changed[from..to].copy_from_slice(&others[from..to]);
            if let Ok(found) = content_of(&mut log(Disk::with_image(changed)), PAGE) {
                assert!(states.iter().any(|state| *state == found[32..]), "{from}");
            }
        }
    }
}

/// A log in plain, one that is sealed, one with another key: none is applied where it does not belong, and each is
/// written over whole.
#[test]
fn a_log_of_another_kind_is_refused() {
    let all: [Option<Arc<Keys>>; 3] =
        [None, Some(Arc::new(keys_of(1))), Some(Arc::new(keys_of(2)))];
    let state = FileState {
        identity: [5; 16],
        current: 0,
        next: 1,
        end: End::default(),
        is_unfinished: false,
        is_durable: true,
    };
    let open = |disk: &Disk, which: usize, is_bound: bool| {
        let log = match is_bound {
            true => Log::bound(disk.clone(), Box::new(Some(state))),
            false => Log::new(disk.clone()),
        };
        log.with_keys(all[which].clone())
    };
    for (old, new) in [(0, 1), (1, 0), (1, 2), (2, 1), (0, 2)] {
        for (was_bound, is_bound) in [(false, false), (false, true), (true, true)] {
            let disk = Disk::default();
            let mut log = open(&disk, old, was_bound);
            log.write(&header(PAGE, 1), 0).unwrap();
            for number in 1..=20 {
                log.write(&frame(77), offset(number)).unwrap();
            }
            log.sync().unwrap();
            assert_eq!(FileKind::of_file(&disk).unwrap(), FileKind::Log);
            let before = disk.after_power_loss(1);
            let mut log = open(&disk, new, is_bound);
            let why = match (old, new) {
                (_, 0) => Refusal::Encrypted,
                (0, _) => Refusal::NotEncrypted,
                _ => Refusal::OtherKey,
            };
            assert_eq!(log.refused().unwrap(), Some(why));
            assert_eq!(log.size().unwrap(), 0);
            assert_eq!(log.read(&mut [0; 32], 0).unwrap(), 0);
            log.write(&frame(1), offset(1)).unwrap_err();
            assert!(disk.after_power_loss(1) == before, "it is only read");
            log.write(&header(PAGE, 2), 0).unwrap();
            for seed in 0..20 {
                let left = Disk::with_image(disk.after_power_loss(seed));
                let mut log = open(&left, new, is_bound);
                assert!(log.refused().unwrap().is_some() || log.size().unwrap() <= 32);
            }
            let now = disk.after_power_loss(1);
            assert!(now.len() < 4096, "nothing of the old one is left");
            log.sync().unwrap();
            log.write(&frame(2), offset(1)).unwrap();
            log.sync().unwrap();
            for seed in 0..20 {
                let left = Disk::with_image(disk.after_power_loss(seed));
                let found = content_of(&mut open(&left, new, is_bound), PAGE).unwrap();
                assert!(found[32..] == frame(2));
            }
            assert!(open(&disk, old, was_bound).refused().unwrap().is_some());
        }
    }
}

/// The file has become encrypted, and then another one.
#[test]
fn keys_that_come_later_count_from_then_on() {
    let disk = Disk::default();
    let mut log = Log::new(disk.clone());
    log.write(&header(PAGE, 1), 0).unwrap();
    log.write(&frame(1), offset(1)).unwrap();
    log.set_view(Some(1));
    assert_eq!(log.size().unwrap(), offset(2));
    for file in 1..=2 {
        log.set_keys(Some(&Arc::new(keys_of(file))));
        assert_eq!(log.size().unwrap(), 0);
        assert!(log.was_refused().is_some());
        log.write(&header(PAGE, 2), 0).unwrap();
        log.write(&frame(file), offset(1)).unwrap();
        assert_eq!(log.size().unwrap(), offset(2));
        // Another handle of the file has derived its keys itself.
        let mut other = Log::new(disk.clone()).with_keys(Some(Arc::new(keys_of(file))));
        assert!(content_of(&mut other, PAGE).unwrap()[32..] == frame(file));
    }
}

/// A file with the same data key and another identity.
#[test]
fn the_identity_is_in_the_keys() {
    seal(true);
    let disk = written(3, 3);
    let other = Arc::new(Keys::new(&[1; 32], &[6; 16]).unwrap());
    let mut log_ = Log::new(disk.clone()).with_keys(Some(other));
    assert_eq!(log_.refused().unwrap(), Some(Refusal::OtherKey));
    assert_eq!(log(disk).refused().unwrap(), None);
    assert!(keys().is_some());
}

/// A hint that someone made without the key is as none.
#[test]
fn a_hint_of_others_is_ignored() {
    both(|| {
        let disk = Disk::default();
        let mut writer = log(disk.clone());
        writer.write(&header(PAGE, 1), 0).unwrap();
        let mut random = SplitMix64::new(1);
        for number in 1..=2100 {
            let page = support::noise(&mut random, PAGE);
            let bytes = [&frame(1)[..24], &page].concat();
            writer.write(&bytes, offset(number)).unwrap();
        }
        writer.sync().unwrap();
        let content = content_of(&mut writer, PAGE).unwrap();
        let image = disk.after_power_loss(1);
        assert!(image[1024..1088].iter().any(|byte| *byte != 0));
        for at in 1024..1088 {
            let mut changed = image.clone();
            changed[at] ^= 1;
            // As if its checksum were right.
            let sum = twox_hash::XxHash3_64::oneshot_with_seed(0, &changed[1024..1080]);
            changed[1080..1088].copy_from_slice(&sum.to_le_bytes());
            let found = content_of(&mut log(Disk::with_image(changed)), PAGE);
            match keys() {
                Some(_) => assert!(found.unwrap() == content, "{at}"),
                None => assert!(found.is_err() || found.unwrap() == content, "{at}"),
            }
        }
        assert!(ReadAt::len(&disk).unwrap() > 2100 * PAGE as u64);
    });
}
