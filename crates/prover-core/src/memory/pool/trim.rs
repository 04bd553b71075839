//! Giving memory back to the system: on demand, when the budget is short, by age.

use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::inner::Inner;
use crate::memory::budget::Evictor;
use crate::memory::sync::lock;

impl Inner {
    /// Unmaps idle regions, the largest first, until at most `keep` bytes lie idle.
    pub(super) fn trim_to(&self, keep: u64) -> u64 {
        let victims = self.state().take_surplus(keep);
        self.unmap(victims)
    }

    /// Bytes that [`evict`](Self::evict) could free now.
    pub(super) fn evictable(&self) -> u64 {
        self.reap();
        self.state().evictable()
    }

    /// Somebody else is short of `bytes`: unmaps about that many, no more than it must.
    pub(super) fn evict(&self, bytes: u64) -> u64 {
        self.reap();
        let victims = self.state().take_victims(bytes);
        self.unmap(victims)
    }

    /// Unmaps what has lain idle for the configured time, but keeps the low-water mark if the pool is in use.
    pub(super) fn trim_aged(&self, now: Instant) -> u64 {
        // A moment before the clock began: nothing is that old.
        let until = self.config.idle_timeout.and_then(|timeout| now.checked_sub(timeout));
        let Some(until) = until else { return 0 };
        let mut state = self.state();
        let in_use = state.last_check_out > until;
        let keep = if in_use { self.config.low_water.unwrap_or(state.largest_set) } else { 0 };
        let victims = state.take_aged(keep, until);
        drop(state);
        self.unmap(victims)
    }
}

/// The pool as a cache of its budget.
pub(super) struct PoolEvictor(pub(super) Weak<Inner>);

impl Evictor for PoolEvictor {
    fn evictable(&self) -> u64 {
        self.0.upgrade().map_or(0, |pool| pool.evictable())
    }

    fn evict(&self, bytes: u64) -> u64 {
        self.0.upgrade().map_or(0, |pool| pool.evict(bytes))
    }
}

/// The thread that trims by age. Dropping it stops the thread and waits for it.
pub(super) struct Ager {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Ager {
    /// Starts it; `None` if no thread is to be had (the pool then trims on demand and by need only).
    pub(super) fn start(pool: Weak<Inner>, timeout: Duration) -> Option<Self> {
        let period = (timeout / 4).clamp(Duration::from_millis(5), Duration::from_secs(30));
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let thread = thread::Builder::new()
            .name("pool-trim".into())
            .spawn({
                let stop = stop.clone();
                move || run(&pool, &stop, period)
            })
            .inspect_err(|error| tracing::warn!(%error, "no thread to trim idle memory by age"))
            .ok()?;
        Some(Self { stop, thread: Some(thread) })
    }
}

fn run(pool: &Weak<Inner>, (stop, wake): &(Mutex<bool>, Condvar), period: Duration) {
    let mut stopped = lock(stop);
    while !*stopped {
        let (guard, _) = wake.wait_timeout(stopped, period).unwrap_or_else(|poisoned| poisoned.into_inner());
        stopped = guard;
        if *stopped {
            return;
        }
        drop(stopped);
        let Some(pool) = pool.upgrade() else { return };
        pool.reap();
        pool.trim_aged(Instant::now());
        drop(pool);
        stopped = lock(stop);
    }
}

impl Drop for Ager {
    fn drop(&mut self) {
        *lock(&self.stop.0) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // It cannot panic, and if it did the pool is none the worse.
            let _ = thread.join();
        }
    }
}
