//! Tests of the pages in memory that the system may take back: what is found, what goes, and how room is divided.

use super::*;
use litepack_skip::{Expected, skip};

const MIB: u64 = 1 << 20;
/// Pages of 4 KiB in a MiB.
const PAGES: u64 = 256;

fn key(number: u64) -> Key {
    Key([number + 1, 7])
}

fn page(number: u64) -> Vec<u8> {
    let mut page = vec![0; 4096];
    page[..8].copy_from_slice(&number.to_le_bytes());
    page[4088..].copy_from_slice(&number.to_le_bytes());
    page
}

/// Where there is no such memory there is nothing to test, and the test is left out.
fn elastic(bytes: u64) -> Option<Elastic> {
    let elastic = Elastic::new(64 * MIB);
    if elastic.is_none() {
        skip(Expected::OnLinux, "no memory that the system may take back");
    }
    elastic.inspect(|elastic| elastic.resize(with_what_is_beside(bytes)))
}

fn with_what_is_beside(bytes: u64) -> u64 {
    bytes + bytes / 32
}

fn put(elastic: &Elastic, numbers: std::ops::Range<u64>) {
    for number in numbers {
        elastic.put(key(number), &page(number), false);
    }
}

fn read(elastic: &Elastic, number: u64) -> bool {
    let mut out = vec![1; 4096];
    let found = elastic.read(key(number), &mut out, true);
    assert!(!found || out == page(number));
    assert_eq!(found, elastic.has(key(number), 4096));
    found
}

fn found(elastic: &Elastic, numbers: std::ops::Range<u64>) -> u64 {
    numbers.map(|number| u64::from(read(elastic, number))).sum()
}

#[test]
fn what_fits_is_found() {
    let Some(elastic) = elastic(4 * MIB) else {
        return;
    };
    put(&elastic, 0..4 * PAGES);
    assert_eq!(elastic.bytes(), 4 * MIB);
    assert!(found(&elastic, 0..4 * PAGES) > 4 * PAGES * 98 / 100);
    assert!(!elastic.read(key(1), &mut [0; 512], true), "no such size");
}

#[test]
fn pages_of_a_scan_go_before_those_that_are_read_again() {
    let Some(elastic) = elastic(4 * MIB) else {
        return;
    };
    put(&elastic, 0..2 * PAGES);
    found(&elastic, 0..2 * PAGES);
    found(&elastic, 0..2 * PAGES);
    put(&elastic, 1000..1000 + 40 * PAGES);
    assert_eq!(elastic.bytes(), 4 * MIB);
    assert!(found(&elastic, 0..2 * PAGES) > 2 * PAGES * 9 / 10);
}

/// Reads pages as they come, and keeps those that were not there. How many were.
fn look_up(elastic: &Elastic, numbers: impl Iterator<Item = u64>) -> u64 {
    let mut hits = 0;
    for number in numbers {
        if read(elastic, number) {
            hits += 1;
        } else {
            elastic.put(key(number), &page(number), false);
        }
    }
    hits
}

#[test]
fn of_a_table_that_is_scanned_again_and_again_as_much_is_found_as_there_is_room() {
    for pages in [9 * PAGES, 11 * PAGES, 16 * PAGES, 32 * PAGES] {
        let Some(elastic) = elastic(8 * MIB) else {
            return;
        };
        let rounds = 12;
        let hits = (0..rounds).map(|_| look_up(&elastic, 0..pages)).last();
        let room = 8 * PAGES * 7 / 8;
        assert!(
            hits >= Some(room * 8 / 10),
            "{hits:?} of {pages}, room for {room}"
        );
    }
}

#[test]
fn what_is_read_now_takes_the_place_of_what_was_read_often() {
    for pages in [2 * PAGES, 5 * PAGES, 7 * PAGES] {
        let Some(elastic) = elastic(8 * MIB) else {
            return;
        };
        for _ in 0..10 {
            look_up(&elastic, 100_000..100_000 + 7 * PAGES);
        }
        let scans = (1..40).find(|_| look_up(&elastic, 0..pages) > pages * 9 / 10);
        let most = 4 + 32 * PAGES / pages;
        assert!(
            scans <= Some(most) && scans.is_some(),
            "{scans:?} of {pages} pages, {most} at most"
        );
    }
}

