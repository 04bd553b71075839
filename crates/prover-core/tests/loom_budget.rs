//! Every interleaving of small programs over the budget: no lost wake-up, no overdraft, nothing left behind.
//!
//! `CARGO_TARGET_DIR=target/loom RUSTFLAGS="--cfg loom" cargo test -p prover-core --test loom_budget
//! --release`
//!
//! Loom's condition variables never time out, so a lost wake-up is a deadlock here, which loom reports.
#![cfg(loom)]

use loom::sync::{Arc, Mutex};
use loom::thread;
use prover_core::memory::{Deadline, MemoryBudget, Priority, Reservation};

fn model(program: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(program);
}

fn reserve(budget: &MemoryBudget, bytes: u64, priority: Priority) -> Reservation {
    budget.reserve(bytes, priority, Deadline::Never).unwrap()
}

#[test]
fn two_waiters_are_both_served() {
    model(|| {
        let budget = MemoryBudget::new(2);
        let held = reserve(&budget, 2, Priority::NORMAL);
        let waiters: Vec<_> = [2, 1]
            .into_iter()
            .map(|bytes| {
                let budget = budget.clone();
                thread::spawn(move || {
                    let reservation = reserve(&budget, bytes, Priority::NORMAL);
                    assert!(budget.used() >= bytes && budget.used() <= 2);
                    drop(reservation);
                })
            })
            .collect();
        drop(held);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        let stats = budget.stats();
        assert_eq!((stats.used, stats.waiting, stats.granted), (0, 0, 3));
        assert!(stats.peak <= 2);
    });
}

#[test]
fn a_release_in_two_steps_wakes_the_large_one() {
    model(|| {
        let budget = MemoryBudget::new(2);
        let (one, two) = (reserve(&budget, 1, Priority::NORMAL), reserve(&budget, 1, Priority::NORMAL));
        let waiter = thread::spawn({
            let budget = budget.clone();
            move || drop(reserve(&budget, 2, Priority::LOW))
        });
        let releaser = thread::spawn(move || drop(one));
        drop(two);
        releaser.join().unwrap();
        waiter.join().unwrap();
        assert_eq!(budget.used(), 0);
    });
}

/// The joint between a cache and a waiter: the cache gets something to give, then nudges; the waiter queues,
/// then asks. Whatever the order, one of them sees the other.
#[test]
fn a_nudge_is_not_lost() {
    model(|| {
        let budget = MemoryBudget::new(1);
        let held = reserve(&budget, 1, Priority::NORMAL);
        let idle: Arc<Mutex<Option<Reservation>>> = Arc::new(Mutex::new(None));
        let handle = budget.on_pressure({
            let idle = IdleCache(idle.clone());
            move |_| idle.evict()
        });
        let waiter = thread::spawn({
            let budget = budget.clone();
            move || drop(reserve(&budget, 1, Priority::NORMAL))
        });
        *idle.lock().unwrap() = Some(held);
        budget.nudge();
        waiter.join().unwrap();
        assert_eq!((budget.used(), budget.stats().granted), (0, 2));
        drop(handle);
    });
}

struct IdleCache(Arc<Mutex<Option<Reservation>>>);

impl IdleCache {
    fn evict(&self) -> u64 {
        let victim = self.0.lock().unwrap().take();
        victim.map_or(0, |reservation| reservation.bytes())
    }
}

#[test]
fn priority_waiter_and_normal_waiter_and_a_grower() {
    model(|| {
        let budget = MemoryBudget::new(2);
        let mut held = reserve(&budget, 1, Priority::NORMAL);
        let high = thread::spawn({
            let budget = budget.clone();
            move || drop(reserve(&budget, 2, Priority::HIGH))
        });
        let grew = held.try_grow(1).is_ok();
        assert_eq!(held.bytes(), 1 + u64::from(grew));
        drop(held);
        drop(reserve(&budget, 2, Priority::NORMAL));
        high.join().unwrap();
        assert_eq!(budget.used(), 0);
        assert!(budget.stats().peak <= 2);
    });
}
