//! A log against a plain file: the same calls, the same bytes; also through other handles of the same file, and after it
//! was opened anew.

mod support;

use std::sync::Arc;

use litepack_io::cache::{Cache, CacheKind};
use litepack_io::random::SplitMix64;
use litepack_log::Log;
use support::{Disk, Driver, content_of, rounds, seal_some};

fn run(seed: u64, page_size: usize, calls: usize) {
    seal_some(seed);
    let mut random = SplitMix64::new(seed ^ 0x5eed);
    let storage = Disk::default();
    let cache = Arc::new(Cache::new(1 << 20));
    cache.begin_use(CacheKind::Pages);
    let open = || support::log(storage.clone()).with_cache(Arc::clone(&cache));
    let mut driver = Driver::new(seed, page_size);
    let mut logs = [open(), open(), open()];
    let mut writer = 0;
    for call in 0..calls {
        if driver.is_between() && random.chance(30) {
            writer = random.below(3) as usize;
        }
        let op = driver.next();
        op.run(&mut logs[writer])
            .unwrap_or_else(|error| panic!("seed {seed}, call {call}: {error} in {op:?}"));
        let reader = random.below(3) as usize;
        // The one who has written half a frame goes on.
        if random.chance(3) && (reader != writer || driver.is_between()) {
            logs[reader] = open();
        }
        let all = driver.readable().len();
        let len = if reader == writer {
            all
        } else {
            driver.stable_len()
        };
        check(&mut logs[reader], &driver, len, &mut random, seed, call);
    }
    while !driver.is_between() {
        driver.next().run(&mut logs[writer]).unwrap();
    }
    for log in &mut logs {
        assert!(
            content_of(log, page_size).unwrap() == driver.readable(),
            "seed {seed}"
        );
    }
}

fn check(
    log: &mut Log<Disk>,
    driver: &Driver,
    readable: usize,
    random: &mut SplitMix64,
    seed: u64,
    call: usize,
) {
    let size = log.size().unwrap();
    assert_eq!(
        size,
        driver.readable().len() as u64,
        "seed {seed}, call {call}"
    );
    let readable = &driver.readable()[..readable];
    let offset = random.below(size + 100) as usize;
    let len = 1 + random.below(2 * driver.frame_len() as u64) as usize;
    let mut buf = vec![9; len];
    let n = log.read(&mut buf, offset as u64).unwrap();
    let expected = readable.get(offset..).unwrap_or_default();
    let expected = &expected[..expected.len().min(len)];
    assert!(n >= expected.len(), "seed {seed}, call {call}");
    assert!(
        buf[..expected.len()] == *expected,
        "seed {seed}, call {call} at {offset}"
    );
}

#[test]
fn a_log_reads_as_a_plain_file_through_every_handle() {
    for seed in 0..rounds(25) {
        run(seed, 512, 1500);
    }
    run(1000, 4096, 1500);
    run(1001, 65536, 300);
}
