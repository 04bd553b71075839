//! A place in the queue that its owner can change while it waits.
//!
//! [`MemoryBudget::reserve`] is a ticket and a loop. The pool has a loop of its own: what it lacks depends on
//! which blocks lie idle, so it changes the amount while it waits, and never holds idle blocks while it
//! sleeps.

use std::time::Instant;

use super::queue::Key;
use super::{lock, Deadline, MemoryBudget, Reservation};

/// Why [`Ticket::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The bytes are there; [`Ticket::take`] them.
    Granted,
    /// Something has changed, or the timer has run out: look again.
    Look,
    /// The deadline has passed.
    TimedOut,
}

/// A place in the queue. Dropping it leaves the queue and gives back what was granted.
pub(crate) struct Ticket {
    budget: MemoryBudget,
    key: Key,
}

impl Ticket {
    pub(super) fn new(budget: MemoryBudget, key: Key) -> Self {
        Self { budget, key }
    }

    /// What was granted, if it was. The ticket is worth nothing after that.
    pub(crate) fn take(&mut self) -> Option<Reservation> {
        let bytes = lock(&self.budget.0.queue).take(self.key)?;
        Some(Reservation::new(self.budget.clone(), bytes))
    }

    /// Whether all who stand before it let it pass.
    pub(crate) fn is_turn(&self) -> bool {
        let queue = lock(&self.budget.0.queue);
        queue.is_granted(self.key) || queue.is_turn_of(self.key)
    }

    /// Bytes that are missing for it.
    pub(crate) fn short_of(&self) -> u64 {
        lock(&self.budget.0.queue).short_of(self.key)
    }

    /// Asks for another amount in the same place. What was granted already is given back first; nobody behind
    /// can take it in between.
    pub(crate) fn resize(&mut self, bytes: u64) {
        let bytes = bytes.min(self.budget.total());
        self.budget.queue().resize(self.key, bytes);
    }

    /// Keeps the place but lets those behind pass, until the next [`resize`](Self::resize): it waits for
    /// something else than room. What was granted is given back.
    pub(crate) fn sleep(&mut self) {
        self.budget.queue().sleep(self.key);
    }

    /// Wakes the others who may have missed something while this one looked.
    pub(crate) fn nudge_others(&self) {
        lock(&self.budget.0.queue).nudge_others(self.key);
    }

    /// Sleeps until there is something to look at.
    pub(crate) fn wait(&mut self, deadline: Deadline) -> Event {
        let mut queue = lock(&self.budget.0.queue);
        let mut slept = false;
        loop {
            if queue.is_granted(self.key) {
                return Event::Granted;
            }
            let now = Instant::now();
            if deadline.passed(now) {
                return Event::TimedOut;
            }
            if queue.take_nudge(self.key) || slept {
                return Event::Look;
            }
            let Some(wake) = queue.condvar(self.key) else { return Event::Look };
            let timeout = deadline.left(now, self.budget.0.poll);
            let (guard, result) =
                wake.wait_timeout(queue, timeout).unwrap_or_else(|poisoned| poisoned.into_inner());
            queue = guard;
            slept = result.timed_out();
        }
    }

    /// Leaves the queue at the deadline, unless it was served in the meantime.
    pub(crate) fn give_up(mut self) -> Option<Reservation> {
        let reservation = self.take();
        if reservation.is_none() {
            lock(&self.budget.0.queue).count_timed_out();
        }
        reservation
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.budget.queue().cancel(self.key);
    }
}
