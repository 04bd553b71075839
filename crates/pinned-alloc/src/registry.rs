//! The place where one allocator at a time is registered.
//!
//! The lock guards one pointer and is held only to read or write it: no registered function runs under it.

use std::alloc::Layout;

use crate::answer::{self, overlaps};
use crate::contain::contain;
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

    /// Registers an allocator until the returned [`Registration`] is dropped. `state` is passed to every
    /// function.
    ///
    /// # Errors
    /// [`AlreadyRegistered`] if another one is in place; `release` is not called then, `state` stays the
    /// caller's.
    ///
    /// # Safety
    /// The functions keep the contracts written at the fields of [`VTable`], and `state` is valid for them,
    /// from any thread, until `release` is called. That is not when the registration is dropped: blocks that
    /// are still out, and calls of [`allocate`](Self::allocate) that have begun, use both.
    pub unsafe fn register(
        &self,
        vtable: VTable,
        state: *const (),
    ) -> Result<Registration<'_>, AlreadyRegistered> {
        // Made before the lock is taken: the global allocator is code of someone else's, and it may come back
        // here.
        let origin = Arc::new(Origin { vtable, state });
        let mut current = self.lock();
        let Some(by) = current.as_ref().map(|origin| origin.name()) else {
            *current = Some(origin.clone());
            drop(current);
            return Ok(Registration { registry: self, origin });
        };
        drop(current);
        // Taken apart without its `Drop`, which would call `release`.
        if let Ok(origin) = Arc::try_unwrap(origin) {
            std::mem::forget(origin);
        }
        Err(AlreadyRegistered { by })
    }

    /// The name of the registered allocator, if any.
    pub fn current_name(&self) -> Option<&'static str> {
        self.lock().as_ref().map(|origin| origin.name())
    }

    /// Allocates one block for each layout from the registered allocator, in one call of its function, all or
    /// nothing.
    ///
    /// Each block is aligned to its layout's alignment and has at least its layout's size, in bytes. The
    /// blocks share no bytes.
    ///
    /// # Errors
    /// [`AllocError::ZeroSize`] if there is no layout or one has no bytes, [`AllocError::CapacityOverflow`]
    /// if all together have more than `isize::MAX`, [`AllocError::NotRegistered`] if there is no allocator,
    /// [`AllocError::BrokenAllocator`] if it panicked or its answer cannot be true, otherwise what it
    /// answers. Nothing stays allocated.
    pub fn allocate<const N: usize>(&self, layouts: [Layout; N]) -> Result<[Block; N], AllocError> {
        let requested = total_size(&layouts)?;
        let origin = self.lock().clone().ok_or(AllocError::NotRegistered)?;
        let mut out: [Option<RawBlock>; N] = [None; N];
        let (allocate, state) = (origin.vtable.allocate, origin.state);
        // SAFETY: `total_size` saw to it that there are layouts, none empty, at most `isize::MAX` bytes
        // together; `out` has their length and holds `None`; `state` is alive because `origin` is.
        let answer = contain(|| unsafe { allocate(state, &layouts, &mut out) });
        let broken = |what| Err(AllocError::BrokenAllocator { requested, what });
        match answer {
            None => return broken("its allocate function panicked"),
            Some(Err(e)) => return Err(e),
            Some(Ok(())) => {}
        }

        let shared = overlaps(&out);
        let mut flaw = None;
        let blocks: [Option<Block>; N] = std::array::from_fn(|i| {
            if shared[i] {
                flaw = flaw.or(Some("it returned blocks that overlap (they are leaked, not freed twice)"));
                return None;
            }
            flaw = flaw.or(answer::flaw(out[i].as_ref(), &layouts[i]));
            // SAFETY: `allocate` said `Ok`, so what is in `out` is newly allocated by this origin; each is
            // wrapped once, and none of them shares its memory with another one of the group.
            out[i].map(|raw| unsafe { Block::new(raw, origin.clone()) })
        });
        match flaw {
            // The blocks that are there free themselves here.
            Some(what) => broken(what),
            None => Ok(blocks.map(|block| block.expect("an answer without a flaw has every block"))),
        }
    }
}

/// The sizes of all layouts together, in bytes: at least 1 each, at most `isize::MAX` in all.
fn total_size(layouts: &[Layout]) -> Result<usize, AllocError> {
    if layouts.is_empty() {
        return Err(AllocError::ZeroSize);
    }
    layouts.iter().try_fold(0usize, |sum, layout| {
        if layout.size() == 0 {
            return Err(AllocError::ZeroSize);
        }
        // No overflow: a layout has at most `isize::MAX` bytes, and so has the sum.
        let sum = sum + layout.size();
        isize::try_from(sum).map_err(|_| AllocError::CapacityOverflow { count: sum, element_size: 1 })?;
        Ok(sum)
    })
}

/// Keeps an allocator registered. Dropping it unregisters; blocks that are still out stay valid.
///
/// Dropping waits for nobody: a call of [`Registry::allocate`] on another thread that has begun before may
/// still return blocks after. Forgetting it ([`std::mem::forget`]) leaves the allocator registered for good.
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
        // Only one registration exists at a time, so `current` is ours; take it out and let go of the lock
        // before the last reference may call `release`.
        let ours = current.take();
        drop(current);
        drop(ours);
    }
}