#[test]
fn pages_that_are_removed_make_room_before_there_are_more_segments() {
    let Some(elastic) = elastic(40 * MIB) else {
        return;
    };
    put(&elastic, 0..8 * PAGES);
    found(&elastic, 0..8 * PAGES);
    let mut lost = 0;
    // Of the first half each page is replaced again and again, as when it is updated.
    for version in 1..40 {
        for number in 0..4 * PAGES {
            let former = number + (version - 1) * 100_000;
            lost += u64::from(!elastic.remove(key(former), 4096));
            assert!(!read(&elastic, former));
            let new = number + version * 100_000;
            elastic.put(key(new), &page(new), true);
        }
    }
    assert!(lost < 100, "{lost} are lost");
    assert!(elastic.bytes() <= 13 * MIB, "{}", elastic.bytes());
    assert!(found(&elastic, 4 * PAGES..8 * PAGES) > 4 * PAGES * 95 / 100);
    assert!(found(&elastic, 3_900_000..3_900_000 + 4 * PAGES) > 4 * PAGES * 95 / 100);
}

#[test]
fn sizes_divide_the_room() {
    let Some(elastic) = elastic(8 * MIB) else {
        return;
    };
    put(&elastic, 0..8 * PAGES);
    assert_eq!(elastic.bytes(), 8 * MIB);
    for number in 0..2 * MIB / 512 {
        elastic.put(key(number), &[1; 512], false);
    }
    for number in 0..(8 * MIB) >> 16 {
        elastic.put(key(number), &vec![2; 1 << 16], false);
    }
    // Smaller pages have more beside them.
    assert!((7 * MIB..=8 * MIB).contains(&elastic.bytes()));
    let of = |page: usize| elastic.class(page).unwrap().arena.segments();
    assert!(
        of(4096) >= 2 && of(512) >= 1 && of(1 << 16) >= 2,
        "{:?}",
        (of(4096), of(512), of(1 << 16))
    );
    let mut out = vec![0; 1 << 16];
    assert!(elastic.read(key(((8 * MIB) >> 16) - 1), &mut out, true));
    assert!(out.iter().all(|byte| *byte == 2));
}

#[test]
fn a_smaller_cache_gives_memory_back_and_may_grow_again() {
    let Some(elastic) = elastic(8 * MIB) else {
        return;
    };
    put(&elastic, 0..8 * PAGES);
    elastic.resize(with_what_is_beside(3 * MIB));
    assert_eq!(elastic.bytes(), 3 * MIB);
    assert!(found(&elastic, 0..8 * PAGES) <= 3 * PAGES);
    elastic.clear();
    assert_eq!((elastic.bytes(), found(&elastic, 0..8 * PAGES)), (0, 0));
    elastic.resize(with_what_is_beside(8 * MIB));
    put(&elastic, 0..8 * PAGES);
    assert!(found(&elastic, 0..8 * PAGES) > 8 * PAGES * 98 / 100);
    elastic.resize(0);
    put(&elastic, 0..PAGES);
    assert_eq!((elastic.bytes(), found(&elastic, 0..PAGES)), (0, 0));
}

#[test]
fn room_that_comes_and_goes_leaves_no_slot_unused() {
    let Some(elastic) = elastic(8 * MIB) else {
        return;
    };
    // While the cache is filled, a little at a time.
    for number in 0..7 * PAGES {
        elastic.put(key(number), &page(number), false);
        if number % 16 == 0 {
            elastic.resize(with_what_is_beside(7 * MIB));
            elastic.resize(with_what_is_beside(8 * MIB));
        }
    }
    assert!(found(&elastic, 0..7 * PAGES) > 7 * PAGES * 98 / 100);
    // When it is full, over and over: what the table knew of the segments that went is forgotten.
    for round in 1..60 {
        elastic.resize(with_what_is_beside(3 * MIB));
        elastic.resize(with_what_is_beside(8 * MIB));
        put(&elastic, round * 10_000..round * 10_000 + 8 * PAGES);
    }
    assert_eq!(elastic.bytes(), 8 * MIB);
    let last = 590_000..590_000 + 8 * PAGES;
    for _ in 0..4 {
        look_up(&elastic, last.clone());
    }
    let found = found(&elastic, last);
    assert!(found > 8 * PAGES * 85 / 100, "{found}");
}

