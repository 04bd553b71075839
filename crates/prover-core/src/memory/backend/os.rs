//! The system calls, each with its status checked, in terms of ranges.

use std::io;
use std::ptr::{self, NonNull};

/// The error number of a call that has just failed.
fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn check(status: libc::c_int) -> Result<(), i32> {
    if status == 0 {
        Ok(())
    } else {
        Err(errno())
    }
}

/// Takes `size` bytes of address space that nothing may touch yet.
pub(super) fn reserve(size: usize) -> Result<NonNull<u8>, i32> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: an anonymous private mapping at an address of the kernel's choice replaces nothing.
    let address = unsafe { libc::mmap(ptr::null_mut(), size, libc::PROT_NONE, flags, -1, 0) };
    if address == libc::MAP_FAILED {
        return Err(errno());
    }
    NonNull::new(address.cast()).ok_or(0)
}

/// Gives address space back, with the memory in it.
///
/// # Safety
/// The range is part of a mapping of [`reserve`], in whole pages, and is not used again.
pub(super) unsafe fn unmap(first: NonNull<u8>, size: usize) -> Result<(), i32> {
    // SAFETY: the caller's promise.
    check(unsafe { libc::munmap(first.as_ptr().cast(), size) })
}

/// Makes reserved pages readable and writable.
///
/// # Safety
/// The range is part of a mapping of [`reserve`], in whole pages.
pub(super) unsafe fn allow(first: NonNull<u8>, size: usize) -> Result<(), i32> {
    // SAFETY: the caller's promise; the pages hold no Rust value whose access this could change.
    check(unsafe { libc::mprotect(first.as_ptr().cast(), size, libc::PROT_READ | libc::PROT_WRITE) })
}

/// The reverse of [`allow`]: the pages' memory is gone, the address space stays. Best effort: what the system
/// does not take back stays mapped until [`unmap`].
///
/// # Safety
/// As [`allow`], and nobody uses the bytes again before another [`allow`].
pub(super) unsafe fn forbid(first: NonNull<u8>, size: usize) {
    // SAFETY: the caller's promise; private anonymous pages read as zero after MADV_DONTNEED.
    unsafe {
        libc::madvise(first.as_ptr().cast(), size, libc::MADV_DONTNEED);
        libc::mprotect(first.as_ptr().cast(), size, libc::PROT_NONE);
    }
}

/// Wishes for a whole reservation: large pages, no core dumps, no copies in forked children.
///
/// A kernel that does not know one of them refuses it and nothing is lost but the wish, so the answers do not
/// matter.
///
/// # Safety
/// The range is a mapping of [`reserve`], in whole pages.
pub(super) unsafe fn advise(first: NonNull<u8>, size: usize) {
    #[cfg(target_os = "linux")]
    for advice in [libc::MADV_HUGEPAGE, libc::MADV_DONTDUMP, libc::MADV_DONTFORK] {
        // SAFETY: the caller's promise; none of these changes contents.
        unsafe { libc::madvise(first.as_ptr().cast(), size, advice) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (first, size);
}

/// Wishes for memory that somebody else has mapped: no core dumps, no copies in forked children. As with [`advise`]
/// the answers do not matter.
///
/// # Safety
/// The range is mapped, in whole pages.
pub(super) unsafe fn keep_private(first: NonNull<u8>, size: usize) {
    #[cfg(target_os = "linux")]
    for advice in [libc::MADV_DONTDUMP, libc::MADV_DONTFORK] {
        // SAFETY: the caller's promise; none of these changes contents.
        unsafe { libc::madvise(first.as_ptr().cast(), size, advice) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (first, size);
}

/// Takes back what [`keep_private`] wished for, before the memory goes to its owner: who gets it next must find it in
/// its children.
///
/// # Safety
/// As [`keep_private`].
pub(super) unsafe fn share_again(first: NonNull<u8>, size: usize) {
    #[cfg(target_os = "linux")]
    for advice in [libc::MADV_DODUMP, libc::MADV_DOFORK] {
        // SAFETY: the caller's promise; none of these changes contents.
        unsafe { libc::madvise(first.as_ptr().cast(), size, advice) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (first, size);
}

/// Faults pages in, writable. `Ok(false)`: this kernel cannot (before 5.14), touch them instead.
///
/// # Safety
/// The range is [`allow`]ed, in whole pages.
pub(super) unsafe fn populate(first: NonNull<u8>, size: usize) -> Result<bool, i32> {
    #[cfg(target_os = "linux")]
    for _ in 0..64 {
        // SAFETY: the caller's promise; it faults as a write would, without changing contents.
        match check(unsafe { libc::madvise(first.as_ptr().cast(), size, libc::MADV_POPULATE_WRITE) }) {
            Ok(()) => return Ok(true),
            Err(libc::EINVAL) => return Ok(false),
            // Interrupted or a passing shortage: what is faulted already stays so.
            Err(libc::EAGAIN | libc::EINTR) => continue,
            Err(code) => return Err(code),
        }
    }
    let _ = (first, size);
    Ok(false)
}

/// Locks pages in RAM.
///
/// # Safety
/// The range is [`allow`]ed, in whole pages.
pub(super) unsafe fn lock(first: NonNull<u8>, size: usize) -> Result<(), i32> {
    // SAFETY: the caller's promise.
    check(unsafe { libc::mlock(first.as_ptr().cast(), size) })
}

/// Unlocks pages.
///
/// # Safety
/// As [`lock`].
pub(super) unsafe fn unlock(first: NonNull<u8>, size: usize) -> Result<(), i32> {
    // SAFETY: the caller's promise.
    check(unsafe { libc::munlock(first.as_ptr().cast(), size) })
}
