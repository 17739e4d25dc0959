//! Threads as `crates/io/src/threads.rs` starts them. Their start is not waited for.

use std::io;
use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread::Builder;

pub(crate) const NAME: &str = "worker";

#[derive(Clone)]
pub(crate) struct Running(Arc<AtomicBool>);

impl Running {
    pub(crate) fn say(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_said(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

pub(crate) fn start<T>(
    name: &str,
    spawn: impl FnOnce(Builder, Running) -> io::Result<T>,
) -> Option<T> {
    let running = Running(Arc::new(AtomicBool::new(false)));
    spawn(Builder::new().name(name.into()), running).ok()
}
