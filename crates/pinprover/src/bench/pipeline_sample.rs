//! Memory while a pipeline runs, looked at every ten milliseconds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use prover_core::memory::pool::Pool;
use prover_core::memory::MemoryBudget;
use prover_core::Guard;
use serde::Serialize;

use crate::meter;

const INTERVAL: Duration = Duration::from_millis(10);

/// What was seen. Bytes; shares are between 0 and 1, null where there is no pool or nothing of it was in use.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Samples {
    /// How often was looked.
    pub samples: u64,
    /// The most bytes that the budget had given out.
    pub budget_used_peak: u64,
    /// The most bytes that the pool had mapped.
    pub mapped_peak: u64,
    /// The most bytes of this process that were resident.
    pub resident_peak: Option<u64>,
    /// The most that resident memory rose above the first look, less what the budget's figure rose.
    pub uncounted_rise: Option<i64>,
    /// Bytes that the pool had mapped and nobody had asked for, idle ones among them: the mean share.
    pub unasked_share: Option<f64>,
    /// Bytes of blocks in use that their holders had not asked for: the mean share.
    pub waste_share: Option<f64>,
}

/// Sums of what was seen.
#[derive(Default)]
struct Sums {
    seen: Samples,
    /// Resident memory less what the budget had given out, at the first look.
    uncounted: Option<i64>,
    mapped: u128,
    in_use: u128,
    requested: u128,
}

impl Sums {
    fn look(&mut self, pool: Option<&Pool>, budget: &MemoryBudget) {
        let seen = &mut self.seen;
        seen.samples += 1;
        let (used, resident) = (budget.used(), meter::resident());
        seen.budget_used_peak = seen.budget_used_peak.max(used);
        seen.resident_peak = seen.resident_peak.max(resident);
        if let Some(resident) = resident {
            let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
            let uncounted = signed(resident) - signed(used);
            let first = *self.uncounted.get_or_insert(uncounted);
            seen.uncounted_rise = seen.uncounted_rise.max(Some(uncounted - first));
        }
        let Some(stats) = pool.map(Pool::stats) else { return };
        seen.mapped_peak = seen.mapped_peak.max(stats.mapped_bytes);
        let in_use = stats.out_bytes + stats.in_flight_bytes;
        // An idle pool wastes nothing that anybody could use better.
        if in_use > 0 {
            self.mapped += u128::from(stats.mapped_bytes);
            self.in_use += u128::from(in_use);
            self.requested += u128::from(stats.requested_bytes);
        }
    }

    fn finish(self) -> Samples {
        let unasked = |of: u128| (of > 0).then(|| 1.0 - self.requested as f64 / of as f64);
        Samples { unasked_share: unasked(self.mapped), waste_share: unasked(self.in_use), ..self.seen }
    }
}

/// A thread that looks.
pub(super) struct Sampler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Samples>,
}

impl Sampler {
    pub(super) fn start(guard: &Guard) -> std::io::Result<Self> {
        let (pool, budget) = (guard.pool().cloned(), guard.budget().clone());
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let look = move || {
            let mut sums = Sums::default();
            while !stopped.load(Ordering::Relaxed) {
                sums.look(pool.as_ref(), &budget);
                std::thread::sleep(INTERVAL);
            }
            sums.finish()
        };
        let thread = std::thread::Builder::new().name("sampler".to_owned()).spawn(look)?;
        Ok(Self { stop, thread })
    }

    /// What was seen.
    pub(super) fn stop(self) -> Samples {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::Layout;

    use prover_core::memory::backend::Heap;
    use prover_core::memory::pool::PoolConfig;

    use super::*;

    #[test]
    fn shares_are_of_what_is_in_use() {
        let budget = MemoryBudget::new(1 << 30);
        let pool = Pool::new(Heap::default(), budget.clone(), PoolConfig::default());
        let set = |bytes: usize| [Layout::from_size_align(bytes, 8).unwrap(); 4];
        // A set of 4 * 1 MiB lies idle, one of 4 * 3 MiB is out, in pages of 2 MiB.
        let idle = pool.check_out(&set(1 << 20)).unwrap();
        let out = pool.check_out(&set(3 << 20)).unwrap();
        drop(idle);
        let mut sums = Sums::default();
        sums.look(Some(&pool), &budget);
        let stats = pool.stats();
        assert_eq!((stats.idle_bytes, stats.out_bytes), (4 << 20, 16 << 20), "{stats:?}");
        drop(out);
        sums.look(Some(&pool), &budget);
        let seen = sums.finish();
        assert_eq!((seen.samples, seen.mapped_peak, seen.budget_used_peak), (2, 20 << 20, 20 << 20));
        assert!(seen.uncounted_rise >= Some(0), "{seen:?}");
        assert_eq!((seen.unasked_share, seen.waste_share), (Some(0.4), Some(0.25)));

        let mut none = Sums::default();
        none.look(None, &budget);
        assert_eq!(none.finish().unasked_share, None);
    }
}
