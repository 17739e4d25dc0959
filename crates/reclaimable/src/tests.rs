//! A page read is right or is not there, whatever the system takes back at whatever moment.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::{Arena, Key, SEGMENT, SlotContent};

type Hook = Box<dyn FnMut(usize)>;

thread_local! {
    /// The hook for the steps of this thread, and the number of the next one.
    static AT_STEPS: RefCell<Option<(usize, Hook)>> = const { RefCell::new(None) };
}

pub(crate) fn step() {
    AT_STEPS.with_borrow_mut(|steps| {
        if let Some((number, hook)) = steps {
            hook(*number);
            *number += 1;
        }
    });
}

/// Does `work` with something happening at each step, and returns how many steps there were.
fn with_steps<T>(hook: impl FnMut(usize) + 'static, work: impl FnOnce() -> T) -> (T, usize) {
    AT_STEPS.set(Some((0, Box::new(hook))));
    let done = work();
    let (steps, _) = AT_STEPS.take().expect("set above");
    (done, steps)
}

const PAGES: [usize; 8] = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];

fn arena(page: usize, segments: usize) -> &'static Arena {
    let arena = Arena::new(page, segments).expect("Linux has such memory");
    while arena.segments() < segments {
        assert!(arena.grow());
    }
    Box::leak(Box::new(arena))
}

/// Pages that tell from which key they are at every word, with zeros where they hurt: every third page begins with
/// zeros, every fifth has a grain of nothing else, every seventh is nothing else.
fn page_of(key: Key, len: usize) -> Vec<u8> {
    let number = key.0[0];
    let mut page: Vec<u8> = (0..len as u64 / 8)
        .flat_map(|word| (number << 16 | word | 1 << 63).to_le_bytes())
        .collect();
    if number.is_multiple_of(3) {
        page[..len / 4].fill(0);
    }
    if number.is_multiple_of(5) && len > 4096 {
        page[len - 4096..].fill(0);
    }
    if number.is_multiple_of(7) {
        page.fill(0);
    }
    page
}

fn key(number: u64) -> Key {
    Key([number, 1])
}

fn read(arena: &Arena, slot: usize, key: Key) -> SlotContent {
    let mut out = vec![0xee; arena.page()];
    let found = arena.read(slot, key, &mut out, true);
    if found == SlotContent::Page {
        assert!(out == page_of(key, arena.page()), "{key:?} is wrong");
    }
    found
}

#[test]
fn pages_of_every_size_come_back() {
    for len in PAGES {
        let arena = arena(len, 2);
        assert_eq!(arena.slots(), 2 * SEGMENT / len);
        for slot in 0..arena.slots() {
            let key = key(slot as u64 + 1);
            assert_eq!(
                arena.write(slot, key, &page_of(key, len)),
                Some(Key::default())
            );
            assert!(arena.has(slot, key));
        }
        assert!(arena.offer(0));
        for slot in 0..arena.slots() {
            assert_eq!(read(arena, slot, key(slot as u64 + 1)), SlotContent::Page);
            assert_eq!(read(arena, slot, key(slot as u64 + 2)), SlotContent::Other);
        }
        assert_eq!(arena.write(1, key(9), &page_of(key(9), len)), Some(key(2)));
        assert_eq!(read(arena, 1, key(9)), SlotContent::Page);
        assert_eq!(arena.read(1, key(9), &mut [0; 8], true), SlotContent::Other);
        assert_eq!(arena.write(1, key(9), &[0; 8]), None);
        assert_eq!(read(arena, arena.slots(), key(9)), SlotContent::Other);
    }
    assert!(Arena::new(1 << 17, 1).is_none() && Arena::new(1000, 1).is_none());
}

#[test]
fn memory_that_is_taken_back_at_any_step_is_noticed() {
    let (mut right, mut gone) = (0, 0);
    for len in PAGES {
        let arena = arena(len, 1);
        let grains = len.div_ceil(4096);
        for number in 1..=15 {
            let (key, other) = (key(number), key(number + 100));
            let bytes = page_of(key, len);
            let write = |bytes: &[u8]| arena.write(3, key, bytes).expect("no thread is in it");
            let offset = 3 * len / 4096;
            for grain in 0..grains {
                let take_at = |at: usize| {
                    move |step: usize| {
                        if step == at {
                            arena.discard_grain(offset + grain);
                        }
                    }
                };
                let mut at = 0;
                loop {
                    // Something else was there before.
                    arena.write(3, other, &page_of(other, len));
                    let ((), steps) = with_steps(take_at(at), || {
                        write(&bytes);
                    });
                    match read(arena, 3, key) {
                        SlotContent::Page => right += 1,
                        SlotContent::Gone => gone += 1,
                        SlotContent::Other => panic!("the key is {key:?}"),
                    }
                    if at >= steps {
                        break;
                    }
                    at += 1;
                }
                let mut at = 0;
                loop {
                    write(&bytes);
                    let (found, steps) = with_steps(take_at(at), || read(arena, 3, key));
                    match found {
                        SlotContent::Page => right += 1,
                        SlotContent::Gone => gone += 1,
                        SlotContent::Other => panic!("the key is {key:?}"),
                    }
                    if at >= steps {
                        break;
                    }
                    assert_eq!(read(arena, 3, key), SlotContent::Gone);
                    assert!(grain > 0 || !arena.has(3, key));
                    at += 1;
                }
            }
        }
    }
    assert!(right > 1000 && gone > 1000, "{right} right, {gone} gone");
}

