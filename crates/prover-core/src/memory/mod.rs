//! Host memory: one budget, backends that map it, and the pool of blocks for the proving vectors.
//!
//! ```text
//!   limits ──► MemoryBudget ◄── Reservation (bytes; one for each mapped block, for as long as it is mapped)
//!                  ▲   │ evictors: "free n bytes, someone waits"
//!                  │   ▼
//!   pinned-alloc ─► Pool ──► Backend::map ──► Region (Pages, Mlock, Heap)
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`limits`] | how much memory this process may use: physical, cgroups, rlimits |
//! | [`budget`] | reserve, wait in order, evict |
//! | [`backend`] | map, fault, grow, lock and unmap memory |
//! | [`pool`] | reuse of mapped blocks, check-out as sets, fences, trimming |

#[cfg(not(loom))]
pub mod backend;
pub mod budget;
#[cfg(not(loom))]
pub mod limits;
#[cfg(not(loom))]
pub mod pool;
pub(crate) mod sync;

pub use budget::{BudgetStats, Deadline, Evictor, EvictorHandle, MemoryBudget, Priority, Reservation};

/// The setting of the budget's total, as messages name it.
pub const KNOB_BUDGET: &str = "--memory-budget";
/// The setting of the pool's own cap, as messages name it.
pub const KNOB_PINNED_MAX: &str = "--pinned-max";
/// The setting of how long a check-out waits, as messages name it.
pub const KNOB_WAIT: &str = "--pinned-wait";
