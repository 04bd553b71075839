//! Calls of CUDA that fail on purpose, for tests: each of them in turn, to see that nothing is lost whichever it is.
//!
//! The counter is the process's: tests that use it run alone.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::sys;

/// Makes the `nth` checked call of CUDA from now on (counted from 1) fail with CUDA's `code`, without being made. With
/// `for_good` all calls after it fail, too, as they do on a device with a sticky error.
///
/// The fault ends when the value is dropped.
#[must_use = "the fault ends when it is dropped"]
#[derive(Debug)]
pub struct Fault(());

impl Fault {
    /// See [`Fault`].
    pub fn inject(nth: u32, code: i32, for_good: bool) -> Self {
        // SAFETY: it takes no pointers and stores its arguments.
        unsafe { sys::pc_fault(i64::from(nth.max(1)), code, i32::from(for_good)) }
        Self(())
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { sys::pc_fault(0, 0, 0) }
    }
}

/// Checked calls of CUDA that this process has made so far.
pub fn calls() -> u64 {
    // SAFETY: it takes nothing and reads a counter.
    u64::try_from(unsafe { sys::pc_calls() }).unwrap_or(0)
}

/// Of the next result, the bit to flip, counted from 1; 0: none.
static FLIP: AtomicU32 = AtomicU32::new(0);

/// Flips one bit of the sum over the H query in the next result of this process, as a device with bad memory would.
/// `bit` counts from 0 over the 144 bytes of the sum.
pub fn flip_bit_of_next_sum(bit: u32) {
    FLIP.store(bit % (144 * 8) + 1, Ordering::Relaxed);
}

/// Flips the bit that is to be flipped.
pub(crate) fn corrupt(sums: &mut sys::Sums) {
    if let Some(bit) = FLIP.swap(0, Ordering::Relaxed).checked_sub(1) {
        sums.h[bit as usize / 8] ^= 1 << (bit % 8);
    }
}
