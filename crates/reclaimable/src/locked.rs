//! A value that is wiped: for keys.
//!
//! On Linux it has memory of its own, which is not in core dumps and, as far as the system allows it, not swapped. All
//! of that memory is zeros before it is given back. Elsewhere the value is only wiped.
//!
//! Moving a value into it leaves a copy on the stack, as every move in Rust may.

use std::alloc::Layout;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A value in memory that is wiped when it goes.
pub struct Locked<T: ?Sized> {
    value: NonNull<T>,
    place: Place,
}

#[cfg(target_os = "linux")]
use linux::Place;
#[cfg(not(target_os = "linux"))]
use other::Place;

impl<T> Locked<T> {
    /// `None` if there is no memory.
    pub fn new(value: T) -> Option<Locked<T>> {
        let place = Place::new(size_of::<T>(), align_of::<T>())?;
        let at = place.start().cast::<T>();
        // SAFETY: the place has room for a `T` at an address that is aligned for one, is writable, and is only known here.
        unsafe { at.write(value) };
        Some(Locked { value: at, place })
    }
}

impl<T> Locked<[T]> {
    /// So many values, each made where it stays: together they may be more than a stack has room for. `None` if there is
    /// no memory. `make` does not panic: what was made by then would be neither dropped nor wiped.
    pub fn many(len: usize, mut make: impl FnMut() -> T) -> Option<Locked<[T]>> {
        let layout = Layout::array::<T>(len).ok()?;
        let place = Place::new(layout.size(), layout.align())?;
        let at = place.start().cast::<T>();
        for index in 0..len {
            // SAFETY: the place has room for `len` values at an address that is aligned for them, is writable, and is only
            // known here.
            unsafe { at.add(index).write(make()) };
        }
        let value = NonNull::slice_from_raw_parts(at, len);
        Some(Locked { value, place })
    }
}

impl Locked<[u8]> {
    /// A copy of bytes. `None` if there is no memory.
    pub fn copy_of(bytes: &[u8]) -> Option<Locked<[u8]>> {
        let place = Place::new(bytes.len(), 1)?;
        let at = place.start();
        // SAFETY: the place has room for so many bytes, is writable, and is only known here.
        unsafe { at.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        let value = NonNull::slice_from_raw_parts(at, bytes.len());
        Some(Locked { value, place })
    }
}

impl<T: ?Sized> Deref for Locked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: it was written when `self` was made, and lives as long as `self`, through which it is borrowed.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for Locked<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; and `self` is borrowed alone.
        unsafe { self.value.as_mut() }
    }
}

impl<T: ?Sized> Drop for Locked<T> {
    fn drop(&mut self) {
        // SAFETY: it was written when `self` was made and is not used again.
        unsafe { self.value.drop_in_place() };
        self.place.wipe();
    }
}

impl<T: ?Sized> std::fmt::Debug for Locked<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Locked(..)")
    }
}

// SAFETY: it owns the value, and its memory belongs to no thread.
unsafe impl<T: Send + ?Sized> Send for Locked<T> {}
// SAFETY: a shared borrow of it gives a shared borrow of the value and nothing else.
unsafe impl<T: Sync + ?Sized> Sync for Locked<T> {}

