//! The pool as an allocator of `pinned-alloc`.
//!
//! The state behind the functions is the pool itself, as an `Arc` that the registration owns until `release`.
//! A block's token is its place in the table. A block can be dropped at any time after the registration, and
//! after the last handle of the pool: it goes back to the pool it came from.

use std::alloc::Layout;
use std::fmt;
use std::sync::Arc;

use pinned_alloc::{AllocError, AlreadyRegistered, RawBlock, Registration, Registry, Residency, VTable};

use super::acquire::Terms;
use super::inner::Inner;
use super::Pool;

impl Pool {
    /// Registers the pool until the answer is dropped.
    ///
    /// # Errors
    /// [`AlreadyRegistered`] if another allocator is.
    pub fn register<'r>(&self, registry: &'r Registry) -> Result<PoolRegistration<'r>, AlreadyRegistered> {
        let state = Arc::into_raw(self.0.inner.clone());
        let vtable = VTable { name: self.backend_name(), allocate, grow, seal, free, release };
        // SAFETY: the functions below keep their contracts, and `state` is alive until `release` drops the
        // `Arc` made into it.
        match unsafe { registry.register(vtable, state.cast()) } {
            Ok(registration) => Ok(PoolRegistration { registration, pool: self.clone() }),
            Err(error) => {
                // SAFETY: it came from `into_raw` above and was not taken over.
                drop(unsafe { Arc::from_raw(state) });
                Err(error)
            }
        }
    }
}

/// Keeps a pool registered. Dropping it unregisters; blocks that are out stay valid and go back to the pool.
#[must_use = "dropping the registration unregisters the pool"]
pub struct PoolRegistration<'r> {
    registration: Registration<'r>,
    /// The pool is not closed while it is registered.
    pool: Pool,
}

impl PoolRegistration<'_> {
    /// The registered pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }
}

impl fmt::Debug for PoolRegistration<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PoolRegistration").field(&self.registration).finish()
    }
}

/// # Safety
/// `state` came from `Pool::register`, and `release` has not been called.
unsafe fn inner<'s>(state: *const ()) -> &'s Inner {
    // SAFETY: the caller's promise: the `Arc` made into `state` still counts.
    unsafe { &*state.cast::<Inner>() }
}

/// # Safety
/// The contract of [`VTable::allocate`].
unsafe fn allocate(
    state: *const (),
    layouts: &[Layout],
    out: &mut [Option<RawBlock>],
) -> Result<(), AllocError> {
    // SAFETY: the registry calls this before `release` only.
    let pool = unsafe { inner(state) };
    let terms = if layouts.len() < pool.config.set_blocks { Terms::Move } else { Terms::Policy };
    let leases = pool.acquire(layouts, terms)?;
    for (out, lease) in out.iter_mut().zip(leases) {
        *out = Some(RawBlock {
            ptr: lease.first,
            size: lease.size,
            token: lease.token,
            residency: lease.residency,
        });
    }
    Ok(())
}

/// # Safety
/// The contract of [`VTable::grow`].
unsafe fn grow(state: *const (), block: &RawBlock, min_size: usize) -> Result<usize, AllocError> {
    // SAFETY: a live block keeps its origin, so `release` has not been called.
    unsafe { inner(state) }.grow(block.token, min_size)
}

/// # Safety
/// The contract of [`VTable::seal`].
unsafe fn seal(state: *const (), block: &RawBlock) -> Result<Residency, AllocError> {
    // SAFETY: as in `grow`.
    unsafe { inner(state) }.seal(block.token)
}

/// # Safety
/// The contract of [`VTable::free`].
unsafe fn free(state: *const (), block: RawBlock) {
    // SAFETY: as in `grow`.
    unsafe { inner(state) }.give_back(std::iter::once(block.token));
}

/// # Safety
/// The contract of [`VTable::release`].
unsafe fn release(state: *const ()) {
    // SAFETY: `state` came from `Arc::into_raw` in `Pool::register`, and this is called once, last.
    drop(unsafe { Arc::from_raw(state.cast::<Inner>()) });
}
