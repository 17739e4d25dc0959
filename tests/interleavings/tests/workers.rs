//! A job that is given to a pool is done once, or taken back once. No thread waits for ever: loom reports a deadlock.

use std::sync::Arc;

use litepack_interleavings::workers::WorkerPool;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Condvar, Mutex};

fn in_all_orders(work: impl Fn() + Sync + Send + 'static) {
    let mut loom = loom::model::Builder::new();
    loom.preemption_bound = Some(3);
    loom.check(work);
}

/// Jobs that are done, and those who wait for them.
#[derive(Default)]
struct Done {
    count: Mutex<usize>,
    changed: Condvar,
}

impl Done {
    fn one(&self) {
        *self.count.lock().expect("no panic") += 1;
        self.changed.notify_all();
    }

    fn wait_for(&self, jobs: usize) {
        let mut count = self.count.lock().expect("no panic");
        while *count < jobs {
            count = self.changed.wait(count).expect("no panic");
        }
    }
}

#[test]
fn workers_do_all_jobs_without_their_owner() {
    for limit in [1, 2] {
        in_all_orders(move || {
            let done = Arc::new(Done::default());
            let mut pool = WorkerPool::<()>::default();
            for _ in 0..2 {
                let done = Arc::clone(&done);
                pool.give(limit, Box::new(move |()| done.one()));
            }
            done.wait_for(2);
        });
    }
}

#[test]
fn a_worker_that_sleeps_gets_the_next_job() {
    in_all_orders(|| {
        let done = Arc::new(Done::default());
        let mut pool = WorkerPool::<()>::default();
        for jobs in 1..=2 {
            let given = Arc::clone(&done);
            pool.give(1, Box::new(move |()| given.one()));
            done.wait_for(jobs);
        }
    });
}

#[test]
fn a_job_is_done_or_taken_back_and_the_end_of_the_pool_waits_for_what_is_under_way() {
    in_all_orders(|| {
        let count = Arc::new(AtomicUsize::new(0));
        let begun = Arc::new(AtomicUsize::new(0));
        let mut pool = WorkerPool::<()>::default();
        let tickets = [1, 10].map(|worth| {
            let (begun, count) = (Arc::clone(&begun), Arc::clone(&count));
            let job = move |_: &mut ()| {
                begun.fetch_add(worth, Ordering::Release);
                count.fetch_add(worth, Ordering::Relaxed);
            };
            pool.give(1, Box::new(job))
        });
        let taken = pool.take_back(tickets[1]);
        let is_taken = taken.is_some();
        if let Some(job) = taken {
            job(&mut ());
        }
        assert!(!is_taken || !pool.is_under_way(tickets[1]));
        let helped = pool.work_some(&mut ());
        let under_way = begun.load(Ordering::Acquire);
        drop(pool);
        let done = count.load(Ordering::Relaxed);
        // The numbers of the jobs have no digit in common.
        let is_done = |worth| under_way / worth % 10 <= done / worth % 10;
        assert!(is_done(1) && is_done(10), "{under_way} {done}");
        // Jobs that were not begun are dropped with the pool.
        assert!([0, 1, 10, 11].contains(&done), "{done}");
        assert!(!is_taken || done >= 10, "{done}");
        assert!(!helped || done > 0, "{done}");
    });
}

#[test]
fn a_pool_that_is_detached_leaves_no_worker_that_sleeps() {
    in_all_orders(|| {
        let done = Arc::new(Done::default());
        let mut pool = WorkerPool::<()>::default();
        let given = Arc::clone(&done);
        pool.give(1, Box::new(move |()| given.one()));
        done.wait_for(1);
        pool.detach();
    });
}
