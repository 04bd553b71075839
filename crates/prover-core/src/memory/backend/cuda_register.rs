//! The memory of [`Pages`](super::Pages), registered with the CUDA driver: read by a device by DMA.
//!
//! ```text
//!   map      ├── registered ──┤                        pages faulted in by all threads first, which is 7 to 10 times
//!                                                       cheaper than to let the driver do it
//!   grow     ├── registered ──┼─ registered ─┤          in place, the new piece only
//!   seal     ├─────────── registered ────────┤          once, before a device sees it: a copy that spans two
//!                                                       registrations fails
//!   unpin    ├────────────── pages ──────────┤          mapped, unknown to the driver
//! ```
//! Pages that the driver still holds are never unmapped: if it refuses to let go of them, they stay with the process.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use pinned_alloc::{AllocError, Residency};

use super::pages::Mapping;
use super::registrar::{cause, let_go, too_large, Registrar, TOO_LARGE};
use super::{os, rounded, Backend, Region, HUGE_PAGE};
use crate::cuda::{Context, CudaError};

const REGISTER: &str = "cuMemHostRegister";
const UNREGISTER: &str = "cuMemHostUnregister";

/// Pages registered with the CUDA driver (`cuMemHostRegister`, portable). The default where there is a device.
#[derive(Clone, Debug)]
pub struct CudaRegister {
    registrar: Arc<dyn Registrar>,
    /// Where the pages are to be.
    node: Option<u32>,
}

impl CudaRegister {
    /// Registers through `context`, for all contexts of the process.
    pub fn new(context: Arc<Context>) -> Self {
        Self { registrar: context, node: None }
    }

    /// Registers through `registrar`, for tests that make its calls fail.
    pub fn with_registrar(registrar: Arc<dyn Registrar>) -> Self {
        Self { registrar, node: None }
    }

    /// Takes pages from the memory of this NUMA node as long as it has some, that of the devices which read them. `None`: as the
    /// system places them.
    pub fn on_node(mut self, node: Option<u32>) -> Self {
        self.node = node;
        self
    }

    /// Says so, once, if the system placed the pages elsewhere.
    fn check_node(&self, mapping: &Mapping) {
        static TOLD: AtomicBool = AtomicBool::new(false);
        let (Some(wanted), Some(found)) = (self.node, os::node_of(mapping.first())) else { return };
        if wanted != found && !TOLD.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                wanted,
                found,
                "pinned memory is not on the NUMA node of its device: the copies are slower; free memory there, or run \
                 the prover under numactl --membind"
            );
        }
    }
}

impl Backend for CudaRegister {
    fn name(&self) -> &'static str {
        "cuda-register"
    }

    fn residency(&self) -> Residency {
        Residency::Pinned
    }

    fn numa_node(&self) -> Option<u32> {
        self.node
    }

    fn map(&self, size: usize, align: usize, reserve: usize) -> Result<Box<dyn Region>, AllocError> {
        refuse_too_large(size)?;
        let reserve_space = |size| {
            let first = os::reserve(size)?;
            if let Some(node) = self.node {
                // SAFETY: the mapping is new, whole, and nobody else's.
                unsafe { os::prefer_node(first, size, node) };
            }
            Ok(first)
        };
        let mapping = Mapping::new(size, align, reserve.min(TOO_LARGE - HUGE_PAGE), reserve_space)?;
        self.check_node(&mapping);
        let mut region = Registered {
            mapping: ManuallyDrop::new(mapping),
            pieces: Vec::new(),
            pinned: false,
            retired: false,
            registrar: self.registrar.clone(),
        };
        region.register_from(0)?;
        Ok(Box::new(region))
    }
}

fn refuse_too_large(size: usize) -> Result<(), AllocError> {
    match rounded(size) {
        Some(rounded) if rounded >= TOO_LARGE => {
            Err(AllocError::Refused { requested: size, cause: too_large(REGISTER) })
        }
        // What no address space holds is an error of the mapping.
        _ => Ok(()),
    }
}

