//! The allocator of the loadable extension: the system's, with a reserve behind it.
//!
//! Rust ends the process when memory for a box, a string or a node of a tree is refused, and no code can prevent that
//! afterwards. A guest must not do that to its host. So what is refused to small requests comes from a reserve, which
//! is part of the library's own memory and costs nothing while it is not touched. When much of it is taken,
//! [`litepack_io::memory::check`] says so and calls end as "out of memory", which gives it back. Large requests get
//! nothing from it: code that makes one asks with the functions of `litepack_io::memory`, and heeds the answer.
//!
//! Nothing in here allocates or panics.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::sync::{Mutex, PoisonError};

/// The reserve's size, and the unit in which it is given out.
const SIZE: usize = 4 << 20;
const BLOCK: usize = 128;
const BLOCKS: usize = SIZE / BLOCK;
/// No single request gets more of it.
const REQUEST_MAX: usize = 512 << 10;
/// When so much is taken, calls end. Work that goes on meanwhile may take the rest.
const LOW: usize = SIZE / 4;

#[repr(C, align(4096))]
struct Region(UnsafeCell<[u8; SIZE]>);

// SAFETY: nothing here reads or writes the content, and each part is given to one owner at a time.
unsafe impl Sync for Region {}

impl Region {
    const fn zero() -> Region {
        Region(UnsafeCell::new([0; SIZE]))
    }
}

/// Memory for when the system has none.
struct Reserve {
    /// By itself, as what is all zero takes no place in the library's file.
    region: &'static Region,
    taken: Mutex<Taken>,
    /// Is told whether much of it is taken.
    tell: fn(bool),
}

static REGION: Region = Region::zero();
static RESERVE: Reserve = Reserve::new(&REGION, litepack_io::memory::set_low);

/// Which blocks are taken.
struct Taken {
    words: [u64; BLOCKS / 64],
    count: usize,
}

impl Taken {
    const NONE: Taken = Taken {
        words: [0; BLOCKS / 64],
        count: 0,
    };

    fn is_taken(&self, block: usize) -> bool {
        self.words
            .get(block / 64)
            .is_none_or(|word| word >> (block % 64) & 1 == 1)
    }

    /// Takes the first `count` free blocks in a row whose first one is a multiple of `step`.
    fn take(&mut self, count: usize, step: usize) -> Option<usize> {
        let mut first = 0;
        while first + count <= BLOCKS {
            match (first..first + count).rev().find(|at| self.is_taken(*at)) {
                Some(taken) => first = (taken + 1).next_multiple_of(step),
                None => {
                    self.turn(first, count);
                    self.count += count;
                    return Some(first);
                }
            }
        }
        None
    }

    fn give_back(&mut self, first: usize, count: usize) {
        self.turn(first, count);
        self.count -= count;
    }

    fn turn(&mut self, first: usize, count: usize) {
        for block in first..first + count {
            if let Some(word) = self.words.get_mut(block / 64) {
                *word ^= 1 << (block % 64);
            }
        }
    }
}

/// Blocks for a request.
fn blocks(size: usize) -> usize {
    size.div_ceil(BLOCK).max(1)
}

impl Reserve {
    const fn new(region: &'static Region, tell: fn(bool)) -> Reserve {
        Reserve {
            region,
            taken: Mutex::new(Taken::NONE),
            tell,
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Taken) -> T) -> T {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut taken);
        (self.tell)(taken.count * BLOCK >= LOW);
        result
    }

    /// Memory of the reserve; null if this is too much of it.
    #[cold]
    fn take(&self, layout: Layout) -> *mut u8 {
        if layout.size() > REQUEST_MAX || layout.align() > 4096 {
            return std::ptr::null_mut();
        }
        let step = layout.align().div_ceil(BLOCK);
        match self.change(|taken| taken.take(blocks(layout.size()), step)) {
            Some(first) => self.region.0.get().cast::<u8>().wrapping_add(first * BLOCK),
            None => std::ptr::null_mut(),
        }
    }

    /// The place of this memory in the reserve, if it is of it.
    fn place(&self, memory: *mut u8) -> Option<usize> {
        let offset = memory.addr().wrapping_sub(self.region.0.get().addr());
        (offset < SIZE).then_some(offset)
    }

    /// Takes memory back, but for its first `kept` blocks.
    #[cold]
    fn give_back(&self, offset: usize, size: usize, kept: usize) {
        let (first, count) = (offset / BLOCK, blocks(size));
        self.change(|taken| taken.give_back(first + kept, count - kept));
    }
}

/// See the module's text. For `#[global_allocator]`.
#[derive(Debug)]
pub struct Allocator;

