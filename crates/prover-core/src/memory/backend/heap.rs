//! Memory of the global allocator.

use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::ptr::NonNull;

use pinned_alloc::{AllocError, Cause, Residency};

use super::{rounded, rounded_or_overflow, Backend, Region, PAGE};

/// Memory of the global allocator, for tests and for systems without `mmap`. Its regions grow in place only
/// into what was allocated at once, so by default not at all.
#[derive(Clone, Copy, Debug)]
pub struct Heap {
    headroom: usize,
}

impl Heap {
    /// Regions that cannot grow.
    pub const fn new() -> Self {
        Self { headroom: 1 }
    }

    /// Regions that can grow to `times` their first size (or to the reserve asked for, if that is less). The
    /// memory is allocated at once; a system that hands out zeroed pages on first touch does not commit it.
    pub const fn with_headroom(times: usize) -> Self {
        Self { headroom: if times == 0 { 1 } else { times } }
    }
}

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}

impl Backend for Heap {
    fn name(&self) -> &'static str {
        "heap"
    }

    fn residency(&self) -> Residency {
        Residency::Pageable
    }

    fn map(&self, size: usize, align: usize, reserve: usize) -> Result<Box<dyn Region>, AllocError> {
        let committed = rounded_or_overflow(size)?;
        let wanted = committed.saturating_mul(self.headroom).min(reserve);
        let capacity = rounded(wanted).unwrap_or(committed).max(committed);
        // Aligned by hand: `alloc_zeroed` takes fresh pages from the system untouched only for small
        // alignments, for larger ones it writes the zeros itself and so commits all of the headroom.
        let align = align.max(PAGE);
        let layout = capacity
            .checked_add(align - 1)
            .and_then(|size| Layout::from_size_align(size, 1).ok())
            .ok_or(AllocError::CapacityOverflow { count: size, element_size: 1 })?;
        // SAFETY: the layout's size is not zero, `rounded` gives at least a page.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(AllocError::Refused {
            requested: capacity,
            cause: Cause::new("alloc", 0, "run fewer proofs at once or add memory"),
        })?;
        let offset = base.addr().get().next_multiple_of(align) - base.addr().get();
        // SAFETY: `offset < align`, and the allocation has `align - 1` bytes more than `capacity`.
        let first = unsafe { base.add(offset) };
        Ok(Box::new(HeapRegion { base, layout, first, committed, capacity }))
    }
}

#[derive(Debug)]
struct HeapRegion {
    base: NonNull<u8>,
    layout: Layout,
    /// The first byte handed out.
    first: NonNull<u8>,
    committed: usize,
    capacity: usize,
}

// SAFETY: the region owns its allocation alone; the global allocator may be called from any thread.
unsafe impl Send for HeapRegion {}
// SAFETY: through `&HeapRegion` only plain values are read.
unsafe impl Sync for HeapRegion {}

// SAFETY: from `first` there are `capacity >= committed` zeroed bytes of an allocation that only `drop`
// frees; `grow` moves `committed` up within them.
unsafe impl Region for HeapRegion {
    fn as_ptr(&self) -> NonNull<u8> {
        self.first
    }

    fn committed(&self) -> usize {
        self.committed
    }

    fn reserved(&self) -> usize {
        self.capacity
    }

    fn residency(&self) -> Residency {
        Residency::Pageable
    }

    fn grow(&mut self, size: usize) -> Result<(), AllocError> {
        match rounded(size) {
            Some(size) if size <= self.capacity => {
                self.committed = self.committed.max(size);
                Ok(())
            }
            _ => Err(AllocError::CannotGrow { size: self.committed, requested: size }),
        }
    }
}

impl Drop for HeapRegion {
    fn drop(&mut self) {
        // SAFETY: `base` came from `alloc_zeroed` with this layout and is freed once.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}
