//! A file may name dictionaries that together are far larger than it: what a process keeps of them is bounded by the
//! cache's budget, and no use of the file takes long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use litepack_codec::Dictionary;
use litepack_io::testing::MemoryStorage;
use litepack_store::{Cache, FileId, Options, Store};

const PAGE: u64 = 4096;
const BUDGET: u64 = 20 << 20;
/// All of them, with what zstd prepares of each, take 400 MB.
const DICTIONARIES: u64 = 200;
const LEN: usize = 1 << 20;
const MEMORY: u64 = 150 << 20;

fn options() -> Options {
    Options {
        cache: Arc::new(Cache::new(BUDGET)),
        file: FileId::unique(),
        threads: 2,
        ..Options::default()
    }
}

fn dictionary(number: u64) -> Dictionary {
    let text = format!("the words of dictionary {number} are these; ");
    Dictionary::new(text.bytes().cycle().take(LEN).collect::<Vec<u8>>())
}

fn page(number: u64) -> Vec<u8> {
    let text = format!("page {number}: the words of dictionary {number} are these; ");
    text.bytes().cycle().take(PAGE as usize).collect()
}

/// The peak of this process, in bytes; none where the system does not tell.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kilobytes << 10)
}

#[test]
fn dictionaries_larger_than_memory_are_read_one_after_the_other() {
    let disk = MemoryStorage::new(Vec::new());
    let mut writer = Store::open(&disk, options()).unwrap();
    for number in 0..DICTIONARIES {
        let known = writer
            .add_dictionary(&dictionary(number), Vec::new())
            .unwrap();
        writer
            .write_with(number * PAGE, &page(number), known)
            .unwrap();
        if number % 10 == 9 {
            writer.commit().unwrap();
        }
    }
    writer.flush().unwrap();
    drop(writer);
    assert!(disk.snapshot().len() < 1 << 20);

    let begun = Instant::now();
    let own = options();
    let cache = Arc::clone(&own.cache);
    let mut reader = Store::open(&disk, own).unwrap();
    reader.refresh().unwrap();
    let mut found = vec![0; PAGE as usize];
    for number in (0..DICTIONARIES).chain([0, 7, 7, 199, 3]) {
        reader.read(number * PAGE, &mut found).unwrap();
        assert_eq!(found, page(number), "{number}");
        assert!(cache.bytes() <= BUDGET);
    }
    assert!(reader.check(&mut |_| Ok(())).unwrap().is_ok());
    assert_eq!(
        reader.info().unwrap().dictionaries.len(),
        DICTIONARIES as usize
    );
    assert!(reader.dictionaries().unwrap().len() <= 16);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(120), "{took:?}");
    if let Some(peak) = peak() {
        assert!(peak < MEMORY, "{} MB", peak >> 20);
    }
}
