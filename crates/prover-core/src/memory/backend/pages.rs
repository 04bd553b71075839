//! Ordinary memory in large pages, faulted in by several threads, with address space to grow in place.
//!
//! ```text
//!   reserve (PROT_NONE): no memory, only addresses; a multiple of what is committed
//!   ├───────────────────────────┬──────────────────────────────────────────────────┤
//!   │ committed: read and write │ reserved: grow() makes it committed, piece by piece
//!   └───────────────────────────┴──────────────────────────────────────────────────┘
//!   ▲ aligned to 2 MiB
//! ```

use std::process;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, Ordering};

use pinned_alloc::{AllocError, Cause, Residency};

use super::parallel::{in_parallel, Base};
use super::{os, rounded, rounded_or_overflow, Backend, Region, HUGE_PAGE, PAGE};

const MMAP_REMEDY: &str =
    "run fewer proofs at once, lower --memory-budget, or raise the limit on address space (`ulimit -v`)";
const FAULT_REMEDY: &str = "run fewer proofs at once, lower --memory-budget, or add memory";

/// `mmap`ed memory in 2 MiB pages where the system has them, not locked. Left out of core dumps and forked
/// children.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pages;

impl Pages {
    /// The backend has no settings.
    pub const fn new() -> Self {
        Self
    }
}

impl Backend for Pages {
    fn name(&self) -> &'static str {
        "pages"
    }

    fn residency(&self) -> Residency {
        Residency::Pageable
    }

    fn map(&self, size: usize, align: usize, reserve: usize) -> Result<Box<dyn Region>, AllocError> {
        Ok(Box::new(Mapping::new(size, align, reserve, os::reserve)?))
    }
}

/// A reservation of address space whose first `committed` bytes are memory.
#[derive(Debug)]
pub(super) struct Mapping {
    first: NonNull<u8>,
    committed: usize,
    reserved: usize,
    /// Who mapped it.
    process: u32,
}

// SAFETY: the mapping owns its range alone, and memory may be used and unmapped from any thread.
unsafe impl Send for Mapping {}
// SAFETY: through `&Mapping` only plain values are read.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps as [`Backend::map`] says. `reserve_space` is [`os::reserve`] but in tests.
    pub(super) fn new(
        size: usize,
        align: usize,
        reserve: usize,
        reserve_space: impl Fn(usize) -> Result<NonNull<u8>, i32>,
    ) -> Result<Self, AllocError> {
        let overflow = || AllocError::CapacityOverflow { count: size, element_size: 1 };
        let size = rounded_or_overflow(size)?;
        let align = align.max(HUGE_PAGE);
        // An address aligned to more than a page is found inside a range that is larger by that much.
        let slack = align - PAGE;
        let mut reserved = rounded(reserve.max(size)).unwrap_or(size);
        let (start, length) = loop {
            let refused = match reserved.checked_add(slack).map(|length| (length, reserve_space(length))) {
                Some((length, Ok(start))) => break (start, length),
                Some((_, Err(code))) => Some(code),
                None => None,
            };
            if reserved == size {
                return Err(refused.map_or_else(overflow, |code| AllocError::Refused {
                    requested: size,
                    cause: Cause::new("mmap", code, MMAP_REMEDY),
                }));
            }
            // Less to grow into is better than nothing.
            reserved = rounded(reserved / 2).unwrap_or(size).max(size);
        };
        let before = start.addr().get().next_multiple_of(align) - start.addr().get();
        let after = length - before - reserved;
        // SAFETY: `before + reserved + after == length`; the parts cut off are whole pages of this new
        // mapping, and nobody has seen them. If the system does not take one back, only address space is
        // lost.
        let mut mapping = unsafe {
            if before > 0 {
                let _ = os::unmap(start, before);
            }
            let first = start.add(before);
            if after > 0 {
                let _ = os::unmap(first.add(reserved), after);
            }
            os::advise(first, reserved);
            Self { first, committed: 0, reserved, process: process::id() }
        };
        mapping.commit(size)?;
        Ok(mapping)
    }

    pub(super) fn first(&self) -> NonNull<u8> {
        self.first
    }

    pub(super) fn committed(&self) -> usize {
        self.committed
    }

    pub(super) fn reserved(&self) -> usize {
        self.reserved
    }

    /// Whether this process mapped it.
    pub(super) fn is_here(&self) -> bool {
        self.process == process::id()
    }

    /// The address `offset` bytes into the reservation.
    pub(super) fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset <= self.reserved);
        // SAFETY: just checked; the reservation is one allocation.
        unsafe { self.first.add(offset) }
    }

    /// Makes the first [`rounded`]`(size)` bytes memory, faulted in. On an error it is as it was.
    pub(super) fn commit(&mut self, size: usize) -> Result<(), AllocError> {
        let cannot = AllocError::CannotGrow { size: self.committed, requested: size };
        let Some(size) = rounded(size).filter(|size| *size <= self.reserved) else { return Err(cannot) };
        if size <= self.committed {
            return Ok(());
        }
        let (start, length) = (self.at(self.committed), size - self.committed);
        let refused = |call, code| AllocError::Refused {
            requested: length,
            cause: Cause::new(call, code, FAULT_REMEDY),
        };
        // SAFETY: `committed` and `size` are multiples of a page and at most `reserved`, so the range is
        // whole pages of our mapping.
        unsafe { os::allow(start, length) }.map_err(|code| refused("mprotect", code))?;
        // SAFETY: the range has just been allowed, and nobody else knows it.
        if let Err(code) = unsafe { fault_in(start, length) } {
            // SAFETY: as above; the bytes were never handed out.
            unsafe { os::forbid(start, length) };
            return Err(refused("madvise", code));
        }
        self.committed = size;
        Ok(())
    }

    /// Takes the memory beyond the first `size` bytes (a multiple of a page) away again.
    pub(super) fn decommit(&mut self, size: usize) {
        if size < self.committed {
            let (start, length) = (self.at(size), self.committed - size);
            self.committed = size;
            // SAFETY: the range is whole committed pages of our mapping, and `&mut self` says that nobody
            // uses them.
            unsafe { os::forbid(start, length) };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // A forked child does not have it (MADV_DONTFORK), and may have something else at that address by now.
        if !self.is_here() {
            return;
        }
        // SAFETY: the mapping is ours, whole, and its owner is gone.
        if let Err(code) = unsafe { os::unmap(self.first, self.reserved) } {
            tracing::error!(
                bytes = self.committed,
                code,
                "munmap failed; the memory stays with this process"
            );
        }
    }
}