/// A processor may read what was in the place of a grain before it was taken and written again, until it is told.
#[test]
fn memory_that_was_there_before_is_not_taken_for_that_of_now() {
    let (mut right, mut gone) = (0, 0);
    for len in PAGES.into_iter().filter(|len| *len >= 4096) {
        let arena = arena(len, 1);
        for (first, second) in [(1, 2), (1, 7), (3, 5), (7, 6), (4, 4)] {
            let (first, second) = (key(first), key(second));
            for grain in (3 * len / 4096)..(4 * len / 4096) {
                // Until this step the processor reads the former memory.
                let mut until = 0;
                loop {
                    arena.write(3, first, &page_of(first, len));
                    let former = arena.exchange_grain(grain, &[0; 4096]);
                    arena.write(3, second, &page_of(second, len));
                    let now = arena.exchange_grain(grain, &former);
                    let told = move |step: usize| {
                        if step == until {
                            arena.exchange_grain(grain, &now);
                        }
                    };
                    let (found, steps) = with_steps(told, || read(arena, 3, second));
                    match found {
                        SlotContent::Page => right += 1,
                        SlotContent::Gone => gone += 1,
                        SlotContent::Other => panic!("the key is {second:?}"),
                    }
                    if until >= steps {
                        break;
                    }
                    until += 1;
                }
            }
        }
    }
    assert!(right > 50 && gone > 50, "{right} right, {gone} gone");
}

#[test]
fn passing_a_slot_takes_half_of_its_uses_which_are_three_at_most() {
    let arena = arena(4096, 1);
    assert!(arena.pass(0, true));
    for (uses, passes) in [(0, 0), (1, 1), (2, 2), (3, 2), (9, 2)] {
        arena.write(0, key(1), &page_of(key(1), 4096));
        (0..uses).for_each(|_| assert_eq!(read(arena, 0, key(1)), SlotContent::Page));
        (0..passes).for_each(|_| {
            assert!(!arena.pass(0, false));
            assert!(!arena.pass(0, true));
        });
        assert!(arena.pass(0, true));
    }
    arena.read(0, key(1), &mut [0; 4096], false);
    assert!(arena.pass(0, true), "that was no use");
}

#[test]
fn threads_read_and_write_while_memory_is_taken_back() {
    let seed = std::env::var("LITEPACK_SEED").map_or(1, |seed| seed.parse().unwrap());
    println!("LITEPACK_SEED={seed}");
    for len in [512, 4096, 16384] {
        let arena = arena(len, 2);
        let stop = AtomicBool::new(false);
        let (right, gone) = (AtomicU64::new(0), AtomicU64::new(0));
        // Few slots and few keys, so that threads meet.
        let work = |thread: u64| {
            let mut state = seed * 1000 + thread + 1;
            let mut random = |below: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11) % below
            };
            for _ in 0..60_000 {
                let slot = random(6) as usize;
                let key = key(random(12) + 1);
                match random(8) {
                    0 => drop(arena.write(slot, key, &page_of(key, len))),
                    1 => arena.discard_grain(random(6 * len as u64 / 4096 + 1) as usize),
                    2 => drop(arena.pass(slot, true)),
                    _ => match read(arena, slot, key) {
                        SlotContent::Page => drop(right.fetch_add(1, Ordering::Relaxed)),
                        SlotContent::Gone => drop(gone.fetch_add(1, Ordering::Relaxed)),
                        SlotContent::Other => {}
                    },
                }
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..3)
                .map(|thread| scope.spawn(move || work(thread)))
                .collect();
            scope.spawn(|| {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    number += 1;
                    match number % 64 {
                        0 => drop(arena.offer(0)),
                        1 => {
                            arena.shrink(0);
                            arena.grow();
                        }
                        _ => arena.discard_grain(number % (6 * len).div_ceil(4096)),
                    }
                    std::thread::yield_now();
                }
            });
            for worker in workers {
                let ended = worker.join();
                stop.store(true, Ordering::Relaxed);
                assert!(ended.is_ok());
            }
        });
        let (right, gone) = (right.into_inner(), gone.into_inner());
        assert!(right > 100 && gone > 100, "{right} right, {gone} gone");
    }
}
