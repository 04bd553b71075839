//! Memory of the CUDA driver's own.

use std::process;
use std::ptr::NonNull;
use std::sync::Arc;

use pinned_alloc::{AllocError, Residency};

use super::registrar::{cause, let_go, too_large, Registrar, TOO_LARGE};
use super::{os, rounded_or_overflow, wipe, Backend, Region, PAGE};
use crate::cuda::Context;

const ALLOC: &str = "cuMemHostAlloc";

/// Page-locked memory of the driver (`cuMemHostAlloc`, portable). It cannot grow in place, and one thread faults it
/// in, so it takes 7 to 10 times as long to make as [`CudaRegister`](super::CudaRegister)'s; for systems on which the
/// driver does not register memory of a process.
#[derive(Clone, Debug)]
pub struct CudaHostAlloc {
    registrar: Arc<dyn Registrar>,
}

impl CudaHostAlloc {
    /// Allocates through `context`, for all contexts of the process.
    pub fn new(context: Arc<Context>) -> Self {
        Self { registrar: context }
    }

    /// Allocates through `registrar`, for tests that make its calls fail.
    pub fn with_registrar(registrar: Arc<dyn Registrar>) -> Self {
        Self { registrar }
    }
}

impl Backend for CudaHostAlloc {
    fn name(&self) -> &'static str {
        "cuda-host-alloc"
    }

    fn residency(&self) -> Residency {
        Residency::Pinned
    }

    fn map(&self, size: usize, align: usize, _reserve: usize) -> Result<Box<dyn Region>, AllocError> {
        let committed = rounded_or_overflow(size)?;
        // The driver aligns to a page; more is found inside a range that is larger by that much.
        let slack = align.max(PAGE) - PAGE;
        let refused = |cause| AllocError::Refused { requested: size, cause };
        let length = committed.checked_add(slack).filter(|length| *length < TOO_LARGE);
        let length = length.ok_or_else(|| refused(too_large(ALLOC)))?;
        let base = self.registrar.allocate(length).map_err(|error| refused(cause(ALLOC, &error)))?;
        let mut region = Allocated {
            base,
            first: base,
            committed,
            process: process::id(),
            registrar: self.registrar.clone(),
        };
        let offset = base.addr().get().next_multiple_of(align.max(PAGE)) - base.addr().get();
        if offset > slack {
            return Err(AllocError::BrokenAllocator {
                requested: size,
                what: "the driver's memory begins within a page",
            });
        }
        // SAFETY: `offset <= slack`, and the allocation has `slack` bytes more than `committed`.
        region.first = unsafe { base.add(offset) };
        // SAFETY: the range is the new allocation, or part of it, in whole pages.
        unsafe { os::keep_private(region.first, committed) };
        // The driver promises no contents.
        // SAFETY: the bytes are the new allocation's, and nobody else knows them.
        unsafe { wipe(region.first, committed) };
        Ok(Box::new(region))
    }
}

#[derive(Debug)]
struct Allocated {
    base: NonNull<u8>,
    /// The first byte handed out.
    first: NonNull<u8>,
    committed: usize,
    /// Who allocated it.
    process: u32,
    registrar: Arc<dyn Registrar>,
}

// SAFETY: the region owns its allocation alone; the driver may be called from any thread.
unsafe impl Send for Allocated {}
// SAFETY: through `&Allocated` only plain values are read.
unsafe impl Sync for Allocated {}

// SAFETY: from `first` there are `committed` initialised bytes of an allocation that only `drop` frees.
unsafe impl Region for Allocated {
    fn as_ptr(&self) -> NonNull<u8> {
        self.first
    }

    fn committed(&self) -> usize {
        self.committed
    }

    fn reserved(&self) -> usize {
        self.committed
    }

    fn residency(&self) -> Residency {
        Residency::Pinned
    }

    fn is_here(&self) -> bool {
        self.process == process::id()
    }

    fn grow(&mut self, size: usize) -> Result<(), AllocError> {
        if size <= self.committed {
            Ok(())
        } else {
            Err(AllocError::CannotGrow { size: self.committed, requested: size })
        }
    }

    // `unpin` does nothing: the driver's memory is page-locked until it is freed.
}

impl Drop for Allocated {
    fn drop(&mut self) {
        // A forked child has no part in its parent's memory.
        if !self.is_here() {
            return;
        }
        if self.first.as_ptr().addr().is_multiple_of(PAGE) {
            // SAFETY: the range is the allocation's, in whole pages: `map` refuses another one.
            unsafe { os::share_again(self.first, self.committed) };
        }
        // SAFETY: `base` came from `allocate` and is freed once. No device reads it: a set in flight is not dropped.
        if let Err(error) = let_go(unsafe { self.registrar.free(self.base) }) {
            tracing::error!(bytes = self.committed, %error, "page-locked memory stays with this process");
        }
    }
}