// SAFETY: `first` is the start of a private mapping that only `drop` unmaps; its first `committed` bytes were
// allowed and zero from the kernel; `commit` moves `committed` up, `decommit` is not reachable through this
// trait.
unsafe impl Region for Mapping {
    fn as_ptr(&self) -> NonNull<u8> {
        self.first
    }

    fn committed(&self) -> usize {
        self.committed
    }

    fn reserved(&self) -> usize {
        self.reserved
    }

    fn residency(&self) -> Residency {
        Residency::Pageable
    }

    fn is_here(&self) -> bool {
        Mapping::is_here(self)
    }

    fn grow(&mut self, size: usize) -> Result<(), AllocError> {
        self.commit(size)
    }
}

/// Faults the pages in, by several threads.
///
/// # Safety
/// The range is allowed, whole pages, and used by nobody else during the call.
unsafe fn fault_in(first: NonNull<u8>, size: usize) -> Result<(), i32> {
    let failed = AtomicI32::new(0);
    let base = Base(first);
    in_parallel(size, |offset, length| {
        if failed.load(Ordering::Relaxed) != 0 {
            return;
        }
        // SAFETY: the part lies in the caller's range; parts are whole pages since `PART` is.
        let first = unsafe { base.at(offset) };
        // SAFETY: as above.
        match unsafe { os::populate(first, length) } {
            Ok(true) => {}
            Ok(false) => {
                for offset in (0..length).step_by(PAGE) {
                    // SAFETY: the byte is in the part. It is zero (fresh from the kernel), and stays so.
                    unsafe { first.add(offset).as_ptr().write_volatile(0) };
                }
            }
            // 0 would read as "no error"; the number itself is only for the message.
            Err(code) => failed.store(if code == 0 { -1 } else { code }, Ordering::Relaxed),
        }
    });
    match failed.into_inner() {
        0 => Ok(()),
        code => Err(code),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_refused_reservation_is_halved_down_to_what_is_needed() {
        let asked = RefCell::new(Vec::new());
        let at_most = |limit: usize| {
            let asked = &asked;
            move |length: usize| {
                asked.borrow_mut().push(length);
                if length > limit {
                    Err(libc::ENOMEM)
                } else {
                    os::reserve(length)
                }
            }
        };
        let mapping = Mapping::new(4 << 20, 1, 64 << 20, at_most(20 << 20)).unwrap();
        assert_eq!((mapping.committed(), mapping.reserved()), (4 << 20, 16 << 20));
        assert_eq!(asked.take().len(), 3);

        let mapping = Mapping::new(6 << 20, 1, 1 << 40, at_most(8 << 20)).unwrap();
        assert_eq!((mapping.committed(), mapping.reserved()), (6 << 20, 6 << 20));

        let error = Mapping::new(6 << 20, 1, 1 << 40, at_most(7 << 20)).unwrap_err();
        let AllocError::Refused { requested, cause } = error else { panic!("{error}") };
        assert_eq!((requested, cause.call, cause.code), (6 << 20, "mmap", libc::ENOMEM));
    }

    #[test]
    fn decommitted_memory_comes_back_as_zeros() {
        let mut mapping = Mapping::new(4 << 20, 1, 8 << 20, os::reserve).unwrap();
        // SAFETY: the byte is committed and the mapping is ours.
        unsafe { mapping.at(3 << 20).write(7) };
        mapping.decommit(2 << 20);
        assert_eq!(mapping.committed(), 2 << 20);
        mapping.commit(4 << 20).unwrap();
        // SAFETY: committed again.
        assert_eq!(unsafe { mapping.at(3 << 20).read() }, 0);
        assert!(matches!(mapping.commit(9 << 20), Err(AllocError::CannotGrow { .. })));
    }
}