// SAFETY: memory is the system's allocator's, or a part of the region that no other caller has: blocks are marked as
// taken under the lock until they are given back. Blocks are aligned as asked for, because the region is aligned to
// 4096 and the first block is a multiple of the alignment. Nothing unwinds: no index, no arithmetic that can overflow,
// no allocation.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the layout's size is not zero, as the caller promises to `alloc`; `System` asks for nothing else.
        let memory = unsafe { System.alloc(layout) };
        if !memory.is_null() {
            return memory;
        }
        litepack_io::memory::note_refusal();
        RESERVE.take(layout)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the layout's size is not zero, as the caller promises to `alloc_zeroed`; `System` asks for nothing
        // else.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if !memory.is_null() {
            return memory;
        }
        litepack_io::memory::note_refusal();
        let memory = RESERVE.take(layout);
        if !memory.is_null() {
            // SAFETY: the memory has this size and no other caller has it.
            unsafe { memory.write_bytes(0, layout.size()) };
        }
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        match RESERVE.place(memory) {
            Some(offset) => RESERVE.give_back(offset, layout.size(), 0),
            // SAFETY: the memory was allocated here with this layout, as the caller promises, and it is not in the
            // reserve, so `System` allocated it.
            None => unsafe { System.dealloc(memory, layout) },
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match RESERVE.place(memory) {
            Some(offset) if size <= layout.size() => {
                RESERVE.give_back(offset, layout.size(), blocks(size));
                return memory;
            }
            Some(_) => {}
            None => {
                // SAFETY: the memory was allocated here with this layout and the size is neither zero nor too large for
                // a layout, as the caller promises. It is not in the reserve, so `System` allocated it.
                let moved = unsafe { System.realloc(memory, layout, size) };
                if !moved.is_null() {
                    return moved;
                }
                if size <= layout.size() {
                    // It stays as large as it was: `System` frees by `free`, which knows how large that is.
                    return memory;
                }
            }
        }
        // SAFETY: the caller's size is one that a layout may have.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: a layout of a size that is not zero, as the caller promises.
        let moved = unsafe { self.alloc(wanted) };
        if !moved.is_null() {
            // SAFETY: both are as large as the copied bytes, and no other caller has the new one. The old one is given
            // back once, because the caller does not use it again.
            unsafe {
                moved.copy_from_nonoverlapping(memory, layout.size());
                self.dealloc(memory, layout);
            }
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn blocks_are_given_out_once_and_come_back() {
        let mut taken = Box::new(Taken::NONE);
        assert_eq!(taken.take(3, 1), Some(0));
        assert_eq!(taken.take(1, 32), Some(32));
        assert_eq!(taken.take(30, 1), Some(33));
        assert_eq!(taken.take(29, 1), Some(3));
        taken.give_back(3, 29);
        assert_eq!(taken.take(10, 1), Some(3));
        assert_eq!(taken.take(BLOCKS, 1), None);
        assert_eq!(taken.take(BLOCKS - 63, 1), Some(63));
        assert_eq!(taken.take(20, 1), None);
        assert_eq!(taken.take(19, 1), Some(13));
        assert_eq!(taken.count, BLOCKS);
    }

    #[test]
    fn the_reserve_serves_small_requests_until_it_is_empty_and_tells_before() {
        static IS_LOW: AtomicBool = AtomicBool::new(false);
        static REGION: Region = Region::zero();
        static OURS: Reserve = Reserve::new(&REGION, |low| IS_LOW.store(low, Ordering::Relaxed));
        let layout = Layout::from_size_align(100_000, 4096).unwrap();
        let mut all = Vec::new();
        loop {
            let memory = OURS.take(layout);
            let Some(offset) = OURS.place(memory) else {
                break;
            };
            assert!(memory.addr().is_multiple_of(4096));
            all.push(offset);
            let is_low = all.len() * 100_096 >= LOW;
            assert_eq!(IS_LOW.load(Ordering::Relaxed), is_low, "{}", all.len());
        }
        assert!((38..=41).contains(&all.len()), "{}", all.len());
        for offset in all {
            OURS.give_back(offset, 100_000, 0);
        }
        assert!(!IS_LOW.load(Ordering::Relaxed));
        let large = Layout::from_size_align(REQUEST_MAX + 1, 1).unwrap();
        assert!(OURS.take(large).is_null());
        let all = || OURS.change(|taken| taken.count);
        assert_eq!(all(), 0);
        let memory = OURS.take(layout);
        let offset = OURS.place(memory).unwrap();
        OURS.give_back(offset, 100_000, 10);
        assert_eq!(all(), 10);
    }

    #[test]
    fn what_the_reserve_gave_grows_out_of_it_and_shrinks_within() {
        let layout = |size| Layout::from_size_align(size, 8).unwrap();
        let memory = RESERVE.take(layout(1000));
        // SAFETY: the memory has this size, is used as long as it is held, and given back as what it is then.
        unsafe {
            memory.write_bytes(7, 1000);
            let same = Allocator.realloc(memory, layout(1000), 600);
            assert_eq!(same, memory);
            let moved = Allocator.realloc(memory, layout(600), 5000);
            assert!(RESERVE.place(moved).is_none());
            let content = std::slice::from_raw_parts(moved, 600);
            assert!(content.iter().all(|byte| *byte == 7));
            Allocator.dealloc(moved, layout(5000));
        }
    }
}
