//! Races that ThreadSanitizer has to report, and code that it must not: for `tests/threads/run`, which asks for one by
//! its name.
//!
//! `none` synchronises in each way that the project does, through the standard library's slow paths too. The others
//! leave out what orders two accesses, one for each language and library that has to be instrumented.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

/// The value that two threads use without a lock.
struct Unguarded<T>(UnsafeCell<T>);

// SAFETY: there is none, on purpose: accesses come one after the other, but nothing lets the second thread rely on it.
unsafe impl<T> Sync for Unguarded<T> {}

impl<T> Unguarded<T> {
    fn new(value: T) -> Self {
        Unguarded(UnsafeCell::new(value))
    }

    #[expect(clippy::mut_from_ref, reason = "this is how a race is made")]
    fn get(&self) -> &mut T {
        // SAFETY: as above: no two accesses take place at the same time.
        unsafe { &mut *self.0.get() }
    }
}

fn wait_for(flag: &AtomicBool, order: Ordering) {
    while !flag.load(order) {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs one, then the other in another thread. With `Relaxed` this is so by the clock only: a race.
fn after_each_other(one: impl FnOnce() + Send, other: impl FnOnce(), order: [Ordering; 2]) {
    let [one_done, all_done] = [AtomicBool::new(false), AtomicBool::new(false)];
    thread::scope(|scope| {
        scope.spawn(|| {
            one();
            one_done.store(true, order[0]);
            // The end of a thread can be what puts things in order.
            wait_for(&all_done, Ordering::Relaxed);
        });
        wait_for(&one_done, order[1]);
        other();
        all_done.store(true, Ordering::Relaxed);
    });
}

const RACE: [Ordering; 2] = [Ordering::Relaxed, Ordering::Relaxed];
const NO_RACE: [Ordering; 2] = [Ordering::Release, Ordering::Acquire];

fn in_rust(order: [Ordering; 2]) {
    let number = Unguarded::new(0);
    let write = || *number.get() = black_box(7);
    after_each_other(write, || assert_eq!(*number.get(), 7), order);
}

fn in_sqlite(order: [Ordering; 2]) {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_in_memory_with_flags(flags).expect("a database");
    let sql = "create table t(x); insert into t values(1), (2)";
    let connection = Unguarded::new(connection);
    let write = || connection.get().execute_batch(sql).expect("SQL");
    after_each_other(write, || assert_eq!(connection.get().changes(), 2), order);
}

fn in_zstd(order: [Ordering; 2]) {
    let text = Unguarded::new(vec![b'x'; 10_000]);
    let compress = || drop(zstd::bulk::compress(text.get(), 3).expect("memory"));
    after_each_other(compress, || text.get().fill(b'y'), order);
}

/// Two threads of which one sleeps and is woken, again and again.
fn lock_and_condition() {
    let (queue, changed) = (Mutex::new(VecDeque::<Box<u32>>::new()), Condvar::new());
    let take = || {
        let mut numbers = queue.lock().expect("no panic");
        while numbers.is_empty() {
            numbers = changed.wait(numbers).expect("no panic");
        }
        *numbers.pop_front().expect("there is one")
    };
    thread::scope(|scope| {
        let takers = [0, 1].map(|_| scope.spawn(|| while take() < 10_000 {}));
        for number in (0..10_000).chain([10_000, 10_000]) {
            queue.lock().expect("no panic").push_back(Box::new(number));
            changed.notify_one();
        }
        for taker in takers {
            taker.join().expect("no panic");
        }
    });
}

fn channels() {
    let (to, from) = mpsc::channel();
    thread::scope(|scope| {
        for number in 0..3 {
            let to = to.clone();
            let send = move || (0..3000).for_each(|_| to.send(vec![number]).expect("it is heard"));
            scope.spawn(send);
        }
        drop(to);
        let heard: usize = from.iter().map(|numbers| numbers.len()).sum();
        assert_eq!(heard, 9000);
    });
}

fn made_once_and_dropped_last() {
    static LAZY: LazyLock<Vec<usize>> = LazyLock::new(|| vec![1]);
    for _ in 0..100 {
        let once = OnceLock::new();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(once.get_or_init(|| vec![1]), &*LAZY));
            }
        });
        let counted = Arc::new(vec![1]);
        let last = [0, 1, 2].map(|_| {
            let counted = Arc::clone(&counted);
            thread::spawn(move || assert_eq!(counted.len(), 1))
        });
        drop(counted);
        for thread in last {
            thread.join().expect("no panic");
        }
    }
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("rust") => in_rust(RACE),
        Some("sqlite") => in_sqlite(RACE),
        Some("zstd") => in_zstd(RACE),
        Some("none") => {
            for planted in [in_rust, in_sqlite, in_zstd] {
                planted(NO_RACE);
            }
            lock_and_condition();
            channels();
            made_once_and_dropped_last();
        }
        _ => panic!("usage: planted rust|sqlite|zstd|none"),
    }
}
