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

/// Wishes that pages come from the memory of a NUMA node when they are faulted in; others serve when it is full. A system that
/// does not know the node, or does not let us, refuses, and nothing is lost but the wish.
///
/// # Safety
/// The range is a mapping of [`reserve`], in whole pages.
pub(super) unsafe fn prefer_node(first: NonNull<u8>, size: usize, node: u32) {
    #[cfg(target_os = "linux")]
    {
        const MPOL_PREFERRED: libc::c_int = 1;
        let mut mask = [0_u64; 16];
        let Some(word) = mask.get_mut(node as usize / 64) else { return };
        *word = 1 << (node % 64);
        // The kernel looks at one bit less than it is told of.
        let bits = mask.len() * 64 + 1;
        // SAFETY: the caller's promise: the policy of our own mapping changes, not its contents. The mask outlives the call and
        // has the bits that are announced (the one beyond is not read).
        unsafe {
            libc::syscall(libc::SYS_mbind, first.as_ptr(), size, MPOL_PREFERRED, mask.as_ptr(), bits, 0);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (first, size, node);
}

/// The NUMA node of the page at an address that is faulted in; `None` if the system does not say.
pub(super) fn node_of(first: NonNull<u8>) -> Option<u32> {
    #[cfg(target_os = "linux")]
    {
        const MPOL_F_NODE: libc::c_ulong = 1;
        const MPOL_F_ADDR: libc::c_ulong = 2;
        let mut node: libc::c_int = -1;
        let flags = MPOL_F_NODE | MPOL_F_ADDR;
        let no_mask = ptr::null_mut::<libc::c_ulong>();
        // SAFETY: the kernel writes one integer, which outlives the call, and no mask; an address that is not mapped is an error.
        let status = unsafe {
            libc::syscall(libc::SYS_get_mempolicy, &mut node, no_mask, 0_usize, first.as_ptr(), flags)
        };
        (status == 0).then(|| u32::try_from(node).ok()).flatten()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = first;
        None
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_preferred_node_changes_no_contents_and_one_that_is_not_there_does_no_harm() {
        for node in [0, 63, 900, u32::MAX] {
            let first = reserve(1 << 20).unwrap();
            // SAFETY: the mapping is new, and unmapped only at the end.
            unsafe {
                prefer_node(first, 1 << 20, node);
                allow(first, 1 << 20).unwrap();
                first.write(7);
                assert_eq!(first.read(), 7);
                // In a sandbox the system may not say.
                if let Some(found) = node_of(first) {
                    assert!(std::path::Path::new(&format!("/sys/devices/system/node/node{found}")).exists());
                }
                unmap(first, 1 << 20).unwrap();
            }
        }
    }
}
