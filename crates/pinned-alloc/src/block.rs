//! An owned block of memory that frees itself by the functions it came from.

use crate::answer::fits_address_space;
use crate::contain::contain;
use crate::sync::Arc;
use crate::vtable::{Origin, RawBlock, Residency};
use crate::AllocError;

/// Memory from a registered allocator. Dropping it gives it back to that allocator, exactly once.
///
/// The bytes are initialised but hold anything. The block itself hands out only a raw pointer: who stores
/// values in it keeps them apart and drops them before the block.
#[derive(Debug)]
pub struct Block {
    raw: RawBlock,
    origin: Arc<Origin>,
}

// SAFETY: a block owns its bytes alone (contract of `VTable::allocate`), and its functions may be called from
// any thread.
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

    /// The first byte. Valid for reads and writes of [`size`](Self::size) bytes while the block lives;
    /// growing the block does not move it.
    pub fn as_ptr(&self) -> *mut u8 {
        self.raw.ptr.as_ptr()
    }

    /// Usable bytes. May be more than was asked for, never less; at most `isize::MAX`.
    pub fn size(&self) -> usize {
        self.raw.size
    }

    /// Where the bytes live.
    ///
    /// Growth may leave a block of several regions: what this says holds for a copy of the whole block only
    /// after [`seal`](Self::seal).
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

    /// Grows in place to at least `min_size` bytes. Address and contents stay; the bytes gained are
    /// initialised but hold anything. Asking for no more than the block has does nothing.
    ///
    /// # Errors
    /// [`AllocError::CapacityOverflow`] if `min_size` passes `isize::MAX`, [`AllocError::BrokenAllocator`] if
    /// the allocator panicked or named an impossible size, otherwise whatever it answers. The block is
    /// unchanged and the caller may move to a larger one.
    pub fn grow(&mut self, min_size: usize) -> Result<(), AllocError> {
        if min_size <= self.raw.size {
            return Ok(());
        }
        if isize::try_from(min_size).is_err() {
            return Err(AllocError::CapacityOverflow { count: min_size, element_size: 1 });
        }
        let (grow, state, raw) = (self.origin.vtable.grow, self.origin.state, self.raw);
        // SAFETY: the block is live and borrowed mutably, so no one else uses it; `min_size > raw.size` was
        // checked; `state` is alive because `self.origin` is.
        let answer = contain(|| unsafe { grow(state, &raw, min_size) });
        let broken = |what| Err(AllocError::BrokenAllocator { requested: min_size, what });
        match answer {
            None => broken("its grow function panicked"),
            Some(Err(e)) => Err(e),
            Some(Ok(size)) if size < min_size => broken("it grew a block to less than was asked for"),
            Some(Ok(size)) if !fits_address_space(raw.ptr.addr().get(), size) => {
                broken("it grew a block past the end of the address space")
            }
            Some(Ok(size)) => {
                self.raw.size = size;
                Ok(())
            }
        }
    }

    /// Makes the block one region, ready for a device. See [`VTable::seal`](crate::VTable::seal).
    ///
    /// # Errors
    /// [`AllocError::BrokenAllocator`] if the allocator panicked, otherwise whatever it answers. The contents
    /// are whole; the block counts as [`Residency::Pageable`] from then on.
    pub fn seal(&mut self) -> Result<(), AllocError> {
        let (seal, state, raw) = (self.origin.vtable.seal, self.origin.state, self.raw);
        // SAFETY: the block is live and borrowed mutably, so no one else uses it; `state` is alive because
        // `self.origin` is.
        let answer = contain(|| unsafe { seal(state, &raw) });
        let sealed = answer.unwrap_or(Err(AllocError::BrokenAllocator {
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
        // SAFETY: `raw` came from this origin (`Block::new`) and a block is dropped once; its size is kept
        // true by `grow`; `state` is alive because `self.origin` is dropped after this body.
        let freed = contain(|| unsafe { free(state, raw) });
        // A panic in `free` leaks the block; unwinding out of a drop could abort the process.
        let _: Option<()> = freed;
    }
}
