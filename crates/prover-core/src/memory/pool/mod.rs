//! Reuse of mapped memory: making pages resident (and pinned) is slow, so blocks are kept and handed out
//! again.
//!
//! # The life of a block
//! ```text
//!               ┌─────────────────────── warm ────────────────────────┐
//!               ▼                                                     │
//!   map ──► CheckedOut ── in_flight(fence) ──► InFlight ── passed ──► Idle ──► unmap (trim, age, need)
//!             │    ▲                            │    │                ▲
//!             │    └────────── wait() ──────────┘    └── failed ──► Quarantined: unpinned, never reused
//!             └───────────────────────── drop ────────────────────────┘
//! ```
//! The states are types. `Idle` blocks are reachable by nobody but the pool. A [`CheckedOut`] set becomes
//! [`InFlight`] for the time that a device reads it; dropping an `InFlight` whose fence has not passed
//! neither waits nor frees: the pool keeps the set until the fence has passed. If the fence fails the device
//! may still be at it, so the blocks are [quarantined](Pool::release_quarantined).
//!
//! # A check-out is a transaction
//! A set is asked for as one: idle blocks that fit are taken, the budget is asked **once** for what is
//! missing, that is mapped and faulted in, and all is published together. Any failure undoes it in reverse. A
//! waiter holds nothing while it sleeps, so two waiters never block each other with halves of sets.
//!
//! # Accounting
//! A block's [`Reservation`](crate::memory::Reservation) is its own from map to unmap, whoever holds the
//! block: check-out and return move no bytes in the budget. Idle blocks are evicted when the budget is short.
//! `mapped = idle + out + in flight + quarantined` is asserted in debug builds at every change.
//!
//! # Locks
//! One lock guards the lists and counters. Nothing is mapped, faulted, unmapped, wiped, logged or waited for
//! under it, and the budget's lock is never taken under it either.
//!
//! | file | subject |
//! |---|---|
//! | `config` | settings and the policy of exhaustion |
//! | `chunk` | one mapped region with its reservation |
//! | `idle` | the free lists |
//! | `slots` | small blocks, many to a region |
//! | `table` | blocks that are out, by token |
//! | `state` | all of these under the lock, with the byte counts |
//! | `acquire` | the check-out transaction and waiting |
//! | `inner` | return, growth, sealing, quarantine |
//! | `trim` | giving memory back: on demand, by need, by age |
//! | `fence`, `handles` | the states as types |
//! | `registered` | the pool as an allocator of `pinned-alloc` |
//! | `stats` | counters |

mod acquire;
mod chunk;
mod config;
mod fence;
mod handles;
mod idle;
mod inner;
mod registered;
mod slots;
mod state;
mod stats;
mod table;
mod trim;

use std::alloc::Layout;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinned_alloc::{AllocError, Block, Residency};

use self::acquire::Terms;
use self::inner::Inner;
use self::trim::{Ager, PoolEvictor};
use super::backend::Backend;
use super::{EvictorHandle, MemoryBudget};

pub use self::config::{Exhaustion, PoolConfig};
pub use self::fence::{Fence, FenceError};
pub use self::handles::{CheckedOut, InFlight, Quarantined};
pub use self::registered::PoolRegistration;
pub use self::stats::PoolStats;

/// A pool of mapped blocks over one backend. Clones share it.
///
/// When the last clone is gone the pool is closed: idle memory goes back to the system at once, blocks that
/// are out when they return.
#[derive(Clone)]
pub struct Pool(Arc<Handle>);

/// What the clones share: dropping it closes the pool.
struct Handle {
    inner: Arc<Inner>,
    _evictor: EvictorHandle,
    _ager: Option<Ager>,
}

/// Blocks were still out when the time to drain a pool was over. The pool is closed all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "after {waited_ms} ms {out_bytes} bytes of the pool are still checked out and {in_flight_bytes} bytes \
     still in flight; they go back to the system when they are returned"
)]
pub struct DrainError {
    /// Bytes checked out.
    pub out_bytes: u64,
    /// Bytes whose fence has not passed.
    pub in_flight_bytes: u64,
    /// Milliseconds waited.
    pub waited_ms: u64,
}

impl Pool {
    /// A pool over `backend` that pays from `budget`, and gives idle memory up when the budget is short.
    pub fn new(backend: impl Backend, budget: MemoryBudget, config: PoolConfig) -> Self {
        Self::with_backend(Box::new(backend), budget, config)
    }

