//! Logs whose checksums are right and whose content is not: whatever they say costs an error, and no more time and memory
//! than a real one.

use std::io;
use std::sync::Arc;

use litepack_cipher::Keys;
use litepack_io::bytes::put_varint;
use litepack_io::testing::MemoryStorage;

use crate::Log;
use crate::binding::{BaseCommit, BoundTo, FileState};
use crate::format::head::{Generation, HINT_OFFSET, Hint, RECORDS_START};
use crate::format::record::{self, ROOT};
use crate::seal::{NewRecord, Seal};

/// Makes a log of untrusted bytes: for each record a byte for its kind, one for its length, and its content.
pub fn forged(bytes: &[u8]) -> Vec<u8> {
    forged_with(bytes, None)
}

/// The same by one who has the keys.
pub fn forged_with(bytes: &[u8], keys: Option<&Arc<Keys>>) -> Vec<u8> {
    let mut rest = bytes;
    let mut take = |most: usize| {
        let (taken, left) = rest.split_at(most.min(rest.len()));
        rest = left;
        taken
    };
    let generation = generation().signed(keys.map(|keys| &**keys));
    let mut seal = keys.map(|keys| Seal::new(Arc::clone(keys)));
    let (mut file, mut link, mut root) = (Vec::new(), 0, None);
    while let &[kind, len] = take(2) {
        let content = take(usize::from(len));
        let place = RECORDS_START + file.len() as u64;
        let (kind, start) = (1 + kind % 4, file.len());
        let encoded = match &mut seal {
            None => record::encode(kind, link, content, place, &generation, &mut file)
                .map_err(crate::Error::from),
            Some(seal) => {
                let record = NewRecord {
                    kind,
                    link,
                    content,
                    is_carrier: len % 3 == 0,
                };
                let mut sealed = Vec::new();
                let done = seal.seal(record, place, &generation, &mut sealed);
                file.extend(sealed);
                done
            }
        };
        link = encoded.expect("there is memory for it");
        if kind == ROOT {
            let len = u32::try_from(file.len() - start).unwrap_or(0);
            let salt = seal.as_ref().and_then(Seal::own_salt).unwrap_or_default();
            let session = *salt.first_chunk().unwrap();
            root = Some(Hint {
                root: place,
                len,
                session,
            });
        }
    }
    let mut head = generation.encode().to_vec();
    head.resize(RECORDS_START as usize, 0);
    // A hint if the input is odd in length.
    if let Some(hint) = root.filter(|_| bytes.len() % 2 == 1) {
        let start = HINT_OFFSET as usize;
        head.splice(
            start..start + 64,
            hint.encode(&generation, keys.map(|keys| &**keys)),
        );
    }
    head.extend(file);
    head
}

fn generation() -> Generation {
    let mut wal_header = [0; 32];
    wal_header[..4].copy_from_slice(&0x377f_0682_u32.to_be_bytes());
    wal_header[4..8].copy_from_slice(&3_007_000_u32.to_be_bytes());
    wal_header[8..12].copy_from_slice(&512_u32.to_be_bytes());
    Generation {
        seq: 1,
        id: *b"a hostile log...",
        wal_header,
        page_size: 512,
        binding: crate::binding::Binding::default(),
        base: Some(BaseCommit([1; 256])),
        signature: None,
    }
}

/// A file whose pages are zeros.
struct Zeros;

impl BoundTo for Zeros {
    fn state(&self) -> io::Result<Option<FileState>> {
        Ok(None)
    }

    fn make_durable(&self) -> io::Result<()> {
        Ok(())
    }

    fn base_page(&self, _: &BaseCommit, _: u32, buf: &mut [u8]) -> io::Result<bool> {
        buf.fill(0);
        Ok(true)
    }
}

/// Does with a file what SQLite does with its WAL.
pub fn use_it(file: Vec<u8>) {
    use_with(file, None);
}

/// The same with keys.
pub fn use_with(file: Vec<u8>, keys: Option<&Arc<Keys>>) {
    let mut log = Log::bound(MemoryStorage::new(file), Box::new(Zeros)).with_keys(keys.cloned());
    let size = log.size().unwrap_or(0);
    let frame = 512 + 24;
    let frames = size.saturating_sub(32) / frame;
    let mut buf = [0; 512 + 24];
    for number in (0..frames)
        .take(200)
        .chain(frames.saturating_sub(200)..frames)
    {
        let _ = log.read(&mut buf, 32 + number * frame);
    }
    let _ = log.write(&buf[..24], 32);
    let _ = log.write(&buf, size.max(32));
    let _ = log.sync();
    let _ = log.truncate(size / 2);
}

