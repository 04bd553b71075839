//! An owned block of memory that frees itself by the functions it came from.

use std::panic::{catch_unwind, AssertUnwindSafe};

use crate::sync::Arc;
use crate::vtable::{Origin, RawBlock, Residency};
use crate::AllocError;

/// Memory from a registered allocator. Dropping it gives it back to that allocator, exactly once.
///
/// The bytes are initialised but hold anything. The block itself hands out only a raw pointer: who stores values in it
/// keeps them apart and drops them before the block.
#[derive(Debug)]
pub struct Block {
    raw: RawBlock,
    origin: Arc<Origin>,
}

// SAFETY: a block owns its bytes alone (contract of `VTable::allocate`), and its functions may be called from any thread.
unsafe impl Send for Block {}
// SAFETY: through `&Block` only plain values can be read; the pointer it gives is raw and its use is unsafe.
unsafe impl Sync for Block {}

impl Block {
    /// Takes ownership of `raw`.
    ///
    /// # Safety
    /// `raw` came from `origin`'s `allocate` and has not been freed or wrapped in a `Block`.
    pub(crate) unsafe fn new(raw: RawBlock, origin: Arc<Origin>) -> Self {
        Self { raw, origin }
    }

    /// The first byte. Valid for reads and writes of [`size`](Self::size) bytes while the block lives.
    pub fn as_ptr(&self) -> *mut u8 {
        self.raw.ptr.as_ptr()
    }

    /// Usable bytes. May be more than was asked for, never less.
    pub fn size(&self) -> usize {
        self.raw.size
    }

    /// Where the bytes live.
    pub fn residency(&self) -> Residency {
        self.raw.residency
    }

    /// The allocator it came from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The raw block, for the allocator that knows its token.
    pub fn raw(&self) -> &RawBlock {
        &self.raw
    }

    /// Grows in place to at least `min_size` bytes. Address and contents stay.
    ///
    /// # Errors
    /// Whatever the allocator answers; the block is unchanged and the caller may move to a larger one.
    pub fn grow(&mut self, min_size: usize) -> Result<(), AllocError> {
        if min_size <= self.raw.size {
            return Ok(());
        }
        if isize::try_from(min_size).is_err() {
            return Err(AllocError::CapacityOverflow { count: min_size, element_size: 1 });
        }
        let (grow, state, raw) = (self.origin.vtable.grow, self.origin.state, self.raw);
        // SAFETY: the block is live and borrowed mutably, so no one else uses it; `min_size > raw.size` was checked;
        // `state` is alive because `self.origin` is.
        let grown = catch_unwind(AssertUnwindSafe(|| unsafe { grow(state, &raw, min_size) }));
        match grown {
            Ok(Ok(size)) if size >= min_size => {
                self.raw.size = size;
                Ok(())
            }
            Ok(Ok(_)) => Err(AllocError::BrokenAllocator {
                requested: min_size,
                what: "it grew a block to less than was asked for",
            }),
            Ok(Err(e)) => Err(e),
            Err(_) => {
                Err(AllocError::BrokenAllocator { requested: min_size, what: "its grow function panicked" })
            }
        }
    }

    /// Makes the block one region, ready for a device. See [`VTable::seal`](crate::VTable::seal).
    ///
    /// # Errors
    /// Whatever the allocator answers. The contents are whole; the block counts as [`Residency::Pageable`] from then on.
    pub fn seal(&mut self) -> Result<(), AllocError> {
        let (seal, state, raw) = (self.origin.vtable.seal, self.origin.state, self.raw);
        // SAFETY: the block is live and borrowed mutably; `state` is alive because `self.origin` is.
        let sealed = catch_unwind(AssertUnwindSafe(|| unsafe { seal(state, &raw) }));
        let sealed = sealed.unwrap_or(Err(AllocError::BrokenAllocator {
            requested: raw.size,
            what: "its seal function panicked",
        }));
        self.raw.residency = *sealed.as_ref().unwrap_or(&Residency::Pageable);
        sealed.map(|_| ())
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let (free, state, raw) = (self.origin.vtable.free, self.origin.state, self.raw);
        // SAFETY: `raw` came from this origin (`Block::new`) and a block is dropped once; its size is kept true by `grow`;
        // `state` is alive because `self.origin` is dropped after this body.
        let freed = catch_unwind(AssertUnwindSafe(|| unsafe { free(state, raw) }));
        // A panic in `free` leaks the block; unwinding out of a drop could abort the process.
        drop(freed);
    }
}
