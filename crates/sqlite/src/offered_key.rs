//! A key that is offered to the files that a thread opens meanwhile.
//!
//! A key is not for a name, which is shown in messages and kept by SQLite. So who opens a database by a call of SQLite's
//! offers it to whatever that call opens, on the same thread.

use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use litepack_cipher::Key;

/// What is offered, by thread, the newest last.
static OFFERS: Mutex<Vec<Offer>> = Mutex::new(Vec::new());

struct Offer {
    thread: usize,
    key: Arc<Key>,
    is_taken: bool,
}

/// Tells this thread from others as long as it runs. Not its identity as the library has it: asking for that leaves a
/// destructor on the thread.
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| ptr::from_ref(here).addr())
}

fn offers() -> MutexGuard<'static, Vec<Offer>> {
    OFFERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does `work`. The main databases that it opens on this thread open with `key`, and new ones are encrypted with it. Says
/// whether there were any.
pub fn with_key<T>(key: Arc<Key>, work: impl FnOnce() -> T) -> (T, bool) {
    /// Takes the offer back, also where `work` panics.
    struct Offered(usize);

    impl Offered {
        fn take_back(&self) -> bool {
            let mut offers = offers();
            let mine = offers.iter().rposition(|offer| offer.thread == self.0);
            mine.is_some_and(|at| offers.remove(at).is_taken)
        }
    }

    impl Drop for Offered {
        fn drop(&mut self) {
            self.take_back();
        }
    }

    let thread = this_thread();
    offers().push(Offer {
        thread,
        key,
        is_taken: false,
    });
    let offered = Offered(thread);
    let done = work();
    let is_taken = offered.take_back();
    std::mem::forget(offered);
    (done, is_taken)
}

/// The key that is offered to what this thread opens.
pub(crate) fn take() -> Option<Arc<Key>> {
    let thread = this_thread();
    let mut offers = offers();
    let offer = offers.iter_mut().rfind(|offer| offer.thread == thread)?;
    offer.is_taken = true;
    Some(Arc::clone(&offer.key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> Arc<Key> {
        Arc::new(Key::raw(&[byte; 32]).unwrap())
    }

    fn is_offered(byte: u8) -> bool {
        take().is_some_and(|found| found.is_same(&key(byte)))
    }

    #[test]
    fn a_key_is_offered_to_its_thread_while_the_work_lasts() {
        assert!(take().is_none());
        let ((), is_taken) = with_key(key(1), || {});
        assert!(!is_taken);
        let ((), is_taken) = with_key(key(1), || {
            assert!(is_offered(1));
            let ((), inner) = with_key(key(2), || assert!(is_offered(2)));
            assert!(inner && is_offered(1));
            std::thread::scope(|scope| {
                scope.spawn(|| assert!(take().is_none()));
            });
        });
        assert!(is_taken && take().is_none());
        let panics = || with_key(key(3), || panic!("it fails"));
        std::panic::catch_unwind(panics).unwrap_err();
        assert!(take().is_none());
    }
}