    /// As [`new`](Self::new), for a backend chosen at run time.
    pub fn with_backend(backend: Box<dyn Backend>, budget: MemoryBudget, config: PoolConfig) -> Self {
        let inner = Arc::new(Inner::new(backend, budget.clone(), config));
        let evictor = budget.on_pressure(PoolEvictor(Arc::downgrade(&inner)));
        // Set once: the pool has just been made.
        let _ = inner.own_evictor.set(evictor.id());
        let ager = inner.config.idle_timeout.and_then(|timeout| Ager::start(Arc::downgrade(&inner), timeout));
        Self(Arc::new(Handle { inner, _evictor: evictor, _ager: ager }))
    }

    /// Checks a set of blocks out, one for each layout, all or nothing, under the pool's
    /// [policy](Self::policy). The bytes are initialised to anything; a warm set costs no system call.
    ///
    /// # Errors
    /// [`AllocError::ZeroSize`] for an empty layout or none, [`AllocError::CapacityOverflow`],
    /// [`AllocError::TooLarge`] for a set that can never fit, [`AllocError::Exhausted`] or
    /// [`AllocError::TimedOut`] by policy, [`AllocError::Refused`] if the system refuses,
    /// [`AllocError::ShuttingDown`] when the pool is closed.
    pub fn check_out(&self, layouts: &[Layout]) -> Result<CheckedOut, AllocError> {
        let leases = self.0.inner.acquire(layouts, Terms::Policy)?;
        Ok(CheckedOut::new(self.0.inner.clone(), leases))
    }

    /// Takes blocks that were allocated through `pinned-alloc` from this pool as a checked-out set, so that
    /// they can be put [in flight](CheckedOut::in_flight).
    ///
    /// # Errors
    /// The blocks, if there are none or one of them is not of this pool.
    pub fn adopt(&self, blocks: Vec<Block>) -> Result<CheckedOut, Vec<Block>> {
        CheckedOut::adopt(&self.0.inner, blocks)
    }

    /// What happens when there is no room.
    pub fn policy(&self) -> Exhaustion {
        self.0.inner.config.exhaustion
    }

    /// The backend's name, for reports.
    pub fn backend_name(&self) -> &'static str {
        self.0.inner.backend.name()
    }

    /// Where the pool's memory lives.
    pub fn residency(&self) -> Residency {
        self.0.inner.backend.residency()
    }

    /// The most bytes it may map, inside the budget; `None`: only the budget limits it.
    pub fn max_bytes(&self) -> Option<u64> {
        self.0.inner.config.max_bytes
    }

    /// The budget it pays from.
    pub fn budget(&self) -> &MemoryBudget {
        &self.0.inner.budget
    }

    /// The counters, all of one moment.
    pub fn stats(&self) -> PoolStats {
        self.0.inner.stats()
    }

    /// Unmaps idle blocks, the largest first, until at most `keep` bytes lie idle. Returns the bytes given
    /// back.
    pub fn trim(&self, keep: u64) -> u64 {
        self.0.inner.trim_to(keep)
    }

    /// Unmaps all idle blocks. Returns the bytes given back.
    pub fn trim_all(&self) -> u64 {
        self.trim(0)
    }

    /// Unmaps what has lain idle for [`PoolConfig::idle_timeout`] at `now`; the pool's own thread calls it
    /// from time to time. See [`PoolConfig::low_water`] for what is kept. Returns the bytes given back.
    pub fn trim_aged(&self, now: Instant) -> u64 {
        self.0.inner.trim_aged(now)
    }

    /// Closes the pool, waits at most `timeout` for the blocks that are out, and gives all idle memory back.
    /// Requests get [`AllocError::ShuttingDown`] from now on, those who wait too.
    ///
    /// # Errors
    /// [`DrainError`] if blocks are still out then.
    pub fn drain(&self, timeout: Duration) -> Result<(), DrainError> {
        self.0.inner.drain(timeout)
    }

    /// Unmaps the quarantined blocks and gives their bytes back to the budget. Returns how many bytes. Small
    /// blocks are parts of shared regions and stay.
    ///
    /// # Safety
    /// No device accesses the blocks any more: the context whose fence failed is destroyed.
    pub unsafe fn release_quarantined(&self) -> u64 {
        self.0.inner.release_quarantined()
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pool").field(&self.stats()).finish()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.inner.close_for_good();
    }
}
