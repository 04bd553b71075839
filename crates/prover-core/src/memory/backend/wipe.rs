//! Zeroing that the compiler may not leave out.

use std::ptr::NonNull;

use super::parallel::{in_parallel, Base};

/// Writes zeros over `size` bytes from `first`, for certain, even if nobody reads them again. Large ranges
/// are shared among threads.
///
/// # Safety
/// The `size` bytes may be written, and nobody else uses them during the call.
pub unsafe fn wipe(first: NonNull<u8>, size: usize) {
    let base = Base(first);
    in_parallel(size, |offset, length| {
        // SAFETY: `offset + length <= size`, so the part lies in the caller's range; parts are disjoint.
        unsafe { wipe_here(base.at(offset), length) }
    });
}

/// # Safety
/// As [`wipe`].
unsafe fn wipe_here(first: NonNull<u8>, size: usize) {
    // SAFETY: the caller's promise.
    unsafe { first.as_ptr().write_bytes(0, size) };
    // The compiler must assume that this reads what the pointer reaches, so the stores above are not dead.
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    // SAFETY: the assembly is a comment; it touches nothing.
    unsafe {
        std::arch::asm!("/* {0} */", in(reg) first.as_ptr(), options(nostack, preserves_flags));
    }
    std::hint::black_box(first.as_ptr());
}
