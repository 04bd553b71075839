//! Where memory comes from.
//!
//! A [`Backend`] maps; what it maps is a [`Region`] that owns its bytes, can grow in place, and unmaps itself
//! when it is dropped. The pool knows nothing else, so every backend passes one behaviour suite
//! (`tests/memory_backends.rs`).
//!
//! | backend | memory | [`Residency`] | for |
//! |---|---|---|---|
//! | [`CudaRegister`] | the same as [`Pages`], registered with the CUDA driver | `Pinned` | the default with a device |
//! | [`CudaHostAlloc`] | the CUDA driver's own | `Pinned` | where the driver registers no memory of a process |
//! | [`Pages`] | `mmap`, 2 MiB pages where they are to be had | `Pageable` | the default without a device |
//! | [`Mlock`] | the same, `mlock`ed | `Locked` | secrets, tests of locking |
//! | [`Heap`] | the global allocator | `Pageable` | tests, systems without `mmap` |
//!
//! [`CudaRegister`] registers a region with the driver in `map` and `grow` (piece by piece), and makes one
//! registration of the pieces in [`Region::seal`]. The driver's calls come through [`Registrar`], so that tests can
//! make each of them fail.

#[cfg(unix)]
mod cuda_host_alloc;
#[cfg(unix)]
mod cuda_register;
mod heap;
#[cfg(unix)]
mod mlock;
#[cfg(unix)]
mod os;
#[cfg(unix)]
mod pages;
mod parallel;
#[cfg(unix)]
mod registrar;
mod wipe;

use std::fmt;
use std::ptr::NonNull;

use pinned_alloc::{AllocError, Residency};

#[cfg(unix)]
pub use self::cuda_host_alloc::CudaHostAlloc;
#[cfg(unix)]
pub use self::cuda_register::CudaRegister;
pub use self::heap::Heap;
#[cfg(unix)]
pub use self::mlock::Mlock;
#[cfg(unix)]
pub use self::pages::Pages;
#[cfg(unix)]
pub use self::registrar::Registrar;
pub use self::wipe::wipe;

/// Bytes of a small page, the granularity of regions below [`HUGE_PAGE`].
pub const PAGE: usize = 4 << 10;
/// Bytes of a large page, the granularity of regions at or above it.
pub const HUGE_PAGE: usize = 2 << 20;

/// Maps memory. All sizes are in bytes.
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// A short name for reports: `"cuda-register"`, `"pages"`, `"heap"`.
    fn name(&self) -> &'static str;

    /// Where the memory lives.
    fn residency(&self) -> Residency;

    /// The NUMA node that its memory is to be on; `None`: wherever the system places it.
    fn numa_node(&self) -> Option<u32> {
        None
    }

    /// Maps a region of [`rounded`]`(size)` bytes, faulted in, locked if the backend locks, with address
    /// space to grow in place to about `reserve` bytes if that is to be had. The first byte is aligned to
    /// `align` (a power of two) and to at least [`PAGE`]; the bytes are zero.
    ///
    /// # Errors
    /// [`AllocError::Refused`] with what the system said, [`AllocError::CapacityOverflow`] for sizes that no
    /// address space holds. Nothing stays mapped.
    fn map(&self, size: usize, align: usize, reserve: usize) -> Result<Box<dyn Region>, AllocError>;
}

/// Mapped memory. Dropping it unlocks and unmaps it.
///
/// # Safety
/// In the process that mapped it, from `map` to drop, `as_ptr` stays the same and `committed` bytes from it may be read and written by the
/// owner of the region, are initialised, and belong to nobody else. `committed` changes by `grow` alone, and
/// never falls.
pub unsafe trait Region: fmt::Debug + Send + Sync {
    /// The first byte.
    fn as_ptr(&self) -> NonNull<u8>;

    /// Usable bytes.
    fn committed(&self) -> usize;

    /// Bytes it can grow to in place.
    fn reserved(&self) -> usize;

    /// Where the bytes live now.
    fn residency(&self) -> Residency;

    /// Whether this process has the memory: a forked child of the one that mapped it does not. There nothing may
    /// touch the bytes, and the drop leaves everything as it is.
    fn is_here(&self) -> bool {
        true
    }

    /// Grows in place to [`rounded`]`(size)` bytes, faulted in and locked as the first ones are. The new
    /// bytes are zero.
    ///
    /// # Errors
    /// [`AllocError::CannotGrow`] beyond [`reserved`](Self::reserved), [`AllocError::Refused`] if the system
    /// refuses. The region is as it was.
    fn grow(&mut self, size: usize) -> Result<(), AllocError>;

    /// Makes the region one piece for a device, after growth. See [`pinned_alloc::VTable::seal`].
    ///
    /// # Errors
    /// What the driver says. The bytes are whole; `residency` tells what they are now.
    fn seal(&mut self) -> Result<Residency, AllocError> {
        Ok(self.residency())
    }

    /// Takes the bytes away from a device, or unlocks them, for good; they stay mapped. For memory whose copy
    /// has failed. Memory of a driver's own cannot be parted from it: it stays as it is.
    ///
    /// # Errors
    /// What the system says; the region is then never unmapped.
    fn unpin(&mut self) -> Result<(), AllocError> {
        Ok(())
    }
}

/// What a region of `size` bytes really takes: whole small pages below 2 MiB, whole large pages from there
/// on. `None` if that is more than an allocation may have (`isize::MAX`).
pub fn rounded(size: usize) -> Option<usize> {
    let granule = if size < HUGE_PAGE { PAGE } else { HUGE_PAGE };
    size.max(1).checked_next_multiple_of(granule).filter(|size| isize::try_from(*size).is_ok())
}

fn rounded_or_overflow(size: usize) -> Result<usize, AllocError> {
    rounded(size).ok_or(AllocError::CapacityOverflow { count: size, element_size: 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding() {
        for (size, expected) in [
            (0, PAGE),
            (1, PAGE),
            (PAGE, PAGE),
            (PAGE + 1, 2 * PAGE),
            (HUGE_PAGE - 1, HUGE_PAGE),
            (HUGE_PAGE, HUGE_PAGE),
            (HUGE_PAGE + 1, 2 * HUGE_PAGE),
            (5 << 20, 6 << 20),
            (5 << 30, 5 << 30),
        ] {
            assert_eq!(rounded(size), Some(expected), "{size}");
        }
        assert_eq!(rounded(usize::MAX), None);
        assert_eq!(rounded(usize::MAX / 2), None);
        assert_eq!(rounded(isize::MAX as usize - HUGE_PAGE + 2), None);
    }
}