#[test]
fn slots_that_were_empty_when_they_went_are_not_waited_for() {
    let Some(elastic) = elastic(8 * MIB) else {
        return;
    };
    put(&elastic, 0..8 * PAGES);
    for number in 3 * PAGES..8 * PAGES {
        elastic.remove(key(number), 4096);
    }
    elastic.resize(with_what_is_beside(3 * MIB));
    let class = elastic.class(4096).unwrap();
    assert!(class.holes.load(Ordering::Relaxed) < PAGES as usize / 10);
    elastic.resize(with_what_is_beside(8 * MIB));
    put(&elastic, 0..8 * PAGES);
    assert!(found(&elastic, 0..8 * PAGES) > 8 * PAGES * 98 / 100);
}

#[test]
fn threads_lose_little_while_there_is_room() {
    let Some(elastic) = elastic(40 * MIB) else {
        return;
    };
    let elastic = &elastic;
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let numbers = thread * 10 * PAGES..(thread + 1) * 10 * PAGES;
            scope.spawn(move || put(elastic, numbers));
        }
    });
    let found = found(elastic, 0..30 * PAGES);
    assert!(found > 30 * PAGES * 9 / 10, "{found}");
}

#[test]
fn threads_keep_to_the_limit_whatever_it_is() {
    let Some(elastic) = elastic(20 * MIB) else {
        return;
    };
    let elastic = &elastic;
    std::thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || {
                for number in 0..3000 {
                    let size = 512 << ((number / 100 + thread) % 8);
                    elastic.put(key(number), &vec![7; size], false);
                    let limit = elastic.limit.load(Ordering::Relaxed);
                    if number % 100 == 0 {
                        elastic.resize(if limit > 10 * MIB { 5 * MIB } else { 20 * MIB });
                    }
                }
            });
        }
    });
    elastic.resize(5 * MIB);
    let used: u64 = elastic.classes.iter().map(Class::bytes).sum();
    assert_eq!(used, elastic.used.load(Ordering::Relaxed));
    assert!(used <= 5 * MIB);
    elastic.clear();
    assert_eq!(elastic.used.load(Ordering::Relaxed), 0);
}

/// As when one thread counts a slot as empty that another has given back meanwhile.
#[test]
fn without_slots_there_are_no_empty_ones() {
    let Some(elastic) = elastic(4 * MIB) else {
        return;
    };
    let class = elastic.class(4096).unwrap();
    put(&elastic, 0..10);
    elastic.clear();
    class.holes.fetch_add(1, Ordering::Relaxed);
    put(&elastic, 20..30);
    assert!((20..30).all(|number| read(&elastic, number)));
}

/// The system cannot take back what it was not offered, and what is known of the pages it never can.
#[test]
fn where_memory_is_short_pages_are_offered_soon_and_little_is_known_of_them() {
    let Some(elastic) = elastic(32 * MIB) else {
        return;
    };
    let waiting = |elastic: &Elastic| {
        let class = elastic.class(4096).expect("a size of pages");
        class.arena.fresh(0).0 as u64
    };
    let most = |elastic: &Elastic, numbers| {
        let mut most = 0;
        for number in numbers {
            put(elastic, number..number + 1);
            most = waiting(elastic).max(most);
        }
        most
    };
    assert!(most(&elastic, 0..20 * PAGES) > MIB / 2);
    let budget = 4 * MIB;
    elastic.bound(budget);
    put(&elastic, 20 * PAGES..21 * PAGES);
    assert!(most(&elastic, 21 * PAGES..60 * PAGES) < MIB / 2);
    assert!(found(&elastic, 0..60 * PAGES) > 28 * PAGES);

    let small = |number: u64| [number.to_le_bytes(), [7; 8]].concat().repeat(32);
    for number in 0..100_000 {
        elastic.put(key(number), &small(number), false);
    }
    let class = elastic.class(512).expect("a size of pages");
    let beside = class.arena.segments() as u64 * class.beside();
    assert!((budget / 8..=budget / 4).contains(&beside), "{beside}");
}
