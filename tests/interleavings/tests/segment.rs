//! A page that is read from the cache's memory is right, or it is not there, whatever other threads and the system do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use litepack_interleavings::segment::{GRAIN, Key, Segment, SlotContent};

fn key(number: u64) -> Key {
    Key([number, 1])
}

/// Each word says whose it is.
fn page_of(number: u64, len: usize) -> Vec<u8> {
    let words = (0..len as u64 / 8).map(|word| number << 8 | word);
    words.flat_map(u64::to_ne_bytes).collect()
}

/// How often a page was there, in all orders.
#[derive(Default)]
struct Seen {
    page: AtomicUsize,
    gone: AtomicUsize,
    other: AtomicUsize,
}

impl Seen {
    fn read(&self, segment: &Segment, number: u64, len: usize) {
        let mut out = vec![0xee; len];
        let count = match segment.read(0, key(number), &mut out) {
            SlotContent::Page => {
                assert_eq!(out, page_of(number, len), "page {number} is wrong");
                &self.page
            }
            SlotContent::Gone => &self.gone,
            SlotContent::Other => &self.other,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn counts(&self) -> [usize; 3] {
        [&self.page, &self.gone, &self.other].map(|count| count.load(Ordering::Relaxed))
    }
}

/// Runs `threads` in all orders, on a slot that has page 1 of `grains` grains, and says what readers saw.
fn in_all_orders(grains: usize, threads: &[fn(&Segment, &Seen, usize)]) -> [usize; 3] {
    let seen = Arc::new(Seen::default());
    let len = grains * GRAIN;
    let threads = threads.to_vec();
    let model = Arc::clone(&seen);
    let mut loom = loom::model::Builder::new();
    // With more of them the orders are too many. Few mistakes need so many.
    loom.preemption_bound = Some(2);
    loom.check(move || {
        let segment = loom::sync::Arc::new(Segment::new(1, len));
        assert_eq!(
            segment.write(0, key(1), &page_of(1, len)),
            Some(Key::default())
        );
        let spawn = |work: &fn(&Segment, &Seen, usize)| {
            let (work, segment, seen) = (*work, segment.clone(), Arc::clone(&model));
            loom::thread::spawn(move || work(&segment, &seen, len))
        };
        let threads: Vec<_> = threads.iter().map(spawn).collect();
        for thread in threads {
            thread.join().expect("it ends");
        }
        // The slot has no reader and no writer left.
        assert!(segment.write(0, key(9), &page_of(9, len)).is_some());
        model.read(&segment, 9, len);
    });
    seen.counts()
}

fn takes(segment: &Segment, _: &Seen, _: usize) {
    segment.take(0);
}

fn takes_the_second(segment: &Segment, _: &Seen, _: usize) {
    segment.take(1);
}

fn writes_2(segment: &Segment, _: &Seen, len: usize) {
    segment.write(0, key(2), &page_of(2, len));
}

fn writes_1_again(segment: &Segment, _: &Seen, len: usize) {
    segment.write(0, key(1), &page_of(1, len));
}

fn removes(segment: &Segment, _: &Seen, _: usize) {
    segment.remove(0, key(1));
}

fn reads(segment: &Segment, seen: &Seen, len: usize) {
    seen.read(segment, 1, len);
    seen.read(segment, 2, len);
}

#[test]
fn a_grain_is_taken_while_a_page_is_read_and_another_one_written() {
    let [page, gone, other] = in_all_orders(1, &[takes, writes_2, reads]);
    assert!(page > 0 && gone > 0 && other > 0, "{page} {gone} {other}");
}

#[test]
fn one_of_two_grains_is_taken() {
    let [page, gone, _] = in_all_orders(2, &[takes_the_second, reads]);
    assert!(page > 0 && gone > 0, "{page} {gone}");
}

#[test]
fn two_write_while_one_reads() {
    let [page, gone, other] = in_all_orders(1, &[writes_1_again, writes_2, reads]);
    assert!(page > 0 && gone == 0 && other > 0, "{page} {gone} {other}");
}

#[test]
fn a_page_is_removed_while_it_is_read_and_another_one_written() {
    let [page, gone, other] = in_all_orders(1, &[removes, writes_2, reads]);
    assert!(page > 0 && gone == 0 && other > 0, "{page} {gone} {other}");
}

#[test]
fn a_slot_is_given_back_while_it_is_read_and_written() {
    fn discards(segment: &Segment, _: &Seen, _: usize) {
        segment.discard();
    }
    fn passes(segment: &Segment, _: &Seen, _: usize) {
        segment.pass(0);
    }
    let [page, gone, other] = in_all_orders(1, &[discards, writes_2, reads]);
    assert!(page > 0 && gone > 0 && other > 0, "{page} {gone} {other}");
    let [page, gone, other] = in_all_orders(1, &[passes, takes, reads]);
    assert!(page > 0 && gone > 0 && other > 0, "{page} {gone} {other}");
}