/// Writes zeros, which the compiler does not leave out although nothing reads them.
///
/// # Safety
/// `len` bytes from `start` on are writable, and nothing else uses them.
unsafe fn wipe(start: NonNull<u8>, len: usize) {
    for at in 0..len {
        // SAFETY: the caller vouches for the range.
        unsafe { start.add(at).write_volatile(0) };
    }
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ptr::NonNull;

    use rustix::mm::Advice;

    use crate::pages::Pages;

    /// Whole pages of the system.
    pub(super) struct Place(Pages);

    impl Place {
        pub(super) fn new(size: usize, align: usize) -> Option<Place> {
            if align > rustix::param::page_size() {
                return None;
            }
            let pages = Pages::new(size)?;
            // A process may lock little, and then the key is where it would be without this.
            let _ = pages.lock();
            pages.advise(Advice::LinuxDontDump);
            Some(Place(pages))
        }

        pub(super) fn start(&self) -> NonNull<u8> {
            self.0.start()
        }

        pub(super) fn wipe(&mut self) {
            // SAFETY: the value in it was dropped, and the mapping is as long.
            unsafe { super::wipe(self.0.start(), self.0.len()) };
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use std::alloc::Layout;
    use std::ptr::NonNull;

    /// Memory of the program.
    pub(super) struct Place {
        start: NonNull<u8>,
        layout: Layout,
    }

    impl Place {
        pub(super) fn new(size: usize, align: usize) -> Option<Place> {
            let layout = Layout::from_size_align(size.max(1), align).ok()?;
            // SAFETY: the layout has a size.
            let start = NonNull::new(unsafe { std::alloc::alloc(layout) })?;
            Some(Place { start, layout })
        }

        pub(super) fn start(&self) -> NonNull<u8> {
            self.start
        }

        pub(super) fn wipe(&mut self) {
            // SAFETY: the value in it was dropped, and the memory is as long.
            unsafe { super::wipe(self.start, self.layout.size()) };
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            // SAFETY: it was allocated with this layout, and what was in it is gone.
            unsafe { std::alloc::dealloc(self.start.as_ptr(), self.layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_kept_changed_and_dropped_once() {
        let counted = std::sync::Arc::new(());
        let mut locked = Locked::new((std::sync::Arc::clone(&counted), [1u8; 5000])).unwrap();
        locked.1[4999] = 7;
        assert_eq!((locked.1[0], locked.1[4999]), (1, 7));
        assert_eq!(std::sync::Arc::strong_count(&counted), 2);
        drop(locked);
        assert_eq!(std::sync::Arc::strong_count(&counted), 1);
    }

    #[test]
    fn many_values_are_made_in_order_and_dropped_once() {
        let counted = std::sync::Arc::new(());
        for len in [0, 1, 300] {
            let mut made = 0..;
            let make = || (made.next(), std::sync::Arc::clone(&counted));
            let locked = Locked::many(len, make).unwrap();
            assert!(locked.iter().map(|(at, _)| *at).eq((0..len).map(Some)));
            assert_eq!(std::sync::Arc::strong_count(&counted), 1 + len);
            drop(locked);
            assert_eq!(std::sync::Arc::strong_count(&counted), 1);
        }
    }

    #[test]
    fn bytes_of_any_length_are_copied() {
        for len in [0, 1, 32, 5000] {
            let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
            assert_eq!(*Locked::copy_of(&bytes).unwrap(), *bytes);
        }
    }

    #[test]
    fn what_was_in_it_is_zeros_before_the_memory_goes() {
        let mut locked = Locked::new([0xabu8; 300]).unwrap();
        let start = locked.place.start();
        locked.place.wipe();
        // SAFETY: the value needs no drop, and the memory is still there.
        let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), 300) };
        assert_eq!(bytes, [0; 300]);
    }

    /// The kernel says of the mapping that it is not in core dumps, and locked if this process may lock any.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_memory_is_locked_and_not_in_core_dumps() {
        let locked = Locked::new([1u8; 64]).unwrap();
        let start = locked.place.start().as_ptr() as usize;
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let first = |line: &str| usize::from_str_radix(line.split('-').next().unwrap(), 16).ok();
        let mut lines = smaps.lines();
        let is_it = |line: &&str| {
            let range = line.split(' ').next().unwrap_or_default();
            range.contains('-') && first(range).is_some_and(|at| at <= start)
        };
        // Neighbouring mappings of the same kind are shown as one: the last that begins at or before the value has it.
        let begins = lines.clone().rfind(is_it).unwrap();
        lines.find(|line| *line == begins).unwrap();
        let flags = lines.find(|line| line.starts_with("VmFlags")).unwrap();
        let has = |wanted| flags.split(' ').any(|flag| flag == wanted);
        assert!(has("dd"), "{flags}");
        let may_lock = crate::pages::Pages::new(64).is_some_and(|pages| pages.lock());
        assert!(has("lo") || !may_lock, "{flags}");
    }
}
