//! Page faults and wiping, shared among threads.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::HUGE_PAGE;

/// What one thread takes at a time, in bytes. Large enough that taking it costs nothing.
const PART: usize = 16 * HUGE_PAGE;

/// Below this many bytes for each a further thread costs more than it saves.
const BYTES_PER_THREAD: usize = 2 * PART;

/// The first byte of a range that several threads work on, each in its own parts.
#[derive(Clone, Copy)]
pub(super) struct Base(pub(super) NonNull<u8>);

// SAFETY: it is only an address; who makes a reference or a write from it promises for that.
unsafe impl Send for Base {}
// SAFETY: as above.
unsafe impl Sync for Base {}

impl Base {
    /// The address `offset` bytes further.
    ///
    /// # Safety
    /// `offset` is at most the length of the allocation that starts at the base.
    pub(super) unsafe fn at(&self, offset: usize) -> NonNull<u8> {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(offset) }
    }
}

/// Runs `work(offset, length)` over parts of `0..size` that are disjoint and together all of it. Small ranges
/// stay in the calling thread. If no thread is to be had, the caller does it all.
pub(super) fn in_parallel(size: usize, work: impl Fn(usize, usize) + Sync) {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(size / BYTES_PER_THREAD);
    if threads < 2 {
        return work(0, size);
    }
    let next = AtomicUsize::new(0);
    let take_parts = || loop {
        // The sum cannot overflow: at most one part beyond `size` (<= isize::MAX) for each thread.
        let offset = next.fetch_add(PART, Ordering::Relaxed);
        if offset >= size {
            return;
        }
        work(offset, PART.min(size - offset));
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            if thread::Builder::new().name("memory".into()).spawn_scoped(scope, take_parts).is_err() {
                break;
            }
        }
        take_parts();
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn parts_are_disjoint_and_complete() {
        for size in [0, 1, PART, 4 * PART, 7 * PART + 12345, 64 * PART + 1] {
            let parts = Mutex::new(Vec::new());
            in_parallel(size, |offset, length| parts.lock().unwrap().push((offset, length)));
            let mut parts = parts.into_inner().unwrap();
            parts.sort_unstable();
            let end = parts.iter().fold(0, |end, (offset, length)| {
                assert_eq!(end, *offset);
                offset + length
            });
            assert_eq!(end, size);
        }
    }
}
