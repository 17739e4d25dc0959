//! A thread is started when there is memory for it, and otherwise not: the process is not ended. Each trial is a process
//! of its own that has so much address space left and no more. The allocator is that of the loadable extension.
//!
//! This program has no harness: the harness has a second thread, which may still need memory when a trial has taken it
//! all, and then ends the process itself.

fn main() {
    #[cfg(target_os = "linux")]
    linux::no_thread_is_started_that_would_end_the_process();
}

#[cfg(target_os = "linux")]
mod linux {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::process::Command;

    use litepack_io::parallel::parallel;
    use litepack_io::workers::WorkerPool;
    use litepack_sqlite::ffi::Allocator;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    #[global_allocator]
    static ALLOCATOR: Allocator = Allocator;

    /// The environment of a trial: how many bytes it has left.
    const LEFT: &str = "LITEPACK_TEST_LEFT";

    pub(crate) fn no_thread_is_started_that_would_end_the_process() {
        if let Ok(left) = std::env::var(LEFT) {
            return trial(left.parse().unwrap());
        }
        let mut started = Vec::new();
        // Page by page up to the stacks of two threads: where one ends the process is no wider than a page or two.
        let pages = (0..4 << 20).step_by(4 << 10);
        for left in pages.chain((4 << 20..12 << 20).step_by(256 << 10)) {
            let output = Command::new(std::env::current_exe().unwrap())
                .env(LEFT, left.to_string())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            let why = String::from_utf8_lossy(&output.stderr);
            let status = output.status;
            assert!(status.success(), "{left} bytes left: {status} {said} {why}");
            started.push(said.contains("threads: 1"));
        }
        // The trials are of both kinds.
        assert!(started.contains(&true) && started.contains(&false));
        println!("{} trials", started.len());
    }

    fn trial(left: u64) {
        leave(left);
        // Work for a thread is done in any case.
        let sum: u64 = parallel([1, 2, 3], |n| n).into_iter().sum();
        assert_eq!(sum, 6);
        let mut pool = WorkerPool::<()>::default();
        let ticket = pool.give(1, Box::new(|()| ()));
        let started = pool.started();
        assert!(started == 1 || pool.take_back(ticket).is_some());
        drop(pool);
        println!("threads: {started}");
    }

    /// Leaves the process so many bytes of address space, and the C library none that it has not given out.
    fn leave(bytes: u64) {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
        let used = pages * 4096;
        let limit = |current| {
            let limit = Rlimit {
                current: Some(current),
                ..getrlimit(Resource::As)
            };
            setrlimit(Resource::As, limit).unwrap();
        };
        limit(used);
        for shift in (4..=20).rev() {
            let layout = Layout::from_size_align(1 << shift, 16).unwrap();
            // Memory that is not used would not be taken at all.
            // SAFETY: the layout has a size. The memory is not given back.
            while !std::hint::black_box(unsafe { System.alloc(layout) }).is_null() {}
        }
        limit(used + bytes);
    }
}