/// Bytes of a varint.
pub fn varint(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, value);
    out
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use litepack_io::random::SplitMix64;
    use litepack_io::testing::{Call, Watched};

    use super::*;
    use crate::format::record::{FRAME, NODE, sum_of};

    /// A record for [`forged`].
    fn entry(kind: u8, content: &[u8]) -> Vec<u8> {
        let content = &content[..content.len().min(255)];
        [&[kind - 1, content.len() as u8], content].concat()
    }

    /// A random record that has the form of one.
    fn record(random: &mut SplitMix64, number: u64) -> Vec<u8> {
        let below = |random: &mut SplitMix64, end| varint(random.below(end));
        match random.below(10) {
            0 => {
                let mut content = vec![random.below(3) as u8];
                content.extend(below(random, 3));
                let count = random.below(6);
                content.extend(varint(count));
                (0..2 * count).for_each(|_| content.extend(below(random, 2000)));
                entry(NODE, &content)
            }
            1 => {
                let count = random.below(3);
                let mut content = varint(random.below(number + 2));
                content.extend(below(random, 3000));
                content.extend(varint(count));
                (0..count).for_each(|_| content.extend(below(random, 2000)));
                // Sessions of a sealed one.
                if random.chance(50) {
                    let count = random.below(3) as u8;
                    content.push(count);
                    for salt in 0..count {
                        content.extend([salt; 16]);
                        content.extend(below(random, 2000));
                        content.extend(below(random, 400));
                    }
                }
                entry(ROOT, &content)
            }
            2 => entry(2, &varint(random.below(number + 2))),
            _ => {
                let flags = [5, 5, 5, 1, 4, 13, 6, 2][random.below(8) as usize];
                let mut content = vec![flags];
                let is_next = random.chance(70);
                let number = if is_next {
                    number + 1
                } else {
                    random.below(number + 3)
                };
                content.extend(varint(number));
                if flags & 8 != 0 {
                    content.extend(below(random, 6000));
                }
                if flags & 1 != 0 {
                    content.extend([1, 0]);
                    content.extend([0; 8]);
                }
                if flags & 2 != 0 {
                    content.extend([7; 24]);
                }
                if flags & 4 != 0 {
                    let form = [0, 1, 2, 3, 4, 5, 6, 10][random.below(8) as usize];
                    content.push(form);
                    if form == 10 {
                        content.extend(sum_of(&[0; 512]).to_le_bytes());
                    } else if form > 1 {
                        content.extend(below(random, 600));
                    }
                    // A frame of zstd's that repeats a byte.
                    content.extend([0x60, 0x00, 0x01, 0x0b, 0x10, 0x00, 0x00]);
                }
                entry(FRAME, &content)
            }
        }
    }

    #[test]
    fn whatever_a_log_says_costs_an_error_at_most() {
        let keys = keys();
        for seed in 0..3000 {
            let mut random = SplitMix64::new(seed);
            let mut bytes = Vec::new();
            for number in 0..random.below(40) {
                bytes.extend(record(&mut random, number));
            }
            let keys = Some(&keys).filter(|_| seed % 3 == 1);
            let mut file = forged_with(&bytes, keys);
            if random.chance(30) {
                let at = random.below(file.len() as u64) as usize;
                file[at] ^= 1;
            }
            use_with(file, keys);
        }
    }

    fn keys() -> Arc<Keys> {
        Arc::new(Keys::new(&[1; 32], &[2; 16]).unwrap())
    }

    /// Bytes that look like carriers, each of which would have to be opened with a key of its own, or like records whose
    /// carrier is before them.
    #[test]
    fn looking_for_a_sealed_witness_opens_a_bounded_number_of_records() {
        let keys = keys();
        let generation = generation().signed(Some(&keys));
        let mut random = SplitMix64::new(1);
        let mut look = |back: Option<u8>| {
            let mut file = forged_with(&[], Some(&keys));
            while file.len() < 600 << 10 {
                let likely = [60, 0, 0, 0, FRAME, 1, 2, 3, 4, back.unwrap_or(0), 0, 0, 0];
                file.extend(back.map_or([0; 13], |_| likely));
                file.extend(random.next_u64().to_le_bytes());
            }
            // One that vouches for the first record.
            let place = file.len() as u64;
            let content = [&[13, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &[7; 512]].concat();
            let record = NewRecord {
                kind: FRAME,
                link: 0,
                content: &content,
                is_carrier: true,
            };
            let mut out = Vec::new();
            let mut seal = Seal::new(Arc::clone(&keys));
            seal.seal(record, place, &generation, &mut out).unwrap();
            file.extend(out);
            let calls = Cell::new(0);
            let storage = Watched::new(MemoryStorage::new(file), |_| {
                calls.set(calls.get() + 1);
                Ok(())
            });
            let size = Log::new(storage).with_keys(Some(Arc::clone(&keys))).size();
            assert!(calls.get() < 100, "{}", calls.get());
            size
        };
        for seems in [None, Some(40)] {
            let size = look(seems);
            assert!(
                matches!(size, Err(crate::Error::Damaged { .. })),
                "{size:?}"
            );
        }
        assert_eq!(look(Some(0)).unwrap(), 32);
    }

    /// Each names a root of the log; one of them that of another session, or one that does not say which there are.
    #[test]
    fn a_hint_counts_for_the_root_of_its_session() {
        let keys = keys();
        let signed = generation().signed(Some(&keys));
        let mut seal = Seal::new(Arc::clone(&keys));
        let mut out = Vec::new();
        let mut place = RECORDS_START;
        let frame = [&[5, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &[7; 512]].concat();
        let mut content = Vec::new();
        for (kind, sessions) in [(FRAME, false), (ROOT, true), (ROOT, false)] {
            content.clear();
            match kind {
                FRAME => content.extend(&frame),
                // Of no frames, so that no node is needed.
                _ => content.extend([0, 0, 0]),
            }
            if sessions {
                seal.sessions().encode(place, &mut content).unwrap();
            } else if kind == ROOT {
                content.push(0);
            }
            let record = NewRecord {
                kind,
                link: 0,
                content: &content,
                is_carrier: true,
            };
            let mut sealed = Vec::new();
            seal.seal(record, place, &signed, &mut sealed).unwrap();
            let len = sealed.len();
            if kind == ROOT {
                let own = *seal.own_salt().unwrap().first_chunk().unwrap();
                for (session, is_it) in [(own, sessions), ([9; 8], false)] {
                    let hint = Hint {
                        root: place,
                        len: u32::try_from(len).unwrap(),
                        session,
                    };
                    let mut file = forged_with(&[], Some(&keys));
                    let start = HINT_OFFSET as usize;
                    file[start..start + 64].copy_from_slice(&hint.encode(&signed, Some(&keys)));
                    file.extend(&out);
                    file.extend(&sealed);
                    let log = Log::new(MemoryStorage::new(file));
                    let found = log.with_keys(Some(Arc::clone(&keys))).size();
                    match found {
                        Ok(32) => assert!(is_it),
                        Err(crate::Error::Damaged { .. }) => assert!(!is_it),
                        _ => panic!("{found:?}"),
                    }
                }
            }
            place += len as u64;
            out.extend(sealed);
        }
    }

    #[test]
    fn behind_a_root_in_plain_is_nothing() {
        for (content, is_one) in [(&[0, 0, 0][..], true), (&[0, 0, 0, 0], false)] {
            for hint in [&[][..], &[0]] {
                let bytes = [&entry(ROOT, content)[..], hint].concat();
                let found = Log::new(MemoryStorage::new(forged(&bytes))).size();
                assert_eq!(found.is_ok(), is_one, "{content:?}");
            }
        }
    }

    #[test]
    fn a_log_without_an_index_ends_as_an_error() {
        let mut bytes = Vec::new();
        for number in 1..10_000 {
            let mut content = vec![5];
            content.extend(varint(number));
            content.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
            bytes.extend(entry(FRAME, &content));
        }
        let mut log = Log::new(MemoryStorage::new(forged(&bytes)));
        assert!(matches!(log.size(), Err(crate::Error::Damaged { .. })));
    }

    /// Each could stand on the one before, without an end.
    #[test]
    fn a_long_chain_of_differences_is_an_error() {
        let whole = [&[5, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &[7; 512]].concat();
        let mut file = Vec::new();
        let generation = generation();
        let (mut link, mut last) = (0, 0);
        for number in 0..3000 {
            let place = RECORDS_START + file.len() as u64;
            let mut content = whole.clone();
            if number > 0 {
                content = vec![4];
                content.extend(varint(1));
                content.push(2);
                content.extend(varint(place - last));
            }
            link = record::encode(FRAME, link, &content, place, &generation, &mut file).unwrap();
            last = place;
        }
        let mut image = forged(&[]);
        image.extend(file);
        let reads = Cell::new(0);
        let storage = Watched::new(MemoryStorage::new(image), |_| {
            reads.set(reads.get() + 1);
            Ok(())
        });
        let mut log = Log::new(storage);
        assert_eq!(log.size().unwrap(), 32 + 512 + 24);
        reads.set(0);
        let found = log.read(&mut [0; 512], 32 + 24);
        assert!(
            matches!(found, Err(crate::Error::Damaged { .. })),
            "{found:?}"
        );
        assert!(reads.get() < 20, "{}", reads.get());
    }

    /// Bytes that look like the beginnings of long records, each of which would have to be hashed.
    #[test]
    fn looking_for_a_witness_reads_a_bounded_part() {
        let mut file = forged(&[]);
        let likely = [0xff, 0xff, 0x03, 0x00, 1];
        file.extend(likely.iter().cycle().take(1000 * 1000));
        // A witness that would be found by hashing more than that is worth.
        let place = file.len() as u64;
        let content = [&[13, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &[7; 512]].concat();
        record::encode(FRAME, 0, &content, place, &generation(), &mut file).unwrap();
        let near = file[place as usize..].to_vec();
        let mut found_at_once = forged(&[]);
        found_at_once.resize(place as usize, 0);
        found_at_once.extend(near);
        let size = Log::new(MemoryStorage::new(found_at_once)).size();
        assert!(
            matches!(size, Err(crate::Error::Damaged { .. })),
            "{size:?}"
        );
        file.resize(12 << 20, 1);
        let read = Cell::new(0);
        let storage = Watched::new(MemoryStorage::new(file), |call| {
            if let Call::Read { len, .. } = call {
                read.set(read.get() + len);
            }
            Ok(())
        });
        assert_eq!(Log::new(storage).size().unwrap(), 32);
        assert!(read.get() < 3 << 20, "{}", read.get());
    }
}