#[derive(Debug)]
struct Registered {
    /// Unmapped by `drop`, unless the driver still holds a piece of it.
    mapping: ManuallyDrop<Mapping>,
    /// The offset at which each registration begins, in order.
    pieces: Vec<usize>,
    /// The pieces are all that is committed. If not there is none, or the driver did not let go of some.
    pinned: bool,
    /// Taken away from the device for good.
    retired: bool,
    registrar: Arc<dyn Registrar>,
}

impl Registered {
    /// Registers what is committed from `offset` on, as one.
    fn register_from(&mut self, offset: usize) -> Result<(), AllocError> {
        let size = self.mapping.committed() - offset;
        // SAFETY: from `offset` (a former committed size, so whole pages) to `committed` is readable and writable
        // memory of the mapping, which `drop` unmaps only once the piece is unregistered. `decommit` takes only
        // pages that are in no piece.
        unsafe { self.registrar.register(self.mapping.at(offset), size) }
            .map_err(|error| AllocError::Refused { requested: size, cause: cause(REGISTER, &error) })?;
        self.pieces.push(offset);
        self.pinned = true;
        Ok(())
    }

    /// Undoes the registrations, the last one first. On an error those not yet undone remain.
    ///
    /// The owner of the region alone calls this, by `&mut` or as it drops it: no device reads the bytes then (a set in
    /// flight is neither sealed nor dropped, and a quarantined one is unpinned because its context has failed).
    fn unregister(&mut self) -> Result<(), CudaError> {
        self.pinned = false;
        while let Some(offset) = self.pieces.last() {
            // SAFETY: a piece that was registered and not yet unregistered; no device reads it, as said above.
            let_go(unsafe { self.registrar.unregister(self.mapping.at(*offset)) })?;
            self.pieces.pop();
        }
        Ok(())
    }

    /// [`unregister`](Self::unregister) with the error that the pool wants.
    fn let_go(&mut self) -> Result<(), AllocError> {
        let unregistered = self.unregister();
        unregistered.map_err(|error| AllocError::Refused {
            requested: self.committed(),
            cause: cause(UNREGISTER, &error),
        })
    }
}

// SAFETY: all is delegated to the mapping, whose `commit` keeps the contract; `decommit` takes back only bytes that
// this call of `grow` has added.
unsafe impl Region for Registered {
    fn as_ptr(&self) -> NonNull<u8> {
        self.mapping.first()
    }

    fn committed(&self) -> usize {
        self.mapping.committed()
    }

    fn reserved(&self) -> usize {
        self.mapping.reserved()
    }

    fn residency(&self) -> Residency {
        if self.pinned {
            Residency::Pinned
        } else {
            Residency::Pageable
        }
    }

    fn is_here(&self) -> bool {
        self.mapping.is_here()
    }

    fn grow(&mut self, size: usize) -> Result<(), AllocError> {
        let before = self.mapping.committed();
        self.mapping.commit(size)?;
        if self.pinned && self.mapping.committed() > before {
            self.register_from(before).inspect_err(|_| self.mapping.decommit(before))?;
        }
        Ok(())
    }

    /// One registration of all. Where that fails the bytes are ordinary memory until it is tried again.
    fn seal(&mut self) -> Result<Residency, AllocError> {
        if self.retired || (self.pinned && self.pieces.len() == 1) {
            return Ok(self.residency());
        }
        self.let_go()?;
        self.register_from(0)?;
        Ok(Residency::Pinned)
    }

    fn unpin(&mut self) -> Result<(), AllocError> {
        self.retired = true;
        self.let_go()
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // A forked child has neither the memory nor the registrations; both are its parent's.
        if !self.is_here() {
            return;
        }
        match self.unregister() {
            // SAFETY: this is the drop, so the mapping is not used again.
            Ok(()) => unsafe { ManuallyDrop::drop(&mut self.mapping) },
            Err(error) => tracing::error!(
                bytes = self.committed(),
                %error,
                "memory cannot be taken away from the device; it stays with this process"
            ),
        }
    }
}
