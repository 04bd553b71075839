//! Bytes that somebody holds.

use std::fmt;

use pinned_alloc::AllocError;

use super::{lock, saturate, MemoryBudget};

/// Bytes reserved in a [`MemoryBudget`]. Dropping it gives them back and serves those who wait.
#[must_use = "dropping a reservation gives its bytes back"]
pub struct Reservation {
    budget: MemoryBudget,
    bytes: u64,
}

impl Reservation {
    /// The caller has taken `bytes` from the budget's queue.
    pub(super) fn new(budget: MemoryBudget, bytes: u64) -> Self {
        Self { budget, bytes }
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The budget they are of.
    pub fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    /// Holds `extra` bytes more, now or not at all. Asks the evictors once if there is no room. Passes the
    /// queue: who grows holds what the queue waits for.
    ///
    /// # Errors
    /// [`AllocError::TooLarge`] if the whole would be more than the total, [`AllocError::Exhausted`] if there
    /// is no room. What is held stays as it was.
    pub fn try_grow(&mut self, extra: u64) -> Result<(), AllocError> {
        let budget = &self.budget;
        budget.check_size(self.bytes.saturating_add(extra))?;
        for last_try in [false, true] {
            let mut queue = lock(&budget.0.queue);
            if queue.try_extend(extra) {
                self.bytes += extra;
                return Ok(());
            }
            let available = queue.available();
            if last_try {
                queue.count_refused();
                return Err(budget.exhausted(extra, available));
            }
            drop(queue);
            budget.evict_if_enough(extra - available);
        }
        unreachable!("the second turn returns")
    }

    /// Gives `bytes` back, at most what is held. Returns how many it were.
    pub fn shrink(&mut self, bytes: u64) -> u64 {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.budget.give_back(bytes);
        bytes
    }

    /// Moves `bytes` of it into a reservation of its own. `None` if it holds less.
    pub fn split(&mut self, bytes: u64) -> Option<Self> {
        self.bytes = self.bytes.checked_sub(bytes)?;
        Some(Self::new(self.budget.clone(), bytes))
    }

    /// Takes over what `other` holds.
    ///
    /// # Errors
    /// `other` itself, if it is of another budget.
    pub fn merge(&mut self, mut other: Self) -> Result<(), Self> {
        if !self.budget.is_same(&other.budget) {
            return Err(other);
        }
        self.bytes += std::mem::take(&mut other.bytes);
        Ok(())
    }
}

impl MemoryBudget {
    pub(super) fn give_back(&self, bytes: u64) {
        if bytes > 0 {
            self.queue().release(bytes);
        }
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reservation({} of {} bytes)", self.bytes, saturate(self.budget.total()))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}
