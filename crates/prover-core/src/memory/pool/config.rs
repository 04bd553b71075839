//! The settings of a pool.

use std::time::Duration;

use crate::memory::backend::HUGE_PAGE;
use crate::memory::Priority;

/// What a check-out does when there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhaustion {
    /// Wait in the budget's queue, at most this long; an error then. On one of rayon's threads, which may hold a set
    /// further down its stack, the error comes at once: prove from threads of your own.
    Wait(Duration),
    /// Answer at once that there is none, so that the caller uses ordinary memory; counted, and warned of
    /// once.
    Heap,
    /// Answer at once that there is none; the caller makes that the proof's error.
    Fail,
}

/// The settings of a pool. Start from the default and change fields.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolConfig {
    /// The most bytes mapped at any moment, inside the budget. `None`: only the budget limits it.
    pub max_bytes: Option<u64>,
    /// What to do when there is no room. Default: [`Exhaustion::Heap`].
    pub exhaustion: Exhaustion,
    /// The priority of check-outs in the budget's queue.
    pub priority: Priority,
    /// Blocks in a set. What is allocated through `pinned-alloc` in smaller groups are larger blocks for
    /// vectors of a set that is out: such a request never waits, and passes those who do, since its holder
    /// has what they wait for. Default: 4 (a, b, c and aux).
    pub set_blocks: usize,
    /// By how many percent an idle block may be larger than what is asked for. Default: 15.
    pub waste_percent: u32,
    /// Address space to reserve for a block, as a multiple of its first size. It costs no memory. Default: 8.
    pub reserve_factor: usize,
    /// A block that grows, grows by a quarter, but by no more than this many bytes beyond what is asked for,
    /// so that growth is neither frequent nor wasteful. Default: 64 MiB.
    pub growth_step: usize,
    /// Bytes of the regions that blocks of at most 64 KiB share. 0: each has a region of its own. Default: 2
    /// MiB.
    pub slab_bytes: usize,
    /// How long a block lies idle before it goes back to the system. `None`: for ever, and no thread is
    /// started. Default: 5 minutes.
    pub idle_timeout: Option<Duration>,
    /// Bytes that stay idle, whatever their age, as long as the pool was used at all within
    /// [`idle_timeout`](Self::idle_timeout). `None`: as many as the largest set checked out so far.
    pub low_water: Option<u64>,
    /// The blocks hold secrets: they are wiped before they go back to the system. Default: true.
    pub secret: bool,
    /// Wipe blocks on every return too. Costs a pass over the memory. Default: false.
    pub wipe_on_return: bool,
    /// How long the drop of the last handle waits for fences that have not passed. What is in flight even
    /// then is left mapped for the rest of the process. Default: 30 seconds.
    pub close_timeout: Duration,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            max_bytes: None,
            exhaustion: Exhaustion::Heap,
            priority: Priority::NORMAL,
            set_blocks: 4,
            waste_percent: 15,
            reserve_factor: 8,
            growth_step: 64 << 20,
            slab_bytes: HUGE_PAGE,
            idle_timeout: Some(Duration::from_secs(300)),
            low_water: None,
            secret: true,
            wipe_on_return: false,
            close_timeout: Duration::from_secs(30),
        }
    }
}

/// The least address space reserved for a block of its own, so that a tiny first capacity can grow in place
/// too.
const MIN_RESERVE: usize = 1 << 30;
/// The most address space reserved beyond a block's first size.
const MAX_RESERVE: usize = 64 << 30;

impl PoolConfig {
    /// Address space for a block of `size` bytes.
    pub(super) fn reserve_for(&self, size: usize) -> usize {
        if self.reserve_factor <= 1 {
            return size;
        }
        let beyond = size.saturating_mul(self.reserve_factor - 1).clamp(MIN_RESERVE, MAX_RESERVE);
        size.saturating_add(beyond)
    }

    /// The largest idle block that may serve a request of `size` bytes.
    pub(super) fn largest_for(&self, size: usize) -> usize {
        let waste = size as u128 * u128::from(self.waste_percent) / 100;
        usize::try_from(size as u128 + waste).unwrap_or(usize::MAX)
    }

    /// What to grow a block of `size` bytes to when `min_size` is asked for, if there is room for it.
    pub(super) fn generous_growth(&self, size: usize, min_size: usize) -> usize {
        let quarter = size.saturating_add(size / 4);
        quarter.clamp(min_size, min_size.saturating_add(self.growth_step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_derived_from_settings() {
        let config = PoolConfig::default();
        assert_eq!(config.reserve_for(4 << 30), 32 << 30);
        assert_eq!(config.reserve_for(4096), (1 << 30) + 4096);
        assert_eq!(config.reserve_for(1 << 40), (1 << 40) + (64 << 30));
        assert_eq!(config.reserve_for(usize::MAX), usize::MAX);
        assert_eq!(config.largest_for(100), 115);
        assert_eq!(config.largest_for(usize::MAX), usize::MAX);
        assert_eq!(config.generous_growth(100 << 20, (100 << 20) + 1), 125 << 20);
        assert_eq!(config.generous_growth(4 << 30, (4 << 30) + 1), (4 << 30) + 1 + (64 << 20));
        assert_eq!(config.generous_growth(1 << 20, 8 << 20), 8 << 20);
        assert_eq!(config.generous_growth(usize::MAX, usize::MAX), usize::MAX);
    }
}
