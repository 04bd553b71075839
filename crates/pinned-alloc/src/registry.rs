//! The place where one allocator at a time is registered.
//!
//! The lock guards one pointer and is held only to read or write it: no registered function runs under it.

use std::alloc::Layout;
use std::panic::{catch_unwind, AssertUnwindSafe};

use crate::sync::{Arc, Mutex};
use crate::vtable::{Origin, RawBlock, VTable};
use crate::{AllocError, AlreadyRegistered, Block};

/// Holds at most one allocator. The process has one, [`REGISTRY`]; tests make their own.
#[derive(Debug)]
pub struct Registry {
    current: Mutex<Option<Arc<Origin>>>,
}

/// The registry of the process.
#[cfg(not(loom))]
pub static REGISTRY: Registry = Registry::new();

/// Registers an allocator in the [process's registry](REGISTRY). See [`Registry::register`].
///
/// # Errors
/// [`AlreadyRegistered`] if another one is in place.
///
/// # Safety
/// As [`Registry::register`].
#[cfg(not(loom))]
pub unsafe fn register(vtable: VTable, state: *const ()) -> Result<Registration<'static>, AlreadyRegistered> {
    // SAFETY: the caller's promise is the same.
    unsafe { REGISTRY.register(vtable, state) }
}

/// Allocates a group from the [process's registry](REGISTRY). See [`Registry::allocate`].
///
/// # Errors
/// As [`Registry::allocate`].
#[cfg(not(loom))]
pub fn allocate<const N: usize>(layouts: [Layout; N]) -> Result<[Block; N], AllocError> {
    REGISTRY.allocate(layouts)
}

/// The name of the allocator registered in the [process's registry](REGISTRY), if any.
#[cfg(not(loom))]
pub fn current_name() -> Option<&'static str> {
    REGISTRY.current_name()
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl Registry {
    /// An empty registry.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self { current: Mutex::new(None) }
    }

    /// An empty registry (loom's mutex cannot be made in a constant).
    #[cfg(loom)]
    pub fn new() -> Self {
        Self { current: Mutex::new(None) }
    }

    fn lock(&self) -> impl std::ops::DerefMut<Target = Option<Arc<Origin>>> + '_ {
        // The lock guards one pointer, which is whole even if a holder panicked.
        self.current.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Registers an allocator until the returned [`Registration`] is dropped. `state` is passed to every function.
    ///
    /// # Errors
    /// [`AlreadyRegistered`] if another one is in place; `release` is not called then, `state` stays the caller's.
    ///
    /// # Safety
    /// The functions keep the contracts written at the fields of [`VTable`], and `state` is valid for them, from any
    /// thread, until `release` is called.
    pub unsafe fn register(
        &self,
        vtable: VTable,
        state: *const (),
    ) -> Result<Registration<'_>, AlreadyRegistered> {
        let mut current = self.lock();
        if let Some(origin) = current.as_ref() {
            return Err(AlreadyRegistered { by: origin.name() });
        }
        let origin = Arc::new(Origin { vtable, state });
        *current = Some(origin.clone());
        drop(current);
        Ok(Registration { registry: self, origin })
    }

    /// The name of the registered allocator, if any.
    pub fn current_name(&self) -> Option<&'static str> {
        self.lock().as_ref().map(|origin| origin.name())
    }

    /// Allocates one block for each layout from the registered allocator, all or nothing.
    ///
    /// Each block is aligned to its layout's alignment and has at least its layout's size, in bytes.
    ///
    /// # Errors
    /// [`AllocError::NotRegistered`] if there is none, [`AllocError::ZeroSize`] if a layout has no bytes, otherwise what
    /// the allocator answers. Nothing stays allocated.
    pub fn allocate<const N: usize>(&self, layouts: [Layout; N]) -> Result<[Block; N], AllocError> {
        let requested = layouts.iter().try_fold(0usize, |sum, layout| match layout.size() {
            0 => Err(AllocError::ZeroSize),
            size => {
                sum.checked_add(size).ok_or(AllocError::CapacityOverflow { count: N, element_size: size })
            }
        })?;
        if N == 0 {
            return Err(AllocError::ZeroSize);
        }
        let origin = self.lock().clone().ok_or(AllocError::NotRegistered)?;
        let mut out: [Option<RawBlock>; N] = [None; N];
        let (allocate, state) = (origin.vtable.allocate, origin.state);
        // SAFETY: the layouts are not empty and of non-zero size, `out` has their length and holds `None`; `state` is
        // alive because `origin` is.
        let answer = catch_unwind(AssertUnwindSafe(|| unsafe { allocate(state, &layouts, &mut out) }));
        match answer {
            Ok(Ok(())) => {}
            Ok(Err(e)) => return Err(e),
            Err(_) => {
                let what = "its allocate function panicked";
                return Err(AllocError::BrokenAllocator { requested, what });
            }
        }
        let blocks = out.map(|raw| {
            // SAFETY: `allocate` said `Ok`, so each block in `out` is newly allocated by this origin, and each is
            // wrapped once. From here on an early return frees them all.
            raw.map(|raw| unsafe { Block::new(raw, origin.clone()) })
        });
        for (block, layout) in blocks.iter().zip(&layouts) {
            let what = match block {
                None => "it returned too few blocks",
                Some(block) if block.size() < layout.size() => "it returned a block that is too small",
                Some(block) if !block.as_ptr().addr().is_multiple_of(layout.align()) => {
                    "it returned a misaligned block"
                }
                Some(_) => continue,
            };
            return Err(AllocError::BrokenAllocator { requested, what });
        }
        Ok(blocks.map(|block| block.expect("each was just seen to be Some")))
    }
}

/// Keeps an allocator registered. Dropping it unregisters; blocks that are still out stay valid.
#[derive(Debug)]
#[must_use = "dropping the registration unregisters the allocator"]
pub struct Registration<'r> {
    registry: &'r Registry,
    origin: Arc<Origin>,
}

impl Registration<'_> {
    /// The registered allocator.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        let mut current = self.registry.lock();
        // Only one registration exists at a time, so `current` is ours; take it out and let go of the lock before the
        // last reference may call `release`.
        let ours = current.take();
        drop(current);
        drop(ours);
    }
}
